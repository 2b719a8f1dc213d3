"""What a log prints beside its metrics: memory in use, the time that a step waits for its data, how
busy the GPU is, samples that are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.log.metrics import by_rank

DEVICE_MEMORY, HOST_MEMORY = "device_memory", "host_memory"
DATA_SHARE, GPU_BUSY = "data_share", "gpu_busy"
"""Share of a step that it waits for its data, by the times of its parts in one line, and per cent
in which the GPU computes."""
LEFT_OUT, SAMPLES = "samples_left_out", "samples"
PREPARED, FILTERED, REFUSED = "samples_prepared", "samples_filtered", "sample_refused"
"""Samples that the bar of a preparation or of a filter counts, and lines each of which says that
one was skipped."""
NAMES = (
    DEVICE_MEMORY, HOST_MEMORY, LEFT_OUT, SAMPLES, DATA_SHARE, GPU_BUSY, PREPARED, FILTERED,
    REFUSED, *by_rank.NAMES,
)  # fmt: skip
_UNIT = {"k": 1 / (1 << 20), "m": 1 / 1024, "g": 1.0, "t": 1024.0}
"""In GiB."""
_OF = r"(?:[_ ](?:used|usage|mem(?:ory)?|allocated|alloc|reserved|active|max|peak)){0,3}"
_HOST = (
    rf"(?:host|cpu|system|process|node)?[_ ]?(?:rss|ram){_OF}(?: rank ?\d{{1,4}})?|"
    rf"(?:host|cpu|system|node|worker|process|container|pod|cgroup)[_ ]mem(?:ory)?{_OF}|"
    r"vmrss|cpu virtual memory: {1,4}used"
)
_DEVICE = (
    r"(?!mem=\d{1,9}[kmgt]\b)"  # what Slurm allocated of the host's
    r"(?:(?:max|peak|gpu|cuda|vram|allocated|reserved|active|device)[_ /]?){0,3}"
    rf"(?:mem(?:ory)?{_OF}|vram|gpu_mem{_OF})|(?:cuda:?\d{{0,2}} )?(?:max[_ ])?"
    r"(?:alloc(?:ated)?|reserved)|ma"
)
_VALUE = r"(?P<{0}>\d{{1,9}}(?:\.\d{{1,4}})?)"
MEMORY = re.compile(
    rf"(?<![\w])(?:(?P<host>{_HOST})|{_DEVICE})(?:"
    rf"['\"]?\s{{0,3}}[:=]?\s{{0,3}}{_VALUE.format('value')}\s?(?P<unit>[kmgt])i?b?\b|"
    rf"[_ ]?[(\[]?(?P<named>[kmgt])i?b[)\]]?['\"]?\s{{0,3}}[:=]\s{{0,3}}{_VALUE.format('plain')}"
    r"(?![\w.]))|(?<![\w])(?:max mem|(?<=  )memory): (?P<mebibytes>\d{4,6})(?=\s|$)"
)
"""A name, and a number with its unit behind it or in the name; torchvision's and MMEngine's rows
have MiB without a unit."""
_OF_PROCESS = re.compile(r"\bpid[=: ] ?\d{1,9}\W{1,3}$")
"""What stands before the memory of a process, which is the host's."""
_SECONDS = (
    r"['\"]?(?:\s{0,3}[:=]\s{0,3}|\s{1,3})(\d{1,6}(?:\.\d{1,6})?)\s?(ms|s|sec|seconds)?(?![\w.])"
)
_PART = (
    r"h2d|fwd|forward|bwd|backward|fwd[+/_]bwd|forward ?[+/_] ?backward|compute|optim(?:izer)?|"
    r"opt|model|train|gpu|device|update"
)
DATA_PART = re.compile(
    r"(?<![\w/])(?:(?:data|batch|loader|dataloader|input)[_ ]?(?:wait|load(?:ing)?|fetch|ing)"
    rf"(?:[_ ]time)?|(?:wait|load)(?:ing)?[_ ](?:for[_ ])?data|dataloader|get_batch){_SECONDS}"
)
OTHER_PART = re.compile(rf"(?<![\w/+])(?:t[_ ])?(?:{_PART})(?:[_ ](?:step|time|pass))?{_SECONDS}")
WHOLE = re.compile(rf"(?<![\w/])(?:total|step|iter(?:ation)?)(?:[_ ]time)?{_SECONDS}")
_MEAN = r"[\d.]{1,9} \(\s{0,3}(\d{1,5}\.\d{1,4})\)"
MEANS = re.compile(
    rf"\[\s{{0,4}}\d{{3,7}}/\d{{3,7}}\].{{0,20}}?\btime:?\s{{1,3}}{_MEAN}\s{{1,3}}"
    rf"data:?\s{{1,3}}{_MEAN}"
)
"""`[140/5005] Time 8.6 (2.8) Data 8.4 (2.6)`: means of an epoch so far, from the hundredth batch
on, where the start of the workers counts for little."""
BUSY = re.compile(
    r"(?<![\w/])(?:gpu(?: ?\d{1,2})?[_ ]?util\w{0,7}|util(?:ization)?[_ ]?gpu|gpu[_ ]?busy|"
    r"sm[_ ]?(?:active|util)"
    r"\w{0,4}|gpu[_ ]usage)(?: ?\w{0,5}\(\d{1,4} gpus?\))?[^\d%\n]{0,24}?"
    r"(\d{1,3}(?:\.\d{1,2})?)\s?%(?!\|)"
)
DROPPED = re.compile(
    r"\b(?:dropp(?:ed|ing)|filter(?:ed|ing)(?: out)?|skipp(?:ed|ing)|remov(?:ed|ing)|"
    r"discard(?:ed|ing)|ignor(?:ed|ing)|exclud(?:ed|ing))\b[^\d\n]{0,40}?(\d[\d,]{0,12}) ?(?:/|of|"
    r"out of) ?(?:the )?(\d[\d,]{0,12})\b(?! ?(?:steps|iterations|epochs|updates|parameters))"
)
REMAIN = re.compile(
    r"\b(?:dropp(?:ed|ing)|filter(?:ed|ing)(?: out)?|skipp(?:ed|ing)|remov(?:ed|ing)|"
    r"discard(?:ed|ing)|exclud(?:ed|ing))\b[^\d\n]{0,40}?(?P<out>\d[\d,]{0,12})\b[^\n]{0,80}?"
    r"(?<![\d,])(?P<left>\d[\d,]{0,12}) (?:\w{1,12} )?(?:remain|left|kept|survive)|"
    r"(?<![\d,])(?P<kept>\d[\d,]{0,12}) [^\d\n]{0,40}\bafter [^\d\n]{0,30}filter[^\d\n]{0,30}?"
    r"(?P<whole>\d[\d,]{0,12}) (?:\w{1,12} )?(?:before|in total|originally)|"
    r"(?<![\d,])(?P<first>\d[\d,]{0,12}) [^\d\n]{0,40}\bafter [^\d\n]{0,30}filter[^\d\n]{0,30}?"
    r"(?P<rest>\d[\d,]{0,12})\b"
)
MEANT = re.compile(
    r"\b(?:seen|resum|already|duplicat|dedup|decontaminat|languages?\b|quality|other (?:ranks|"
    r"shards|workers|processes)|print|display|preview|shown?\b|columns?\b)"
)
"""What is left out on purpose, however much it is."""
OF_SAMPLES = re.compile(
    r"\b(?:samples?|examples?|rows|records|sequences|conversations|documents|images|clips|"
    r"utterances|texts|pairs|items)\b"
)
EXAMPLES = re.compile(r"\bnum examples ?[=:] ?(\d[\d,]{0,12})\b")
PREPARES = re.compile(
    r"(?:\b(filter)\b[^|]{0,60})?100%\|[^|]{0,80}\|\s?(\d{1,12})/\2 \[[^\]]{0,60}examples/s"
)
REFUSES = re.compile(
    r"\b(?:skip(?:ped|ping)?|dropp?(?:ed|ing)|discard(?:ed|ing)|ignor(?:ed|ing)|invalid|malformed|"
    r"abnormal)(?: (?:this|an?|the|one|bad|invalid|abnormal|malformed|corrupt(?:ed)?|empty)){0,3} "
    r"(?:example|sample|record|row|conversation|image|document|entry|line)\b(?!s| [\"']?\d)"
)
CUES = (
    "mem", "ram", "rss", "alloc", "reserved", "num examples", "dropp", "filter", "skipp", "remov",
    "discard", "ignor", "exclud", "examples/s", "invalid", "abnormal", "util", "busy", "sm_",
    "wait", "load", "fetch", "get_batch", "max_ma", "data ",
)  # fmt: skip


def values_beside(lower: str) -> Iterator[tuple[str, float]]:
    """Names of curves and values of one line in lower case."""
    if not any(cue in lower for cue in CUES):
        return
    for match in MEMORY.finditer(lower):
        of_host = match["host"] or _OF_PROCESS.search(lower[: match.start()][-16:])
        name = HOST_MEMORY if of_host else DEVICE_MEMORY
        unit = match["unit"] or match["named"] or "m"
        value = match["value"] or match["plain"] or match["mebibytes"]
        yield name, float(value) * _UNIT[unit]
    yield from _of_samples(lower)
    if found := BUSY.search(lower):
        yield GPU_BUSY, float(found[1])
    if (share := _data_share(lower)) is not None:
        yield DATA_SHARE, share


def _of_samples(lower: str) -> Iterator[tuple[str, float]]:
    if found := EXAMPLES.search(lower):
        yield SAMPLES, _whole(found[1])
    if found := PREPARES.search(lower):
        yield FILTERED if found[1] else PREPARED, _whole(found[2])
    is_of_samples = OF_SAMPLES.search(lower) and not MEANT.search(lower)
    found = DROPPED.search(lower) if is_of_samples else None
    if found and 0 < _whole(found[1]) <= _whole(found[2]):
        yield LEFT_OUT, _whole(found[1]) / _whole(found[2])
    elif is_of_samples and (found := REMAIN.search(lower)):
        left = _whole(found["left"] or found["kept"] or found["rest"])
        whole = _whole(found["whole"] or found["first"] or "0") or left + _whole(found["out"])
        yield LEFT_OUT, max(0.0, 1 - left / max(whole, 1))
    elif REFUSES.search(lower):
        yield REFUSED, 1


def _data_share(lower: str) -> float | None:
    """Of a step's time by that of its parts; None where the line names no other time."""
    if (means := MEANS.search(lower)) and float(means[1]) >= float(means[2]) > 0:
        return float(means[2]) / float(means[1])
    waited = DATA_PART.search(lower)
    if waited is None:
        return None
    data, others = _seconds(waited[1], waited[2]), OTHER_PART.findall(lower)
    whole = WHOLE.search(lower)
    if whole and (total := _seconds(whole[1], whole[2])) >= data > 0 and "." in whole[1]:
        return data / total
    total = data + sum(_seconds(value, unit) for value, unit in others)
    return data / total if others and total > 0 else None


def _seconds(value: str, unit: str) -> float:
    return float(value) / (1000 if unit == "ms" else 1)


def _whole(digits: str) -> int:
    return int(digits.replace(",", ""))
