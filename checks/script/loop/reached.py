"""A rule that a step follows a loss of what the optimizer holds."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.lineage import WRAPPERS, Lineage, lineage_of
from doctor.checks.script.loop.loss_graph import DEPTH, Graph, Key, follow
from doctor.checks.script.loop.zeroed import stepped
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

CONTAINERS = ("ModuleDict", "ModuleList", "Sequential")


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
        parts = owners | _given(reading, held)
        net = min((str(each[1]) for each in owners), key=lambda each: (len(each), each))
        yield from _unrelated(reading, call, f"{name} holds {net}", parts, losses)
        yield from _term_detached(reading, call, number, parts)


def _is_made(reading: Training, lineage: Lineage) -> bool:
    """This file makes the network."""
    calls = [reading.calls[n] for n in lineage.calls]
    return any(
        (call.method[:1].isupper() and call.method not in WRAPPERS)
        or call.method == "from_pretrained"
        or call.name.startswith(("torchvision.models.", "timm."))
        for call in calls
    )


def _given(reading: Training, held: list[Lineage]) -> set[Key]:
    """What the network is made of, as ModuleList([encoder, head]) is."""
    calls = [reading.calls[n] for lineage in held for n in lineage.calls]
    return {
        reading.key(name, call.scope)
        for call in calls
        if call.method in CONTAINERS
        for value in call.values
        for name in value.all_names
        if name
    }


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
    reading: Training, call: Call, holds: str, owners: set[Key], losses: list[int]
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
    related = any(_related(one, other) for one in graph.names for other in owners)
    if graph.complete and not related and not _wrapped(reading, graph, owners):
        why = f": {graph.cut} ends its gradient" if graph.cut else ""
        yield Match(call.span, f"{holds}, which no loss of this loop is computed of{why}")


def _wrapped(reading: Training, graph: Graph, owners: set[Key]) -> bool:
    """What the loss is computed of was made of the network: DDP(model), get_peft_model(base)."""
    return any(
        not lineage_of(reading, name, scope, len(reading.calls)).names.isdisjoint(owners)
        for scope, name in graph.names
        if isinstance(scope, int)
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
