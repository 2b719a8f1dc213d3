"""Nothing in a hostile input is executed, forges a line, leaks a secret or writes elsewhere.

Every twentieth case is among the fast tests.
"""

from __future__ import annotations

import fnmatch
import os
import re
from pathlib import Path

import pytest
from command import doctor
from hostile_inputs import cases
from hostile_texts import TOKENS, Case
from paths import MACHINES

from doctor.cli.app import EVERY

FACTS = (MACHINES / "h200_torch2.11.json").read_bytes()
CASES = list(cases(FACTS))
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
FORGED_LINE = re.compile(
    r"^\s*(?:READY: forged|::error(?: file=x)?::forged|##vso\[task\.complete\]forged)", re.MULTILINE
)
ELEMENT = re.compile(r"<(?:script|img)\b[^>]*forged|<script>forged")
TEXTS = ("console", "plain", "nagios")


def plant(case: Case, work: Path, mark: Path) -> None:
    for name, content in case.files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(mark) if callable(content) else content)
        if not path.suffix:
            path.chmod(0o755)
    for name, target in case.links.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).symlink_to(target)


def contents(top: Path) -> dict[str, bytes]:
    """Regular files; links by what they name."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = Path(folder, name)
            data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            found[str(path.relative_to(top))] = data
    return found


def problems(case: Case, top: Path) -> list[str]:
    """What went wrong with one hostile input; nothing, it is hoped."""
    work, mark = top / "work", top / "mark"
    (work / ".git").mkdir(parents=True)
    plant(case, work, mark)
    before = contents(top)
    named = {**os.environ, "HOME": str(top / "home"), "PATH": f"{os.environ['PATH']}"}
    options = {"input": case.input} if case.input else {}
    result = doctor(*case.words, cwd=work, env=named, **options)
    after = contents(top)
    output = result.stdout + result.stderr
    form = next(
        (w for f, w in zip(case.words, case.words[1:], strict=False) if f == "--format"), ""
    )
    found = []
    if mark.exists():
        found.append("executed")
    if result.returncode not in (0, 1, 2, 3):
        found.append(f"exit code {result.returncode}")
    if "Traceback (most" in output:
        found.append(f"a traceback: {result.stderr[-300:]}")
    if raw := RAW.search(output):
        found.append(f"raw {raw[0]!r} in {output[max(0, raw.start() - 60) : raw.end() + 20]!r}")
    if forged := FORGED_LINE.search(output):
        found.append(f"a forged line: {forged[0]!r}")
    if form == "html" and (element := ELEMENT.search(output)):
        found.append(f"an element: {element[0]!r}")
    given = " ".join(case.words)
    found += [f"a secret: {token}" for token in TOKENS if token in output and token not in given]
    written = {
        name for name, data in after.items() if before.get(name) != data
    } | before.keys() - after
    allowed = [p if p.startswith("home/") else f"work/{p}" for p in case.may_write]
    found += [f"wrote {n}" for n in written if not any(fnmatch.fnmatch(n, a) for a in allowed)]
    return found


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] * (number % 20 != 13))
        for number, case in enumerate(CASES)
    ],
)
def test_a_hostile_input_does_no_harm(case: Case, tmp_path: Path) -> None:
    assert problems(case, tmp_path) == []


def test_there_are_enough_cases() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 1000
    assert {case.words[0] for case in CASES} >= {name.split()[0] for name in EVERY}
