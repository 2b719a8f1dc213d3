"""GitHub: commands as its runner parses them, the step summary and the outputs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from reports import about, every_report, finding, hostile, report

from doctor.judge.check import Status
from doctor.report.formats import github


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """What GitHub's runner makes of a step's output, by its documented rules."""
    parsed, token = [], None
    for line in re.split(r"\r\n|\r|\n", text):
        if token is not None:
            token = None if line.strip() == f"::{token}::" else token
            continue
        if match := re.match(r"^::([a-z-]+)( ([^:]*))?::(.*)$", line.lstrip()):
            properties = dict(
                part.split("=", 1) for part in (match[3] or "").split(",") if "=" in part
            )
            decoded = {key: unescape(value, True) for key, value in properties.items()}
            parsed.append((match[1], decoded, unescape(match[4])))
            if match[1] == "stop-commands":
                token = match[4]
        assert not line.startswith("##[")
    assert token is None
    return parsed


def unescape(text: str, property: bool = False) -> str:
    pairs = [("%0D", "\r"), ("%0A", "\n")]
    pairs += [("%3A", ":"), ("%2C", ",")] if property else []
    for code, character in pairs:
        text = text.replace(code, character)
    return text.replace("%25", "%")


def test_github_commands_are_the_warnings_failures_and_unknowns() -> None:
    for name, judged in every_report().items():
        with about(name):
            parsed = commands(github.render(judged))
            kinds = [command for command, _, _ in parsed]
            assert kinds[:3] == ["group", "stop-commands", "endgroup"]
            titles = [properties["title"] for _, properties, _ in parsed[3:]]
            by_status = [judged.with_status(status) for status in github.COMMANDS]
            if max(map(len, by_status)) <= github.MOST:
                ours = [title for title in titles if not title.startswith("doctor")]
                expected = [f for findings in by_status for f in findings]
                assert ours == [f"{f.check.code} {f.check.slug}" for f in expected]


def test_what_a_command_says_is_one_line_of_its_own() -> None:
    text = "50% of a:b,c\r\n::error::x"
    judged = report(finding("CKP001", Status.FAIL, text), job={"checkpoint": "a,b:c%0A/model.json"})
    (error,) = [each for each in commands(github.render(judged)) if each[0] == "error"]
    assert error[1] == {
        "title": "CKP001 made-up",
        "file": "a,b:c%0A/model.json",
        "line": "1",
    }
    assert error[2].startswith("50% of a:b,c\\r\\n::error::x\nFix: correct it")


def test_github_shows_ten_of_a_kind_and_says_what_is_left_out() -> None:
    findings = [finding(f"NUM{number:03}", Status.FAIL) for number in range(1, 26)]
    shown = [each for each in commands(github.render(report(*findings))) if each[0] == "error"]
    assert len(shown) == 10
    assert shown[-1][2].startswith("and 16 more: NUM010, ")
    assert len(list(commands(github.render(report(*findings[:10]))))) == 3 + 10


def test_untrusted_text_is_never_a_command() -> None:
    shown = commands(github.render(hostile()))
    assert {command for command, _, _ in shown} <= {
        "group", "stop-commands", "endgroup", "error", "warning", "notice",
    }  # fmt: skip
    assert all(text != "owned" for _, _, text in shown)


def test_the_token_is_never_twice_the_same() -> None:
    first, second = (commands(github.render(every_report()["t4"]))[1][2] for _ in range(2))
    assert first != second
    assert len(first) == 32


def test_a_summary_that_github_would_refuse_is_cut_in_a_whole_line(tmp_path: Path) -> None:
    judged = every_report()["h100_torch2.15"]
    first = judged.findings[0]
    huge = replace(first, verdict=replace(first.verdict, status=Status.FAIL, summary="é" * 2**20))
    step = tmp_path / "summary.md"
    step.touch()
    github.publish(replace(judged, findings=(huge,)), {}, {"GITHUB_STEP_SUMMARY": str(step)})
    written = step.read_text("utf-8")
    assert len(written.encode()) <= github.SUMMARY
    assert written.endswith(f"{github.CUT}\n")


def test_summary_and_outputs_are_appended(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for file in files.values():
        file.write_text("before\n")
    environ = {name: str(file) for name, file in files.items()}
    written = {"html": Path("a.html"), "junit": Path("b\nevil=1.xml")}
    github.publish(every_report()["v100_torch2.11"], written, environ)
    assert files["GITHUB_STEP_SUMMARY"].read_text("utf-8").startswith("before\n## doctor: ❌ FIX\n")
    assert outputs(files["GITHUB_OUTPUT"].read_text("utf-8").removeprefix("before\n")) == {
        "verdict": "fix",
        "exit_code": "1",
        "report": "a.html\nb\nevil=1.xml",
        "report_html": "a.html",
        "report_junit": "b\nevil=1.xml",
    }


def outputs(text: str) -> dict[str, str]:
    """As the runner reads its file."""
    values, lines = {}, iter(text.splitlines())
    for line in lines:
        name, _, end = line.partition("<<")
        value = []
        while (line := next(lines)) != end:
            value.append(line)
        values[name] = "\n".join(value)
    return values


def test_outside_of_github_nothing_is_published(tmp_path: Path) -> None:
    github.publish(every_report()["t4"], {}, {})
    assert list(tmp_path.iterdir()) == []
