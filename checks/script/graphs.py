"""Rules on where the graph of a loss begins and ends."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from doctor.checks.script import evaluate, gradients, objects
from doctor.checks.script.losses import LOSSES
from doctor.checks.script.reading import exclusive, within
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value
from doctor.facts.script_machine import ScriptMachine

IMPROVED = re.compile(r"^[^%]*[<>][^%]*$")
"""A test such as `accuracy > best`, not one of every Nth step."""
NO_GRAPH = ("no_grad", "inference_mode")
CUTS = ("detach_", "repackage_hidden", "detach")
MOST_CALLS = 4
"""Modules within modules that are searched for a detach(). Our own number."""


def forward_without_grad(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    yield from _constant_penalty(reading)
    if not reading.mentions(*NO_GRAPH):
        return
    for number in reading.methods("backward"):
        call = reading.calls[number]
        name = reading.loss_name(call)
        if call.name == "backward" or reading.is_autograd(call) or not name:
            continue
        found = evaluate.definitions(reading, name, call.scope, number, call.arms)
        if not found or any(each.scope != call.scope for each in found):
            continue
        given = {name, *(n for each in found for n in each.value.names)}
        regained = any(
            reading.calls[n].receiver in given and reading.calls[n].receiver
            for n in reading.methods("requires_grad_")
        )
        if regained or reading.methods("enable_grad", "set_grad_enabled"):
            continue
        if all(_has_no_graph(reading, each) for each in found):
            yield Match(call.span, f"{name} was computed under no_grad: it has no graph")


def _constant_penalty(reading: Training) -> Iterator[Match]:
    """A norm of autograd.grad() without create_graph is a part of the loss."""
    for n in reading.methods("grad"):
        call = reading.calls[n]
        asked = call.keywords.get("create_graph")
        if call.name != "torch.autograd.grad" or (asked and asked.literal is not False):
            continue
        if call.unpacked or len(call.args) > 4:
            continue
        targets = {
            each.target
            for each in reading.script.assignments
            if each.scope == call.scope and n in each.value.calls
        }
        normed = any(
            c.method in ("norm", "square", "pow", "vector_norm")
            and targets & {c.receiver, *_roots(reading, c)}
            for c in (reading.calls[m] for m in reading.scope_calls(call.scope))
        )
        losses = (m for m in reading.backwards if m > n and reading.calls[m].scope == call.scope)
        for m in losses if normed else ():
            backward = reading.calls[m]
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
    yield from (name for value in call.args for name in (value.name, *value.names))


def _has_no_graph(reading: Training, each: Assignment) -> bool:
    if under_no_grad(reading, each.contexts):
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
    number = reading.numbers[id(call)]
    found = evaluate.definitions(reading, value.name, call.scope, number, call.arms)
    if not found:
        bound = any(value.name in reading.script.loops[loop].targets for loop in call.loops)
        return (
            None if bound or not evaluate.is_parameter(reading, call.scope, value.name) else False
        )
    return all(each.scope == call.scope and under_no_grad(reading, each.contexts) for each in found)


def under_no_grad(reading: Training, contexts: tuple[int, ...]) -> bool:
    """The innermost context that decides it is no_grad or inference_mode, called."""
    for number in reversed(contexts):
        value = reading.script.contexts[number].value
        if value.kind != "call":
            continue
        name = reading.calls[value.call].method
        if name in NO_GRAPH:
            return True
        if name in ("enable_grad", "set_grad_enabled"):
            return False
    return False


def hidden_not_detached(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.backwards:
        backward = reading.calls[number]
        if not backward.loops or backward.args or backward.keywords:
            continue
        around = objects.around(reading, backward, backward.loops[-1])
        reading.step(len(around))
        for n in around:
            call = reading.calls[n]
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
    inside = [reading.calls[n] for each in functions if each for n in reading.scope_calls(each)]
    if any(each.method in CUTS or each.method in NO_GRAPH for each in inside):
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
    if under_no_grad(reading, call.contexts):
        return False
    loop = call.loops[-1]
    results = reading.assigned.get(reading.key(name, call.scope), ())
    inside = [each for each in results if loop in each.loops]
    starts = [each for each in results if loop not in each.loops and each.scope == call.scope]
    number = reading.numbers[id(call)]
    makes_state = [
        each for each in starts if each.value.literal is None and each.value.kind == "call"
    ]
    cut = any(
        reading.calls[n].receiver == name or name in [v.name for v in reading.calls[n].args]
        for n in reading.by_loop[loop]
        if n != number and reading.calls[n].method in CUTS
    )
    return (
        bool(makes_state)
        and all(each.value.call == number for each in inside)
        and not cut
        and name not in reading.script.loops[loop].targets
    )


def _leads_to(reading: Training, call: Call, backward: Call, number: int) -> bool:
    """The loss is computed from another result of the same call, with no other state between."""
    names = set(call.targets)
    for each in reading.script.assignments:
        if each.scope != call.scope or each.position > number:
            continue
        if names & {each.value.name, *each.value.names}:
            names.add(each.target)
    return backward.receiver in names and not exclusive(call.arms, backward.arms)


def best_not_copied(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    if not reading.trains:
        return
    for each in reading.script.assignments:
        if not each.loops or each.augmented or _is_replaced(reading, each):
            continue
        for name, value in _entries(each):
            own = value.kind == "call" and _is_own_state(reading, reading.calls[value.call])
            if not own or not _on_condition(reading, each):
                continue
            what = "holds the model's own tensors: training goes on changing them"
            if _is_used_later(reading, each, name, "load_state_dict", "save"):
                yield Match(each.span, f"{each.target} {what}")
    yield from _same_model(reading)
    yield from _held_by_an_object(reading)


def _held_by_an_object(reading: Training) -> Iterator[Match]:
    """self.best = model.state_dict() in a method that is called where a score is better, and
    stopper.best is loaded or saved by another function."""
    for each in reading.script.assignments:
        call = reading.calls[each.value.call] if each.value.kind == "call" else None
        if each.loops or call is None or call.method != "state_dict" or call.args:
            continue
        owner, _, held = each.target.rpartition(".")
        given = [parameter.name for parameter in reading.function(each.scope).parameters]
        tests = [reading.script.branches[branch].test for branch, _ in each.arms]
        better = any(test and IMPROVED.search(test.text) for test in tests)
        if owner != "self" or call.receiver not in given or not better:
            continue
        uses = [reading.calls[n] for n in reading.methods("load_state_dict", "save")]
        if any(
            use.scope != each.scope and value.name.endswith(f".{held}")
            for use in uses
            for value in use.args
        ):
            what = "holds the model's own tensors: training goes on changing them"
            yield Match(each.span, f"{each.target} {what}")


def _entries(each: Assignment) -> Iterator[tuple[str, Value]]:
    """What is assigned, and to which name: best["state"] of best = {"state": ...}."""
    if each.value.kind != "dict":
        yield each.target, each.value
    for key, value in zip(each.value.keys, each.value.items, strict=False):
        yield f"{each.target}[{key}]", value


def _same_model(reading: Training) -> Iterator[Match]:
    """best = model under a condition in the loop, and best is used after the loop."""
    for each in reading.script.assignments:
        if each.value.kind != "name" or not each.loops or each.augmented or "." in each.target:
            continue
        key = reading.key(each.value.name, each.scope)
        trained = key in reading.trained_names and each.value.name != each.target
        tests = [reading.script.branches[branch].test for branch in _branches(reading, each)]
        if not trained or not any(test and IMPROVED.search(test.text) for test in tests):
            continue
        if _is_replaced(reading, each):
            continue
        if _trains_in(reading, each.loops[0]) and _is_read_later(reading, each):
            yield Match(each.span, f"{each.target} is {each.value.name} itself, not a copy of it")


def _is_replaced(reading: Training, each: Assignment) -> bool:
    """The name gets another value after it in the same iteration, or clones are made there."""
    clones = (reading.calls[n] for n in reading.methods("clone") if n >= each.position)
    return any(
        clone.loops[: len(each.loops)] == each.loops and within(each.arms, clone.arms)
        for clone in clones
    ) or any(
        other.target == each.target
        and other.scope == each.scope
        and other.span.order > each.span.order
        and other.loops[: len(each.loops)] == each.loops
        and within(each.arms, other.arms)
        for other in reading.script.assignments
    )


def _trains_in(reading: Training, loop: int) -> bool:
    return any(n in reading.backward_numbers for n in reading.by_loop.get(loop, ()))


def _is_read_later(reading: Training, at: Assignment) -> bool:
    """After the loop, as an argument, a result or the model to go on with."""
    if any(
        each.value.name == at.target and each.position >= at.position and not each.loops
        for each in reading.script.assignments
        if each.scope == at.scope
    ):
        return True
    later = [
        call
        for number, call in enumerate(reading.calls)
        if number > at.position and call.scope == at.scope and not set(at.loops) & set(call.loops)
    ]
    returned = reading.function(at.scope).returns
    return any(_uses(call, at.target) for call in later) or any(
        value.name == at.target for value in returned
    )


def _is_own_state(reading: Training, call: Call) -> bool:
    """state_dict() of what trains, also under copy() and dict(), which copy no tensors."""
    if call.method == "copy" and call.receiver_call >= 0 and not call.args:
        call = reading.calls[call.receiver_call]
    elif call.name == "dict" and len(call.args) == 1 and call.args[0].kind == "call":
        call = reading.calls[call.args[0].call]
    return call.method == "state_dict" and not call.args and _is_trained_here(reading, call)


def _is_used_later(reading: Training, each: Assignment, name: str, *methods: str) -> bool:
    for number in reading.methods(*methods):
        use = reading.calls[number]
        later = use.loops[: len(each.loops)] != each.loops and number >= each.position
        if later and use.scope == each.scope and (_uses(use, name) or _uses(use, each.target)):
            return True
    return False


def _on_condition(reading: Training, each: Assignment) -> bool:
    """It is kept where something was better, not in every iteration."""
    branches = _branches(reading, each)
    return any(reading.script.branches[branch].kind == "if" for branch in branches)


def _branches(reading: Training, each: Assignment) -> set[int]:
    """Conditions around it within its loop; what is around the loop decides no iteration."""
    loop = each.loops[-1]
    iterable = reading.script.loops[loop].iterable
    around: set[tuple[int, int]] = set()
    if iterable is not None and iterable.kind == "call":
        around = set(reading.calls[iterable.call].arms)
    elif _trains_in(reading, loop):
        inside = [reading.calls[n] for n in reading.by_loop[loop]]
        around = set(each.arms).intersection(*(call.arms for call in inside))
    return {branch for branch, _ in set(each.arms) - around}


def _is_trained_here(reading: Training, call: Call) -> bool:
    return reading.key(call.receiver, call.scope) in reading.trained_names


def _uses(call: Call, name: str) -> bool:
    return any(value.kind in ("name", "item") and value.name == name for value in call.args)


def backward_raises(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """backward() of a loss per sample, and a second one through a graph that is freed."""
    for number in reading.backwards:
        call = reading.calls[number]
        if call.receiver and not call.args and not call.keywords and _is_vector(reading, call):
            yield Match(call.span, f"{call.receiver} has a value per sample: reduction is none")
    yield from _freed(reading)


def _is_vector(reading: Training, call: Call) -> bool:
    for value in objects.last_definition(reading, call.receiver, call):
        made = reading.calls[value.call] if value.kind == "call" else None
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
    for number in reading.backwards:
        call = reading.calls[number]
        if not call.receiver or not call.loops:
            continue
        reading.step()
        place = (call.scope, call.loops, call.arms)
        names = _outputs(reading, call, number)
        for name in sorted({call.receiver, *names}):
            n = latest.get((*place, name), -1)
            if n < 0 or _is_set_between(reading, name, call.scope, n, number):
                continue
            first = reading.calls[n].receiver
            if name == call.receiver == first:
                yield Match(call.span, f"{name}.backward() twice: the graph is freed")
                break
            if name in names and first != call.receiver:
                yield Match(call.span, f"the graph of {name} is freed by {first}.backward()")
                break
        keeps = "retain_graph" in call.keywords
        latest |= {(*place, name): -1 if keeps else number for name in {call.receiver, *names}}


def _is_set_between(reading: Training, name: str, scope: int, first: int, last: int) -> bool:
    positions = reading.cached(_positions).get((scope, name), [])
    return bisect_right(positions, first) < bisect_right(positions, last)


def _positions(reading: Training) -> dict[tuple[int, str], list[int]]:
    """Where each function assigns a name, in order."""
    table: dict[tuple[int, str], list[int]] = {}
    for each in reading.script.assignments:
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
                inner = reading.calls[made.value.call] if made.value.kind == "call" else None
                trained = inner is not None and reading.key(inner.name, inner.scope) in (
                    reading.trained_names
                )
                same = made.loops == call.loops and not under_no_grad(reading, made.contexts)
                if trained and same:
                    found.add(name)
    return found


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
    Rule(
        code="SCR223",
        slug="best-state-not-copied",
        title="The best weights are kept as a copy",
        severity="fail",
        find=best_not_copied,
        why="state_dict() returns the parameters themselves. The 'best' state that is loaded or "
        "saved "
        "after the loop holds the weights of the last step.",
        fires=("best = model.state_dict() under a condition in the loop, used after the loop",),
        fix="Keep copy.deepcopy(model.state_dict()), or save it at once.",
        sources=("torch-saving",),
    ),
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
        ),
        fix="Call loss.mean().backward(); add the losses and call backward() once.",
        sources=("torch-autograd-backward",),
    ),
)
