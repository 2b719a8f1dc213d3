"""Logs that grow while they are read."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from doctor.checks.log.patterns import line_patterns
from doctor.facts.log import Log
from doctor.log import follow as following
from doctor.log.follow import follow

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


class Writer:
    """Writes the next part whenever the one before was read."""

    def __init__(self, *parts: Callable[[], None]) -> None:
        self.parts = list(parts)
        self.logs: list[Log] = []

    def report(self, log: Log) -> None:
        self.logs.append(log)
        if self.parts:
            self.parts.pop(0)()

    def is_over(self) -> bool:
        return not self.parts and len(self.logs) > 0 and self.logs[-1].events != ()


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PAUSE", 0.001)


def append(path: Path, text: str) -> Callable[[], None]:
    def write() -> None:
        with path.open("a") as file:
            file.write(text)

    return write


def test_a_file_that_grows_is_read_once_and_a_line_that_is_written_in_parts_whole(
    tmp_path: Path,
) -> None:
    path = tmp_path / "train.log"
    append(path, "step 1 loss: 2.0\n")()
    writer = Writer(append(path, OOM[:30]), append(path, OOM[30:]))
    log = follow([str(path)], line_patterns(), writer.report, writer.is_over)
    assert [(event.name, event.line, event.count) for event in log.events] == [("cuda-oom", 2, 1)]
    assert log.curves[0].values == (2.0,)


def test_a_rotated_file_is_read_to_its_end_and_then_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    append(path, "step 1 loss: 2.0\n")()

    def rotate() -> None:
        append(path, "step 2 loss: 1.9\n")()
        path.rename(tmp_path / "train.log.1")
        append(path, "step 3 loss: 1.8\n" + OOM)()

    writer = Writer(rotate)
    log = follow([str(path)], line_patterns(), writer.report, writer.is_over)
    assert log.curves[0].values == (2.0, 1.9, 1.8)
    assert [event.name for event in log.events] == ["cuda-oom"]


def test_a_file_that_is_cut_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    append(path, "step 1 loss: 2.0\n" * 30)()
    writer = Writer(lambda: path.write_text(OOM) and None)
    log = follow([str(path)], line_patterns(), writer.report, writer.is_over)
    assert [event.name for event in log.events] == ["cuda-oom"]


def test_a_rank_that_begins_later_is_read_too(tmp_path: Path) -> None:
    append(tmp_path / "rank_0.log", "step 1 loss: 2.0\n")()
    writer = Writer(append(tmp_path / "rank_1.log", OOM))
    pattern = str(tmp_path / "rank_*.log")
    log = follow([pattern], line_patterns(), writer.report, writer.is_over)
    assert [event.rank for event in log.events] == [1]


@pytest.mark.slow
def test_it_ends_with_the_process_that_writes(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    code = "import sys\nwith open(sys.argv[1], 'w', buffering=1) as file:\n"
    code += " file.write('step 1 loss: 2\\n')\n for line in sys.stdin: file.write(line)\n"
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as child:
        stdin = child.stdin
        assert stdin is not None

        def report(log: Log) -> None:
            if not log.events:
                stdin.write(OOM)
                stdin.flush()
            else:
                stdin.close()

        log = follow([str(path)], line_patterns(), report)
    assert [event.name for event in log.events] == ["cuda-oom"]


@pytest.mark.slow
def test_ctrl_c_ends_it_with_the_report(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    append(path, "step 1 loss: 2.0\n" + OOM)()
    with path.open("a"):  # this process writes to it, so the job is not over
        command = [sys.executable, "-m", "doctor", "triage", "--follow", str(path)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, text=True, **pipes) as child:
            assert child.stderr is not None
            announced = child.stderr.readline()
            child.send_signal(signal.SIGINT)
            out, _ = child.communicate()
    assert "LOG002" in announced
    assert "FAIL LOG002 cuda-oom" in out
    assert child.returncode == 130
