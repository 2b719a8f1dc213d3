"""Records that lie, end early or are huge: a clear answer, never a traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor._util.records import Unknown
from doctor.collect.guard_records import read_records
from doctor.facts.guard import Guarded

META = {"kind": "meta", "rank": 0, "world": 1, "pid": 5, "started": 100, "torch": "2.13"}
STEP = {"kind": "step", "o": 0, "s": 1, "t": 0.1, "loss": 2.0, "norm": "nan"}
ALARM = {"kind": "alarm", "code": "GRD001", "status": "fail", "step": 3, "text": "nan"}


def write(folder: Path, *lines: dict[str, Any] | str, rank: int = 0, pid: int = 5) -> None:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / f"rank{rank}-{pid}.jsonl").write_text("\n".join(texts), "utf-8")


def read(folder: Path) -> Guarded:
    guarded = read_records(folder)
    assert isinstance(guarded, Guarded)
    return guarded


def test_a_process_that_was_killed_has_no_end_and_half_a_line(tmp_path: Path) -> None:
    write(tmp_path, META, STEP, {**STEP, "s": 2}, '{"kind": "step", "s": 3, "lo')
    (process,) = read(tmp_path).processes
    assert (process.counts.steps, process.ended, process.unreadable) == (2, "", 1)


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "step", "s": "x"}',
        '{"kind": "step", "s": 1, "loss": "<script>"}',
        '{"kind": "alarm", "code": "XXX001", "status": "fail", "step": 1, "text": ""}',
        '{"kind": "alarm", "code": "GRD001", "status": "pass", "step": 1, "text": ""}',
        json.dumps({**ALARM, "text": "x" * 5000}),
        '{"kind": "other"}',
        "[" * 10_000,
        "\x00\xff",
        "null",
    ],
)
def test_a_line_that_is_no_record_is_counted(line: str, tmp_path: Path) -> None:
    write(tmp_path, META, STEP, line)
    (process,) = read(tmp_path).processes
    assert process.unreadable == 1
    assert process.alarms == ()


def test_the_error_that_ended_a_process_is_read_without_its_secrets(tmp_path: Path) -> None:
    token = "hf_" + "a1B2" * 9
    end = {"kind": "end", "how": "exit", "error": "OSError", "message": f"401 for {token}"}
    write(tmp_path, META, STEP, {**end, "moment": 3})
    write(tmp_path, {**META, "rank": 1}, STEP, {"kind": "end", "how": "exit"}, rank=1, pid=6)
    first, second = read(tmp_path).processes
    assert first.error
    assert (first.error.error, first.error.moment) == ("OSError", 3)
    assert token not in first.error.message
    assert "401 for" in first.error.message
    assert second.error is None


@given(st.binary(max_size=200))
def test_any_bytes_are_survived(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    write(folder, META, STEP)
    path = folder / "rank0-5.jsonl"
    path.write_bytes(path.read_bytes() + b"\n" + data)
    assert read(folder).steps == 1


def test_alarms_grow_and_the_first_text_stays(tmp_path: Path) -> None:
    write(tmp_path, META, ALARM, {**ALARM, "step": 9, "count": 4, "text": "later"})
    (process,) = read(tmp_path).processes
    (alarm,) = process.alarms
    assert (alarm.step, alarm.last_step, alarm.count, alarm.text) == (3, 9, 4, "nan")


def test_the_latest_process_of_a_rank_counts(tmp_path: Path) -> None:
    write(tmp_path, META, ALARM)
    write(tmp_path, {**META, "started": 200, "pid": 6}, STEP, pid=6)
    guarded = read(tmp_path)
    assert [process.pid for process in guarded.processes] == [6]
    assert guarded.restarts == 1


def test_ranks_of_an_earlier_larger_run_do_not_count(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path, {**META, "rank": rank, "world": 3}, ALARM, rank=rank)
    write(tmp_path, {**META, "started": 300, "pid": 9}, STEP, pid=9)
    assert [process.pid for process in read(tmp_path).processes] == [9]


@pytest.mark.parametrize("kind", ["fifo", "directory", "empty", "unreadable"])
def test_a_file_that_is_none_is_no_process(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "rank0-5.jsonl"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.write_text("")
        path.chmod(0o000 if kind == "unreadable" else 0o600)
    guarded = read_records(tmp_path)
    assert isinstance(guarded, Unknown)
    assert "no training step was observed" in guarded.reason


def test_backward_passes_without_a_step_are_said(tmp_path: Path) -> None:
    write(tmp_path, META, {"kind": "state", "backwards": 40})
    guarded = read_records(tmp_path)
    assert isinstance(guarded, Unknown)
    assert "40 backward passes" in guarded.reason


def test_of_processes_that_never_trained_the_first_error_stays(tmp_path: Path) -> None:
    def ends(moment: int) -> dict[str, Any]:
        return {
            "kind": "end",
            "how": "exit",
            "error": "E",
            "message": f"{moment}",
            "moment": moment,
        }

    write(tmp_path, {**META, "world": 2, "rank": 1, "started": 101}, ends(7), rank=1, pid=6)
    write(tmp_path, {**META, "pid": 9, "started": 102}, ends(8), pid=9)  # a launcher's, later
    (tmp_path / "run.json").write_text('{"exit_code": 1}', "utf-8")
    error = read(tmp_path).error
    assert error is not None
    assert error.message == "7"
    write(tmp_path, META, STEP)
    assert [process.pid for process in read(tmp_path).processes] == [5]
