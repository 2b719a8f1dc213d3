"""What the reader makes of text logs: lines, ranks, times, tracebacks, and hostile bytes."""

from __future__ import annotations

import gzip
import importlib.util
import io
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.checks.log.patterns import line_patterns
from doctor.facts.log import Log, LogEvent
from doctor.log import read as reading
from doctor.log.blocks import blocks
from doctor.log.lines import clean, normalized, time_of
from doctor.log.patterns import Gate
from doctor.log.ranks import ranks_of
from doctor.log.read import read_logs, read_stream

GATE = Gate(line_patterns())
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def read(text: str | bytes) -> Log:
    data = text.encode() if isinstance(text, str) else text
    return read_stream("train.log", io.BytesIO(data), GATE)


def only(text: str | bytes) -> LogEvent:
    (event,) = read(text).events
    return event


def test_a_line_number_counts_newlines_and_not_carriage_returns() -> None:
    bars = "\r".join(f"{step:3d}%|##  | {step}/100" for step in range(50))
    assert only(f"start\n{bars}\r{OOM}\nend\n").line == 2
    assert only(f"start\r\n\r\n{OOM}\r\n").line == 3


def test_a_message_glued_to_a_progress_bar_is_read() -> None:
    assert only(f" 12%|#   | 3/25 [00:01<00:07,  3.1it/s]{OOM}").name == "cuda-oom"


def test_escape_sequences_are_removed_even_inside_a_message() -> None:
    coloured = OOM.replace("out of", "\x1b[31mout\x1b[0m of")
    link = "\x1b]8;;https://example.org\x07link\x1b]8;;\x07 "
    event = only(f"{link}{coloured}\n")
    assert event.name == "cuda-oom"
    assert "\x1b" not in event.text


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("[rank3]: ", 3),
        ("[rank12]:[E1120 12:00:30.123 ProcessGroupNCCL.cpp:632] ", 12),
        ("[default5]:", 5),
        ("7: ", 7),
        ("[1,4]<stderr>:", 4),
        ("2026-11-20 12:00:00 [Rank 9] ", 9),
        ("", None),
    ],
)
def test_the_rank_is_that_of_the_prefix(prefix: str, rank: int | None) -> None:
    assert only(f"{prefix}{OOM}\n").rank == rank


@pytest.mark.parametrize(
    ("paths", "ranks"),
    [
        (["logs/rank_0.log", "logs/rank_1.log"], [0, 1]),
        (["a/attempt_0/2/stderr.log"], [2]),
        (["slurm-1234-0.out", "slurm-1234-1.out"], [0, 1]),
        (["log.0.10", "log.1.10"], [0, 1]),
        (["train.log"], []),
        (["run1.log", "run7.log"], []),
    ],
)
def test_the_rank_of_a_file_is_in_its_name(paths: list[str], ranks: list[int]) -> None:
    assert list(ranks_of(paths).values()) == ranks


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20 12:03:04,500 INFO x",
        "2026-11-20T12:03:04.500Z x",
        "[2026-11-20 12:03:04.500] x",
        "11/20/2026 12:03:04.500 - INFO",
    ],
)
def test_times_with_a_year_are_seconds_since_1970(text: str) -> None:
    assert time_of(text) == 1795176184.5


def test_times_without_a_year_order_lines_and_nonsense_is_no_time() -> None:
    early, late = time_of("E1120 12:03:04.5 x"), time_of("Nov 20 12:03:05 node kernel: x")
    assert early is not None
    assert late is not None
    assert late - early == 0.5
    assert time_of("2026-13-40 99:99:99") is None
    assert time_of("iteration 20261120 of 1") is None


def test_a_traceback_gives_the_line_of_the_users_code() -> None:
    event = only(
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "train.py", line 12, in main\n'
        "[rank1]:     step(batch)\n"
        '[rank1]:   File "/opt/site-packages/torch/x.py", line 9, in step\n'
        "[rank1]:     raise ValueError(text)\n"
        "[rank1]: ValueError: no label\n"
    )
    assert (event.name, event.line, event.rank) == ("uncaught-exception", 6, 1)
    assert event.groups == {
        "exception": "ValueError",
        "message": "no label",
        "code": "train.py:12 in main",
        "source": "step(batch)",
        "functions": "main step",
        "of_package": "torch",
    }


def test_tracebacks_of_ranks_that_interleave_are_kept_apart() -> None:
    first = ["Traceback (most recent call last):", '  File "a.py", line 1', "    x", "KeyError: 1"]
    lines = [f"[rank{rank}]: {line}" for line in first for rank in range(3)]
    assert [event.rank for event in read("\n".join(lines)).events] == [0, 1, 2]


def test_an_exception_that_python_ignores_is_no_event() -> None:
    text = "Exception ignored in: <function A.__del__>\nTraceback (most recent call last):\n"
    assert not read(f'{text}  File "a.py", line 1, in f\n    x\nTypeError: late\n').events
    alone = "Exception ignored in: <function A.__del__>\nTypeError: late\n"
    assert not read(f"{alone}exit code 0\n").events
    assert len(read(f"{alone}ValueError: real\n").events) == 1


def test_an_error_after_which_steps_are_logged_is_overcome() -> None:
    steps = "".join(f"{{'loss': 2.{step}, 'learning_rate': 1e-05}}\n" for step in range(5))
    assert not only(f"{steps}{OOM}\n").recovered
    assert only(f"{OOM}\n{steps}").recovered


@pytest.mark.parametrize(
    ("below", "overcome"),
    [
        ("training finished with status 1", False),
        ("training finished", False),
        ("step 9 loss 0.5\ntraining finished", True),
        ("step 9 loss 0.5\ntraining finished, exit code: 1", False),
        ("{'train_runtime': 9.0, 'train_loss': 1.0}", True),
    ],
)
def test_an_end_that_a_script_prints_needs_steps_before_it(below: str, overcome: bool) -> None:
    """A shell's echo also follows a program that failed."""
    assert only(f"step 1 loss 0.7\n{OOM}\n{below}\n").recovered is overcome


def test_repetitions_are_counted_and_a_new_episode_is_an_event_of_its_own() -> None:
    steps = "".join(f"step {step} loss: 2.{step}\n" for step in range(5))
    first, second = read(f"{OOM}\n{OOM}\n{steps}{OOM}\n").events
    assert (first.count, first.recovered, first.last_line) == (2, True, 2)
    assert (second.count, second.recovered, second.line) == (1, False, 8)


def test_versions_are_read_as_pip_and_banners_print_them() -> None:
    log = read("torch==2.6.0\nPyTorch version: 2.6.0+cu124\ntransformers 4.41.2\n")
    glued = read(
        "Torch version: 2.6.0+cu1242026-06-08 19:04:36,139 - INFO - Torch version: 2.6.0\n"
    )
    assert glued.versions == {"torch": "2.6.0+cu124"}
    assert log.versions == {"torch": "2.6.0", "transformers": "4.41.2"}


@pytest.mark.parametrize("size", [16, 64, 1 << 20])
def test_blocks_hold_whole_lines_and_all_of_them(size: int) -> None:
    data = b"first\nsecond\r\n\rthird\n\nlast"
    parts = list(blocks(io.BytesIO(data), size))
    assert b"".join(parts).replace(b"\n", b"") == data.replace(b"\n", b"")
    assert all(part.endswith((b"\n", b"\r")) for part in parts[:-1])


def test_a_line_that_exceeds_a_block_is_cut_and_the_next_one_is_read() -> None:
    assert only(b"x" * (3 << 20) + b"\n" + OOM.encode()).line == 2


@pytest.mark.slow
def test_memory_stays_bounded_for_one_endless_line_and_for_many_different_ones() -> None:
    class Endless(io.RawIOBase):
        left = 300 << 20

        def read(self, size: int = -1) -> bytes:
            self.left -= size
            return b"a" * size if self.left > 0 else b""

    different = b"".join(b"%s loss\n" % bytes([97 + n % 26] * (n % 300)) for n in range(100_000))
    tracemalloc.start()
    read_stream("-", Endless(), GATE)  # type: ignore[arg-type]
    read(different)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20


@given(st.binary(max_size=2000))
def test_no_bytes_make_the_reader_fail(data: bytes) -> None:
    log = read(data)
    assert log.files[0].bytes == len(data)
    for event in log.events:
        assert event.text.isprintable()


@given(st.binary(max_size=200))
def test_cleaning_leaves_nothing_that_a_terminal_would_act_on(data: bytes) -> None:
    assert not set(clean(normalized(data))) & {chr(code) for code in range(32)} - {"\t"}


def test_compressed_files_are_read_and_damaged_ones_say_so(tmp_path: Path) -> None:
    good, cut, bomb = tmp_path / "a.log.gz", tmp_path / "b.log.gz", tmp_path / "c.gz"
    whole = gzip.compress(f"start\n{OOM}\n".encode() * 50)
    good.write_bytes(whole)
    cut.write_bytes(whole[:-20])
    bomb.write_bytes(b"\x1f\x8b not gzip")
    log = read_logs([str(good), str(cut), str(bomb)], line_patterns())
    assert [event.name for event in log.events][:1] == ["cuda-oom"]
    assert [bool(file.problem) for file in log.files] == [False, True, True]


def test_zstd_is_read_and_damaged_files_say_so(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    whole = zstandard.compress(f"start\n{OOM}\n".encode() * 5000)
    damaged = whole[:20] + b"\xff" * 20 + whole[40:]
    files = {"a": whole, "b": whole + whole, "c": whole[:-20], "d": damaged, "e": whole[:4]}
    for name, data in files.items():
        (tmp_path / f"{name}.log.zst").write_bytes(data)
    paths = [str(tmp_path / f"{name}.log.zst") for name in files]
    log = read_logs(paths, line_patterns())
    assert [file.lines for file in log.files][:2] == [10_000, 20_000]
    assert [bool(file.problem) for file in log.files] == [False, False, True, True, True]
    assert log.files[2].problem == "ends within a compressed frame"


@pytest.mark.slow
def test_bombs_are_not_read_to_their_end_and_take_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "FREE", 64 << 20)
    bomb = gzip.compress(bytes(b"a" * (1 << 20)) * 100)
    paths = [tmp_path / "bomb.gz", tmp_path / "bomb.zst"]
    paths[0].write_bytes(bomb)
    if importlib.util.find_spec("zstandard"):
        import zstandard

        paths[1].write_bytes(zstandard.compress(b"a" * (100 << 20)))
    for path in filter(Path.exists, paths):
        tracemalloc.start()
        (file,) = read_logs([str(path)], line_patterns()).files
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert "grows beyond" in file.problem
        assert peak < 100 << 20


def test_a_binary_file_is_named_and_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(bytes(range(8)) * 600)
    (file,) = read_logs([str(path)], line_patterns()).files
    assert "not a text file" in file.problem
