"""Rules on where the graph of a loss begins and ends."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, gradients, objects
from doctor.checks.script.loss.features import without_gradient
from doctor.checks.script.loss.losses import LOSSES
from doctor.checks.script.outcomes import VIEWS
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import NO_GRAD, Training
from doctor.facts.script import Assignment, Call, Value

CUTS = ("detach_", "repackage_hidden", "detach")
MOST_CALLS = 4
"""Modules within modules that are searched for a detach(). Our own number."""


def forward_without_grad(reading: Training) -> Iterator[Match]:
    yield from without_gradient(reading)
    yield from _constant_penalty(reading)
    yield from _part_without_grad(reading)
    if not reading.mentions(*NO_GRAD):
        return
    for call in reading.named("backward"):
        name = reading.loss_name(call)
        if call.name == "backward" or reading.is_autograd(call) or not name:
            continue
        found = evaluate.definitions_at(reading, name, call)
        if not found or any(each.scope != call.scope for each in found):
            continue
        given = {name, *(n for each in found for n in each.value.names)}
        regained = any(
            other.receiver in given and other.receiver for other in reading.named("requires_grad_")
        )
        if regained or reading.methods("enable_grad", "set_grad_enabled"):
            continue
        if all(_has_no_graph(reading, each) for each in found):
            yield Match(call.span, f"{name} was computed under no_grad: it has no graph")


def _part_without_grad(reading: Training) -> Iterator[Match]:
    """with no_grad(): self.trunk(x) in a forward, and an optimizer over net.trunk.parameters()."""
    if reading.mentions("enable_grad", "set_grad_enabled"):
        return
    held = {
        reading.calls[m].receiver.rpartition(".")[2]
        for n in reading.optimizers if not reading.calls[n].arms
        for v in reading.calls[n].values
        for m in (v.call, *v.calls) if m >= 0
        and reading.calls[m].method == "parameters" and "." in reading.calls[m].receiver
    }  # fmt: skip
    for part in sorted(held):
        uses = reading.named(part)
        if len(uses) != 1 or uses[0].name != f"self.{part}" or uses[0].arms:
            continue
        (call,) = uses
        function = reading.function(call.scope)
        sites = [reading.function(reading.calls[n].scope).name
                 for n in reading.call_sites.get(call.scope, ())]  # fmt: skip
        forward = function.owner in reading.modules and "forward" in (function.name, *sites)
        cut = any(
            v.kind == "call" and reading.calls[v.call].method in NO_GRAD
            for v in reading.contexts(call)
        )
        inside = any(c.receiver.endswith(f".{part}") or f".{part}." in c.name
                     for c in reading.calls if c.method not in OF_PARTS)  # fmt: skip
        if forward and cut and not inside:
            message = f"{part} always runs without gradients: the optimizer holds it, and it stays"
            yield Match(call.span, message, "warn")


OF_PARTS = {"parameters", "named_parameters", "train", "eval", "requires_grad_", "to", "cuda",
            "state_dict", "load_state_dict", "modules", "named_modules", "compile"}  # fmt: skip
"""Methods of a module that run no forward."""
PENALTIES = re.compile(r"penalt|(?:^|_)gp(?:_|$)|lipschitz|(?:^|_)r1(?:_|$)")


def _constant_penalty(reading: Training) -> Iterator[Match]:
    """A norm of autograd.grad() without create_graph is a part of the loss."""
    for n, call in reading.numbered(reading.methods("grad")):
        asked = call.keywords.get("create_graph")
        if call.name != "torch.autograd.grad" or (asked and asked.literal is not False):
            continue
        if call.unpacked or len(call.args) > 4:
            continue
        targets = {
            each.target
            for each in reading.assignments
            if each.scope == call.scope and n in each.value.calls
        }
        normed = any(
            c.method in ("norm", "square", "pow", "vector_norm")
            and targets & {c.receiver, *_roots(reading, c)}
            for c in (reading.calls_in(call.scope))
        )
        named = PENALTIES.search(reading.function(call.scope).name.casefold())
        sites = reading.call_sites.get(call.scope, ()) if normed and named else ()
        if any(not reading.is_without_graph(reading.calls[m]) for m in sites):
            yield Match(call.span, "without create_graph=True this penalty is a constant")
            continue
        losses = (m for m in reading.backwards if m > n and reading.calls[m].scope == call.scope)
        for m, backward in reading.numbered(losses if normed else ()):
            found = gradients.sources(reading, backward, m, reading.loss_name(backward))
            if found & {reading.key(name, call.scope) for name in targets}:
                message = "without create_graph=True this gradient is a constant in the loss"
                yield Match(call.span, message)
                break


def _roots(reading: Training, call: Call) -> Iterator[str]:
    """What a chain of methods, or a function, is called on."""
    while call.receiver_call >= 0:
        call = reading.calls[call.receiver_call]
    yield call.receiver
    yield from (name for value in call.args for name in value.all_names)


def _has_no_graph(reading: Training, each: Assignment) -> bool:
    if reading.under_no_grad(each.contexts):
        return True
    if each.value.kind != "call":
        return False
    call = reading.calls[each.value.call]
    if call.method not in LOSSES and not any(
        made is not None and made.method in LOSSES for made in objects.callee(reading, call)
    ):
        return False
    states = [_is_without(reading, value, call) for value in call.args]
    return True in states and False not in states


def _is_without(reading: Training, value: Value, call: Call) -> bool | None:
    """Whether an argument was computed under no_grad; None for data of the loop, False unknown."""
    if value.kind != "name":
        return False
    found = evaluate.definitions_at(reading, value.name, call)
    if not found:
        bound = any(value.name in reading.loops[loop].targets for loop in call.loops)
        return (
            None if bound or not evaluate.is_parameter(reading, call.scope, value.name) else False
        )
    return all(each.scope == call.scope and reading.under_no_grad(each.contexts) for each in found)


def hidden_not_detached(reading: Training) -> Iterator[Match]:
    for number, backward in reading.numbered(reading.backwards):
        if not backward.loops or backward.args or backward.keywords:
            continue
        around = objects.around(reading, backward, backward.loops[-1])
        reading.step(len(around))
        for n, call in reading.numbered(around):
            if n >= number or call.loops != backward.loops or len(call.targets) < 2:
                continue
            for name in call.targets:
                if not _carried(reading, call, name) or not _leads_to(
                    reading, call, backward, number
                ):
                    continue
                cuts = _cuts_inside(reading, call)
                unknown = "" if cuts is False else f"{call.name}() may detach it itself"
                if not cuts:
                    message = f"{name} carries the graph of the iteration before"
                    yield Match(call.span, message, undecided=unknown)


def _cuts_inside(reading: Training, call: Call, depth: int = MOST_CALLS) -> bool | None:
    """Whether what is called detaches something; None where another file decides it."""
    functions = _entered(reading, call)
    inside = [other for each in functions if each for other in reading.calls_in(each)]
    if any(each.method in CUTS or each.method in NO_GRAD for each in inside):
        return True
    if None in functions or not depth:
        return None
    modules = [
        each
        for each in inside
        if each.name == f"self.{each.method}" or reading.target_function(each) is not None
    ]
    results = [_cuts_inside(reading, each, depth - 1) for each in modules]
    return True if True in results else None if None in results else False


def _entered(reading: Training, call: Call) -> list[int | None]:
    """The functions of this file that a call runs, none for torch's own; None for unknown ones."""
    function = reading.target_function(call)
    if function is not None:
        return [function]
    made = objects.callee(reading, call)
    return [
        None if each is None else objects.method_of(reading, each.name, "forward")
        for each in made or [None]
        if each is None or not each.name.startswith("torch.nn.")
    ]


def _carried(reading: Training, call: Call, name: str) -> bool:
    """The call takes and returns it, it starts outside of the loop, and nothing cuts it."""
    if not any(value.kind == "name" and value.name == name for value in call.args):
        return False
    if reading.under_no_grad(call.contexts):
        return False
    loop = call.loops[-1]
    results = reading.assigned_to(name, call.scope)
    inside = [each for each in results if loop in each.loops]
    starts = [each for each in results if loop not in each.loops and each.scope == call.scope]
    number = reading.number(call)
    makes_state = [
        each
        for each in starts
        if each.value.kind == "call"
        or (each.value.kind == "literal" and each.value.literal is None)
    ]
    cut = any(
        reading.calls[n].receiver == name or name in [v.name for v in reading.calls[n].args]
        for n in reading.by_loop[loop]
        if n != number and reading.calls[n].method in CUTS
    )
    return (
        bool(makes_state)
        and all(each.value.call == number or _is_view(reading, each, name) for each in inside)
        and not cut
        and name not in reading.loops[loop].targets
    )


def _is_view(reading: Training, each: Assignment, name: str) -> bool:
    """h = h.clone(), which keeps the graph."""
    call = reading.call_of(each.value)
    return call is not None and call.receiver == name and call.method in VIEWS


def _leads_to(reading: Training, call: Call, backward: Call, number: int) -> bool:
    """The loss is computed from another result of the same call, with no other state between."""
    names = set(call.targets)
    for each in reading.assignments:
        if each.scope != call.scope or each.position > number:
            continue
        if names.intersection(each.value.all_names):
            names.add(each.target)
    return backward.receiver in names and not exclusive(call.arms, backward.arms)


RULES = (
    Rule(
        code="SCR219",
        slug="forward-without-grad",
        title="The forward pass of a step records its graph",
        severity="fail",
        find=forward_without_grad,
        why="Under no_grad nothing records how the loss was computed: backward() raises 'element 0 "
        "of tensors does not require grad and does not have a grad_fn'.",
        fires=(
            "backward() on a loss that was computed under no_grad or inference_mode",
            "a penalty of the norm of autograd.grad(), which is called without create_graph=True",
            "a warning: self.part(x) under no_grad alone, and an optimizer over part.parameters()",
        ),
        fix="End the no_grad block before the forward pass; pass create_graph=True for a penalty.",
        needs=("no_grad", "inference_mode", "autograd"),
        sources=("torch-no-grad",),
    ),
    Rule(
        code="SCR220",
        slug="hidden-not-detached",
        title="A hidden state is detached between batches",
        severity="fail",
        find=hidden_not_detached,
        why="The second iteration's backward() runs into the first one's graph, which is freed: "
        "'Trying to backward through the graph a second time'.",
        fires=("output, hidden = model(x, hidden) in the loop of backward(), and no detach()",),
        fix="Call hidden = hidden.detach() at the start of each iteration, for each part of a "
        "tuple.",
        sources=("torch-detach",),
    ),
)
