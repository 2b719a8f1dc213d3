"""The report as JUnit XML in the common xunit schema: one testcase per check.

fail is a failure, unknown an error; skipped and ignored checks are skipped. A warning passes, with
its text in system-out; with --fail-on warn it is a failure.
"""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree as ET

from doctor import __version__
from doctor._util.units import visible
from doctor.judge.check import Finding, Status
from doctor.judge.place import Place
from doctor.report.locations import results
from doctor.report.origin import origin_of
from doctor.report.phrases import remedy, summary
from doctor.report.report import Report


def render(report: Report) -> str:
    """One testsuite, in ASCII; characters that XML forbids are escaped as all others are."""
    suite = ET.Element("testsuite", name="doctor")
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(report).items():
        ET.SubElement(properties, "property", name=name, value=visible(value))
    cases: Counter[str] = Counter()
    for finding in report.findings:
        cases[finding.check.code] += 1
        _case(suite, finding, report, cases[finding.check.code])
    totals = {
        "tests": str(len(suite.findall("testcase"))),
        "failures": str(len(suite.findall("*/failure"))),
        "errors": str(len(suite.findall("*/error"))),
        "skipped": str(len(suite.findall("*/skipped"))),
        "time": f"{report.facts.seconds:.3f}",
    }
    suite.attrib.update(totals)
    suite.attrib.update(_origin(report))
    root = ET.Element("testsuites", suite.attrib)
    for name in ("skipped", "timestamp", "hostname"):  # the schema has them on the suite only
        root.attrib.pop(name, None)
    root.append(suite)
    ET.indent(root)
    text: str = ET.tostring(root, "us-ascii", xml_declaration=False).decode()
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'


def _properties(report: Report) -> dict[str, str]:
    origin = origin_of(report.facts)
    known = {"command": origin.command, "driver": origin.driver, "torch": origin.torch}
    return {
        "doctor": __version__,
        "verdict": str(report.outcome),
        "next": report.next_action,
        "exit_code": str(report.exit_code),
        "gpus": ", ".join(origin.gpus),
        **{name: value for name, value in known.items() if value},
        **({"notes": "; ".join(report.notes)} if report.notes else {}),
    }


def _origin(report: Report) -> dict[str, str]:
    """Attributes of the suite that are known."""
    origin = origin_of(report.facts)
    known = {"timestamp": origin.started, "hostname": origin.host}
    return {name: visible(value) for name, value in known.items() if value}


def _case(suite: ET.Element, finding: Finding, report: Report, number: int) -> None:
    """One case for the check, or one for each place, whose class is the file."""
    name = f"{finding.check.code} {finding.check.slug}"
    if not finding.places:
        name += f" ({number})" if number > 1 else ""
        _outcome(suite, finding, report, f"doctor.{finding.family}", name, summary(finding))
    for place, followed in results(finding, report) if finding.places else ():
        at = str(place).removeprefix(place.path).lstrip(":")
        message = place.message or summary(finding)
        case = f"{name} {at}".rstrip()
        _outcome(suite, finding, report, place.path, case, message, followed)


def _outcome(
    suite: ET.Element,
    finding: Finding,
    report: Report,
    owner: str,
    name: str,
    observed: str,
    followed: tuple[Place, ...] = (),
) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=visible(owner),
        name=visible(name),
        time=f"{finding.verdict.seconds:.3f}",
    )
    message = visible(observed)
    lines = [f"{place.message} at {place}" for place in followed]
    text = "\n".join(map(visible, [observed, *lines, *remedy(finding)]))
    match finding.status:
        case _ if finding.ignored:
            ET.SubElement(case, "skipped", message=message)
        case Status.FAIL:
            ET.SubElement(case, "failure", type="fail", message=message).text = text
        case Status.WARN if report.fail_on == "warn":
            ET.SubElement(case, "failure", type="warn", message=message).text = text
        case Status.UNKNOWN:
            ET.SubElement(case, "error", type="unknown", message=message).text = text
        case Status.SKIP:
            ET.SubElement(case, "skipped", message=message)
        case Status.WARN:
            ET.SubElement(case, "system-out").text = f"WARN {text}"
        case Status.PASS | Status.NOTE:
            ET.SubElement(case, "system-out").text = text
