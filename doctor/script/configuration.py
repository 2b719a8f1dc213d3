"""Configuration files that start trainings: DeepSpeed, accelerate, Trainer, axolotl, LLaMA-Factory.

Files are recognized by their keys; other JSON and YAML is left alone. Only keys with plain values
are read, by a small reader that knows their positions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from doctor.facts.script import Scalar, Script, Setting, Span

LIMIT = 1 << 20
YAML_LINE = re.compile(
    r"""^(?P<indent>[ ]*)(?P<item>-[ ]+)?(?P<key>[\w.\-/"']+)[ ]*:(?:[ ]+(?P<value>.*))?$"""
)
COLON = re.compile(r"\s*:\s*")
JSON_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|[^,\s}\]]*')
KINDS: tuple[tuple[str, frozenset[str], frozenset[str]], ...] = (
    (
        "deepspeed",
        frozenset({"zero_optimization", "fp16", "bf16", "train_batch_size"}),
        frozenset(
            {
                "zero_optimization.stage",
                "train_micro_batch_size_per_gpu",
                "train_batch_size",
                "fp16.loss_scale",
                "fp16.initial_scale_power",
                "bf16.enabled",
            }
        ),
    ),
    (
        "accelerate",
        frozenset({"distributed_type"}),
        frozenset({"mixed_precision", "num_processes"}),
    ),
    ("factory", frozenset({"finetuning_type"}), frozenset({"stage", "template"})),
    (
        "axolotl",
        frozenset({"base_model"}),
        frozenset({"datasets", "micro_batch_size", "sequence_len", "num_epochs"}),
    ),
    (
        "trainer",
        frozenset({"output_dir", "model_name_or_path", "learning_rate"}),
        frozenset({"per_device_train_batch_size"}),
    ),
)

ROOTS = frozenset[str]().union(*(any_of for _, any_of, _ in KINDS))


def read_configuration(path: str, data: bytes) -> Script | None:
    """The settings of a file that starts trainings, None for any other file."""
    if len(data) > LIMIT or not _hint(data):
        return None
    text = data.decode("utf-8-sig", "replace")
    if path.endswith(".json"):
        try:
            document = json.loads(text)
            # Most JSON files hold data, and to find where each value stands takes time.
            kind = _kind(_json_keys(document))
            settings = list(_json(text, document)) if kind else []
        except (ValueError, RecursionError):
            return None
    else:
        settings = list(_yaml(text))
        kind = _kind({setting.key for setting in settings})
    return Script(path=path, kind=kind, settings=tuple(settings)) if kind else None


def _hint(data: bytes) -> bool:
    """Whether a file may have a root and a further key of one kind."""
    return any(
        any(root.encode() in data for root in any_of)
        and any(key.rpartition(".")[2].encode() in data for key in also)
        for _, any_of, also in KINDS
    )


def _kind(keys: set[str]) -> Any:
    roots = keys | {key.partition(".")[0] for key in keys}
    for kind, any_of, also in KINDS:
        if roots & any_of and keys & also:
            return kind
    return None


# JSON


def _json_keys(document: object) -> set[str]:
    """The keys that plain values have; none where no root is one of a configuration's."""
    if not isinstance(document, dict) or ROOTS.isdisjoint(document):
        return set()
    return {".".join(keys) for keys, _ in _leaves(document, ())}


def _json(text: str, document: object) -> Iterator[Setting]:
    """Keys of nested objects with plain values, each found behind the one before it."""
    position = 0
    for keys, value in _leaves(document, ()):
        start = _value_start(text, keys[-1], position)
        if start:
            position = start
            yield Setting(".".join(keys), value, _span(text, start))


def _value_start(text: str, key: str, position: int) -> int:
    """Where the value of the first such key behind the position starts, 0 without one."""
    quoted = f'"{key}"'
    while (found := text.find(quoted, position)) >= 0:
        if colon := COLON.match(text, found + len(quoted)):
            return colon.end()
        position = found + 1
    return 0


def _leaves(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Scalar]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, (*path, key))
    elif path and (value is None or isinstance(value, str | int | float | bool)):
        yield path, value


def _span(text: str, start: int) -> Span:
    """The value that starts there."""
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    end = JSON_VALUE.match(text, start)
    return Span(line, column, line, column + (len(end[0]) if end else 1))


# YAML


def _yaml(text: str) -> Iterator[Setting]:
    """Keys of nested mappings in block style with plain values; lists are passed over."""
    stack: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = YAML_LINE.match(line.rstrip())
        if match is None or match["item"]:
            continue
        indent = len(match["indent"])
        while stack and stack[-1][0] >= indent:
            stack.pop()
        key = match["key"].strip("\"'")
        name = ".".join([*(part for _, part in stack), key])
        raw = _without_comment(match["value"] or "")
        if not raw:
            stack.append((indent, key))
            yield Setting(name, None, Span(number, indent + 1, number, indent + 1 + len(key)))
            continue
        start = match.start("value") + 1
        yield Setting(name, _scalar_yaml(raw), Span(number, start, number, start + len(raw)))


def _without_comment(value: str) -> str:
    if value.startswith(("'", '"')):
        end = value.find(value[0], 1)
        return value[: end + 1] if end > 0 else value
    return re.split(r"(?:^|\s)#", value, maxsplit=1)[0].strip()


def _scalar_yaml(raw: str) -> Scalar:
    if raw.startswith(("'", '"')):
        return raw.strip("\"'")
    lowered = raw.casefold()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered in ("null", "~", "none"):
        return None
    try:
        return int(raw) if raw.lstrip("-").isdecimal() and len(raw) < 18 else float(raw)
    except ValueError:
        return raw
