"""A rule that a step follows a loss of what the optimizer holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from doctor.checks.script import evaluate, objects
from doctor.checks.script.gradients import ENDS
from doctor.checks.script.lineage import WRAPPERS, Lineage
from doctor.checks.script.loop.zeroed import stepped
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Arms, Call, Value
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
    bound = any(name in loop.targets for loop in reading.loops if loop.scope == scope)
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


def step_without_loss(reading: Training) -> Iterator[Match]:
    made: dict[Key, list[int]] = {}
    for each in reading.trained:
        for name in () if each.trainer else reading.calls[each.sink].targets:
            made.setdefault(reading.key(name, reading.calls[each.sink].scope), []).append(each.sink)
    for number, call in reading.numbered(reading.methods("step") if made else ()):
        name = stepped(reading, call)
        sinks = made.get(reading.key(name, call.scope), ()) if name and call.loops else ()
        sink = max((n for n in sinks if n < number or len(sinks) == 1), default=None)
        if sink is None or reading.mentions(".grad", "autograd", "closure"):
            continue
        held = [each.lineage for each in reading.trained if each.sink == sink]
        owners = {key for lineage in held for key in lineage.names}
        if not all(_is_made(reading, each) for each in held) or _is_part(reading, owners):
            continue
        given = [*reading.calls[sink].values]
        if not owners or any(
            "Parameter" in other.name for v in given for other in reading.inside(v)
        ):
            continue
        losses = [
            n
            for n in reading.backwards
            if reading.calls[n].scope == call.scope
            and set(reading.calls[n].loops) & set(call.loops)
        ]
        if not losses or any(exclusive(reading.calls[n].arms, call.arms) for n in losses):
            continue
        yield from _unrelated(reading, call, name, owners, losses)
        yield from _term_detached(reading, call, number, owners)


def _is_made(reading: Training, lineage: Lineage) -> bool:
    """This file makes the network."""
    calls = [reading.calls[n] for n in lineage.calls]
    return any(
        (call.method[:1].isupper() and call.method not in WRAPPERS)
        or call.method == "from_pretrained"
        or call.name.startswith(("torchvision.models.", "timm."))
        for call in calls
    )


def _is_part(reading: Training, owners: set[Key]) -> bool:
    """Another object is made of it, and computes with it."""
    reading.step(len(reading.calls))
    return any(
        v.kind in ("name", "list")
        and any(reading.key(name, call.scope) in owners for name in v.all_names)
        for call in reading.calls
        if (call.method[:1].isupper() and call.method not in WRAPPERS)
        or call.name == "torch.compile"
        for v in call.values
    ) or any(
        each.value.kind == "name" and "." in each.target
        and reading.key(each.value.name, each.scope) in owners
        for each in reading.assignments
    )  # fmt: skip


def _unrelated(
    reading: Training, call: Call, name: str, owners: set[Key], losses: list[int]
) -> Iterator[Match]:
    graph = Graph()
    for n, backward in reading.numbered(losses):
        value = Value("name", name=backward.receiver)
        if backward.args:
            value = backward.args[0]
        elif backward.receiver_call >= 0:
            value = Value("call", call=backward.receiver_call)
        elif backward.base is not None:
            value = backward.base
        elif not backward.receiver:
            return
        follow(reading, value, backward.scope, n, backward.arms, graph, DEPTH)
    if graph.complete and not any(_related(one, other) for one in graph.names for other in owners):
        held = sorted({str(each[1]) for each in owners}, key=len)[0]
        why = f": {graph.cut} ends its gradient" if graph.cut else ""
        yield Match(
            call.span, f"{name} holds {held}, which no loss of this loop is computed of{why}"
        )


def _term_detached(reading: Training, call: Call, number: int, owners: set[Key]) -> Iterator[Match]:
    """A term of the loss before the step that goes through another network, of detached inputs."""
    before = [n for n in reading.backwards if n < number and reading.calls[n].loops == call.loops]
    if not before or not reading.calls[before[-1]].receiver:
        return
    backward = reading.calls[before[-1]]
    for each in evaluate.definitions(
        reading, backward.receiver, backward.scope, before[-1], backward.arms
    ):
        terms = list(each.value.items) if each.value.name in ("Add", "Sub") else []
        graphs = []
        for term in terms:
            graph = Graph()
            follow(reading, term, backward.scope, each.position - 1, backward.arms, graph, DEPTH)
            graphs.append(graph)
        near = [any(_related(a, b) for a in g.names for b in owners) for g in graphs]
        for graph, related in zip(graphs, near, strict=True):
            through = any(
                k in reading.trained_names and not any(_related(k, o) for o in owners)
                for k in graph.names
            )
            detached = graph.cut == "detach()" and graph.complete
            if not related and detached and through and any(near):
                yield Match(backward.span, "a part of the loss of this step is behind detach()")
                return


def _related(one: Key, other: Key) -> bool:
    """The same object, or a part of it."""
    if one[0] != other[0]:
        return False
    return one == other or one[1].startswith(f"{other[1]}.") or other[1].startswith(f"{one[1]}.")


RULES = (
    Rule(
        code="SCR324",
        slug="step-without-loss",
        title="An optimizer steps on gradients of its own parameters",
        severity="warn",
        find=step_without_loss,
        why="A loss that is not computed of the optimizer's network, or only behind detach() or "
        "no_grad, gives it no gradients: the network stays as it started.",
        fires=(
            "optimizer.step() in a loop whose losses are computed of other networks",
            "the same where detach() or no_grad stands between",
        ),
        fix="Give the optimizer the parameters of the network that the loss is computed of; "
        "remove detach() from the step of the generator.",
        sources=("torch-detach",),
    ),
)
