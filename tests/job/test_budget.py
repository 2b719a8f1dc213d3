"""What fits into a budget, and that the run ends when it is over."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import command
import preloaded
import pytest
from recorded_parts import H100, TORCH_2_15, machine

from doctor import catalog
from doctor._util.records import Ended
from doctor.facts.facts import Facts, decode
from doctor.facts.machine import Driver
from doctor.job.budget import reduce
from doctor.job.job import Job
from doctor.job.quantities import parse_seconds
from doctor.job.run_options import RunOptions
from doctor.judge.check import Status
from doctor.judge.engine import examine

FULL = Job(hf="model", layers=2, compile=True)


@pytest.mark.parametrize(
    ("seconds", "left"),
    [
        (60, ()),
        (59, ("tests under load", "comparison under torch.compile")),
        (30, ("tests under load", "comparison under torch.compile")),
        (
            29,
            (
                "tests under load",
                "comparison under torch.compile",
                "the step of your own model",
                "attention trial",
            ),
        ),
        (
            8,
            (
                "tests under load",
                "comparison under torch.compile",
                "the step of your own model",
                "attention trial",
                "training step",
            ),
        ),
    ],
)
def test_the_dearest_is_left_out_first(seconds: float, left: tuple[str, ...]) -> None:
    job, options, parts = reduce(FULL, RunOptions(), seconds)
    assert parts == left
    assert options.budget == seconds
    assert options.quick is bool(left)
    assert bool(job.hf) is (seconds >= 30)
    assert options.smoke is (seconds >= 10)


def test_what_nobody_asked_for_is_not_left_out() -> None:
    _, options, parts = reduce(Job(), RunOptions(quick=True, smoke=False), 5)
    assert parts == ("attention trial",)
    assert options.omitted == ("attention",)


def test_what_is_left_out_is_skipped_with_the_reason() -> None:
    job, options, _ = reduce(Job(), RunOptions(), 8)
    facts = machine(H100, torch=TORCH_2_15, job=job, options=options, smoke=None, watched=None)
    findings = {finding.check.code: finding for finding in examine(catalog.MACHINE_CHECKS, facts)}
    assert findings["SMK001"].status is Status.SKIP
    assert findings["SMK001"].verdict.summary == "omitted by --budget 8"


@pytest.mark.parametrize(("text", "seconds"), [("8", 8), ("8s", 8), ("1.5m", 90), (" 20 ", 20)])
def test_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "8h", "1e3", "inf", "nan", "99999999", "0.5"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_seconds(text)


HANGS = """
#include <unistd.h>
__attribute__((constructor)) static void hang(void) { for (;;) pause(); }
"""


def run(folder: Path, *flags: str) -> tuple[int, dict[str, Any], Facts]:
    """Exit code, report and facts of a run whose driver hangs."""
    source, saved = folder / "hang.c", folder / "facts.json"
    source.write_text(HANGS)
    for name in ("cuda", "nvidia-ml"):
        library = folder / f"lib{name}.so.1"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nunset LD_LIBRARY_PATH\nexec {preloaded.python()} "$@"\n')
    python.chmod(0o755)
    done = command.doctor(
        "run",
        "--format",
        "json",
        "--save-facts",
        saved,
        "--python",
        python,
        *flags,
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
        cwd=folder,
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout), decode(saved.read_bytes())


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc builds the libraries that hang")
def test_a_driver_that_hangs_is_cut_off_by_a_budget_below_its_deadline(tmp_path: Path) -> None:
    code, report, facts = run(tmp_path, "--budget", "3s", "--skip", "TOR002")
    assert isinstance(facts.driver, Driver)
    assert isinstance(facts.driver.nvml, Ended)
    assert facts.driver.nvml.how == "budget"  # its own deadline is later
    assert facts.options.omitted == ("load", "peers", "attention", "smoke", "watched")
    assert facts.smoke is None
    assert code in (1, 3)  # without a GPU on the bus DRV001 knows enough to fail
    statuses = {finding["code"]: finding["status"] for finding in report["findings"]}
    assert statuses["DRV001"] != "pass"
    assert statuses["DRV002"] in ("skip", "unknown")  # skip where DRV001 warns
    assert statuses["SMK001"] in ("skip", "unknown")  # unknown where the import was cut off too
    assert statuses["JOB001"] == "skip"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc builds the libraries that hang")
def test_a_budget_with_room_for_the_drivers_deadline_names_it(tmp_path: Path) -> None:
    code, report, facts = run(tmp_path, "--budget", "240")
    assert isinstance(facts.driver, Driver)
    assert (facts.driver.nvml.how, facts.driver.cuda.how) == ("timeout", "timeout")
    assert code == 1
    statuses = {finding["code"]: finding["status"] for finding in report["findings"]}
    assert statuses["DRV001"] == "fail"
