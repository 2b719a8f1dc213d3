"""What a loss is computed of, followed from backward() back."""

from __future__ import annotations

from dataclasses import dataclass, field

from doctor.checks.script import evaluate, objects
from doctor.checks.script.gradients import ENDS
from doctor.checks.script.training import Training
from doctor.facts.script import Arms, Assignment, Call, Value
from doctor.script.containers import MARK

Key = tuple[object, str]
PLAIN = {"sum", "abs", "min", "max", "float"}
DEPTH = 24
"""Values that are followed from the loss back. Our own number."""


@dataclass(slots=True)
class Graph:
    """What a loss is computed of. `complete`: nothing else takes part for certain."""

    names: set[Key] = field(default_factory=set)
    visited: set[tuple[Key, int]] = field(default_factory=set)
    complete: bool = True
    cut: str = ""
    """Where a gradient ends: detach() or no_grad."""


def follow(
    reading: Training, value: Value, scope: int, position: int, arms: Arms, graph: Graph, depth: int
) -> None:
    """Enter what a value is computed of into the graph."""
    reading.step()
    if not depth:
        graph.complete = False
    elif value.kind == "name":
        _follow_name(reading, value.name, scope, position, arms, graph, depth)
    elif value.kind == "call":
        _follow_call(reading, reading.calls[value.call], graph, depth)
    elif value.kind in ("item", "other", "choice", "list", "dict"):
        items = value.items[:1] if value.kind == "item" else value.items
        if not items and (value.names or value.calls):
            graph.complete = False
        for item in items:
            follow(reading, item, scope, position, arms, graph, depth - 1)
        if value.kind == "item" and not items and value.name:
            _follow_name(reading, value.name.partition("[")[0], scope, position, arms, graph, depth)


def _prefixes(reading: Training, name: str, scope: int) -> set[Key]:
    """a, a.b and a.b.c of a.b.c; not the dict that holds an object."""
    parts = name.split(".")
    first = next((n for n, part in enumerate(parts) if part.startswith(MARK)), 0)
    return {reading.key(".".join(parts[: n + 1]), scope) for n in range(first, len(parts))}


def _follow_name(
    reading: Training, name: str, scope: int, position: int, arms: Arms, graph: Graph, depth: int
) -> None:
    key = reading.key(name, scope)
    if (key, position) in graph.visited:
        return
    graph.visited.add((key, position))
    graph.names |= _prefixes(reading, name, scope)
    found = evaluate.definitions(reading, name, scope, position, arms)
    found = [*found, *(a for each in found for a in _at_once(reading, each, key))]
    grown = [a for a in reading.assigned.get(key, ()) if a.augmented]
    for each in [*found, *grown]:
        if each.scope != scope:
            graph.complete = False
        elif reading.under_no_grad(each.contexts):
            graph.cut = "no_grad"
        else:
            place = each.position if each.augmented else each.position - 1
            if each.augmented and each.position > position and not each.loops:
                continue
            follow(reading, each.value, scope, max(place, 0), each.arms, graph, depth - 1)
    for n, call in reading.numbered(reading.methods("append", "extend", "insert", "add_", "copy_")):
        grows = call.receiver and reading.key(call.receiver, call.scope) == key
        for given in call.args if grows else ():
            follow(reading, given, call.scope, n, call.arms, graph, depth - 1)
    _follow_owner(reading, name, scope, position, arms, graph, depth, bool(found))


def _at_once(reading: Training, each: Assignment, key: Key) -> list[Assignment]:
    """total = total + f(x) above total = total / n: no call stands between them."""
    if each.target not in each.value.all_names:
        return []
    return [
        a for a in reading.assigned.get(key, ())
        if a.position == each.position and a.scope == each.scope and a.span.order < each.span.order
    ]  # fmt: skip


def _listed(reading: Training, value: Value | None) -> list[Value]:
    """The lists that are written out in what a loop goes over, also below zip() and enumerate()."""
    call = reading.call_of(value)
    given = call.args if call is not None and call.name in ("zip", "enumerate") else (value,)
    return [each for each in given if each is not None and each.kind == "list"]


def _follow_owner(
    reading: Training,
    name: str,
    scope: int,
    position: int,
    arms: Arms,
    graph: Graph,
    depth: int,
    found: bool,
) -> None:
    """Of what nothing here assigns: the object that it is a part of."""
    key, parts = reading.key(name, scope), name.split(".")
    loops = [loop for loop in reading.loops if loop.scope == scope and name in loop.targets]
    bound = bool(loops)
    for loop in loops:
        for each in _listed(reading, loop.iterable):
            follow(reading, each, scope, position, arms, graph, depth - 1)
    if not found and not bound and key not in reading.trained_names:
        if len(parts) > 1 and not parts[-1].startswith(MARK):
            _follow_name(reading, ".".join(parts[:-1]), scope, position, arms, graph, depth - 1)
        else:
            default = evaluate.default(reading, scope, name)
            graph.complete = graph.complete and default is not None and default.kind == "literal"


def _follow_call(reading: Training, call: Call, graph: Graph, depth: int) -> None:
    if call.method in ENDS or "data" in call.receiver.split(".")[1:]:
        graph.cut = graph.cut or f"{call.method}()"
    if graph.cut == f"{call.method}()" or call.method == "from_pretrained":
        return
    number = reading.number(call)
    function = reading.target_function(call)
    if function is not None:
        _follow_function(reading, call, function, graph, depth)
    elif not (call.name.startswith("torch.") or call.base is not None or call.receiver_call >= 0):
        _follow_object(reading, call, number, graph, depth)
    made = reading.before(call)
    if made is not None and call.name.endswith("()") and not made.name.startswith("torch."):
        graph.complete = False
    own = None if made is not None and call.name.endswith("()") else objects.operand(call)
    inner = [own] if own is not None and own.kind != "name" and own not in call.args else []
    for value in (*inner, *call.args, *call.keywords.values(), *call.unpacked):
        follow(reading, value, call.scope, number, call.arms, graph, depth - 1)


def _follow_function(
    reading: Training, call: Call, function: int, graph: Graph, depth: int
) -> None:
    """What a function of this file returns."""
    own = {(function, p.name) for p in reading.function(function).parameters}
    returns = reading.function(function).returns
    if reading.under_no_grad(call.contexts) or not returns:
        graph.complete = False
    for each in returns:
        inner = Graph()
        follow(reading, each, function, len(reading.calls), (), inner, depth - 1)
        graph.names |= inner.names
        if not inner.complete and not inner.names & own:
            graph.complete = False


def _follow_object(reading: Training, call: Call, number: int, graph: Graph, depth: int) -> None:
    """model(x), model.encode(x), or a function that nothing here defines."""
    key = reading.key(call.name, call.scope)
    graph.names.add(key)
    made = objects.callee(reading, call)
    known = bool(made) and None not in made
    if call.receiver:
        graph.names |= _prefixes(reading, call.receiver, call.scope)
        if call.receiver != "self":
            _follow_name(reading, call.receiver, call.scope, number, call.arms, graph, depth - 1)
        return
    for each in evaluate.definitions(reading, call.name, call.scope, number, call.arms):
        if each.value.kind == "name":  # net = model
            graph.names |= _prefixes(reading, each.value.name, each.scope)
    own = any(each.name == call.name for each in reading.script.classes)
    if not (own or known or key in reading.trained_names or call.name in PLAIN):
        graph.complete = False
