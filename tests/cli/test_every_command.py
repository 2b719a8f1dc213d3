"""Every command that reports: one real run, read in every format by those formats' own rules."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command import doctor
from every_command import COMMANDS, PROBES, Ran, plant, run, validated, words
from flag_table import REPORTS
from paths import TESTS

from doctor import __version__, catalog

pytestmark = pytest.mark.slow  # real processes

METRIC = re.compile(r'# (HELP|TYPE) \w+ .+|\w+(\{(\w+="([^"\\\n]|\\.)*",?)+\})? [-+.\w]+')
ANNOTATION = re.compile(r"::(group|endgroup)::\w*|::(error|warning|notice)( [^:\n]*)?::.*")


@cache
def sarif_rules() -> Any:
    path = TESTS / "schemas" / "sarif-2.1.0-rtm.5.schema.json"
    return jsonschema.Draft4Validator(json.loads(path.read_text()))


@cache
def junit_rules() -> Any:
    import xmlschema

    return xmlschema.XMLSchema(str(TESTS / "schemas" / "junit-10.xsd"))


@pytest.fixture(scope="module", params=COMMANDS)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run(request.param, tmp_path_factory.mktemp("command"))


def test_every_command_that_reports_is_here() -> None:
    assert {name.split()[0] for name in COMMANDS} == {*REPORTS, "fleet"}


def test_the_json_is_what_its_schema_says(ran: Ran) -> None:
    report = validated(ran.report)
    assert report["schema"].endswith(":report")
    assert report["exit_code"] == (3 if ran.name == "guard" else ran.exit_code)
    assert report["verdict"] in ("ready", "fix", "return", "unknown")
    lines = [validated(json.loads(line)) for line in ran.text("jsonl").splitlines()]
    assert [line["code"] for line in lines] == [each["code"] for each in report["findings"]]
    assert {line["verdict"] for line in lines} == {report["verdict"]}


def test_an_action_is_words_of_the_doctor_and_of_validated_values(ran: Ran) -> None:
    for finding in ran.report["findings"]:
        for action in finding["actions"]:
            assert action["kind"] != "look" or action["safe"] == "look"
            if action["argv"][:1] == ["doctor"]:
                assert action["argv"][1] in {*REPORTS, "explain", "init", "prescribe"}


def test_the_headline_is_the_last_line_of_the_text(ran: Ran) -> None:
    if ran.name == "lint":  # it ends with counts, and console has the lines of the script
        return
    assert ran.text("plain").splitlines()[-1] == ran.report["headline"]
    assert ran.text("console") == ran.text("plain")
    assert (ran.stderr if ran.name == "guard" else ran.stdout).endswith(ran.text("plain"))


def test_sarif_is_the_standards(ran: Ran) -> None:
    log = json.loads(ran.text("sarif"))
    sarif_rules().validate(log)
    (part,) = log["runs"]
    driver = part["tool"]["driver"]
    assert driver["informationUri"]
    families = {each["family"] for each in ran.report["findings"]}
    assert [rule["id"] for rule in driver["rules"]] == [
        check.code for check in catalog.CHECKS if check.family in families
    ]
    assert all(
        driver["rules"][each["ruleIndex"]]["id"] == each["ruleId"] for each in part["results"]
    )


def test_gitlab_takes_the_report_of_code_quality(ran: Ran) -> None:
    found = json.loads(ran.text("gitlab"))
    rules = json.loads((TESTS / "schemas" / "gitlab-codequality.schema.json").read_text())
    jsonschema.Draft202012Validator(rules).validate(found)
    codes = {each["code"] for each in ran.report["findings"]}
    assert {each["check_name"] for each in found} <= codes
    assert found or ran.name not in ("lint", "scan")


def test_junit_is_what_its_readers_take(ran: Ran) -> None:
    junit_rules().validate(ran.text("junit"))


def test_a_runner_of_github_gets_annotations_and_a_text_without_commands(ran: Ran) -> None:
    text = ran.text("github")
    (stop,) = re.findall(r"^::stop-commands::(\w{20,})$", text, re.MULTILINE)
    before, _, rest = text.partition(f"::stop-commands::{stop}\n")
    _, resumed, after = rest.partition(f"::{stop}::\n")
    assert resumed
    assert all(ANNOTATION.fullmatch(line) for line in (before + after).splitlines())


def test_prometheus_reads_every_line(ran: Ran) -> None:
    lines = ran.text("prometheus").splitlines()
    assert lines
    assert [line for line in lines if not METRIC.fullmatch(line)] == []


def test_nagios_is_one_line(ran: Ran) -> None:
    assert re.fullmatch(r"DOCTOR (OK|WARNING|CRITICAL|UNKNOWN) - [^\n]+\n", ran.text("nagios"))


def test_the_header_says_when_and_by_which_command(ran: Ran) -> None:
    if ran.name in ("run", "report"):  # of the saved facts
        return
    for format in ("plain", "markdown", "html")[ran.name == "lint" :]:
        text = ran.text(format).replace("\\", "").replace("\u00a0", " ")
        assert f"doctor {__version__}" in text
        assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC", text), format
        own = ran.name == "rehearse"  # it names the command of the training
        started = "sh -c" if own else f"doctor {ran.name.split()[0]}"
        assert started in text, format


@pytest.mark.parametrize("name", COMMANDS)
def test_flags_of_reports_mean_the_same(name: str, tmp_path: Path) -> None:
    plant(tmp_path)
    family = PROBES[name]
    code = catalog.of_families(family)[0].code
    flags = ("--only", family, "--skip", f"{family}002", "--inject", code, "--fail-on", "never")
    done = doctor(*words(name, *flags, "--format", "json", "-q"), cwd=tmp_path)
    report = json.loads(done.stderr if name == "guard" else done.stdout)
    codes = {each["code"]: each["status"] for each in report["findings"]}
    assert {each[:3] for each in codes} == {family}
    assert f"{family}002" not in codes
    assert codes[code] == "fail"
    assert (done.returncode, report["exit_code"]) == (0, 0)


SAVING = ("read", "triage", "scan", "scan --equals", "data", "compare", "rehearse", "fleet scan",
          "fleet triage")  # fmt: skip


@pytest.mark.parametrize("name", SAVING)
def test_saved_facts_are_judged_the_same_again(name: str, tmp_path: Path) -> None:
    plant(tmp_path)
    flags = ("--save-facts", "f.json", "--format", "json")
    first = json.loads(doctor(*words(name, *flags), cwd=tmp_path).stdout)
    again = doctor("report", "f.json", "--no-config", "--format", "json", cwd=tmp_path)
    second = json.loads(again.stdout)
    for key in ("verdict", "exit_code", "headline"):
        assert second[key] == first[key]
    assert [each["status"] for each in second["findings"]] == [
        each["status"] for each in first["findings"]
    ]
