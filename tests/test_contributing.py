"""The worked examples of CONTRIBUTING.md: their diffs apply, and the tests pass with them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

COPIED = (
    "checks",
    "doctor",
    "docs",
    "schemas",
    "tests",
    "man",
    "README.md",
    "pyproject.toml",
    ".ci",
)
EVERYWHERE = ("tests/test_generated.py", "tests/judge/test_catalog.py")
EXAMPLES = {
    "Add a check": (
        13,
        (
            "tests/test_machines.py",
            "tests/checks/test_gpu.py::test_application_clock",
            "tests/probes/test_nvml.py::test_healthy_gpus_are_read_in_full",
            "tests/probes/test_nvml.py::test_trouble_is_read_and_judged",
            "tests/probes/test_nvml.py::test_every_query_may_be_refused",
        ),
    ),
    "Add an error cause": (3, ("tests/errors/test_errors.py",)),
    "Add a log class": (
        6,
        (
            "tests/errors/test_errors.py::test_a_row_is_complete",
            "tests/log/test_log_classes.py::test_an_example_is_of_its_class",
            "tests/log/test_log_classes.py::test_every_class_is_a_check_with_a_fix_and_a_reason",
            "tests/checks/test_log.py",
        ),
    ),
    "Add a lint rule with a fix": (
        10,
        (
            "tests/checks/test_script_rules.py",
            "tests/checks/test_script_relevance.py",
            "tests/cli/test_lint_fix.py::test_gradients_are_freed",
            "tests/cli/test_lint_fix.py::"
            "test_the_documentation_lists_every_fix_and_whether_it_is_safe",
        ),
    ),
    "Add a report format": (
        9,
        (
            "tests/report/formats/test_all.py",
            "tests/report/formats/test_lines.py::test_the_number_of_lines_does_not_depend_on_values",
            "tests/report/test_redaction.py::test_no_report_depends_on_the_name_of_its_machine",
            "tests/report/test_origin.py::test_every_format_names_time_gpu_driver_and_torch",
        ),
    ),
}
"""Heading of the guide -> the files that may change, and the tests that it adds to or names."""
GUIDE = ROOT / "CONTRIBUTING.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1300),
    pytest.mark.skipif(
        not (ROOT / "checks").exists() or not GUIDE.exists(), reason="the sources are not at hand"
    ),
    pytest.mark.skipif(not shutil.which("gcc"), reason="gcc builds the fake driver"),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
        else:
            shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def apply(diff: str, folder: Path) -> None:
    """Replace the lines of each hunk, which must occur exactly once; a new file is one hunk."""
    name, *hunks = re.split(r"(?m)^@@\n", diff)
    path = folder / name.removeprefix("+++ ").strip()
    if not path.exists():
        (hunk,) = hunks
        path.write_text("".join(line[1:] for line in hunk.splitlines(keepends=True)), "utf-8")
        return
    text = path.read_text("utf-8")
    for hunk in hunks:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if not line.startswith("+"))
        after = "".join(line[1:] for line in lines if not line.startswith("-"))
        assert text.count(before) == 1, f"{path.name}: {text.count(before)} times\n{before}"
        text = text.replace(before, after)
    path.write_text(text, "utf-8")


def contents(folder: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not re.search("cache|hypothesis", str(path.relative_to(folder)))
    }


def run(folder: Path, *command: str) -> None:
    search = os.pathsep.join([str(folder), str(folder / "tests/support")])
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def section(heading: str) -> str:
    """The part of the guide below a heading."""
    (text,) = re.findall(rf"(?ms)^## {heading}$(.*?)(?=^## |\Z)", GUIDE.read_text("utf-8"))
    return str(text)


def test_every_diff_of_the_guide_belongs_to_an_example() -> None:
    everywhere = GUIDE.read_text("utf-8").count("```diff\n")
    assert everywhere == sum(section(heading).count("```diff\n") for heading in EXAMPLES)


@pytest.mark.parametrize("heading", EXAMPLES)
def test_the_example_of_the_guide_works(heading: str, copy: Path) -> None:
    most, tests = EXAMPLES[heading]
    before = contents(copy)
    for diff in re.findall(r"(?ms)^```diff\n(.*?)^```$", section(heading)):
        apply(diff, copy)
    python = [sys.executable, "-P"]
    run(copy, *python, "tests/support/generated.py")
    run(copy, *python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *EVERYWHERE, *tests)
    after = contents(copy)
    changed = [path for path in after if after[path] != before.get(path)]
    assert len(changed) <= most, changed
