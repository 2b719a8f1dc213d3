"""JUnit: the common schema, and what a reader makes of each status."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any
from xml.etree import ElementTree as ET

import junitparser
import pytest
from paths import TESTS
from reports import about, every_report, finding, report

from doctor.judge.check import Status
from doctor.report.formats import junit
from doctor.report.report import Report


@cache
def xunit() -> Any:
    import xmlschema  # takes half a second, which every worker would spend on collecting the tests

    return xmlschema.XMLSchema(str(TESTS / "schemas" / "junit-10.xsd"))


def test_junit_is_valid_and_its_counts_are_those_of_the_report() -> None:
    for name, judged in every_report().items():
        for fail_on in ("fail", "warn"):
            with about(name):
                agrees(replace(judged, fail_on=fail_on))


def agrees(judged: Report) -> None:
    text = junit.render(judged)
    xunit().validate(text)
    suite = next(iter(junitparser.JUnitXml.fromstring(text.encode())))
    counts = judged.counts
    failures = counts["fail"] + (counts["warn"] if judged.fail_on == "warn" else 0)
    assert (suite.tests, suite.failures) == (len(judged.findings), failures)
    assert (suite.errors, suite.skipped) == (counts["unknown"], counts["skip"])
    names = [(case.classname, case.name) for case in suite]
    assert len(set(names)) == len(names) == suite.tests
    assert names[0] == (f"doctor.{judged.findings[0].family}", names[0][1])


def cases(judged: Report) -> list[Any]:
    text = junit.render(judged)
    xunit().validate(text)
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
        assert "observed value" in case.system_out
        assert ("WARN" in case.system_out) is (status is Status.WARN)
    else:
        assert case.result[0].message == "observed value"


def test_notes_are_a_property() -> None:
    root = ET.fromstring(junit.render(report(finding("NUM001", Status.PASS), notes=("one", "two"))))
    notes = root.findall(".//property[@name='notes']")
    assert [note.get("value") for note in notes] == ["one; two"]
    xunit().validate(root)


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
    assert case.result[0].message == "a\\x00b\\x1bc\\ud800d\\ufffee\\x7f<&>\"'"


def test_a_suite_with_no_case_is_valid() -> None:
    xunit().validate(junit.render(report()))
    assert ET.fromstring(junit.render(report())).attrib["tests"] == "0"
