"""What is read from a child's output, and how long a child that computes may take."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from shims import wait_until

from doctor.collect import child as child_process
from doctor.collect import extra_time
from doctor.collect.child import Child
from doctor.collect.child_output import in_torch, last_lines, python_stack

HANG = """a line
Timeout (0:00:05)!
Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
Thread 0x00007f0000000002 (most recent call first):
  File "/usr/lib/python3.11/queue.py", line 171 in get
  File "/home/me/train.py", line 14 in loss
  File "/x/doctor/probes/training_side/stages/own_stages.py", line 40 in own
  File "/x/doctor/probes/launch.py", line 48 in run
"""
CRASH = """about to die
Fatal Python error: Segmentation fault

Current thread 0x00007f0000000002 (most recent call first):
  File "/v/lib/python3.11/site-packages/torch/nn/functional.py", line 9 in linear
  File "/home/me/net.py", line 3 in forward

Extension modules: numpy (total: 1)
"""


def test_the_stack_of_the_main_thread_names_the_users_line_first() -> None:
    assert python_stack(HANG) == ("train.py, line 14, in loss", "queue.py, line 171, in get")
    assert python_stack(HANG + CRASH)[0] == "net.py, line 3, in forward"
    assert python_stack("nothing of that kind") == ()
    assert (in_torch(CRASH), in_torch(HANG), in_torch("")) == (True, False, False)


def test_the_last_lines_are_without_stacks_and_secrets() -> None:
    environment = {"HF_TOKEN": "hf_secret_value", "HOME": "/home/me", "API_KEY": "short"}
    text = "old\n" + "\n".join(f"line {n} hf_secret_value" for n in range(20)) + "\n" + HANG
    lines = last_lines(text, environment, since="old\n")
    assert lines[-2:] == ("line 19 [redacted]", "a line")
    assert len(lines) == 12
    assert last_lines("", environment) == ()


PROBE = """
import sys, time
open(__file__ + ".ready", "w").close()
if sys.argv[2] == "computes":
    while True: sum(range(1000))
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("does", "extra_seconds", "busy"), [("waits", 60.0, False), ("computes", 1.0, True)]
)
@pytest.mark.slow
def test_a_child_that_computes_gets_more_time(
    does: str, extra_seconds: float, busy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if extra_time._cpu_seconds(0) is None:
        pytest.skip("this system does not report the CPU time of processes")
    monkeypatch.setattr(extra_time, "BUSY_INTERVAL", 1.0)
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE, "utf-8")
    child = Child([sys.executable, str(probe), does])
    try:
        wait_until(Path(f"{probe}.ready").exists)
        answer = child.wait(0.5, extra_seconds=extra_seconds)
    finally:
        child.kill()
    assert (answer.ended.how, answer.busy) == ("timeout", busy)
    assert (answer.ended.seconds >= 0.5 + extra_seconds) == busy
    assert child_process.Answer(answer.ended).busy is None


def test_a_thread_that_waits_for_a_processor_computes() -> None:
    before = extra_time.Load(0.0, {"a": 1.0, "b": 1.0})
    starved = extra_time.Load(0.1, {"a": 2.9, "b": 1.0})
    asleep = extra_time.Load(0.1, {"a": 1.1, "b": 1.1})
    assert extra_time.computes(before, starved, 2.0) is True
    assert extra_time.computes(before, asleep, 2.0) is False
    assert extra_time.computes(before, extra_time.Load(None, {}), 2.0) is None
    assert extra_time.computes(extra_time.Load(0.0, {}), extra_time.Load(2.0, {}), 2.0) is True
