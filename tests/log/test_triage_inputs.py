"""doctor triage: flight-recorder dumps and pasted reports among the logs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from flight_dumps import Fault, megatron, simulate, write

from doctor.checks.log.patterns import line_patterns
from doctor.cli.options import ConfigFlags
from doctor.cli.triage import triage
from doctor.facts.flight_recorder import FlightRecorder
from doctor.facts.interpreter import Torch
from doctor.log.read import read_logs
from doctor.report.formats import plain
from doctor.report.report import Report

TOO_OLD = """PyTorch version: 2.9.1+cu130
CUDA used to build PyTorch: 13.0
OS: Ubuntu 24.04.2 LTS (x86_64)
Is CUDA available: False
GPU models and configuration: GPU 0: NVIDIA A100-SXM4-80GB
Nvidia driver version: 535.104.05
"""


def judged(path: Path, **flags: tuple[str, ...]) -> Report:
    return triage([str(path)], flags, ConfigFlags(no_config=True))


def problems(report: Report) -> list[str]:
    return [finding.check.code for finding in report.findings if finding.is_problem]


def test_dumps_in_a_directory_of_logs_are_compared(tmp_path: Path) -> None:
    dumps, _ = simulate(megatron(1), {5: Fault("host", 3)})
    write(dumps, tmp_path)
    (tmp_path / "rank0.log").write_text("step 1 loss 2.5\n")
    report = judged(tmp_path)
    assert isinstance(report.facts.flight_recorder, FlightRecorder)
    assert [each.rank for each in report.facts.flight_recorder.stopped] == [5]
    assert "LOG080" in problems(report)
    assert {file.path for file in report.facts.log.files} == {str(tmp_path / "rank0.log")}  # type: ignore[union-attr]


def test_dumps_alone_are_reported(tmp_path: Path) -> None:
    dumps, _ = simulate(megatron(1), {5: Fault("gpu", 3)})
    write(dumps, tmp_path)
    text = plain.render(judged(tmp_path))
    assert "16 flight-recorder dumps" in text
    assert "rank 5 stopped" in text


def test_without_dumps_their_checks_do_not_apply(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text("step 1 loss 2.5\n")
    findings = {each.check.code: each for each in judged(tmp_path).findings}
    assert str(findings["LOG080"].status) == "skip"


def test_a_report_at_the_start_of_a_log_is_judged(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"{TOO_OLD}\nstep 1 loss 2.5\nstep 2 loss 2.4\n")
    report = judged(log)
    assert isinstance(report.facts.torch, Torch)
    assert problems(report)[:1] == ["DRV002"]
    assert problems(judged(log, only=("LOG",))) == []
    log.write_text(TOO_OLD.replace("535.104.05", "580.65.06").replace("False", "True"))
    assert problems(judged(log)) == []


CUT = b"step 1 loss: 2\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.mark.parametrize(
    ("name", "data", "line"),
    [
        ("truncated.log", b"\0" * 3_000_000 + CUT, 2),  # copytruncate, a node that crashed
        ("powershell.log", CUT.decode().encode("utf-16"), 2),
        ("killed.log.gz", gzip.compress(CUT + str(list(range(90_000))).encode())[:-900], 2),
    ],
)
def test_what_can_be_read_of_a_damaged_file_is_read(
    tmp_path: Path, name: str, data: bytes, line: int
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    log = read_logs([str(path)], line_patterns())
    assert [(event.name, event.line) for event in log.events] == [("cuda-oom", line)]
    assert ("end-of-stream" in log.files[0].problem) is name.endswith(".gz")
