"""What the parent does while a training runs: a command for alarms, stalls and their place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command import doctor

from doctor.cli.alarm_command import AlarmCommand
from doctor.collect.guard_stalls import LEAST_SECONDS, UNKNOWN_SECONDS, Stalls, where_is

pytestmark = pytest.mark.slow

TRAINING = """
import math, os, sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

def waits_for_a_file(path):
    while not os.path.exists(path):
        time.sleep(0.05)

for step in range(1, 31):
    loss = model(torch.randn(8, 4)).pow(2).mean() * (math.nan if sys.argv[1] == str(step) else 1)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if sys.argv[2] == str(step):
        waits_for_a_file("goes-on")
"""


def guard(tmp_path: Path, *options: str, nan: int = 0, wait: int = 0, **kw: Any) -> Any:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    command = [*options, "--", sys.executable, str(script), str(nan), str(wait)]
    return doctor("guard", *command, cwd=tmp_path, **kw)


def told(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]


def test_a_command_gets_each_finding_once_as_json(tmp_path: Path) -> None:
    # commands of several alarms run at the same time: each writes a file of its own
    ended = guard(tmp_path, "--on-alarm", "cat > finding.$$; echo out", nan=9)
    assert ended.returncode == 1
    assert ended.stdout == ""
    findings = [json.loads(path.read_text()) for path in tmp_path.glob("finding.*")]
    codes = [finding["code"] for finding in findings]
    assert sorted(set(codes)) == sorted(codes)
    assert {"GRD001", "GRD002"} <= set(codes)
    (loss,) = (finding for finding in findings if finding["code"] == "GRD001")
    assert loss["status"] == "fail"
    assert loss["summary"]
    assert loss["fix"]


def test_without_an_alarm_no_command_runs(tmp_path: Path) -> None:
    assert guard(tmp_path, "--on-alarm", "touch told").returncode == 0
    assert not (tmp_path / "told").exists()


def test_a_command_that_fails_is_one_line_and_changes_nothing(tmp_path: Path) -> None:
    ended = guard(tmp_path, "--on-alarm", "exit 7", "-q", nan=9)
    assert ended.returncode == 1
    assert "--on-alarm ended with 7" in ended.stderr


def test_a_command_that_hangs_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doctor.cli.alarm_command.END_SECONDS", 0.5)
    command = AlarmCommand(f"sleep 1000 & echo $! > {tmp_path}/pid; wait", os.environ)
    command.run("{}")
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    command.end()
    status = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/status")
    deadline = time.monotonic() + 30
    while status.exists() and "zombie" not in status.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not status.exists() or "zombie" in status.read_text()


def test_a_stall_is_told_with_the_place_and_ends_when_steps_go_on(tmp_path: Path) -> None:
    on_alarm = "tee -a told | grep -q waits_for_a_file && touch goes-on"
    options = ("--stall", "1s", "--on-alarm", on_alarm)
    ended = guard(tmp_path, *options, wait=20)
    assert ended.returncode == 0
    assert "waits_for_a_file (train.py:9)" in ended.stderr
    assert "note GRD023" in ended.stderr
    assert {line["code"] for line in told(tmp_path)} == {"GRD023"}
    (stacks,) = (tmp_path / "doctor-guard").glob("stacks*.txt")
    assert "train.py" in stacks.read_text()


def test_no_stacks_are_left_where_nothing_stalled(tmp_path: Path) -> None:
    assert guard(tmp_path).returncode == 0
    assert not list((tmp_path / "doctor-guard").glob("stacks*"))


def test_a_process_without_a_handler_is_not_asked(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert where_is(child.pid, tmp_path / "none") == ""
        assert child.poll() is None
        child.send_signal(signal.SIGKILL)


def test_a_process_that_is_gone_does_not_stall(tmp_path: Path) -> None:
    records = tmp_path / "rank0-1.jsonl"
    records.write_text("x")
    stalls = Stalls(tmp_path, 1.0, lambda pid: False)
    assert not stalls.look({records.name: (0, 2**22)}, 0.0)
    assert not stalls.look({records.name: (0, 2**22)}, 10.0)
    assert not stalls.found


def test_what_is_a_stall_depends_on_what_is_usual(tmp_path: Path) -> None:
    records = tmp_path / "rank0-1.jsonl"
    records.write_text("x")
    stalls, files, now = Stalls(tmp_path, None), {records.name: (0, 2**22)}, 0.0
    assert not stalls.look(files, now)
    assert not stalls.look(files, now + UNKNOWN_SECONDS - 1)
    for _ in range(6):
        now += 60.0
        records.write_text(records.read_text() + "x")
        assert not stalls.look(files, now)
    assert not stalls.look(files, now + 600 - 1)  # ten times the usual, more than the least
    assert LEAST_SECONDS < 600
    assert stalls.look(files, now + 600) == [records.name]
    assert not stalls.look(files, now + 700)
    stalls.end(now + 800)
    assert not stalls.found[records.name].resumed
    assert stalls.found[records.name].seconds == 800
