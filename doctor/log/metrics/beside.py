"""What a log prints beside its metrics: memory in use, times of each rank, samples that are left
out. Read from the text of a log that is short enough to be kept."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor._util.median import median

DEVICE_MEMORY, HOST_MEMORY = "device_memory", "host_memory"
SLOWEST, SLOWEST_BY = "slowest_rank", "slowest_by"
"""The rank that took the longest in a line with a time for each rank, and its time by the median of
the others."""
LEFT_OUT, SAMPLES = "samples_left_out", "samples"
NAMES = (DEVICE_MEMORY, HOST_MEMORY, SLOWEST, SLOWEST_BY, LEFT_OUT, SAMPLES)
_UNIT = {"k": 1 / (1 << 20), "m": 1 / 1024, "g": 1.0, "t": 1024.0}
"""In GiB."""
MEMORY = re.compile(
    r"(?<![\w/])(?:(?P<host>(?:host|cpu|system|process)?[_ ]?(?:rss|ram)(?:[_ ](?:used|usage|"
    r"mem))?|"
    r"(?:host|cpu|system)[_ ]mem(?:ory)?(?:[_ ]used)?)|"
    r"(?:(?:max|peak|gpu|cuda|vram|allocated|reserved)[_ ]?){0,2}"
    r"(?:mem(?:ory)?(?:[_ ](?:used|allocated|alloc|reserved))?|vram|gpu_mem))"
    r"['\"]?\s{0,3}[:=]?\s{0,3}(?P<value>\d{1,7}(?:\.\d{1,4})?)\s?(?P<unit>[kmgt])i?b?\b"
)
PAIR = re.compile(r"\b(?:r|rank[ _]?|gpu[ _]?)(\d{1,4})\s?[:=]\s?(\d{1,6}(?:\.\d{1,4})?)\b")
OF_TIME = re.compile(r"\b(?:time|times|timers?|seconds?|secs?|ms|compute|step|iter\w*|duration)\b")
WAITS = re.compile(r"wait|idle|mem|loss|util|temp|util|clock|token")
FEWEST_RANKS = 4
DROPPED = re.compile(
    r"\b(?:dropp(?:ed|ing)|filter(?:ed|ing)(?: out)?|skipp(?:ed|ing)|remov(?:ed|ing)|"
    r"discard(?:ed|ing)|ignor(?:ed|ing)|exclud(?:ed|ing))\b[^\d\n]{0,40}?(\d[\d,]{0,12}) ?(?:/|of|"
    r"out of) ?(?:the )?(\d[\d,]{0,12})\b(?! ?(?:steps|iterations|epochs|updates|parameters))"
)
OF_SAMPLES = re.compile(
    r"\b(?:samples?|examples?|rows|records|sequences|conversations|documents|images|clips|"
    r"utterances|texts|pairs|items)\b"
)
EXAMPLES = re.compile(r"\bnum examples ?[=:] ?(\d[\d,]{0,12})\b")
CUES = ("mem", "ram", "rss", "rank", "gpu", "r0", "num examples", "dropp", "filter", "skipp",
        "remov", "discard", "ignor", "exclud")  # fmt: skip


def values_beside(lower: str) -> Iterator[tuple[str, float]]:
    """Names of curves and values of one line in lower case."""
    if not any(cue in lower for cue in CUES):
        return
    for match in MEMORY.finditer(lower):
        name = HOST_MEMORY if match["host"] else DEVICE_MEMORY
        yield name, float(match["value"]) * _UNIT[match["unit"]]
    if found := EXAMPLES.search(lower):
        yield SAMPLES, _whole(found[1])
    found = DROPPED.search(lower) if OF_SAMPLES.search(lower) else None
    if found and 0 < _whole(found[1]) <= _whole(found[2]):
        yield LEFT_OUT, _whole(found[1]) / _whole(found[2])
    yield from _slowest(lower)


def _slowest(lower: str) -> Iterator[tuple[str, float]]:
    if not OF_TIME.search(lower) or WAITS.search(lower):
        return
    times = {int(rank): float(time) for rank, time in PAIR.findall(lower)}
    if len(times) < FEWEST_RANKS:
        return
    rank = max(times, key=lambda each: times[each])
    usual = median([time for each, time in times.items() if each != rank])
    if usual > 0:
        yield SLOWEST, rank
        yield SLOWEST_BY, times[rank] / usual


def _whole(digits: str) -> int:
    return int(digits.replace(",", ""))
