"""Values that are logged under the label of something else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from doctor.checks.script.naming import HIGH, direction, is_held_out, is_training, words
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

PAIRS = ("add_scalar", "add_value", "log_value", "log_scalar", "log_metric", "log")
TABLES = ("log", "log_metrics", "log_dict", "add_scalars")
MOST = 20
"""Labels of one value that are compared with each other. Our own number."""
ALIKE = (
    {"acc", "accuracy", "recall"}, {"iou", "miou"}, {"auc", "auroc"},
    {"ap", "map", "auprc", "precision"}, {"dice", "f1"},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Entry:
    label: str
    value: Value
    call: Call


def mislabelled(reading: Training) -> Iterator[Match]:
    """add_scalar("train/loss", train_loss) and add_scalar("val/loss", train_loss)."""
    yield from _of_training(reading)
    table: dict[tuple[object, str], list[_Entry]] = {}
    for entry in _entries(reading):
        if entry.value.kind == "literal" or not entry.call.statement:
            continue  # a number, or stage == "val" and log(...)
        call, text = entry.call, render(reading, entry.value)
        place = call.scope, call.loops, call.arms
        table.setdefault((place, text), []).append(entry)
    for (_, text), held in table.items():
        entries = held[:MOST]
        for entry in entries[1:]:
            rivals = [e.label for e in entries if e.label != entry.label
                      and not _is_set_between(reading, text, e.call, entry.call)]  # fmt: skip
            label = next((r for r in rivals if _is_of_the_other(text, r, entry.label)), "")
            if label:
                yield Match(
                    entry.call.span,
                    f"{entry.label!r} is {text}, which is logged as {label!r}, too",
                    "warn",
                    fix="Log the value that the label names.",
                )


def _is_set_between(reading: Training, text: str, one: Call, other: Call) -> bool:
    """A name of the value is assigned between both calls."""
    first, last = sorted((one.span.order, other.span.order))
    return any(
        first < a.span.order < last and a.scope == one.scope
        for name in _parts(text) for a in reading.assigned_to(name, one.scope)
    )  # fmt: skip


def _of_training(reading: Training) -> Iterator[Match]:
    """for k, v in mean_train.items(): add_scalars(k, {"val": v}), where mean_val is there."""
    bound = {each.target for each in reading.assignments}
    for entry in _entries(reading):
        loop = reading.loop_of(entry.call)
        made = reading.call_of(loop.iterable) if loop is not None else None
        known = made is not None and loop is not None and entry.value.name in loop.targets
        if known and made is not None and made.method == "items" and is_training(made.receiver):
            reading.step(len(bound))
            twins = [name for name in bound if is_held_out(name)
                     and _rest(name) == _rest(made.receiver)]  # fmt: skip
            if twins and _part(entry.label) == "held out":
                message = f"{entry.label!r} is logged of {made.receiver}; {twins[0]} is there"
                yield Match(entry.call.span, message, "warn", fix=f"Loop over {twins[0]}.")


def _entries(reading: Training) -> Iterator[_Entry]:
    for call in reading.named(*PAIRS):
        label = _label(call.first) if len(call.args) > 1 else ""
        if label:
            yield _Entry(label, call.args[1], call)
    for call in reading.named(*TABLES):
        for value in call.args:
            if value.kind == "dict" and len(value.keys) == len(value.items):
                yield from (
                    _Entry(k, v, call) for k, v in zip(value.keys, value.items, strict=True)
                )


def _label(value: Value | None) -> str:
    """A text, also one with names in it: {mode}/PSNR."""
    if value is None or value.name or value.kind not in ("literal", "other"):
        return ""
    if value.kind == "literal":
        return value.literal if isinstance(value.literal, str) else ""
    parts = [_label(each) if each.kind == "literal" else "{}" for each in value.items]
    return "".join(parts) if any(isinstance(each.literal, str) for each in value.items) else ""


def _parts(text: str) -> list[str]:
    """The names in a value or a label: val_loss of val/loss."""
    return re.findall(r"[A-Za-z]\w*", text)


def _is_of_the_other(text: str, right: str, label: str) -> bool:
    """Only the part differs, train or val; or the value is named for training, or for a metric,
    as one label is, and the other is not."""
    if not re.search(r"[A-Za-z_]", text) or text.startswith("float("):
        return False
    parts = {_part(right), _part(label)}
    if parts == {"train", "held out"} and _rest(right) == _rest(label):
        fits = _part(re.sub(r"\W+", "_", text)) in ("", _part(right))
        return fits and bool(_is_metric(label) or direction(_parts(text)[0]))
    named = re.sub(r"\.(?:avg|val|item\(\)|mean\(\)|compute\(\))", "", text)
    short = re.sub(r"\W+", "_", named)
    if not re.fullmatch(r"(?:self\.)?[\w.]+(?:/len\([\w.]+\))?", named.strip("()")):
        return False
    under = "_".join(_parts(label)), "_".join(_parts(right))
    if is_training(short) and is_training(under[1]) and is_held_out(under[0]):
        return bool(direction(under[0]) and direction(short))
    mine, own, other = (_metrics(name) for name in (short, under[1], under[0]))
    alike = any(mine | other <= same for same in ALIKE)
    return len(mine) == len(other) == 1 and mine == own and mine != other and not alike


def _is_metric(label: str) -> bool:
    """The last word is one: of val/loss, not of val/loss_scale."""
    return bool(direction("".join(words("_".join(_parts(label)))[-1:])))


def _part(label: str) -> str:
    named = "_".join(_parts(label))
    return "train" if is_training(named) else "held out" if is_held_out(named) else ""


def _rest(label: str) -> list[str]:
    """The label without the word for the part."""
    found = re.findall(r"[A-Za-z]+|[\d.]+|[<>]", label)
    return [word.casefold() for word in found if not (is_training(word) or is_held_out(word))]


def _metrics(name: str) -> set[str]:
    """psnr of val_PSNR, and of psnres."""
    return {m for word in words(name) for m in HIGH if word in (m, f"{m}s", f"{m}es")}
