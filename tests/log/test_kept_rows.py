"""Rows of long texts that scores are read from."""

from __future__ import annotations

from itertools import pairwise

from logs import read

from doctor.log.metrics.kept import ALIKE, LONGEST, WHOLE, KeptRows

FILLER = "INFO nothing of interest is written here, and again nothing\n"


def kept(text: str, blocks: int = 1) -> list[tuple[int, str]]:
    rows = KeptRows(("eval", "|"))
    data = text.encode()
    size = len(data) // blocks + 1
    for start in range(0, len(data), size):
        rows.add(data[start : start + size])
    return rows.rows()


def test_a_short_text_is_kept_whole() -> None:
    assert kept("a\nb 1\rb 2\n\nc\n") == [(1, "a"), (2, "b 1"), (2, "b 2"), (4, "c")]


def test_of_a_long_text_rows_with_a_cue_are_kept_with_their_numbers() -> None:
    text = (FILLER * 5000 + "eval_acc 0.5\n") * 2
    assert len(text) > WHOLE
    assert kept(text) == [(5001, "eval_acc 0.5"), (10002, "eval_acc 0.5")]


def test_rows_alike_are_thinned_evenly() -> None:
    rows = kept("".join(f"eval {number} of the run of today\n" for number in range(20_000)))
    numbers = [number for number, _ in rows]
    assert len(rows) <= ALIKE + 1
    assert len({later - number for number, later in pairwise(numbers)}) == 1


def test_no_row_of_a_text_that_is_too_long_is_kept() -> None:
    rows = KeptRows(("eval",))
    for _ in range(LONGEST // len(FILLER * 10_000) + 1):
        rows.add((FILLER * 10_000).encode())
    assert rows.rows() == []


def test_scores_of_a_long_log_are_read() -> None:
    lines = (
        FILLER * 1000 + f"step {at} loss {3 - at / 10}\n{{'eval_f1': 0.4125, 'eval_loss': 1.0}}\n"
        for at in range(8)
    )
    text = "".join(lines)
    assert len(text) > WHOLE
    (curve,) = (each for each in read(log=text).curves if each.name == "score:eval_f1")
    assert list(curve.values) == [0.4125] * 8
    assert curve.lines[0] == 1002
