"""A rule on backward() that cannot start, or runs twice."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from doctor.checks.script import evaluate, gradients, objects
from doctor.checks.script.loss.losses import LOSSES
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call

WRAPPERS = ("accelerate", "lightning", "lightning_fabric", "pytorch_lightning", "deepspeed")


def backward_raises(reading: Training) -> Iterator[Match]:
    """backward() of a loss per sample, and a second one through a graph that is freed."""
    for number in reading.backwards:
        call = reading.calls[number]
        if call.receiver and not call.args and not call.keywords and _is_vector(reading, call):
            yield Match(call.span, f"{call.receiver} has a value per sample: reduction is none")
    yield from _freed(reading)
    yield from _growing(reading)


def _growing(reading: Training) -> Iterator[Match]:
    """loss += criterion(...) and loss.backward() in a loop that never starts loss anew."""
    left = {bare.loops for bare in reading.script.bare if bare.name == "break"}
    emptied = {(call.scope, call.receiver) for call in reading.named("detach_", "zero_", "mul_")}
    for call in (reading.calls[n] for n in reading.backwards):
        name = reading.loss_name(call)
        if not name or not call.loops or call.arms or call.keywords or not name.isidentifier():
            continue
        if call.loops in left or (call.scope, name) in emptied:
            continue
        held = [a for a in reading.assigned_to(name, call.scope) if a.scope == call.scope]
        inside = [a for a in held if call.loops[-1] in a.loops]
        grows = inside and all(a.augmented and a.operator == "Add" for a in inside)
        terms = [m for a in inside for m in reading.calls_of([a.value])]
        graphs = len(terms) == len(inside) and not any(
            m.method in ("item", "detach", "float") or reading.is_without_graph(m) for m in terms
        )
        if grows and graphs and len(held) > len(inside):
            message = f"{name} keeps the losses of earlier iterations, whose graphs are freed"
            yield Match(inside[0].span, message, fix=f"{name} = ... in each iteration.")


def _is_vector(reading: Training, call: Call) -> bool:
    for value in objects.last_definition(reading, call.receiver, call):
        made = reading.call_of(value)
        if made is None:
            return False
        makers = objects.callee(reading, made) if made.method not in LOSSES else [made]
        for each in makers or [None]:
            reduction = each.keywords.get("reduction") if each is not None else None
            if each is None or each.method not in LOSSES or reduction is None:
                return False
            if reduction.literal != "none":
                return False
        return True
    return False


def _freed(reading: Training) -> Iterator[Match]:
    """Another loss of this iteration went back through the same call of what trains.

    Each is compared with the last one before it that went through the same result alone.
    """
    latest: dict[tuple[object, ...], int] = {}
    for number, call in reading.numbered(reading.backwards):
        loss = reading.loss_name(call)
        if not loss or not call.loops or (call.args and loss == call.receiver):
            continue
        reading.step()
        place = (call.scope, call.loops, call.arms)
        names = _outputs(reading, call, number) if loss == call.receiver else set()
        for name in sorted({loss, *names}):
            n = latest.get((*place, name), -1)
            if n < 0 or _is_set_between(reading, name, call.scope, n, number):
                continue
            other = reading.calls[n].receiver
            first = reading.loss_name(reading.calls[n])
            # net.backward(delta) of one's own network frees nothing: a tensor's own call tells.
            own = name == call.receiver == other
            own = own or (name in (call.receiver, other) and reading.imports_from(*WRAPPERS))
            if name == loss == first and own:
                yield Match(call.span, f"{name}.backward() twice: the graph is freed")
                break
            if name in names and loss != first == other:
                yield Match(call.span, f"the graph of {name} is freed by {first}.backward()")
                break
        keeps = "retain_graph" in call.keywords
        latest |= {(*place, name): -1 if keeps else number for name in {loss, *names}}


def _is_set_between(reading: Training, name: str, scope: int, first: int, last: int) -> bool:
    positions = reading.cached(_positions).get((scope, name), [])
    return bisect_right(positions, first) < bisect_right(positions, last)


def _positions(reading: Training) -> dict[tuple[int, str], list[int]]:
    """Where each function assigns a name, in order."""
    table: dict[tuple[int, str], list[int]] = {}
    for each in reading.assignments:
        table.setdefault((each.scope, each.target), []).append(each.position)
    return {key: sorted(positions) for key, positions in table.items()}


def _outputs(reading: Training, call: Call, number: int) -> set[str]:
    """Names that a loss is computed of, and that hold a result of what trains."""
    found: set[str] = set()
    for each in evaluate.definitions(reading, call.receiver, call.scope, number, call.arms)[:1]:
        for name in gradients.names(reading, each.value):
            values = evaluate.definitions(reading, name, call.scope, number, call.arms)[:1]
            for made in values:
                reading.step()
                inner = reading.call_of(made.value)
                trained = inner is not None and reading.key(inner.name, inner.scope) in (
                    reading.trained_names
                )
                same = made.loops == call.loops and not reading.under_no_grad(made.contexts)
                if trained and same:
                    found.add(name)
    return found


RULES = (
    Rule(
        code="SCR228",
        slug="backward-raises",
        title="backward() starts at one number and goes through a graph once",
        severity="fail",
        find=backward_raises,
        why="backward() of a tensor with more than one value raises, and so does a second one "
        "through a graph that the first has freed.",
        fires=(
            "backward() of a loss with reduction='none'",
            "two backward() of losses of one output, without retain_graph at the first",
            "loss += criterion(...) and loss.backward() in a loop, and no loss = 0 in it",
        ),
        fix="Call loss.mean().backward(); add the losses and call backward() once.",
        sources=("torch-autograd-backward",),
    ),
)
