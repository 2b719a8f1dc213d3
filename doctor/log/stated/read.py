"""Reads what a log states about its run: rows that do not repeat, before and between its metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from doctor.facts.stated import Setting
from doctor.log.lines import excerpt
from doctor.log.stated.kinds import ALONE, FAMILY, GPU, GPU_MEMORY, METHODS, WORDED
from doctor.log.stated.names import LONGEST, NAMES, canonical
from doctor.log.stated.values import number_of
from doctor.log.templates import letters_of

ALIKE = 3
"""Rows alike but for their numbers, beyond which they are of a table of metrics. Our own number."""
MOST_ROWS, WIDEST = 8192, 8192
"""Rows of a log that are looked at, and characters of each: a Namespace is one long row."""
MOST_VALUES = 4
"""Different values of a setting that are kept: of a run that goes on with others."""
_VALUE = (
    r"(?P<{0}>'[^'\n]{{0,120}}'|\"[^\"\n]{{0,120}}\"|[-+]?\d[\d,]*\d(?:\.\d+)?(?:e[-+]?\d+)?"
    r"(?: ?(?:[KMGT]i?B?\b|%))?|[^\s,;()\]}}|{{\['\"=:][^\s,;()\]}}|'\"]{{0,160}}(?: [KMGT]i?B\b)?)"
)
PAIR = re.compile(
    r"(?:(?<=[\w)\]'\"])\s{0,12}(?:=|:(?!//))\s{0,12}|\s\.{3,80}\s|(?<=\w)['\"],\s(?!['\"]\w+['\"]:))"
    + rf"(?={_VALUE.format('value')})",
    re.IGNORECASE,
)
"""A separator before a value: `key: value`, `key=value`, Megatron's dots, `('key', value)`."""
BEFORE = re.compile(r"([A-Za-z_%][\w./()&, %-]{0,80})['\"\s]{0,14}$")
TABLE = re.compile(r"\|\s*([A-Za-z][\w ./()%-]{0,50}?)\s*\|\s*([^|\s][^|]{0,60}?)\s*\|\s*$")
"""A row of two columns."""
LISTED = re.compile(r"(?<=[\w'\"])\s?[:=]\s?[\[(]([-+]?[\d.]+(?:e[-+]?\d+)?)[\])]", re.IGNORECASE)
"""A list of one number."""
SECTION = re.compile(r"(\s*)['\"\[]?(\w{2,40})['\"]?(?:\]|\s?[:=]\s?\{?|\s?\{)\s*$")
"""A row that opens a section: `optim:`, `"fp16": {`, `[train]`."""
FLAG = re.compile(
    r"(?<![\w-])--(?P<flag>[A-Za-z][\w.-]{1,40})(?:[ =]" + _VALUE.format("value") + r")?"
)
METRICS = re.compile(
    r"(?:\bloss|[_/]loss\b|(?<!max_)(?<!clip_)(?<!max )(?<!clip )grad[_ ]?norm|gnorm|\bppl)['\"\w/() -]{0,14}?[\s:=|]{1,12}"
    r"(?:[-+]?\d+\.\d|nan|inf)",
    re.IGNORECASE,
)
"""A row with a loss, whose learning rate is a value of its curve."""
EVALUATES = re.compile(r"\brunning (?:evaluation|prediction|validation|test)\b", re.IGNORECASE)
OF_EVALUATION = {"batch_size": "eval_batch_size", "rows": "eval_rows"}
HELD_OUT = ("eval", "val", "validation", "test", "validation_ds", "test_ds", "val_dataloader")
"""Sections about the evaluation."""
SWITCHED = ("fp16", "bf16")
SWITCH = re.compile(r"['\"]?enabled['\"]?\s?[:=]\s?(true|false)", re.IGNORECASE)
ENABLED = re.compile(
    r"['\"]?\b(fp16|bf16)['\"]?\s?[:=]\s?\{\s?['\"]?enabled['\"]?\s?[:=]\s?(true|false)", re.IGNORECASE
)
OPTIMIZER = re.compile(
    r"(?:name|type|_target_|_component_|class_path)['\"]?\s?[:=]\s?['\"]?(?:[\w.]+\.)?"
    r"((?:paged_)?adam\w*|sgd|lion|adafactor|rmsprop|lamb|lars)\b",
    re.IGNORECASE,
)
NEAR = 4
"""Rows below such a head that are about the evaluation."""
PERCENT = "trainable%"
NO_VALUES = ("dict", "range", "list", "tuple")
"""What begins a value that is none of a setting."""


def stated_in(rows: Iterable[tuple[int, str]], path: str) -> tuple[Setting, ...]:
    """The settings that rows with their numbers state, each value once, in their order."""
    found: dict[tuple[str, str], Setting] = {}
    values: Counter[str] = Counter()
    evaluates, section = -NEAR, Section()
    for line, row in _telling(rows):
        evaluates = line if EVALUATES.search(row) else evaluates
        section.enter(row)
        is_held_out = line - evaluates < NEAR or section.name in HELD_OUT
        for name, text in _settings(row, section.name):
            name = OF_EVALUATION.get(name, name) if is_held_out else name
            number = number_of(text)
            same = f"{number:g}" if number is not None else text.lower()
            if (name, same) in found or values[name] >= MOST_VALUES:
                continue
            values[name] += 1
            found[name, same] = Setting(
                name=name, text=excerpt(text)[:160], number=number, path=path, line=line
            )
    return tuple(found.values())


def _telling(rows: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Rows that are no metrics."""
    alike: Counter[bytes] = Counter()
    for count, (line, row) in enumerate(rows):
        if count >= MOST_ROWS:
            return
        template = letters_of(row[:400].encode("utf-8", "replace"))
        alike[template] += 1
        if len(template) > 1 and alike[template] <= ALIKE and not METRICS.search(row[:WIDEST]):
            yield line, row[:WIDEST]


@dataclass(slots=True)
class Section:
    """The section of a nested configuration that the last row is in."""

    name: str = ""
    _indent: int = -1

    def enter(self, row: str) -> None:
        """The next row: deeper ones than its head are of the section."""
        indent = len(row) - len(row.lstrip())
        if opened := SECTION.fullmatch(row[:120]):
            self.name, self._indent = opened[2].lower(), indent
        elif indent <= self._indent and self._indent > 0 or not row.strip():
            self.name, self._indent = "", -1


def _settings(row: str, section: str) -> Iterator[tuple[str, str]]:
    yield from _nested(row, section)
    if pair := TABLE.match(row):
        if name := canonical(pair[1]):
            yield name, _plain(pair[2])
        return
    for match in FLAG.finditer(row):
        name = canonical(match["flag"].replace("-", "_"))
        value = match["value"] or ""
        if name:
            yield name, "True" if not value or value.startswith("--") else _plain(value)
    for match in LISTED.finditer(row):
        if (before := BEFORE.search(row, max(0, match.start() - 60), match.start())) and (
            name := _named(before[1])
        ):
            yield name, match[1]
    for match in PAIR.finditer(row):
        if before := BEFORE.search(row, max(0, match.start() - 90), match.start()):
            name = _named(before[1])
            if name and "--" not in before[1] and match["value"] not in NO_VALUES:
                yield name, _plain(match["value"])
    for expression, name in WORDED:
        if worded := expression.search(row):
            yield name, worded[1]
    for expression, kind in METHODS:
        if expression.search(row):
            yield "method", kind
    if ALONE.search(row):
        yield "world_size", "1"
    if gpu := GPU.search(row):
        yield "gpu", gpu[0]
        if memory := GPU_MEMORY.search(row, gpu.end()):
            yield "gpu_memory", memory[1]
    if family := FAMILY.search(row):
        yield "family", family[1].lower()


def _nested(row: str, section: str) -> Iterator[tuple[str, str]]:
    """What a row says within its section: `enabled: true` below fp16, `name: adamw`."""
    if section in SWITCHED and (switch := SWITCH.search(row)):
        yield section, switch[1]
    for switch in ENABLED.finditer(row):
        yield switch[1].lower(), switch[2]
    if optimizer := OPTIMIZER.search(row):
        yield "optimizer", optimizer[1]


def _named(words: str) -> str:
    """The canonical name by the last words, the longest that is one."""
    parts = words.replace(PERCENT, "trainable_percent").split()
    for count in range(min(LONGEST + 4, len(parts)), 0, -1):
        if name := canonical(" ".join(parts[-count:])):
            return name
    last = parts[-1].rpartition("(")[2] if parts else ""
    return NAMES.get(last.rpartition(".")[2].lower().replace("-", "_"), "")


def _plain(value: str) -> str:
    return value.strip("'\"").rstrip(".,")
