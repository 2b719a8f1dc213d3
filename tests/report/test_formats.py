"""Each format of each recorded machine, and what the readers of a format make of it.

DOCTOR_UPDATE=1 writes the golden files anew. JSON, HTML and JUnit are kept whole for six telling
machines and as a digest for the others. Left out are the style of HTML, the rules of SARIF, and the
plain report that stands in GitHub's, which tests/machines has.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from inspect import signature
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import junitparser
import msgspec
import pytest
import xmlschema
from markdown_it import MarkdownIt
from paths import FORMATS as FOLDER
from paths import ROOT, TESTS
from recorded import machines
from reports import HOSTILE, finding, hostile, judged, report

from doctor.judge import catalog
from doctor.judge.check import Status
from doctor.report.formats import github, junit, markdown, nagios, sarif
from doctor.report.formats import json as as_json
from doctor.report.formats.html import page as html
from doctor.report.formats.table import FORMATS
from doctor.report.report import Outcome, Report

DIGESTS = FOLDER / "digests.json"
SCHEMAS = ROOT / "schemas"
UPDATE = bool(os.environ.get("DOCTOR_UPDATE"))
MADE = machines()
REPORTS = {name: judged(facts) for name, facts in MADE.items()}
TELLING = (
    "h200_torch2.11",
    "swallowed_updates",
    "two_cudnns",
    "hung_driver",
    "cpu_only",
    "nothing_readable",
)
EACH = pytest.mark.parametrize("name", MADE)


def without_style(page: str) -> str:
    return re.sub(r"sha256-[^']+|<style>.*?</style>", "", page, flags=re.DOTALL).replace(
        "><", ">\n<"
    )


def without_rules(text: str) -> str:
    log = json.loads(text)
    del log["runs"][0]["tool"]["driver"]["rules"]
    return json.dumps(log, indent=2)


def without_plain(text: str) -> str:
    stopped = r"(::stop-commands::)(\w+)\n.*\n::\2::"
    return re.sub(stopped, r"\1TOKEN\n::TOKEN::", text, flags=re.DOTALL)


KEPT = {
    "junit": ("junit.xml", str),
    "github": ("github.txt", without_plain),
    "markdown": ("md", str),
    "sarif": ("sarif", without_rules),
    "nagios": ("nagios.txt", str),
    "json": ("json", str),
    "html": ("html", without_style),
}
"""Format -> ending of its golden file, and what is left of it there."""
DIGESTED = ("json", "html", "junit")


@EACH
@pytest.mark.parametrize("format", KEPT)
def test_a_machine_gets_its_report_in_each_format(format: str, name: str) -> None:
    ending, reduced = KEPT[format]
    got = reduced(FORMATS[format](REPORTS[name])) + "\n"
    if format in DIGESTED and name not in TELLING:
        key, digest = f"{name}.{ending}", hashlib.sha256(got.encode()).hexdigest()[:16]
        kept = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
        if UPDATE:
            kept[key] = digest
            DIGESTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        assert kept[key] == digest
        return
    golden = FOLDER / f"{name}.{ending}"
    if UPDATE:
        golden.write_text(got, "utf-8", newline="")
    assert got == golden.read_bytes().decode()


def test_no_golden_file_is_of_a_machine_that_is_gone() -> None:
    names = {path.name for path in FOLDER.iterdir()} - {DIGESTS.name}
    ours = {
        f"{name}.{ending}"
        for name in MADE
        for format, (ending, _) in KEPT.items()
        if format not in DIGESTED or name in TELLING
    }
    if UPDATE:
        for name in names - ours:
            (FOLDER / name).unlink()
        names &= ours
    assert names == ours


@pytest.mark.parametrize("check", catalog.CHECKS, ids=lambda check: check.code)
def test_the_limits_of_a_pass_go_on_from_its_words(check: Any) -> None:
    """ "A pass is no proof that ..."."""
    if check.limits:
        assert check.limits.startswith("that ")
        assert check.limits.endswith(".")


def test_every_format_is_looked_at_here() -> None:
    assert set(FORMATS) == {*KEPT, "console", "plain"}


@pytest.mark.parametrize("format", FORMATS)
def test_no_format_stumbles_over_hostile_text_or_an_empty_report(format: str) -> None:
    assert FORMATS[format](hostile())
    assert FORMATS[format](report())


# JSON


def strict(schema: Any) -> Any:
    """The schema with nothing allowed that it does not describe."""
    if isinstance(schema, dict):
        closed = {"additionalProperties": False} if "properties" in schema else {}
        return {key: strict(value) for key, value in schema.items()} | closed
    return [strict(value) for value in schema] if isinstance(schema, list) else schema


def test_the_published_schema_is_that_of_the_code() -> None:
    published = SCHEMAS / "report.schema.json"
    if UPDATE:
        published.write_text(json.dumps(as_json.schema(), indent=2) + "\n")
    if not SCHEMAS.exists():
        pytest.skip("the published schemas are not at hand")
    assert json.loads(published.read_text()) == as_json.schema()
    jsonschema.Draft202012Validator.check_schema(as_json.schema())


@EACH
def test_a_json_report_holds_what_the_schema_describes_and_nothing_else(name: str) -> None:
    checked = jsonschema.Draft202012Validator(strict(as_json.schema()))
    for annotate in (False, True):
        told = json.loads(as_json.render(judged(MADE[name], annotate=annotate)))
        checked.validate(told)
        assert all(("limits" in each) is annotate for each in told["findings"])


def test_the_schema_refuses_what_is_no_report() -> None:
    checked = jsonschema.Draft202012Validator(as_json.schema())
    told = json.loads(as_json.render(REPORTS["cpu_only"]))
    for wrong in ({"verdict": "fine"}, {"schema_version": 2}, {"findings": [{}]}, {"counts": {}}):
        with pytest.raises(jsonschema.ValidationError):
            checked.validate(told | wrong)


def test_fields_keep_their_order() -> None:
    told = json.loads(as_json.render(REPORTS["cpu_only"]))
    assert list(told)[:4] == ["schema_version", "doctor", "verdict", "exit_code"]
    assert list(told["findings"][0])[:5] == ["code", "slug", "family", "status", "summary"]
    codes = [each["code"] for each in told["findings"]]
    assert codes == [each.code for each in catalog.CHECKS]


# JUnit


@EACH
@pytest.mark.parametrize("fail_on", ["fail", "warn"])
def test_junit_is_of_the_common_form_and_read_back(name: str, fail_on: Any) -> None:
    told = judged(MADE[name], fail_on=fail_on)
    text = junit.render(told)
    XUNIT.validate(text)
    suite = next(iter(junitparser.JUnitXml.fromstring(text.encode())))
    counts = told.counts
    failures = counts["fail"] + (counts["warn"] if fail_on == "warn" else 0)
    assert (suite.tests, suite.failures) == (len(told.findings), failures)
    assert (suite.errors, suite.skipped) == (counts["unknown"], counts["skip"])
    names = [(case.classname, case.name) for case in suite]
    assert len(set(names)) == len(names) == suite.tests
    assert names[0] == (f"doctor.{told.findings[0].family}", names[0][1])


XUNIT = xmlschema.XMLSchema(str(TESTS / "schemas" / "junit-10.xsd"))


def cases(told: Report) -> list[Any]:
    text = junit.render(told)
    XUNIT.validate(text)
    return list(next(iter(junitparser.JUnitXml.fromstring(text.encode()))))


@pytest.mark.parametrize(
    ("status", "fail_on", "kind"),
    [
        (Status.PASS, "fail", None),
        (Status.WARN, "fail", None),
        (Status.WARN, "warn", junitparser.Failure),
        (Status.FAIL, "never", junitparser.Failure),
        (Status.UNKNOWN, "fail", junitparser.Error),
        (Status.SKIP, "fail", junitparser.Skipped),
    ],
)
def test_what_a_status_is_in_junit(status: Status, fail_on: Any, kind: Any) -> None:
    (case,) = cases(report(finding("NUM001", status), fail_on=fail_on))
    assert [type(result) for result in case.result] == ([kind] if kind else [])
    if kind is None:
        assert "what was seen" in case.system_out
        assert ("WARN" in case.system_out) is (status is Status.WARN)
    else:
        assert case.result[0].message == "what was seen"


def test_what_is_ignored_is_skipped_with_the_reason() -> None:
    (case,) = cases(report(finding("NUM001", Status.FAIL, ignored="agreed with ops")))
    assert "agreed with ops" in case.result[0].message


def test_two_findings_of_one_code_are_two_cases() -> None:
    twice = cases(report(*[finding("NUM001", Status.PASS)] * 3))
    assert [case.name for case in twice] == [
        "NUM001 made-up",
        "NUM001 made-up (2)",
        "NUM001 made-up (3)",
    ]


def test_what_xml_cannot_hold_is_written_out() -> None:
    (case,) = cases(report(finding("NUM001", Status.FAIL, "a\x00b\x1bc\ud800d\ufffee\x7f<&>\"'")))
    assert case.result[0].message == "a\\x00b\\x1bc\\ud800d\\ufffee\x7f<&>\"'"


# GitHub


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """What GitHub's runner makes of a step's output, by its documented rules."""
    found, token = [], None
    for line in re.split(r"\r\n|\r|\n", text):
        if token is not None:
            token = None if line.strip() == f"::{token}::" else token
            continue
        if match := re.match(r"^::([a-z-]+)( ([^:]*))?::(.*)$", line.lstrip()):
            properties = dict(
                part.split("=", 1) for part in (match[3] or "").split(",") if "=" in part
            )
            decoded = {key: unescape(value, True) for key, value in properties.items()}
            found.append((match[1], decoded, unescape(match[4])))
            if match[1] == "stop-commands":
                token = match[4]
        assert not line.startswith("##[")
    assert token is None
    return found


def unescape(text: str, property: bool = False) -> str:
    pairs = [("%0D", "\r"), ("%0A", "\n")]
    pairs += [("%3A", ":"), ("%2C", ",")] if property else []
    for code, character in pairs:
        text = text.replace(code, character)
    return text.replace("%25", "%")


@EACH
def test_github_commands_are_the_complaints(name: str) -> None:
    told = REPORTS[name]
    said = commands(github.render(told))
    assert [command for command, _, _ in said][:3] == ["group", "stop-commands", "endgroup"]
    titles = [properties["title"] for command, properties, _ in said[3:]]
    wanted = [f for status in github.COMMANDS for f in told.with_status(status)]
    if max(map(len, map(told.with_status, github.COMMANDS))) <= github.MOST:
        ours = [title for title in titles if not title.startswith("doctor")]
        assert ours == [f"{f.check.code} {f.check.slug}" for f in wanted]


def test_what_a_command_says_comes_out_as_it_went_in() -> None:
    text = "50% of a:b,c\r\n::error::x"
    told = report(finding("CKP001", Status.FAIL, text), job={"checkpoint": "a,b:c%0A/model.json"})
    (error,) = [each for each in commands(github.render(told)) if each[0] == "error"]
    assert error[1] == {
        "title": "CKP001 made-up",
        "file": "a,b:c%0A/model.json",
        "line": "1",
    }
    assert error[2].startswith(f"{text}\nFix: mend it")


def test_github_shows_ten_of_a_kind_and_says_what_is_left_out() -> None:
    found = [finding(f"NUM{number:03}", Status.FAIL) for number in range(1, 26)]
    said = [each for each in commands(github.render(report(*found))) if each[0] == "error"]
    assert len(said) == 10
    assert said[-1][2].startswith("and 16 more: NUM010, ")
    assert len(list(commands(github.render(report(*found[:10]))))) == 3 + 10


def test_no_stranger_gives_a_command() -> None:
    said = commands(github.render(hostile()))
    assert {command for command, _, _ in said} <= {
        "group", "stop-commands", "endgroup", "error", "warning", "notice",
    }  # fmt: skip
    assert all(text != "owned" for _, _, text in said)


def test_the_token_is_never_twice_the_same() -> None:
    first, second = (commands(github.render(REPORTS["t4"]))[1][2] for _ in range(2))
    assert first != second
    assert len(first) == 32


def test_a_summary_that_github_would_refuse_is_cut_in_a_whole_line(tmp_path: Path) -> None:
    told = next(iter(REPORTS.values()))
    first = told.findings[0]
    huge = replace(first, verdict=replace(first.verdict, status=Status.FAIL, summary="é" * 2**20))
    step = tmp_path / "summary.md"
    step.touch()
    github.publish(replace(told, findings=(huge,)), {}, {"GITHUB_STEP_SUMMARY": str(step)})
    written = step.read_text("utf-8")
    assert len(written.encode()) <= github.SUMMARY
    assert written.endswith(f"{github.CUT}\n")


def test_summary_and_outputs_are_appended(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for file in files.values():
        file.write_text("before\n")
    environ = {name: str(file) for name, file in files.items()}
    written = {"html": Path("a.html"), "junit": Path("b\nevil=1.xml")}
    github.publish(REPORTS["v100_torch2.11"], written, environ)
    assert files["GITHUB_STEP_SUMMARY"].read_text().startswith("before\n## doctor: ❌ FIX\n")
    assert outputs(files["GITHUB_OUTPUT"].read_text().removeprefix("before\n")) == {
        "verdict": "fix",
        "exit_code": "1",
        "report": "a.html\nb\nevil=1.xml",
        "report_html": "a.html",
        "report_junit": "b\nevil=1.xml",
    }


def outputs(text: str) -> dict[str, str]:
    """As the runner reads its file."""
    found, lines = {}, iter(text.splitlines())
    for line in lines:
        name, _, end = line.partition("<<")
        value = []
        while (line := next(lines)) != end:
            value.append(line)
        found[name] = "\n".join(value)
    return found


def test_outside_of_github_nothing_is_published(tmp_path: Path) -> None:
    github.publish(REPORTS["t4"], {}, {})
    assert list(tmp_path.iterdir()) == []


# Markdown


def test_nothing_of_a_stranger_is_live_in_markdown() -> None:
    text = markdown.render(hostile())
    outside = re.sub(r"(?ms)^(`{3,})sh\n.*?^\1$", "", text)
    assert "@octocat" not in outside
    assert "evil.example" in outside
    assert not re.search(r"(?i)(https?:/|\bwww\.)(/?evil|/evil)|#1\b", outside)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    links = {str(child.attrs["href"]) for child in inline if child.type == "link_open"}
    assert links
    assert all(link.startswith("https://") and "evil" not in link for link in links)
    raw = {token.content.strip() for token in tokens if token.type == "html_block"}
    assert {line for block in raw for line in block.splitlines()} == {
        "<details><summary>All 1 checks</summary>".replace("1", str(len(hostile().findings))),
        "</details>",
    }
    assert {c.content for c in inline if c.type == "html_inline"} <= {"<br>"}


@EACH
def test_a_markdown_row_is_a_check(name: str) -> None:
    told = REPORTS[name]
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown.render(told))
    rows = sum(token.type == "tr_open" for token in tokens)
    loud = [f for f in told.findings if f.is_problem or f.status is Status.UNKNOWN]
    assert rows == len(told.findings) + 1 + (len(loud) + 1 if loud else 0)


def test_a_fence_is_longer_than_what_it_holds() -> None:
    told = report(finding("NUM001", Status.FAIL, commands=("echo ````", "\n```\n# x")))
    (fence,) = [
        token
        for token in MarkdownIt("commonmark").parse(markdown.render(told))
        if token.type == "fence"
    ]
    assert fence.content == "echo ````\n``` # x\n"


# SARIF

OASIS = json.loads((TESTS / "schemas" / "sarif-2.1.0-rtm.5.schema.json").read_text())


@EACH
def test_sarif_is_valid_and_holds_the_findings_about_files(name: str) -> None:
    told = REPORTS[name]
    log = json.loads(sarif.render(told))
    jsonschema.Draft4Validator(OASIS).validate(log)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == [check.code for check in catalog.CHECKS]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    job = told.facts.job
    ours = {"CKP"} if job.checkpoint else set()
    ours |= {"SMK", "NUM"} if job.model else set()
    loud = [f.check for f in told.findings if f.status in sarif.LEVELS and f.family in ours]
    about = [c.code for c in loud if c.family == "CKP" or "own" in signature(c.judge).parameters]
    assert [result["ruleId"] for result in run["results"]] == about


def test_the_line_that_raised_is_the_location() -> None:
    (run,) = json.loads(sarif.render(REPORTS["own_factory_raises"]))["runs"]
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
    told = REPORTS["missing_shard"]
    (run,) = json.loads(sarif.render(told))["runs"]
    uris = {
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in run["results"]
    }
    assert any(uri.endswith(".safetensors") for uri in uris)


def test_what_is_ignored_is_suppressed_and_unknown_is_open() -> None:
    told = report(
        finding("CKP001", Status.FAIL, ignored="known"),
        finding("CKP002", Status.UNKNOWN),
        job={"checkpoint": "model.safetensors"},
    )
    first, second = json.loads(sarif.render(told))["runs"][0]["results"]
    assert first["suppressions"][0]["justification"] == "known"
    assert (second["kind"], second["level"]) == ("open", "none")


# Nagios


@pytest.mark.parametrize(
    ("name", "state", "code"),
    [
        ("h100_torch2.15", "OK", 0),
        ("h200_torch2.11", "WARNING", 1),
        ("v100_torch2.11", "CRITICAL", 2),
        ("hung_driver", "CRITICAL", 2),
        ("nothing_readable", "UNKNOWN", 3),
    ],
)
def test_nagios_states_and_exit_codes(name: str, state: str, code: int) -> None:
    told = REPORTS[name]
    assert nagios.render(told).startswith(f"DOCTOR {state} - ")
    assert nagios.exit_code(told) == code


@EACH
def test_a_nagios_line_has_one_bar_and_data_behind_it(name: str) -> None:
    text, bar, data = nagios.render(REPORTS[name]).partition(" | ")
    assert (bar, "|" in text + data, "\n" in text + data) == (" | ", False, False)
    assert all(re.fullmatch(r"[a-z]+=[\d.]+s?(;\d*)*", part) for part in data.split())


def test_a_strangers_bar_and_lines_are_not_nagios() -> None:
    unread = report(finding("TOR001", Status.UNKNOWN, "a | b\nOK | c"))
    assert unread.outcome is Outcome.UNKNOWN
    assert nagios.render(unread).count("|") == 1
    assert "\n" not in nagios.render(unread)


# HTML: test_html.py looks at pages in a browser


class Tags(HTMLParser):
    """Every element with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))


def test_a_page_of_hostile_text_is_ascii_and_asks_for_nothing() -> None:
    page = html.render(hostile())
    assert page.isascii()
    assert HOSTILE[:30] not in page
    assert not re.search(r"url\(|@import", page)
    for tag, attributes in Tags(page).found:
        assert tag not in ("script", "img", "link", "iframe", "object", "form", "base")
        assert not any(name.startswith("on") or name in ("src", "style") for name in attributes)
        if "href" in attributes:
            assert (attributes["href"] or "").startswith(("https://", "#"))
            assert "evil" not in (attributes["href"] or "")


def test_the_facts_of_a_machine_are_not_changed_by_rendering() -> None:
    before = msgspec.json.encode(MADE["swallowed_updates"])
    for draw in FORMATS.values():
        draw(REPORTS["swallowed_updates"])
    assert msgspec.json.encode(MADE["swallowed_updates"]) == before


def test_a_suite_with_no_case_is_valid() -> None:
    XUNIT.validate(junit.render(report()))
    assert ET.fromstring(junit.render(report())).attrib["tests"] == "0"


@pytest.mark.parametrize("format", ["console", "plain", "markdown", "nagios"])
def test_no_stranger_moves_the_cursor_or_begins_a_line(format: str) -> None:
    text = FORMATS[format](hostile())
    assert text.replace("\n", "").isprintable()
    assert not [line for line in text.splitlines() if line.startswith(("::error::owned", "::set"))]
