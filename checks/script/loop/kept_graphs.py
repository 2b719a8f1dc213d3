"""A rule on sums of losses that hold their graphs."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.loop.zeroed import stepped
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Span, Value

FEW = 100
"""Iterations of which the graphs may be kept. Our own number."""


def graph_kept(reading: Training) -> Iterator[Match]:
    for number in reading.backwards:
        call = reading.calls[number]
        yield from _graph_of_gradients(reading, call)
        name = reading.loss_name(call)
        if not name or call.keywords.get("retain_graph") is not None:
            continue
        if call.loops and not _is_short(reading, call):
            for target, span in _kept(reading, call, name):
                if not _reaches_backward(reading, target):
                    yield Match(span, f"{target} holds the graph of every {name}")
        yield from _returned_sums(reading, call, name)
        yield from _metered(reading, call, name)


def _graph_of_gradients(reading: Training, call: Call) -> Iterator[Match]:
    """backward(create_graph=True) in a loop that differentiates nothing a second time."""
    asked = call.keywords.get("create_graph")
    if asked is None or asked.literal is not True or not call.loops:
        return
    own = [reading.calls[n].name for n in reading.optimizers]
    read = {".grad", "autograd", "hessian", "hutchinson", "higher", "functional_call"}
    names = {f".{each.rpartition('.')[2]}" for each in reading.script.identifiers}
    if not own or not all(name.startswith("torch.optim.") for name in own):
        return
    if not names & {".grad"} and not reading.mentions(*(read - {".grad"})):
        message = "gradients and weights hold each other: create_graph=True frees no graph"
        yield Match(call.span, message, "warn")


def _returned_sums(reading: Training, backward: Call, name: str) -> Iterator[Match]:
    """total += step(batch), where step() returns the loss that it called backward() on."""
    returns = reading.function(backward.scope).returns if backward.scope else ()
    if not returns or any(value.name != name for value in returns):
        return
    results = evaluate.definitions(reading, name, backward.scope, len(reading.calls), ())
    if any(each.position > reading.number(backward) for each in results):
        return
    sites = set(reading.call_sites.get(backward.scope, ()))
    for each in reading.assignments:
        kept = each.augmented and each.value.call in sites and each.loops
        if kept and not _reaches_backward(reading, each.target):
            yield Match(each.span, f"{each.target} holds the graph of every {name}")


def _metered(reading: Training, backward: Call, name: str) -> Iterator[Match]:
    """meter.update(loss), where a class of this file adds what it is given to an attribute."""
    for n, call in reading.numbered(reading.methods("update", "add", "append", "push", "record")):
        if (call.scope, call.loops) != (backward.scope, backward.loops) or not call.args:
            continue
        functions = [f for f in reading.functions_by_name.get(call.method, ())]
        if call.args[0].kind != "name" or call.args[0].name != name or len(functions) != 1:
            continue
        function = reading.function(functions[0])
        names = [p.name for p in function.parameters if p.name not in ("self", "cls")]
        sums = bool(names) and _sums_up(reading, functions[0], names[0])
        changed = any(a.scope == functions[0] and a.target == names[0]
                      for a in reading.assignments) if names else True  # fmt: skip
        if sums and not changed and _same_loss(reading, backward, name, n):
            yield Match(call.span, f"{call.name}({name}) adds losses with their graphs")


def _sums_up(reading: Training, function: int, name: str) -> bool:
    """self.total += value * n, self.total = self.total + value, or self.values.append(value)."""
    for each in reading.assignments:
        if each.scope != function or not each.target.startswith("self."):
            continue
        parts = each.value.all_names
        grows = each.augmented or each.target in parts
        if grows and name in parts and not each.value.calls:
            return True
    return any(
        call.scope == function
        and call.receiver.startswith("self.")
        and len(call.args) == 1
        and call.args[0].name == name
        and not _is_bounded(reading, call)
        for call in (reading.named("append"))
    )


def _is_bounded(reading: Training, call: Call) -> bool:
    """It is appended to a deque(maxlen=...)."""
    results = reading.assigned_to(call.receiver, call.scope)
    return any("deque" in other.name for each in results for other in reading.inside(each.value))


def _is_short(reading: Training, call: Call) -> bool:
    """All loops around it are over a range of few literal numbers."""
    for number in call.loops:
        iterable = reading.loops[number].iterable
        made = reading.call_of(iterable)
        if made is None or made.name != "range" or len(made.args) != 1:
            return False
        counts = evaluate.literals(reading, made.args[0], made)
        if not counts or not all(isinstance(n, int) and n <= FEW for n in counts):
            return False
    return True


def _kept(reading: Training, call: Call, name: str) -> Iterator[tuple[str, Span]]:
    """Sums and lists that outlive the iteration and receive the loss itself."""
    reading.step(len(reading.assignments))
    sums = [
        (each.target, each.span, each.position)
        for each in reading.assignments
        if each.augmented
        and (each.scope, each.loops) == (call.scope, call.loops)
        and _holds(each.value, name)
        and not reading.under_no_grad(each.contexts)
    ]
    lists = [
        (other.receiver, other.span, n)
        for n in reading.methods("append")
        if (other := reading.calls[n]).scope == call.scope
        and other.loops == call.loops
        and len(other.args) == 1
        and not other.keywords  # a meter's append(loss, count=n)
        and _holds(other.args[0], name)
        and not reading.under_no_grad(other.contexts)
    ]
    for target, span, position in (*sums, *lists):
        if _outlives(reading, target, call) and _same_loss(reading, call, name, position):
            yield target, span


def _holds(value: Value, name: str) -> bool:
    """The tensor itself, or a sum or product of it, not what a call makes of it."""
    if value.kind == "name":
        return bool(value.name == name)
    return value.kind in ("other", "list") and any(_holds(item, name) for item in value.items)


def _outlives(reading: Training, target: str, call: Call) -> bool:
    """It is started outside of the loop, as a number or a list, and not in it."""
    results = reading.assigned_to(target, call.scope)
    started = [each for each in results if not each.augmented]
    if any(each.loops == call.loops[:-1] != () for each in started):
        inside = reading.by_loop[call.loops[-1]]
        if not any(stepped(reading, reading.calls[n]) for n in inside):
            return False  # the batches of one step
    return bool(started) and not any(call.loops[-1] in each.loops for each in started)


def _same_loss(reading: Training, call: Call, name: str, position: int) -> bool:
    """The name holds the same tensor at both places: loss = loss.item() is not between."""
    first = reading.number(call)
    low, high = sorted((first, position))
    return not any(low < each.position <= high for each in reading.assigned_to(name, call.scope))


def _reaches_backward(reading: Training, target: str) -> bool:
    """backward() is called on it or on something that is computed from it."""
    names = {target}
    for each in reading.assignments:
        if names.intersection(each.value.all_names) and not _holds(each.value, "item"):
            names.add(each.target)
    for call in reading.named("backward"):
        inner = call.receiver_call
        used = {call.receiver}
        while inner >= 0:
            made = reading.calls[inner]
            used |= {made.receiver, *(n for v in made.args for n in v.all_names)}
            inner = made.receiver_call
        if names & used:
            return True
    return False


RULES = (
    Rule(
        code="SCR210",
        slug="graph-kept",
        title="Sums of losses hold no graphs",
        severity="warn",
        find=graph_kept,
        why="total += loss links every iteration's graph to the sum: memory grows with each step "
        "until it is exhausted.",
        fires=("a sum or list outside of the loop receives the loss itself",),
        fix="Add loss.item(), or loss.detach() to avoid a synchronization.",
        sources=("torch-faq-memory",),
    ),
)
