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

LIGHTNING = (
    "lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu: [0, 1, 2]"
    "\n But your machine only has: [0, 1]\n"
)
WORKER = """Traceback (most recent call last):
  File "train.py", line 77, in main
    for batch in loader:
RuntimeError: Caught RuntimeError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/work/data.py", line 31, in __getitem__
    return torch.from_numpy(x)
RuntimeError: Numpy is not available
"""
LOST = """RuntimeError: CUDA error: unspecified launch failure
[ 8121.2] NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', GPU has fallen off the bus.
"""
CAST = """Traceback (most recent call last):
  File "/opt/datasets/table.py", line 2249, in cast_table_to_schema
    raise CastError(
datasets.table.CastError: Couldn't cast
id: string
to
{'id': Value(dtype='string', id=None), 'text': Value(dtype='string', id=None)}
because column names don't match
"""
ASSERTED = """Indexing.cu:1553: indexSelectLargeIndex: block: [31,0,0], thread: [64,0,0] Assertion \
`srcIndex < srcSelectDimSize` failed.
RuntimeError: CUDA error: device-side assert triggered
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
        (LIGHTNING, "device-number-too-high", "as many processes per node"),
        (WORKER, "numpy-of-other-build", "numpy<2"),
        (LOST, "xid-hardware", "drain the node"),
        (CAST, "table-refused", "data_files="),
        (ASSERTED, "device-side-assert", "resize_token_embeddings"),
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


def test_of_equal_exceptions_the_first_is_named_unless_the_training_went_on(tmp_path: Path) -> None:
    line = "ERROR: ConnectionError: shard {} could not be fetched\n"
    _, report = judged(tmp_path, "start\n" + "".join(line.format(n) for n in range(9)))
    assert "train.log:2" in report
    finding, _ = judged(tmp_path, line.format(1) + STEPS)
    assert finding.status is not Status.FAIL


def test_lines_of_something_else_are_no_part_of_the_message_above(tmp_path: Path) -> None:
    error = "ValueError: 3 shards are absent"
    after = "[rank1]: RuntimeError: CUDA error: out of memory\nINFO Numpy is not available\n"
    finding, _ = judged(tmp_path, f"[rank0]: {error}\n{after}")
    assert "numpy-of-other-build" not in finding.verdict.causes
