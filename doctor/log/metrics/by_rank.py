"""Lines and tables with a number for each rank: which one is slow, and losses that are equal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from doctor._util.median import median

SLOWEST, SLOWEST_BY = "slowest_rank", "slowest_by"
"""The rank that took the longest of those with a time each, and its time by the median of the
others; of a table for all ranks that are slower than the others, the last and the least of them."""
SLOW_RANKS = "slow_ranks"
"""How many of a table's ranks are far slower than the others."""
ALIKE = "ranks_alike"
"""1 where the losses of all ranks are equal, else 0."""
NAMES = (SLOWEST, SLOWEST_BY, SLOW_RANKS, ALIKE)
PAIR = re.compile(
    r"(?<![\w.])(?:r|rank[ _]?|gpu[ _]?)(\d{1,4})['\"]?\s?[:= ]\s?(\d{1,6}(?:\.\d{1,6})?)(?![\w:])"
)
LIST = re.compile(
    r"loss\w*[^\[\d\n]{0,30}\[\s?(\d{1,4}\.\d{3,8}(?:,\s?\d{1,4}\.\d{3,8}){1,63})\s?\]"
)
"""`loss per rank: [2.3101, 2.3101]`."""
OF_TIME = re.compile(r"\b(?:time|times|timers?|seconds?|secs?|ms|compute|step|iter\w*|duration)\b")
PER_RANK = re.compile(r"\b(?:per|each|across|by)[ -](?:all )?(?:ranks?|gpus?|device)\b")
WAITS = re.compile(r"wait|idle|mem|loss|util|temp|util|clock|token|tflop|seqlen|sequence len")
NOT_LOSSES = re.compile(r"grad|norm|mem|util|temp|clock|token|time|seq|\bms\b|flop|acc|scale")
DIGITS, FEWEST_RANKS, TABLE = 3, 4, 8
"""Decimals from which on equal losses say that all is equal, ranks whose times are compared, and
those of a table. Our own numbers."""
TIME_OF_RANK = re.compile(
    r"(?<![a-z])rank[ =:_]?(\d{1,5})\b[^\n]{0,160}?\b(?:step|iter(?:ation)?|fwd|forward|compute|"
    r"batch|train)(?:[_ -]?(?:time|compute|step|took))?\s?[:=]?\s?"
    r"(\d{1,7}(?:\.\d{1,6})?)\s?(ms|s|sec)\b"
)
FEWEST_TIMES = 5
"""Lines of each rank with its time, whose median says how fast it is. Our own number."""
FAR = 1.25
"""Of a time by the median, from which on a rank of a table is slow. Our own number."""
NAMES_RANKS = re.compile(r"rank|gpu|\br\d")
CUES = ("rank", "gpu", "rrrr")
"""The last one: letters of `r0 1.2 r1 1.3 r2 1.2 r3 1.2`."""


def values_by_rank(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, float]]:
    """Number, name of a curve and value; the lines are in lower case, with their numbers."""
    table: dict[int, float] = {}
    own: dict[int, list[float]] = {}
    times = False
    begun = number = 0
    for number, lower in lines:
        if found := TIME_OF_RANK.search(lower):
            seconds = float(found[2]) / (1000 if found[3] == "ms" else 1)
            own.setdefault(int(found[1]), []).append(seconds)
        pairs = {int(rank): value for rank, value in PAIR.findall(lower)}
        yield from ((number, name, value) for name, value in _of_line(lower, pairs))
        if len(pairs) >= FEWEST_RANKS and times and not WAITS.search(lower):
            begun = begun or number
            table |= {rank: float(value) for rank, value in pairs.items()}
            continue
        if len(table) >= TABLE:
            yield from ((begun, name, value) for name, value in _of_table(table))
        table, begun = {}, 0
        times = bool(PER_RANK.search(lower) and OF_TIME.search(lower) and not WAITS.search(lower))
    if len(table) >= TABLE:
        yield from ((begun, name, value) for name, value in _of_table(table))
    medians = {rank: median(each) for rank, each in own.items() if len(each) >= FEWEST_TIMES}
    if len(medians) >= FEWEST_RANKS:
        yield from ((number, name, value) for name, value in _of_table(medians))


def _of_line(lower: str, pairs: dict[int, str]) -> Iterator[tuple[str, float]]:
    if (found := LIST.search(lower)) and "rank" in lower:
        pairs = dict(enumerate(found[1].replace(" ", "").split(",")))
        yield ALIKE, float(len(set(pairs.values())) == 1)
        return
    if len(pairs) > 1 and all(_is_exact(value) for value in pairs.values()):
        before = lower[: lower.find(next(iter(pairs.values())))]
        if not NOT_LOSSES.search(before):
            yield ALIKE, float(len(set(pairs.values())) == 1)
    if len(pairs) >= FEWEST_RANKS and OF_TIME.search(lower) and not WAITS.search(lower):
        times = {rank: float(value) for rank, value in pairs.items()}
        rank = max(times, key=lambda each: times[each])
        usual = median([time for each, time in times.items() if each != rank])
        if usual > 0:
            yield SLOWEST, rank
            yield SLOWEST_BY, times[rank] / usual


def _of_table(times: dict[int, float]) -> Iterator[tuple[str, float]]:
    """A group of ranks that is slower than the others, which are at most half of them."""
    usual = median(times.values())
    slow = sorted(rank for rank, time in times.items() if time > FAR * usual)
    if usual > 0 and 0 < len(slow) <= len(times) // 2:
        yield SLOW_RANKS, len(slow)
        yield SLOWEST, slow[-1]
        yield SLOWEST_BY, min(times[rank] for rank in slow) / usual


def _is_exact(value: str) -> bool:
    return len(value.partition(".")[2]) >= DIGITS
