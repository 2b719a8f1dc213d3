"""Reads what a log states about its run, in rows before and between those of metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from doctor.facts.stated import Setting
from doctor.log.lines import excerpt
from doctor.log.stated.kinds import in_words
from doctor.log.stated.names import LONGEST, NAMES, canonical
from doctor.log.stated.rows import Section, telling
from doctor.log.stated.values import number_of

MOST_VALUES = 4
"""Different values of a setting that are kept: of a run that goes on with others."""
LONGEST_VALUE = 160
_VALUE = (
    r"(?P<{0}>'[^'\n]{{0,120}}'|\"[^\"\n]{{0,120}}\"|[-+]?\d[\d,]*\d(?:\.\d+)?(?:[eE][-+]?\d+)?"
    r"(?: ?(?:[KMGT]i?B?\b|%))?|[^\s,;()\]}}|{{\['\"=:][^\s,;()\]}}|'\"]{{0,160}}(?: [KMGT]i?B\b)?)"
)
PAIR = re.compile(
    r"(?:(?<=[\w)\]'\"])\s{0,12}(?:=|:(?!//))\s{0,12}|\s\.{3,80}\s|(?<=\w)['\"],\s(?!['\"]\w+['\"]:))"
    rf"(?={_VALUE.format('value')})"
)
"""A separator before a value: `key: value`, `key=value`, Megatron's dots, `('key', value)`."""
BEFORE = re.compile(r"([A-Za-z_%][\w./()&, %-]{0,80})['\"\s]{0,14}$")
FLAG = re.compile(
    r"(?<![\w-])--(?P<flag>[A-Za-z][\w.-]{1,40})(?:[ =](?!--)" + _VALUE.format("value") + r")?"
)
TABLE = re.compile(r"\|\s*([A-Za-z][\w ./()%-]{0,50}?)\s*\|\s*([^|\s][^|]{0,60}?)\s*\|\s*$")
"""A row of two columns."""
LISTED = re.compile(r"(?<=[\w'\"])\s?[:=]\s?[\[(]([-+]?[\d.]+(?:[eE][-+]?\d+)?)[\])]")
"""A list of one number."""
SWITCH = re.compile(r"['\"]?enabled['\"]?\s?[:=]\s?(true|false)")
ENABLED = re.compile(r"\b(fp16|bf16)['\"]?\s?[:=]\s?\{\s?['\"]?enabled['\"]?\s?[:=]\s?(true|false)")
SWITCHED = ("fp16", "bf16")
"""Sections that `enabled` switches."""
EVALUATES = re.compile(r"\brunning (?:evaluation|prediction|validation|test)\b")
HELD_OUT = ("eval", "val", "validation", "test", "validation_ds", "test_ds", "val_dataloader")
"""Sections about the evaluation."""
OF_EVALUATION = {"batch_size": "eval_batch_size", "rows": "eval_rows", "shuffle": "eval_shuffle"}
NEAR = 4
"""Rows below such a head that are about the evaluation."""
PERCENT = "trainable%"
OTHER_SCHEDULES = ("noise", "beta", "sampling", "diffusion", "ddpm", "ddim", "kl", "temperature")
"""What stands before a scheduler that is none of the learning rate."""
OF_ENGINE = re.compile(
    r"\b(?:vllm|sglang)\b|\bparallel_state\b|\b(?:llm_?|rollout |inference )?engine(?:core)?"
    r"[_ ](?:config|args|core)|\benginecore\b|(?<!\w)tensor_parallel_size\b"
)
"""A row about an engine that generates: each process may have one, whose world it is alone in."""
NO_VALUES = ("dict", "range", "list", "tuple")
"""What begins a value that is none of a setting."""


def stated_in(rows: Iterable[tuple[int, str]], path: str) -> tuple[Setting, ...]:
    """The settings that rows with their numbers state, each value once, in their order."""
    found: dict[tuple[str, str], Setting] = {}
    values: Counter[str] = Counter()
    evaluates, section = -NEAR, Section()
    for line, row, lowered in telling(rows):
        if "running" in lowered and EVALUATES.search(lowered):
            evaluates = line
        section.enter(row)
        is_held_out = line - evaluates < NEAR or section.name in HELD_OUT
        of_engine = "world" in lowered and OF_ENGINE.search(lowered)
        for name, text in _settings(row, lowered, section.name):
            if of_engine and name == "world_size":
                continue
            name = OF_EVALUATION.get(name, name) if is_held_out else name
            number = number_of(text)
            same = f"{number:g}" if number is not None else text.lower()
            if name and (name, same) not in found and values[name] < MOST_VALUES:
                values[name] += 1
                shown = excerpt(text)[:LONGEST_VALUE]
                found[name, same] = Setting(
                    name=name, text=shown, number=number, path=path, line=line
                )
    return tuple(found.values())


def _settings(row: str, lowered: str, section: str) -> Iterator[tuple[str, str]]:
    """Canonical names and values of a row; "" for what is no setting."""
    if row[:1] == "|" and (cells := TABLE.match(row)):
        yield canonical(cells[1]), _plain(cells[2])
        return
    if "enabled" in lowered:
        yield from _switched(lowered, section)
    if "--" in row:
        yield from _flags(row)
    yield from _pairs(row)
    yield from in_words(row, lowered)


def _pairs(row: str) -> Iterator[tuple[str, str]]:
    """Names and values with a separator between them; a list of one number is that number."""
    for match in LISTED.finditer(row) if "[" in row or "(" in row else ():
        yield _before(row, match.start()), match[1]
    for match in PAIR.finditer(row):
        if match["value"] not in NO_VALUES:
            yield _before(row, match.start()), _plain(match["value"])


def _switched(lowered: str, section: str) -> Iterator[tuple[str, str]]:
    """`enabled: true` below fp16, and within its braces."""
    if section in SWITCHED and (switch := SWITCH.search(lowered)):
        yield section, switch[1]
    for switch in ENABLED.finditer(lowered):
        yield switch[1], switch[2]


def _flags(row: str) -> Iterator[tuple[str, str]]:
    """Of a command line; a flag without a value is switched on."""
    for match in FLAG.finditer(row):
        yield canonical(match["flag"].replace("-", "_")), _plain(match["value"] or "True")


def _before(row: str, end: int) -> str:
    """The setting whose name stands before a separator, by its last words, the longest that is
    one; "" for none."""
    match = BEFORE.search(row, max(0, end - 90), end)
    if match is None or "--" in match[1]:
        return ""
    parts = match[1].replace(PERCENT, "trainable_percent").split()
    if len(parts) > 1 and parts[-2].lower() in OTHER_SCHEDULES:
        return ""
    for count in range(min(LONGEST, len(parts)), 0, -1):
        if name := canonical(" ".join(parts[-count:])):
            return name
    last = parts[-1].rpartition("(")[2] if parts else ""
    return NAMES.get(last.rpartition(".")[2].lower().replace("-", "_"), "")


def _plain(value: str) -> str:
    return value.strip("'\"").rstrip(".,")
