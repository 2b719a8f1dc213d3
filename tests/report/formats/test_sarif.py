"""SARIF: the standard's schema, locations, suppressions."""

from __future__ import annotations

import json
from dataclasses import replace
from inspect import signature

import jsonschema
import pytest
from msgspec import structs
from paths import TESTS
from reports import about, every_report, finding, report

from doctor import catalog
from doctor.facts.machine import Examination
from doctor.judge.check import Status
from doctor.report.formats import sarif
from doctor.report.report import Report

OASIS = json.loads((TESTS / "schemas" / "sarif-2.1.0-rtm.5.schema.json").read_text())


@pytest.mark.slow
def test_sarif_is_valid_and_contains_the_findings_about_files() -> None:
    validator = jsonschema.Draft4Validator(OASIS)
    validated: set[str] = set()
    for name, judged in every_report().items():
        with about(name):
            log = json.loads(sarif.render(judged))
            (run,) = log["runs"]
            rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
            families = {found.family for found in judged.findings}
            assert rules == [check.code for check in catalog.CHECKS if check.family in families]
            driver = run["tool"]["driver"]
            if families <= validated:  # the rules of a family are the same in every report
                run["tool"] = {"driver": {"name": driver["name"]}}
            validator.validate(log)
            validated |= families
            assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
            assert [result["ruleId"] for result in run["results"]] == about_files(judged)


def about_files(judged: Report) -> list[str]:
    """Codes of the warnings, failures and unknowns whose subject is a file that the user named."""
    job = judged.facts.job
    families = {"CKP"} if job.checkpoint else set()
    families |= {"SMK", "NUM"} if job.model else set()
    loud = [f for f in judged.findings if f.status in sarif.LEVELS and f.family in families]
    return [
        f.check.code
        for f in loud
        if f.family == "CKP" or "own" in signature(f.check.judge).parameters
    ]


def test_the_line_that_raised_is_the_location() -> None:
    (run,) = json.loads(sarif.render(every_report()["own_factory_raises"]))["runs"]
    physical = run["results"][0]["locations"][0]["physicalLocation"]
    assert physical == {"artifactLocation": {"uri": "train.py"}, "region": {"startLine": 31}}


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("runs/step 1", "runs/step%201"),
        ("/work/job/runs/a.json", "runs/a.json"),
        ("../other/a.json", "file:///work/other/a.json"),
        ("/data/ünï", "file:///data/%C3%BCn%C3%AF"),
        ("https://host/org/model?x=1", "https://host/org/model?x=1"),
        ("s3://bucket/a b", "s3://bucket/a%20b"),
        ("~/runs/a", "~/runs/a"),
    ],
)
def test_a_file_is_addressed_from_where_the_job_runs(path: str, uri: str) -> None:
    assert sarif.address(path, "/work/job") == uri


def test_the_file_that_a_summary_names_is_the_location() -> None:
    judged = every_report()["missing_shard"]
    (run,) = json.loads(sarif.render(judged))["runs"]
    uris = {
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in run["results"]
    }
    assert any(uri.endswith(".safetensors") for uri in uris)


def test_what_is_ignored_is_suppressed_and_unknown_is_open() -> None:
    judged = report(
        finding("CKP001", Status.FAIL, ignored="known"),
        finding("CKP002", Status.UNKNOWN),
        job={"checkpoint": "model.safetensors"},
    )
    first, second = json.loads(sarif.render(judged))["runs"][0]["results"]
    assert first["suppressions"][0]["justification"] == "known"
    assert (second["kind"], second["level"]) == ("open", "none")


def test_notes_are_notifications_and_the_log_stays_valid() -> None:
    made = replace(report(finding("NUM001", Status.PASS)), notes=("a.py: not read",))
    log = json.loads(sarif.render(made))
    jsonschema.Draft4Validator(OASIS).validate(log)
    (notification,) = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert notification == {"level": "note", "message": {"text": "a.py: not read"}}


@pytest.mark.parametrize(
    ("command", "category"),
    [
        (("doctor", "lint", "train.py"), "preflight-doctor/lint/"),
        (("doctor", "-q", "run"), "preflight-doctor/run/"),
        ((), "preflight-doctor/report/"),
    ],
)
def test_each_command_has_a_category_of_its_own(command: tuple[str, ...], category: str) -> None:
    made = report(finding("NUM001", Status.PASS))
    examination = Examination(started="2026-01-31T09:05:00Z", command=command)
    facts = replace(made, facts=structs.replace(made.facts, examination=examination))
    (run,) = json.loads(sarif.render(facts))["runs"]
    assert run["automationDetails"] == {"id": category}


def test_a_rule_that_compares_with_the_users_own_words_has_no_page_of_others() -> None:
    (run,) = json.loads(sarif.render(every_report()["not_as_agreed"]))["runs"]
    addressed = {rule["id"][:3] for rule in run["tool"]["driver"]["rules"] if "helpUri" in rule}
    assert "JOB" not in addressed
    assert "GPU" in addressed
