"""Children that hang, die, lie, flood and leave others behind."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shims import wait_until

from doctor.collect import child as child_module
from doctor.collect.child import LINE, TAIL, Child
from doctor.collect.child_messages import Answer

START = """
import json, os, signal, subprocess, sys, time
FD = int(sys.argv[1])
def tell(**message):
    os.write(FD, json.dumps(message).encode() + b"\\n")
def hang():
    open(__file__ + ".hangs", "w").close()
    time.sleep(600)
"""
HANG_SECONDS = 0.5
"""The deadline of a child that already hangs."""

Begin = Callable[[str], Child]

pytestmark = [
    pytest.mark.slow,  # starts processes
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Start a child from source text; all are ended with the test."""
    children: list[Child] = []

    def start(source: str) -> Child:
        script = tmp_path / f"probe{len(children)}.py"
        script.write_text(START + textwrap.dedent(source))
        children.append(Child([sys.executable, str(script)]))
        return children[-1]

    yield start
    for child in children:
        child.kill()


def wait_until_hanging(child: Child) -> None:
    """Wait until the child is in `hang` or stopped."""
    script = child._process.args[1]  # type: ignore[index]
    wait_until(Path(f"{script}.hangs").exists)


def gone(pid: int) -> bool:
    """Whether the process has ended; a zombie has."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def how(answer: Answer) -> tuple[str, str]:
    return answer.ended.how, answer.ended.detail


def timed_out_inside(answer: Answer, stage: str) -> bool:
    return answer.ended.how == "timeout" and answer.ended.detail.endswith(f" inside {stage}")


def test_answer_with_its_notes_and_stages(begin: Begin) -> None:
    entered: list[str] = []
    answer = begin(
        """
        for _ in range(2):
            tell(enter="load"); tell(left="load", seconds=0.5)
        tell(note={"gpu": 0})
        tell(answer={"x": 1})
        """
    ).wait(100, entered.append)
    assert answer.ended.ok
    assert answer.answer == {"x": 1}
    assert answer.notes == ({"gpu": 0},)
    assert [(name, ended.how, ended.seconds) for name, ended in answer.stages] == [
        ("load", "ok", 1.0)
    ]
    assert entered == ["load", "load"]


def test_requests_are_answered_in_turn(begin: Begin) -> None:
    child = begin(
        """
        for line in sys.stdin:
            tell(answer={"got": json.loads(line)["n"]})
        """
    )
    for number in range(3):
        child.send({"n": number})
        assert child.wait(100).answer == {"got": number}
    assert child.alive
    child.close_stdin()
    assert how(child.wait(100)) == ("error", "exit status 0 and no message")


def test_error_keeps_the_code_and_names_the_stage(begin: Begin) -> None:
    answer = begin('tell(enter="nvmlInit"); tell(error="no driver", code=9)').wait(100)
    assert how(answer) == ("error", "no driver")
    assert answer.ended.code == 9
    assert [(name, ended.how) for name, ended in answer.stages] == [("nvmlInit", "error")]


def test_hang_names_the_call_and_ends_the_child(begin: Begin) -> None:
    child = begin('tell(note={"kept": 1}); tell(enter="cuInit"); hang()')
    wait_until_hanging(child)
    answer = child.wait(HANG_SECONDS)
    assert timed_out_inside(answer, "cuInit")
    assert answer.notes == ({"kept": 1},)
    assert answer.stages[-1][0] == "cuInit"
    assert not child.alive


def test_what_came_while_the_doctor_was_stopped_counts(begin: Begin) -> None:
    """As after Ctrl-Z and fg, or on a machine that was suspended."""
    child = begin("tell(enter='cuInit'); tell(left='cuInit'); tell(answer={}); hang()")
    wait_until_hanging(child)
    assert child.wait(0.0).ended.ok
    assert child.wait(0.0).ended.how == "timeout"


def test_notes_that_are_passed_on_restart_the_deadline_and_are_not_kept(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes a minute, on a clock that the test sets."""
    now, notes = [time.monotonic()], []

    def note(record: object) -> None:
        notes.append(record)
        now[0] += 60.0

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    answer = begin(
        """
        for number in range(5):
            tell(note={"done": number})
        tell(answer={})
        """
    ).wait(100.0, on_note=note)
    assert answer.ended.ok, answer
    assert answer.ended.seconds == pytest.approx(300.0)
    assert answer.notes == ()
    assert notes == [{"done": number} for number in range(5)]


def test_a_child_that_sends_no_more_notes_runs_out_of_time(begin: Begin) -> None:
    child = begin('tell(enter="read"); tell(note={"done": 1}); hang()')
    wait_until_hanging(child)
    answer = child.wait(HANG_SECONDS, on_note=lambda note: None)
    assert timed_out_inside(answer, "read")
    assert not child.alive


def test_hang_before_any_call_names_none(begin: Begin) -> None:
    answer = begin("hang()").wait(HANG_SECONDS)
    assert answer.ended.how == "timeout"
    assert " inside " not in answer.ended.detail


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGABRT"])
def test_signal_is_named_and_is_no_error_code(begin: Begin, name: str) -> None:
    answer = begin(f'tell(enter="load"); os.kill(os.getpid(), signal.{name})').wait(100)
    assert how(answer) == ("signal", f"{name} inside load")
    assert answer.ended.code is None


def test_stopped_child_is_ended(begin: Begin) -> None:
    child = begin(
        """
        tell(enter="load")
        open(__file__ + ".hangs", "w").close()
        os.kill(os.getpid(), signal.SIGSTOP)
        """
    )
    wait_until_hanging(child)
    assert timed_out_inside(child.wait(HANG_SECONDS), "load")
    assert not child.alive


def test_exit_status_is_no_error_code_of_a_library(begin: Begin) -> None:
    answer = begin('raise OSError("libfoo.so.1 is missing")').wait(100)
    assert how(answer) == ("error", "OSError: libfoo.so.1 is missing")
    assert answer.ended.code is None


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[1, 2]",
        "null",
        "[" * 100_000,
        '{"enter": 5}',
        '{"note": "text"}',
        '{"answer": [1]}',
        '{"left": "a", "seconds": "soon"}',
        '{"error": "x", "code": "nine"}',
        "\xff\xfe\x00",
    ],
)
def test_garbage_is_an_error_and_no_crash(begin: Begin, line: str) -> None:
    answer = begin(f"os.write(FD, {line.encode('latin-1')!r} + b'\\n'); hang()").wait(100)
    assert how(answer) == ("error", "the probe wrote an invalid message")


def test_lone_surrogates_do_not_reach_the_facts(begin: Begin) -> None:
    answer = begin(
        r"""
        tell(note={"path": "caf\udce9 \U0001f600"})
        tell(error="cannot open caf\udce9")
        """
    ).wait(100)
    assert answer.ended.detail == "cannot open caf?"
    assert answer.notes == ({"path": "caf? \U0001f600"},)


def test_half_a_line_before_death_is_dropped(begin: Begin) -> None:
    child = begin("os.write(FD, b'{\"answer\": {'); os.kill(os.getpid(), signal.SIGKILL)")
    answer = child.wait(100)
    assert how(answer) == ("signal", "SIGKILL")
    assert answer.answer is None


def test_line_without_an_end_is_cut_off(begin: Begin) -> None:
    child = begin("while True: os.write(FD, b'x' * 65536)")
    assert how(child.wait(100)) == ("error", "the probe wrote a line that is too long")
    assert len(child._partial) <= LINE + (1 << 16)


def test_notes_without_an_end_are_cut_off(begin: Begin) -> None:
    child = begin("line = b'{\"note\": {}}\\n' * 1000\nwhile True: os.write(FD, line)")
    assert how(child.wait(100)) == ("error", "the probe wrote too many notes")


def test_long_answer_arrives_whole(begin: Begin) -> None:
    answer = begin('tell(answer={"text": "y" * 5_000_000})').wait(100)
    assert answer.answer == {"text": "y" * 5_000_000}


def test_gigabyte_of_noise_keeps_only_its_tail(begin: Begin) -> None:
    child = begin(
        """
        block = b"noise " * 20_000
        for _ in range(1024**3 // len(block)):
            os.write(1, block)
        os.write(2, b"the last line\\n")
        tell(answer={})
        """
    )
    assert child.wait(100).ended.ok
    assert len(child.output) <= TAIL


def test_deadline_holds_against_endless_noise(begin: Begin) -> None:
    child = begin("while True: os.write(1, b'noise\\n' * 1000)")
    assert child.wait(HANG_SECONDS).ended.how == "timeout"


def test_deadline_holds_against_endless_stages(begin: Begin) -> None:
    child = begin("while True: tell(enter='a'); tell(left='a', seconds=0)")
    assert child.wait(HANG_SECONDS).ended.how == "timeout"


def test_sigterm_ignored_makes_no_difference(begin: Begin) -> None:
    child = begin(
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        tell(answer={"pid": os.getpid()})
        hang()
        """
    )
    answer = child.wait(100)
    child.kill()
    assert answer.answer
    pid = answer.answer["pid"]
    wait_until(lambda: gone(pid))


def test_grandchildren_are_killed_with_the_group(begin: Begin) -> None:
    child = begin(
        """
        left = subprocess.Popen(["sleep", "600"])
        tell(answer={"pid": left.pid})
        hang()
        """
    )
    answer = child.wait(100)
    assert answer.answer
    pid = answer.answer["pid"]
    assert not gone(pid)
    child.kill()
    wait_until(lambda: gone(pid))


def test_grandchild_that_holds_the_pipes_does_not_hide_a_crash(begin: Begin) -> None:
    """It keeps both pipes open and goes on printing, so that neither ever ends."""
    child = begin(
        """
        if os.fork() == 0:
            while True:
                os.write(1, b"still here\\n" * 1000)
        tell(enter="load")
        os.kill(os.getpid(), signal.SIGSEGV)
        """
    )
    assert how(child.wait(100)) == ("signal", "SIGSEGV inside load")


def test_grandchild_in_another_session_does_not_hold_up_the_end(begin: Begin) -> None:
    child = begin(
        """
        if (pid := os.fork()) == 0:
            os.setsid()
            while True:
                os.write(1, b"still here\\n" * 1000)
        tell(note={"pid": pid})
        sys.exit(3)
        """
    )
    answer = child.wait(100)
    try:
        assert answer.ended.how == "error"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(answer.notes[0]["pid"], signal.SIGKILL)


def test_closed_pipe_of_a_child_that_keeps_running_is_an_error(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "EXIT_SECONDS", 0.1)
    child = begin("os.close(FD); hang()")
    assert how(child.wait(100)) == ("error", "the probe closed its pipe but kept running")
    assert not child.alive


def test_ended_child_can_get_requests_and_be_ended_again(begin: Begin) -> None:
    child = begin("hang()")
    child.kill()
    reading, writing = os.pipe()  # takes the descriptors that the child had
    try:
        child.kill()
        child.send({"n": 1})
        child.close_stdin()
        assert how(child.wait(1)) == ("error", "the probe ended before the request")
        os.write(writing, b"x")
        assert os.read(reading, 1) == b"x"
    finally:
        os.close(reading)
        os.close(writing)


def test_send_to_the_dead_is_found_by_wait(begin: Begin) -> None:
    child = begin("os.kill(os.getpid(), signal.SIGKILL)")
    wait_until(lambda: not child.alive)
    child.send({"n": 1})
    child.send({"n": 2})
    assert how(child.wait(100)) == ("signal", "SIGKILL")


def descriptors() -> int:
    """How many are open, without those of garbage that earlier tests left."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_program_that_is_not_there_leaves_no_descriptor(tmp_path: Path) -> None:
    before = descriptors()
    with pytest.raises(OSError, match="absent"):
        Child([str(tmp_path / "absent"), "probe.py"])
    assert descriptors() <= before


def test_descriptors_do_not_leak(tmp_path: Path) -> None:
    script = tmp_path / "probe.sh"
    script.write_text('printf \'{"answer": {}}\\n\' >&"$1"\n')
    before = descriptors()
    for _ in range(200):
        child = Child(["/bin/bash", str(script)])
        assert child.wait(100).ended.ok
        child.kill()
    assert descriptors() <= before
