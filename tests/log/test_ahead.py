"""Logs that are scanned in other processes: the same result, and no process left."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from log_corpus import rows, text_of

from doctor.checks.log.patterns import line_patterns
from doctor.facts.log import Log
from doctor.log import ahead, scan
from doctor.log.ahead import Ahead, Part, parts_of
from doctor.log.patterns import Gate
from doctor.log.read import read_logs
from doctor.log.scan import Scanner
from doctor.log.scan_process import ScanProcess

SCANNER = Scanner(Gate(line_patterns()))


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PART", 1 << 15)
    monkeypatch.setattr(ahead, "WORTHWHILE", 0)
    monkeypatch.setattr(scan, "SMALL", 1)
    monkeypatch.setattr(scan, "SMALLEST", 1)


def write(path: Path, seed: int = 0) -> str:
    """A log of several parts: metrics, bars, and excerpts of real failures between them."""
    chance = random.Random(seed)
    excerpts = [text_of(row) for row in rows()]
    with path.open("w", newline="") as file:
        for step in range(3000):
            file.write(f"\r {step % 100}%|   | {step}/3000 [00:01<00:02]")
            file.write(f"\n{{'loss': {chance.random():.4f}, 'grad_norm': 1.5, 'step': {step}}}\n")
            if step % 100 == 7:
                file.write(chance.choice(excerpts))
            if step == 1500:
                file.write("{'loss': 0.0, 'grad_norm': nan}\n")
    return str(path)


def processes_of(log: Log) -> set[str]:
    """The children of this process that still run."""
    assert log.files
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.slow
def test_the_log_is_the_same_with_two_processes(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"rank_{rank}.log", rank) for rank in range(3)]
    assert all(len(parts_of(path)) > 3 for path in paths)
    (tmp_path / "small.log").write_text("step 1 loss 2.0\n")
    paths.append(str(tmp_path / "small.log"))
    before = processes_of(alone := read_logs(paths, line_patterns(), processes=1))
    assert alone.events
    assert read_logs(paths, line_patterns(), processes=3) == alone
    assert processes_of(alone) <= before


@pytest.mark.slow
def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    """Its parts once counted twice, and the reader waited for rows that nobody was to send."""
    path = write(tmp_path / "train.log")
    assert read_logs([path, path], line_patterns(), processes=2) == read_logs(
        [path], line_patterns(), processes=2
    )


@pytest.mark.slow
def test_a_process_that_dies_costs_time_and_nothing_else(tmp_path: Path) -> None:
    parts = parts_of(write(tmp_path / "train.log"))
    scanning = Ahead(parts, SCANNER, 1)
    process = scanning._processes[0]
    for number, part in enumerate(parts):
        block, scanned = scanning.read(part)
        assert scanned == SCANNER.rows(block)
        if number == 0:
            process._process.kill()
    scanning.close()
    assert process._process.returncode is not None


@pytest.mark.slow
def test_no_process_is_left_after_ctrl_c(tmp_path: Path) -> None:
    path = write(tmp_path / "train.log")
    before = processes_of(alone := read_logs([path], line_patterns(), processes=1))

    def interrupt(activity: str) -> None:
        assert processes_of(alone) > before
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_logs([path], line_patterns(), interrupt, processes=2)
    assert processes_of(alone) <= before


@pytest.mark.slow
def test_a_process_ends_with_the_one_that_started_it() -> None:
    process = ScanProcess(SCANNER.grams)
    process._requests.close()
    assert process._process.wait(timeout=60) == 0
    process.close()


@pytest.mark.slow
def test_a_file_that_was_cut_after_its_scan_is_scanned_again(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "train.log"))
    parts = parts_of(str(path))
    scanning = Ahead(parts, SCANNER, 1)
    scanning.read(parts[0])
    os.truncate(path, parts[2].offset + 100)
    for part in parts[1:]:
        block, scanned = scanning.read(part)
        assert scanned == SCANNER.rows(block)
    scanning.close()


def test_only_plain_texts_with_short_lines_have_parts(tmp_path: Path) -> None:
    cases = {
        "binary": bytes(range(8)) * (1 << 14),
        "packed.gz": b"\x1f\x8b" + b"a\n" * (1 << 16),
        "long line": b"x" * (1 << 18),
        "metrics.csv": b"step,loss\n" + b"1,2.0\n" * (1 << 14),
        "small": b"line\n",
    }
    for name, data in cases.items():
        (tmp_path / name).write_bytes(data)
        assert not parts_of(str(tmp_path / name)), name
    os.mkfifo(tmp_path / "pipe")
    assert not parts_of(str(tmp_path / "pipe"))
    assert not parts_of(str(tmp_path / "absent"))
    (tmp_path / "text").write_bytes(b"a line\n" * (1 << 14))
    parts = parts_of(str(tmp_path / "text"))
    assert parts[0] == Part(str(tmp_path / "text"), 0, parts[0].size)
    assert b"".join(part.read() for part in parts) == b"a line\n" * (1 << 14)
