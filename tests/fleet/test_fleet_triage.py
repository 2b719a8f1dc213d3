"""Logs of several nodes: one report, the same as that of one machine on the same files."""

from __future__ import annotations

import os
import re
from pathlib import Path

import command
import nodes
import pytest

from doctor.facts.fleet import Clock
from doctor.facts.log import LogEvent, LogFile
from doctor.fleet.logs import Listed, corrections, deal, local, on_first_clock
from doctor.log.read import FileResult

ERROR = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"


def file(path: str, size: int, inode: int = 1) -> Listed:
    return Listed(path=path, inode=inode, size=size, head="h")


def test_each_shared_file_is_read_once_and_local_ones_where_they_are() -> None:
    shared = [file(f"/shared/{number}", 100 - number) for number in range(6)]
    dealt = deal({0: shared, 1: [*shared, file("/local", 1000)], 2: shared})
    paths = [each.path for files in dealt.values() for each in files]
    assert sorted(paths) == sorted({*paths})
    assert len(paths) == 7
    assert [each.path for each in dealt[1]] == ["/local"]
    assert len(dealt[0]) == len(dealt[2]) == 3


def test_files_of_one_name_on_two_nodes_are_two_files() -> None:
    dealt = deal({0: [file("/tmp/log", 5, inode=1)], 1: [file("/tmp/log", 5, inode=2)]})
    assert [len(files) for files in dealt.values()] == [1, 1]


def test_a_clock_counts_where_it_is_off_by_more_than_its_error() -> None:
    clocks = {1: Clock(offset=-2.0, error=0.1), 2: Clock(offset=0.01, error=0.02)}
    assert list(corrections(clocks)) == [1]


def test_times_of_a_node_whose_clock_is_ahead_are_earlier() -> None:
    event = LogEvent("out-of-memory", "/local", 3, time=100.0, last_time=101.0)
    result = FileResult(LogFile(path="/local", kind="text"), events=(event, LogEvent("x", "/l", 4)))
    first, second = on_first_clock(result, 2.0).events
    assert (first.time, first.last_time, second.time) == (98.0, 99.0, None)


def test_files_that_one_node_alone_sees_are_its_own() -> None:
    shared, own = file("/shared", 5), file("/local", 5)
    assert local({0: [shared, file("/first", 1)], 1: [shared, own], 2: [shared]}) == {
        1: {own.identity}
    }


def logs(directory: Path) -> Path:
    directory.mkdir()
    for rank in range(4):
        steps = [f"step {step} loss {2.0 / step:.4f}\n" for step in range(1, 200)]
        lines = [*steps, "Traceback (most recent call last):\n", f"{ERROR}\n"] * (
            rank == 2
        ) or steps
        (directory / f"rank{rank}.log").write_text("".join(lines))
    return directory


def without_times(text: str) -> list[str]:
    """The report without the lines that say when and by which command."""
    lines = re.sub(r"\d+\.\d+ s\b", "", text).splitlines()
    return [line for line in lines if " UTC" not in line and "  command " not in line]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_report_is_that_of_one_machine(count: int, tmp_path: Path) -> None:
    directory = logs(tmp_path / "logs")
    flags = ("--format", "plain", "--no-config")
    alone = command.doctor("triage", directory, *flags)
    assert alone.returncode == 1
    assert "rank2.log" in alone.stdout
    fleet = nodes.Nodes(
        count,
        flags=(str(directory), *flags),
        command=(*nodes.DOCTOR, "fleet", "triage"),
        secret="0123456789abcdef",
    )
    try:
        codes = fleet.run()
        assert codes == {0: 1, **dict.fromkeys(range(1, count), 0)}, fleet.nodes[0].stderr
        assert without_times(fleet.nodes[0].stdout) == without_times(alone.stdout)
    finally:
        fleet.end()


@pytest.mark.slow
def test_a_local_log_is_read_on_its_node_and_one_without_is_named(tmp_path: Path) -> None:
    directory, local = logs(tmp_path / "logs"), tmp_path / "local.log"
    local.write_text("NCCL WARN Cuda failure 'invalid device ordinal'\n" + ERROR + "\n")
    fleet = nodes.Nodes(3, flags=("--format", "plain"), command=(*nodes.DOCTOR, "fleet", "triage"))
    try:
        fleet.start(0, str(directory))
        fleet.start(1, str(directory), str(local))
        fleet.start(2, str(tmp_path / "absent"))
        fleet.codes()
        report = fleet.nodes[0].stdout
        assert f"n1:{local}" in report
        assert "n2:" in report
        assert "No such file" in report
    finally:
        fleet.end()


SKEW = """
import time
now = time.time
time.time = lambda: now() + 60.0
"""


@pytest.mark.slow
def test_the_first_cause_is_that_of_the_measured_clocks(tmp_path: Path) -> None:
    """n1 writes 10:00:30 with a clock that is a minute ahead: its failure is the first one.

    What it sends is without its token.
    """
    code = tmp_path / "code"
    code.mkdir()
    (code / "sitecustomize.py").write_text(SKEW)
    early, late = tmp_path / "early.log", tmp_path / "late.log"
    late.write_text(f"[rank0] 2026-10-02 10:00:10,000 ERROR {ERROR}\n")
    hidden = "hf_" + "a1B2" * 9
    early.write_text(f"[rank1] 2026-10-02 10:00:30,000 ERROR {ERROR} token={hidden}\n")
    fleet = nodes.Nodes(2, flags=("--format", "plain"), command=(*nodes.DOCTOR, "fleet", "triage"))
    path = os.pathsep.join([str(code), os.environ.get("PYTHONPATH", "")])
    try:
        fleet.start(0, str(late))
        fleet.start(1, str(early), env={"PYTHONPATH": path})
        fleet.codes()
        report = fleet.nodes[0].stdout
        assert re.search(r"logs of n1 alone are those of node 0: its clock is (59|60|61)\.", report)
        assert re.search(r"09:59:(29|30|31)", report), report
        assert hidden not in report
    finally:
        fleet.end()
