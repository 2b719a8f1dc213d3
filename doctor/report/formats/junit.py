"""The report as JUnit XML of the common xunit form: one testcase a check.

fail is a failure, unknown an error, skip is skipped, and so is what the user ignores. A warning
passes, with its words in system-out; with --fail-on warn it is a failure.
"""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree as ET

from doctor import __version__
from doctor.judge.check import Finding, Status
from doctor.report.phrases import remedy, said
from doctor.report.report import Report

FORBIDDEN = re.compile(r"[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")
"""What XML 1.0 cannot hold, not even escaped."""


def render(report: Report) -> str:
    """One testsuite, in ASCII; what XML forbids is written as Python would escape it."""
    suite = ET.Element("testsuite", name="doctor")
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(report).items():
        ET.SubElement(properties, "property", name=name, value=_allowed(value))
    seen: Counter[str] = Counter()
    for finding in report.findings:
        seen[finding.check.code] += 1
        _case(suite, finding, report, seen[finding.check.code])
    totals = {
        "tests": str(len(suite.findall("testcase"))),
        "failures": str(len(suite.findall("*/failure"))),
        "errors": str(len(suite.findall("*/error"))),
        "skipped": str(len(suite.findall("*/skipped"))),
        "time": f"{report.facts.seconds:.3f}",
    }
    suite.attrib.update(totals)
    root = ET.Element("testsuites", suite.attrib)
    root.attrib.pop("skipped")  # the common form has it on the suite alone
    root.append(suite)
    ET.indent(root)
    text: str = ET.tostring(root, "us-ascii", xml_declaration=False).decode()
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'


def _properties(report: Report) -> dict[str, str]:
    return {
        "doctor": __version__,
        "verdict": str(report.outcome),
        "next": report.next_action,
        "exit_code": str(report.exit_code),
    }


def _case(suite: ET.Element, finding: Finding, report: Report, number: int) -> None:
    check = finding.check
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"doctor.{finding.family}",
        name=f"{check.code} {check.slug}" + (f" ({number})" if number > 1 else ""),
        time=f"{finding.verdict.seconds:.3f}",
    )
    summary = _allowed(said(finding))
    words = _allowed("\n".join([said(finding), *remedy(finding)]))
    match finding.status:
        case _ if finding.ignored:
            ET.SubElement(case, "skipped", message=summary)
        case Status.FAIL:
            ET.SubElement(case, "failure", type="fail", message=summary).text = words
        case Status.WARN if report.fail_on == "warn":
            ET.SubElement(case, "failure", type="warn", message=summary).text = words
        case Status.UNKNOWN:
            ET.SubElement(case, "error", type="unknown", message=summary).text = words
        case Status.SKIP:
            ET.SubElement(case, "skipped", message=summary)
        case Status.WARN:
            ET.SubElement(case, "system-out").text = f"WARN {words}"
        case Status.PASS:
            ET.SubElement(case, "system-out").text = words


def _allowed(text: str) -> str:
    return FORBIDDEN.sub(lambda found: ascii(found[0])[1:-1], text)
