"""What a network ends in, and settings of its layers and optimizer that are exchanged."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value


def ends(reading: Training) -> Iterator[Match]:
    """A Dropout behind the last layer, batch norm of one sample, and exchanged betas."""
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        value = evaluate.argument(reading, call, "input", 0)
        if kind not in ("cross_entropy", "bce_logits", "mse") or value is None:
            continue
        found = evaluate.options(reading, value, call)
        for option in found if len(found) == 1 else ():
            run = reading.call_of(option)
            made = objects.callee(reading, run) if run is not None and run.args else []
            for each in made if len(made) == 1 else ():
                if each is None or each.name != "torch.nn.Sequential" or len(each.args) < 2:
                    continue
                last = each.args[-1]
                layer = reading.call_of(last)
                if layer is not None and layer.name == "torch.nn.Dropout":
                    yield Match(layer.span, "a Dropout behind the last layer sets outputs to 0")
    yield from _betas(reading)
    yield from _single(reading)


def _betas(reading: Training) -> Iterator[Match]:
    for n in reading.optimizers:
        call = reading.calls[n]
        value = call.keywords.get("betas")
        numbers = [v.literal for v in value.items] if value is not None else []
        pair = [v for v in numbers if isinstance(v, float)]
        if len(pair) == 2 and pair[0] > pair[1] and pair[0] >= 0.99:
            yield Match(
                call.span, f"betas={pair[0]:g}, {pair[1]:g} are exchanged: momentum is first"
            )


def _single(reading: Training) -> Iterator[Match]:
    """BatchNorm1d behind a Linear, and loaders of one sample."""
    linear = {
        n
        for n in reading.methods("Sequential")
        for v, w in zip(reading.calls[n].args, reading.calls[n].args[1:], strict=False)
        if v.kind == "call" == w.kind
        and reading.calls[v.call].name == "torch.nn.Linear"
        and reading.calls[w.call].name == "torch.nn.BatchNorm1d"
    }
    for call in reading.named("DataLoader") if linear else ():
        size = evaluate.argument(reading, call, "batch_size", 1)
        one = size is not None and evaluate.literals(reading, size, call) == {1}
        if one and reading.trains_on(call):
            yield Match(call.span, "BatchNorm1d of one sample raises: it has no variance")


def ends_in_linear(reading: Training, value: Value, call: Call, depth: int = 6) -> bool:
    """A Linear of this file made the value last: its classes are the last axis."""
    found = objects.last_definition(reading, value.name, call) if value.kind == "name" else [value]
    index = None
    for each in found if depth and len(found) == 1 else ():
        if each.kind == "item" and len(each.items) == 2 and each.items[0].kind == "call":
            index, each = each.items[1].literal, each.items[0]
        made = reading.call_of(each)
        callees = objects.callee(reading, made) if made is not None else []
        if made is None or len(callees) != 1 or callees[0] is None:
            return False
        if callees[0].name == "torch.nn.Linear":
            return True
        forward = objects.method_of(reading, callees[0].name, "forward")
        results = reading.returns(forward)
        parts = [r.items[index] if r.kind == "list" and isinstance(index, int) else r
                 for r in results]  # fmt: skip
        return bool(parts) and all(_is_linear(reading, part, forward, depth) for part in parts)
    return False


def _is_linear(reading: Training, value: Value, forward: int | None, depth: int) -> bool:
    inner = reading.call_of(value)
    if inner is None and value.kind == "name":
        held = [a for a in reading.assignments if a.target == value.name and a.scope == forward]
        inner = reading.call_of(held[-1].value) if len(held) == 1 else None
    made = objects.callee(reading, inner) if inner is not None else []
    return len(made) == 1 and made[0] is not None and made[0].name == "torch.nn.Linear"
