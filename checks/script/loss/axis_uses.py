"""Reductions, normalizations and views along an axis that stands for something else."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from doctor.checks.script import axes, evaluate, objects
from doctor.checks.script.axes import axes_of
from doctor.checks.script.axis_changes import (
    BATCH,
    ONE,
    TIME,
    WIDTH,
    Axes,
    dim_of,
    index_of,
    sizes_given,
)
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.naming import words
from doctor.checks.script.rendering import formulas
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

SHARES = {"softmax", "log_softmax"}
LAYERS = {"Softmax", "LogSoftmax"}
OTHERS = {"sinkhorn", "transport", "dual", "bag", "bags", "mil", "instance", "instances", "slide"}
"""In files that normalize along several axes in turn, or whose batch is one sample in parts."""


def along_other_axis(reading: Training) -> Iterator[Match]:
    """softmax and normalize over samples, and over another axis than the loss reads as classes."""
    named = reading.mentions("softmax", "normalize")
    for call in reading.calls if named and not reading.cached(_has_parts) else ():
        value, dim = _shared(reading, call)
        known = axes_of(reading, value, call) if value is not None else None
        where = index_of(known, dim) if known is not None else None
        if known is None or where is None:
            continue
        if _is_over_samples(reading, call, known, where) and value is not None:
            rest = [n for n, axis in enumerate(known.each) if n != where and axis.kind != ONE]
            fix = f"Use dim={rest[-1]}." if len(rest) == 1 else "Name the axis that is meant."
            message = f"axis {where} of {len(known.each)} is the batch: samples mix"
            yield Match(call.span, message, "fail", fix=fix)
        elif value is not None and _is_beside_classes(reading, call, value, known, where):
            yield Match(
                call.span,
                f"cross_entropy reads the classes along axis 1, and this runs along axis {where}",
                "fail",
                fix="Use dim=1.",
            )
        elif _is_over_time(reading, call, known, where):
            message = f"CTC takes log-probabilities of the last axis: axis {where} is the time"
            yield Match(call.span, message, "fail", fix="Use dim=-1.")


def _has_parts(reading: Training) -> bool:
    return any(OTHERS & {*words(name)} for name in reading.script.identifiers)


def _shared(reading: Training, call: Call) -> tuple[Value | None, object]:
    """What is normalized, and along which axis: F.softmax(x, dim=1), nn.Softmax(dim=1)(x)."""
    if call.method in SHARES and call.receiver != "self":
        return objects.operand(call), dim_of(call)
    if call.method == "normalize" and call.name == "torch.nn.functional.normalize":
        value = call.keywords.get("dim") or (call.args[2] if len(call.args) > 2 else None)
        return call.first, value.literal if value is not None else None
    made = objects.callee(reading, call) if len(call.args) == 1 else []
    layer = made[0] if len(made) == 1 else None
    if layer is None or layer.method not in LAYERS or not layer.name.startswith("torch.nn."):
        return None, None
    value = layer.given("dim", 0)
    return call.first, value.literal if value is not None else None


def _is_over_samples(reading: Training, call: Call, known: Axes, where: int) -> bool:
    """The axis is the batch; of two axes by its name, or of what a network returns."""
    if known.each[where].kind != BATCH or len(known.each) < 2:
        return False
    if call.method == "normalize":
        rows = len(known.each) == 2 and known.kinds[1 - where] == WIDTH
        return rows and not reading.cached(_correlates)
    if len(known.each) == 2 and _is_similarity(reading, call, known, where):
        return False
    size = known.each[where].size
    named = size is not None and size[1] in BATCHES
    samples = len(known.each) > 2 or named or _is_viewed(reading, call)
    return samples and ONE not in known.kinds


def _is_similarity(reading: Training, call: Call, known: Axes, where: int) -> bool:
    """Samples by samples, or what runs along the other axis, too, as images and texts do."""
    value = _shared(reading, call)[0]
    names = {n for n in value.all_names if n} if value is not None else set()
    for each in reading.calls_in(call.scope):
        other, dim = _shared(reading, each)
        if other is not None and names & {*other.all_names} and index_of(known, dim) == 1 - where:
            return True
    return known.kinds[1 - where] == BATCH


BATCHES = {"B", "bs", "bsz", "batch", "batch_size"}
"""Names of nothing but a batch, where a tensor has two axes: b may be of boxes."""
COLUMNS = re.compile(r"\.(?:T|mT|t\(\)|transpose\([\d,-]+\))@|(?:mm|matmul)\([\w.]+\.(?:T|t\(\)),")


def _correlates(reading: Training) -> bool:
    """z1.T @ z2: products of features over the batch, whose columns have unit length."""
    words_of = ("corr", "barlow", "vicreg", "cov", "whiten", "einsum")
    return reading.mentions(*words_of) or any(
        COLUMNS.search(text) for text, _, _ in reading.cached(formulas)
    )


def _is_viewed(reading: Training, call: Call) -> bool:
    """Samples and places were joined: scores.view(batch * places, keys)."""
    value = _shared(reading, call)[0]
    found = objects.last_definition(reading, value.name, call) if value and value.name else [value]
    made = [reading.call_of(each) for each in found if each is not None]
    return bool(made) and all(m is not None and m.method in ("view", "reshape") for m in made)


def _is_beside_classes(
    reading: Training, call: Call, value: Value, known: Axes, where: int
) -> bool:
    """The same name is what cross_entropy takes, whose classes are the second axis."""
    name = value.name or (
        made.receiver if (made := reading.call_of(value)) and made.method == "detach" else ""
    )
    if len(known.each) < 3 or where == 1 or call.method not in SHARES or not name:
        return False
    held = evaluate.definitions_at(reading, name, call)
    return any(
        kind == "cross_entropy" and (loss := reading.calls[n]).scope == call.scope
        and loss.args and loss.args[0].name == name
        and evaluate.definitions_at(reading, name, loss) == held
        for n, kind in loss_calls(reading)
    )  # fmt: skip


def _is_over_time(reading: Training, call: Call, known: Axes, where: int) -> bool:
    """log_softmax over the steps of a layer's output, in a file whose loss is CTC."""
    ctc = reading.methods("CTCLoss", "ctc_loss")
    return bool(ctc) and call.method == "log_softmax" and (
        known.kinds[where] == TIME and known.kinds[-1] == WIDTH
    )  # fmt: skip


def pooled_samples(reading: Training) -> Iterator[Match]:
    """states.mean(dim=0) of (batch, time, width), which a linear layer gets then."""
    seen: set[int] = set()
    several = reading.methods("Linear") and reading.modules and not _has_single_samples(reading)
    for call in reading.calls if several else ():
        layer = _first_layer(reading, call)
        if layer is None or layer.name != "torch.nn.Linear":
            continue
        known = axes_of(reading, call.args[0], call)
        if known is None or known.lost < 0 or BATCH in known.kinds or known.lost in seen:
            continue
        pool = reading.calls[known.lost]
        if len(known.each) == 2 and not reading.is_without_graph(pool):
            seen.add(known.lost)
            yield Match(
                pool.span,
                f"{pool.method}() along this axis runs over the batch: samples become one",
                "fail" if reading.methods("DataLoader") else "warn",
                fix="Pool along the axis of time.",
            )


def _has_single_samples(reading: Training) -> bool:
    """A loader gives one sample at a time, in parts that may be pooled: frames of one video."""
    for call in reading.named("DataLoader"):
        size = call.given("batch_size", 1)
        single = size is None or (size.kind == "literal" and size.literal in (None, 1))
        if single and not call.unpacked and "batch_sampler" not in call.keywords:
            return True
    return False


def _first_layer(reading: Training, call: Call) -> Call | None:
    """The layer of torch.nn that gets what a call passes, also as the first of a Sequential."""
    made = objects.callee(reading, call) if len(call.args) == 1 and not call.keywords else []
    one = made[0] if len(made) == 1 else None
    while one is not None and one.name == "torch.nn.Sequential" and one.args:
        parts = [reading.call_of(v) for v in one.args]
        rest = [p for p in parts if p is None or p.method not in axes.SAME_LAYERS]
        one = rest[0] if rest else None
    return one


def mixing_views(reading: Training) -> Iterator[Match]:
    """x.view(time, batch, 1) of (batch, time): the numbers of one sample become others'."""
    for call in reading.named("view", "reshape"):
        value = objects.operand(call)
        known = axes_of(reading, value, call) if value is not None and not call.unpacked else None
        shifts = re.search(r"shift|skew", reading.function(call.scope).name)
        if known is None or call.name.startswith("numpy.") or shifts:
            continue
        of = {axis.size: n for n, axis in enumerate(known.each) if axis.size is not None}
        if len(of) < 2:
            continue
        order = [_places(reading, call, of, v) for v in sizes_given(call)]
        pairs = [(min(a), min(b)) for a, b in itertools.pairwise(order) if a and b]
        exchanged = next(((a, b) for a, b in pairs if b < a), None)
        first, second = (order[0][:1], order[1][:1]) if len(order) > 1 else ([], [])
        skipped = known.each[first[0] + 1 : second[0]] if first and second else ()
        last = sizes_given(call)[-1].literal == -1
        mixed = last and any((axis.count or 0) > 1 for axis in skipped)
        if exchanged or mixed:
            a, b = exchanged or (first[0], second[0])
            yield Match(
                call.span,
                f"{call.method}() does not move axes: with axis {b} behind axis {a}, numbers get "
                "to other places",
                fix="Move the axes first: transpose() or permute().",
            )


def _places(
    reading: Training, call: Call, of: dict[tuple[object, str], int], value: Value
) -> list[int]:
    """The axes whose lengths a size names: H * W of (batch, H, W, width) are 1 and 2."""
    parts = value.items if value.name == "Mult" else (value,)
    keys = [reading.key(v.name, call.scope) for v in parts if v.kind == "name"]
    once = all(len(reading.assigned.get(key, ())) == 1 for key in keys)
    known = [of[key] for key in keys if key in of]
    return known if once and len(known) == len(parts) else []


def batch_first_input(reading: Training) -> Iterator[Match]:
    """Layers that take the time first get (batch, time, width)."""
    for call in reading.calls if reading.modules else ():
        made = objects.callee(reading, call) if call.args else []
        if len(made) != 1 or made[0] is None or not _takes_time_first(made[0]):
            continue
        known = axes_of(reading, call.args[0], call)
        if known is not None and len(known.each) == 3 and known.kinds[0] == BATCH and (
                known.kinds[1] != ONE):  # fmt: skip
            yield Match(
                call.span,
                f"{call.name} is without batch_first, takes (time, batch, width), and gets the "
                "batch first: it mixes samples",
                "warn",  # rows of a table may attend to one another
                fix="Pass batch_first=True to the layer.",
            )


def _takes_time_first(made: Call) -> bool:
    """An attention layer of torch.nn without batch_first."""
    known = {"MultiheadAttention": 8, "TransformerEncoderLayer": 9}
    return (
        made.name.rpartition(".")[0] == "torch.nn"
        and made.method in known
        and not made.unpacked
        and "batch_first" not in made.keywords
        and len(made.args) < known[made.method]
    )
