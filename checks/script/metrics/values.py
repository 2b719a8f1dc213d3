"""Numbers of an evaluation that are of something else: values for classes, the last batch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.metrics.axes_of_tokens import over_tokens
from doctor.checks.script.metrics.logged import mislabelled
from doctor.checks.script.naming import TRUE, is_loader, words
from doctor.checks.script.rendering import lines, lines_of, render
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Value

VALUES = re.compile(
    r"(?:torch\.max\([\w.]+(?:\([\w.,]*\))?(?:\.data)?,(?:dim=)?-?1\)|[\w.]+(?:\([\w.]*\))?\."
    r"(?:max\((?:dim=)?-?1\)|topk\([\w=,-]*\)))(?:\[0\]|\.values)"
)
OUTPUTS = {"score", "scores", "logit", "logits", "prob", "probs", "value", "values", "conf", "max"}
"""In names of what a model gives for a label."""
LABELS = TRUE | {"y", "yb", "lbl", "lbls"}


def values(reading: Training) -> Iterator[Match]:
    yield from _largest_output(reading)
    yield from _last_batch(reading)
    yield from _added_behind(reading)
    yield from _logits(reading)


def _logits(reading: Training) -> Iterator[Match]:
    """(p.predictions == p.label_ids) in compute_metrics: logits, not classes."""
    for each in reading.comparisons:
        if each.operator != "==" or "metric" not in reading.function(each.scope).name:
            continue
        sides = [_predictions(reading, value, each.scope) for value in (each.left, each.right)]
        others = [render(reading, value) for value in (each.right, each.left)]
        for found, other in zip(sides, others, strict=True):
            if found and re.search(r"label", other) and "preprocess_logits" not in "".join(
                reading.script.identifiers
            ):  # fmt: skip
                yield Match(each.span, "predictions of a Trainer are logits: argmax(-1) is missing")
                return


def _predictions(reading: Training, value: Value, scope: int) -> bool:
    """p.predictions, also by a name."""
    if value.kind != "name":
        return False
    held = [line.text for line in lines_of(reading, scope, value.name)]
    return value.name.endswith(".predictions") or (
        len(held) == 1 and re.fullmatch(r"\w+\.predictions", held[0]) is not None
    )


def _largest_output(reading: Training) -> Iterator[Match]:
    """(out.max(1)[0] == y): the largest output, not its class."""
    held = {
        (line.scope, line.target): line
        for line in reading.cached(lines)
        if VALUES.fullmatch(line.text)
    }
    for each in reading.comparisons:
        if each.operator != "==":
            continue
        for one, other in ((each.left, each.right), (each.right, each.left)):
            text = render(reading, one)
            line = held.get((each.scope, one.name))
            single = line is not None and len(reading.assigned_to(one.name, each.scope)) == 1
            other = other.items[0] if other.kind == "item" and other.items else other
            named = other.name.rpartition(".")[2]
            known = set(words(named))
            held_text = line.text if line is not None and single else text
            if (VALUES.fullmatch(text) or single) and known & LABELS and not (
                known & OUTPUTS or set(words(re.split(r"\W", held_text)[0])) & LABELS
            ):  # fmt: skip
                message = "the largest outputs are compared with classes: their places are these"
                yield Match(each.span, message)
                break


def _added_behind(reading: Training) -> Iterator[Match]:
    """total += loss behind the loop that trains: the loss of its last batch."""
    trained = {reading.calls[n].loops for n in reading.backwards}
    starts = {reading.loss_name(reading.calls[n]) for n in reading.backwards}
    for each in reading.assignments:
        named = re.fullmatch(r"(\w*loss)(?:\.data|\.item\(\)|\.detach\(\))*(?:\.item\(\))?",
                             render(reading, each.value))  # fmt: skip
        if not each.augmented or each.operator != "Add" or named is None or not each.loops:
            continue
        held = lines_of(reading, each.scope, named[1])
        reading.step(len(held))
        inner = {line.loops for line in held}
        loop = next(iter(inner))[-1:] if len(inner) == 1 else ()
        batches = reading.loops[loop[0]].iterable if loop else None
        if (
            batches is not None and inner <= trained and named[1] in starts
            and all(line.loops[:-1] == each.loops and not line.augmented for line in held)
            and held[-1].span.order < each.span.order
            and any(is_loader(name) for name in batches.all_names)
        ):  # fmt: skip
            message = f"{each.target} adds the last batch of each epoch: it stands behind the loop"
            yield Match(each.span, message, "warn", fix=f"Add {named[1]} in the loop over batches.")


def _last_batch(reading: Training) -> Iterator[Match]:
    """total = loss.item() in the loop, and total / len(loader) behind it."""
    for line in reading.cached(lines):
        if line.augmented or not line.loops or line.arms or not line.target.isidentifier():
            continue
        loop = reading.loops[line.loops[-1]]
        source = loop.iterable.all_names if loop.iterable is not None else ()
        loaders = [name for name in source if is_loader(name)]
        plain = re.fullmatch(r"[\w.]*(?:loss|acc\w*|correct)\w*(?:\.item\(\))?", line.text)
        if not loaders or plain is None:
            continue
        before = [
            a for a in reading.cached(lines)
            if a.target == line.target and a.scope == line.scope and a.loops == line.loops[:-1]
        ]  # fmt: skip
        more = any(
            a.target == line.target and a.scope == line.scope and a.augmented
            for a in reading.cached(lines)
        )
        if more or not before or before[0].text not in ("0", "0.0"):
            continue
        divided = re.compile(rf"\(?{re.escape(line.target)}/(?:len\([\w.]+\)|\w*n\w*)\)?")
        for value, span, scope in reading.expressions:
            if (
                scope == line.scope
                and span.order > line.span.order
                and divided.fullmatch(render(reading, value))
            ):
                yield Match(line.span, f"{line.target} is that of the last batch: += adds them up")
                return


RULES = (
    Rule(
        code="SCR403",
        slug="evaluation-of-something-else",
        title="An evaluation compares classes, in all batches",
        severity="fail",
        find=each_of(values, over_tokens, mislabelled),
        why="max(1) returns the largest outputs and their places: a comparison of the outputs with "
        "labels is nearly never true. A name that each batch sets anew holds the last one's loss.",
        fires=(
            "argmax(logits, axis=1) in the compute_metrics of a model that classifies tokens",
            "out.max(1)[0] == labels; p.predictions == p.label_ids",
            "total = loss.item() in the loop over batches, and total / len(loader) behind it",
            "a warning: total += loss behind the loop over batches",
            "a warning: one value is logged for training and as val/loss, or as PSNR and SSIM",
        ),
        fix="out.argmax(1) == labels; total += loss.item().",
        sources=("torch-tensor-docs",),
        needs=(
            "max",
            "len",
            "predictions",
            "topk",
            "argmax",
            "backward",
            "add_scalar",
            "add_scalars",
            "add_value",
            "log",
            "log_metric",
            "log_metrics",
            "log_value",
            "log_scalar",
        ),
    ),
)
