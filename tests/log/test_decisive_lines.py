"""Logs whose decisive line is not the last one, nor the one that a launcher names."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.cli.options import ConfigFlags
from doctor.cli.triage import triage
from doctor.judge.check import Finding, Status
from doctor.report.formats import plain

STEPS = "\n".join(
    f"[2026-01-03 02:24:{n:02d}][rank0][INFO] - step {n} | loss {3 - n / 30:.3f}" for n in range(40)
)
EVICTED = f"""{STEPS}
sft-7b-worker-0   0/1     Evicted   0          47m
Reason:           Evicted
Message:          Pod ephemeral local storage usage exceeds the total limit of containers 200Gi.
  Normal   Killing   58s   kubelet  Stopping container trainer
"""
LOCKED = """n1:41 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory
[rank0]: Traceback (most recent call last):
[rank0]:   File "/lustre/pre/train.py", line 77, in main
[rank0]:     dist.barrier()
[rank0]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2580, unhandled \
system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5
"""
WAITED = STEPS + "".join(
    f"\n[rank{rank}]:[E0103 02:52:05.86 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=26004, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=1800000) ran for 1800095 milliseconds before timing out."
    for rank in (1, 2, 3)
)
ACCOUNT = """
Root Cause (first observed failure):
[0]:
  time      : 2026-01-03_02:52:05
  host      : gpu021
  rank      : 1 (local_rank: 1)
  exitcode  : -6 (pid: 52585)
============================================================
"""


def judged(tmp_path: Path, text: str) -> tuple[Finding, str]:
    """The finding that leads, and the report."""
    log = tmp_path / "train.log"
    log.write_text(text, encoding="utf-8")
    report = triage([str(log)], {}, ConfigFlags(no_config=True))
    return report.findings[0], plain.render(report)


@pytest.mark.parametrize(
    ("text", "row", "remedy"),
    [
        (EVICTED, "pod-evicted", "ephemeral-storage limit (200Gi)"),
        (LOCKED, "locked-memory-limit", "ulimit -l unlimited"),
        (WAITED + ACCOUNT, "nccl-timeout", "Rank 0 may be at work alone"),
    ],
)
def test_the_first_cause_is_the_line_that_decides(
    text: str, row: str, remedy: str, tmp_path: Path
) -> None:
    finding, report = judged(tmp_path, text)
    assert finding.status is Status.FAIL
    assert finding.verdict.causes[0] == row
    assert remedy in " ".join(report.split())


def test_a_number_in_the_launchers_account_is_no_line_of_that_rank(tmp_path: Path) -> None:
    _, report = judged(tmp_path, WAITED + ACCOUNT)
    assert "train.log:40, step 39" in report
