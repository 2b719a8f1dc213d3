"""What fits into a budget, and that the run ends when it is over."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from recorded import H100, OK, TORCH_2_15, box, interpreter, smoke
from recorded_load import loaded

from doctor._util.records import Ended, Unknown
from doctor.collect.child import CUT
from doctor.facts.machine import Driver
from doctor.facts.training import Smoke, Stage
from doctor.job.budget import parse_seconds, reduce, without_cut
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge import catalog
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
    facts = box(H100, torch=TORCH_2_15, job=job, options=options, smoke=None, watched=None)
    findings = {finding.check.code: finding for finding in examine(catalog.CHECKS, facts)}
    assert findings["SMK001"].status is Status.SKIP
    assert findings["SMK001"].verdict.summary == "omitted by --budget 8"


@pytest.mark.parametrize(("text", "seconds"), [("8", 8), ("8s", 8), ("1.5m", 90), (" 20 ", 20)])
def test_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "8h", "1e3", "inf", "nan", "99999999", "0.5"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_seconds(text)


def test_a_look_that_was_cut_off_proves_nothing() -> None:
    over = Ended(how="error", detail=f"{CUT} inside nvmlInit")
    broken = Ended(how="error", detail="libcuda.so.1 is missing")
    facts = box(H100, torch=TORCH_2_15, load=(loaded(H100),)).with_(
        driver=Driver(nvml=OK, cuda=over),
        interpreter=interpreter(over),
        smoke=smoke(stages=(Stage(name="forward", ended=over),), steps=()),
        siblings=(smoke(stages=(Stage(name="forward", ended=over),)),),
    )
    left = without_cut(facts)
    for section in (left.driver, left.interpreter, left.smoke):
        assert section == Unknown(reason=over.detail)
    assert left.siblings == ()
    assert (left.load, left.cuda, left.places) == (facts.load, facts.cuda, facts.places)
    findings = examine(catalog.CHECKS, left)
    assert [f.check.code for f in findings if f.status is Status.FAIL] == []
    failed = facts.with_(driver=Driver(nvml=OK, cuda=broken), interpreter=interpreter())
    assert without_cut(failed).driver == failed.driver
    whole = box(H100, torch=TORCH_2_15)
    assert without_cut(whole) is whole
    assert isinstance(whole.smoke, Smoke)


HANGS = """
#include <unistd.h>
__attribute__((constructor)) static void hang(void) { for (;;) pause(); }
"""


def run(folder: Path, *flags: str) -> tuple[float, int, dict[str, Any]]:
    """Seconds, exit code and report of a run whose driver hangs."""
    source = folder / "hang.c"
    source.write_text(HANGS)
    for name in ("cuda", "nvidia-ml"):
        library = folder / f"lib{name}.so.1"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "doctor", "run", "--format", "json", *flags],
        capture_output=True,
        text=True,
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
        cwd=folder,
        timeout=100,
        check=False,
    )
    spent = time.monotonic() - began
    assert done.stderr == ""
    return spent, done.returncode, json.loads(done.stdout)


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc builds the libraries that hang")
def test_a_driver_that_hangs_costs_no_more_than_the_budget(tmp_path: Path) -> None:
    spent, code, report = run(tmp_path, "--budget", "3s", "--skip", "TOR002")
    assert spent <= 3 + 1
    assert code in (1, 3)  # without a GPU on the bus DRV001 knows enough to fail
    assert report["notes"] == [
        "omitted by --budget 3: tests under load, attention trial, training step"
    ]
    told = {finding["code"]: finding for finding in report["findings"]}
    assert told["DRV001"]["status"] != "pass"
    assert CUT in told["DRV001"]["summary"]
    assert told["DRV002"]["status"] == "unknown"
    assert told["SMK001"]["status"] == "skip"
    assert told["JOB001"]["status"] == "skip"
    assert "driver hangs" not in "".join(f["summary"] for f in report["findings"])


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc builds the libraries that hang")
def test_a_budget_with_room_for_the_drivers_deadline_names_it(tmp_path: Path) -> None:
    spent, code, report = run(tmp_path, "--budget", "9")
    assert spent <= 9 + 1
    assert code == 1
    told = {finding["code"]: finding for finding in report["findings"]}
    assert told["DRV001"]["status"] == "fail"
