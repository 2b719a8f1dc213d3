"""A rule that outputs and targets of a loss have one shape."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss import squared
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.loss.vectors import ARITHMETIC, SAME, is_vector
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Arms, Call, Value

DEPTH = 12


def broadcast(reading: Training) -> Iterator[Match]:
    found = list(squared.differences(reading))
    yield from found
    yield from (m for m in squared.unsqueezed(reading) if m.span not in {f.span for f in found})
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        if kind not in ("mse", "bce", "bce_logits") or len(call.args) < 2:
            continue
        first, second = call.args[:2]
        pairs = ((first, second), (second, first))
        for column, row in pairs:
            if kind == "mse" and squared.differ(reading, column, row, (call.scope, number)):
                yield Match(call.span, "one of (N, 1) and one of (N,) are broadcast to (N, N)")
                break
            if _is_column(reading, column, call.scope, number, call.arms, DEPTH) and _is_row(
                reading, row, call.scope, number, call.arms, DEPTH
            ):
                done = "broadcast to (N, N)" if kind == "mse" else "refused"
                yield Match(call.span, f"one of (N, 1) and one of (N,) are {done}")
                break


def _definitions(
    reading: Training, name: str, scope: int, position: int, arms: Arms
) -> list[tuple[Value, int, int, Arms]]:
    return [
        (each.value, each.scope, each.position - 1, each.arms)
        for each in evaluate.definitions(reading, name, scope, position, arms)
        if each.scope == scope and each.position <= position
    ]


def _is_column(
    reading: Training, value: Value, scope: int, position: int, arms: Arms, depth: int
) -> bool:
    """The output of a Linear(..., 1) as it is, or gather() along axis 1 of one index."""
    if not depth:
        return False
    if value.kind == "name":
        found = _definitions(reading, value.name, scope, position, arms)
        return bool(found) and all(_is_column(reading, *each, depth - 1) for each in found)
    if value.kind == "item" and len(value.items) == 2 and value.items[0].kind == "call":
        number = value.items[1].literal
        function = _entered(reading, reading.calls[value.items[0].call])
        known = function is not None and isinstance(number, int)
        return known and _returns_column(reading, function or 0, int(number or 0), depth)
    if value.kind != "call":
        return False
    call = reading.calls[value.call]
    if call.method == "gather" and len(call.args) == 2 and call.args[0].literal == 1:
        index = reading.call_of(call.args[1])
        return index is not None and index.method == "unsqueeze"
    function = _entered(reading, call)
    if function is not None:
        return _returns_column(reading, function, None, depth)
    made = objects.callee(reading, call)
    return bool(made) and all(
        each is not None and _ends_in_one(reading, each, depth) for each in made
    )


def _entered(reading: Training, call: Call) -> int | None:
    """The forward() of a module of this file that a call runs."""
    made = objects.callee(reading, call)
    names = {each.name if each is not None else "" for each in made}
    if len(names) == 1 and (name := names.pop()) in reading.modules:
        return objects.method_of(reading, name, "forward")
    return None


def _returns_column(reading: Training, function: int, index: int | None, depth: int) -> bool:
    each = reading.function(function)
    values = []
    for value, (position, arms) in zip(each.returns, each.exits, strict=True):
        if index is not None:
            if value.kind != "list" or index >= len(value.items):
                return False
            value = value.items[index]
        values.append(_is_column(reading, value, function, position, arms, depth - 1))
    return bool(values) and all(values)


def _ends_in_one(reading: Training, made: Call, depth: int) -> bool:
    """nn.Linear(n, 1), also as the last of a Sequential and below an activation."""
    if made.name == "torch.nn.Linear":
        width = evaluate.argument(reading, made, "out_features", 1)
        return width is not None and width.kind == "literal" and width.literal == 1
    if made.name != "torch.nn.Sequential" or not made.args or not depth:
        return False
    for value in reversed(made.args[-1:] if made.unpacked else made.args):
        inner = reading.call_of(value)
        if inner is None:
            return False
        if inner.method not in ("Sigmoid", "ReLU", "Tanh", "Dropout", "Identity", "Softplus"):
            return _ends_in_one(reading, inner, depth - 1)
    return False


def _is_row(
    reading: Training, value: Value, scope: int, position: int, arms: Arms, depth: int
) -> bool:
    """One number per sample for certain: max over actions, or a column of a table."""
    if not depth:
        return False
    if value.kind == "name":
        return _is_row_named(reading, value.name, scope, position, arms, depth)
    if value.kind == "other" and value.name in ARITHMETIC:
        return any(_is_row(reading, item, scope, position, arms, depth - 1) for item in value.items)
    values = value.kind == "other" and value.name == "values" and len(value.items) == 1
    if values or (value.kind == "item" and value.items and value.items[-1].literal == 0):
        return _is_maximum(reading, value.items[0])
    if value.kind == "item" and len(value.items) == 2 and value.items[1].kind in ("name", "slice"):
        return is_vector(reading, value.items[0], scope, position, depth - 1)
    if value.kind != "call":
        return False
    call = reading.calls[value.call]
    if call.method in SAME:
        part = objects.operand(call)
        return part is not None and _is_row(reading, part, call.scope, value.call, arms, depth - 1)
    axes = [v.literal for v in call.args]
    return call.method in ("squeeze", "amax") and axes in ([1], [-1])


def _is_row_named(
    reading: Training, name: str, scope: int, position: int, arms: Arms, depth: int
) -> bool:
    found = _definitions(reading, name, scope, position, arms)
    moved = [
        reading.calls[value.call]
        for value, *_ in found
        if value.kind == "call" and reading.calls[value.call].receiver == name
    ]
    if len(moved) == len(found):
        kept = all(call.method in SAME for call in moved)
        return kept and _of_loader(reading, name, scope, position, depth)
    return all(_is_row(reading, *each, depth - 1) for each in found)


def _is_maximum(reading: Training, value: Value) -> bool:
    """x.max(1) without keepdim."""
    call = reading.call_of(value)
    if call is None or call.method != "max" or "keepdim" in call.keywords:
        return False
    axis = call.given("dim", 0)
    return axis is not None and axis.literal in (1, -1) and len(call.args) < 2


def _of_loader(reading: Training, name: str, scope: int, position: int, depth: int) -> bool:
    """A name that a loop over a loader of TensorDataset(x, y) binds last, and y is one column."""
    for each, loop in enumerate(reading.loops):
        if loop.scope != scope or name not in loop.targets or loop.iterable is None:
            continue
        inside = reading.by_loop.get(each, [])
        if not inside or not inside[0] - 1 <= position <= inside[-1]:
            continue
        if loop.targets.index(name) != len(loop.targets) - 1 or len(loop.targets) < 2:
            return False
        for option in evaluate.options_at(reading, loop.iterable, scope, position, ()):
            call = reading.call_of(option)
            data = call.args[0] if call is not None and call.args else None
            if call is None or call.method != "DataLoader" or data is None:
                return False
            sets = evaluate.options(reading, data, call)
            made = reading.calls_of(sets)
            return bool(made) and all(
                m.method == "TensorDataset" and _holds_vector(reading, m, depth - 1) for m in made
            )
    return False


def _holds_vector(reading: Training, made: Call, depth: int) -> bool:
    """The last of TensorDataset(x, y), also of TensorDataset(*tensors_of(table))."""
    position = reading.number(made)
    if len(made.args) > 1 and not made.unpacked:
        return is_vector(reading, made.args[-1], made.scope, position, depth)
    given = made.unpacked[0] if len(made.unpacked) == 1 and not made.args else Value("other")
    call = reading.call_of(given)
    function = reading.target_function(call) if call is not None else None
    if function is None:
        return False
    each = reading.function(function)
    return bool(each.returns) and all(
        value.kind == "list"
        and len(value.items) > 1
        and is_vector(reading, value.items[-1], function, position, depth)
        for value, (position, _) in zip(each.returns, each.exits, strict=True)
    )


RULES = (
    Rule(
        code="SCR329",
        slug="loss-broadcast",
        title="Outputs and targets of a loss have one shape",
        severity="fail",
        find=broadcast,
        why="The mean squared error of (N, 1) and (N,) is broadcast to (N, N): every output is "
        "compared with every target, and the model learns their mean. torch only warns.",
        fires=(
            "the output of nn.Linear(..., 1) against a column of a table, a target of "
            "sklearn.datasets or max over actions",
            "gather(1, index.unsqueeze(1)) against values of one number per sample",
            "critic(x) - returns, of the output of nn.Linear(..., 1) and a list of numbers",
            "the same where other places of the file squeeze that output (a warning)",
        ),
        fix="Call squeeze(-1) on the output, or unsqueeze(-1) on the target.",
        sources=("torch-losses",),
        needs=("Linear", "gather"),
    ),
)
