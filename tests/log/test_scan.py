"""The scan of large blocks finds all that a look at each row finds, in every mix of lines."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_corpus import rows, text_of

from doctor.checks.log.classes import CLASSES, HARMLESS
from doctor.checks.log.patterns import line_patterns
from doctor.facts.log import Log
from doctor.log import scan
from doctor.log.grams import Mark, grams_of
from doctor.log.kinds import Kind, Kinds
from doctor.log.lines import normalized
from doctor.log.patterns import Gate
from doctor.log.read import read_stream
from doctor.log.rows import every_row
from doctor.log.scan import Scanner

GATE = Gate(line_patterns())
EXAMPLES = [example for row in CLASSES for example in row.examples]
EXAMPLES += [example for row in HARMLESS for example in row.examples]
EXCERPTS = [line for row in rows() for line in text_of(row).splitlines() if line]
METRICS = [
    "{'loss': 2.5, 'grad_norm': 1.5, 'learning_rate': 1e-05}",
    "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05}",
    " iteration 200/ 5000 | lm loss: 2.3E+00 | loss scale: 1.0 | grad norm: INF |",
    "[rank3] INFO step 7 Loss=tensor(nan)",
    "Epoch 1: 10%|#| 3/30 [00:01<00:09, loss=0.31]",
    "step 9 grad_norm:  0.5",
    "step 9 loss nan",
    "step 9 | loss | inf |",
    "hello ssh, finance closes; lossless",
]
OTHERS = [
    "", " 12%|██  | 12/100 [00:01<00:09]", "torch==2.6.0", "transformers 4.41.2", "NCCL 2.21.5",
    "PyTorch version: 2.6.0+cu124", "{'train_runtime': 9.0, 'train_loss': 1.0}",
    "Training completed. Do not forget to share your model", "TRAINING COMPLETE",
    "Traceback (most recent call last):", '  File "train.py", line 12, in main', "    step()",
    "ValueError: no label", "\x1b[31mValueError\x1b[0m: x", "2026-11-20 12:00:01 INFO nothing",
]  # fmt: skip
LINES = st.sampled_from([*EXAMPLES, *EXCERPTS, *METRICS * 20, *OTHERS * 20])
ENDS = st.sampled_from(["\n"] * 8 + ["\r\n", "\r", "\n\n"])
TEXTS = st.lists(st.tuples(LINES, ENDS).map("".join), max_size=60).map("".join)


def read(data: bytes, small: int, monkeypatch: pytest.MonkeyPatch) -> Log:
    with monkeypatch.context() as patch:
        patch.setattr(scan, "SMALL", small)
        patch.setattr(scan, "SMALLEST", small)
        return read_stream("train.log", io.BytesIO(data), GATE)


@given(TEXTS, st.integers(0, 3))
def test_the_scan_and_a_look_at_every_row_give_the_same_log(text: str, cut: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        data = text.encode()[: len(text.encode()) - cut]
        assert read(data, 1, monkeypatch) == read(data, 1 << 40, monkeypatch)


@given(st.binary(max_size=400))
def test_the_scan_and_a_look_at_every_row_agree_on_any_bytes(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for repeated in (data, data * 9 + b"loss: nan" + data):
            assert read(repeated, 1, monkeypatch) == read(repeated, 1 << 40, monkeypatch)


def test_the_scan_over_several_slices_finds_a_row_at_each_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    for before in range(scan.SLICE - 40, scan.SLICE + 4, 3):
        data = b"x" * (before - 1) + b"\n" + error + b"y" * (scan.SLICE // 2)
        (event,) = read(data, 1, monkeypatch).events
        assert (event.name, event.line) == ("cuda-oom", 2)


def test_few_rows_of_a_healthy_log_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest are counted: this is what the speed comes from."""
    monkeypatch.setattr(scan, "SMALL", 1)
    chance = random.Random(0)
    lines = [
        f"[rank{n % 8}]: 2026-11-20 12:00:{n % 60:02d} INFO memory {chance.random() * 80:.2f} GB\n"
        f"node-1:{n}:{n} [0] NCCL INFO Channel 00/0 : 0[0] comm 0x{chance.getrandbits(48):x}\n"
        f"{{'loss': {chance.random()}, 'grad_norm': {chance.random()}}}\n"
        for n in range(1000)
    ]
    block = "".join(lines).encode()
    scanned = Scanner(GATE).rows(block)
    assert len(scanned.starts) == 1000
    assert len(scanned.unclear) < 10
    assert scanned.newlines == 3000


def test_every_row_that_matters_is_in_the_scan() -> None:
    block = normalized("\n".join([*EXAMPLES, *EXCERPTS]).encode())
    kinds = Kinds(GATE)
    every, scanned = every_row(block), Scanner(GATE)
    table = scan.Table(grams_of(GATE))
    starts = set(table.rows(block).starts)
    assert scanned.rows(block) == every  # small
    for start, end in zip(every.starts, every.ends, strict=True):
        if kinds.of(block[start:end])[0] not in (Kind.OTHER, Kind.VERSION):
            assert start in starts, block[start:end]


def test_no_gram_is_ambiguous() -> None:
    grams = grams_of(GATE)
    assert len({gram.text for gram in grams}) == len(grams)
    assert all(len(gram.text) == 4 and gram.mark in range(1, 16) for gram in grams)
    assert all(Mark.UNCLEAR in gram.mark for gram in grams if gram.within)
