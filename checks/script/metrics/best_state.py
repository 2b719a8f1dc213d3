"""A rule on the best weights, which are to be kept as a copy."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.reading import within
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

IMPROVED = re.compile(r"^[^%]*[<>][^%]*$")
"""A test such as `accuracy > best`, not one of every Nth step."""


def best_not_copied(reading: Training) -> Iterator[Match]:
    if not reading.trains:
        return
    for each in reading.assignments:
        if not each.loops or each.augmented:
            continue
        for name, value in _entries(each):
            call = _state(reading, value)
            own = call is not None and _is_trained_here(reading, call, each.loops[0])
            if not own or not _on_condition(reading, each) or _is_replaced(reading, each):
                continue
            if _leaves(reading, each):
                continue
            what = "holds the model's own tensors: training goes on changing them"
            if _is_used_later(reading, each, name, "load_state_dict", "save"):
                yield Match(each.span, f"{each.target} {what}")
    yield from _same_model(reading)
    yield from _held_by_an_object(reading)


def _held_by_an_object(reading: Training) -> Iterator[Match]:
    """self.best = model.state_dict() in a method that is called where a score is better, and
    stopper.best is loaded or saved by another function."""
    for each in reading.assignments:
        call = _state(reading, each.value) if not each.loops else None
        if call is None:
            continue
        owner, _, held = each.target.rpartition(".")
        given = [parameter.name for parameter in reading.function(each.scope).parameters]
        tests = [reading.test_of(branch) for branch, _ in each.arms]
        better = any(test and IMPROVED.search(test.text) for test in tests)
        if owner != "self" or call.receiver not in given or not better:
            continue
        uses = reading.named("load_state_dict", "save")
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
    for each in reading.assignments:
        if each.value.kind != "name" or not each.loops or each.augmented or "." in each.target:
            continue
        key = reading.key(each.value.name, each.scope)
        trained = key in reading.trained_names and each.value.name != each.target
        tests = [reading.test_of(branch) for branch in _branches(reading, each)]
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
        other.scope == each.scope
        and other.span.order > each.span.order
        and other.loops[: len(each.loops)] == each.loops
        and within(each.arms, other.arms)
        for other in reading.assigned_to(each.target, each.scope)
    )


def _leaves(reading: Training, each: Assignment) -> bool:
    """The same arm ends the loop: no later step changes what is kept."""
    return any(
        bare.name == "break" and bare.scope == each.scope and bare.loops == each.loops
        and within(each.arms, bare.arms)
        for bare in reading.script.bare
    )  # fmt: skip


def _trains_in(reading: Training, loop: int) -> bool:
    return any(n in reading.backward_numbers for n in reading.by_loop.get(loop, ()))


def _is_read_later(reading: Training, at: Assignment) -> bool:
    """After the loop, as an argument, a result or the model to go on with."""
    if any(
        each.value.name == at.target and each.position >= at.position and not each.loops
        for each in reading.assignments
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


def _state(reading: Training, value: Value) -> Call | None:
    """The state_dict() of a value, also under copy(), dict() and {k: v for k, v in ...}, which copy
    no tensors."""
    if value.name == "DictComp" and value.items[-1].kind == "name":
        value = value.items[0]
    call = reading.call_of(value)
    if call is None:
        return None
    if call.method in ("copy", "items") and call.receiver_call >= 0 and not call.args:
        call = reading.calls[call.receiver_call]
    elif call.name == "dict" and len(call.args) == 1 and call.args[0].kind == "call":
        call = reading.calls[call.args[0].call]
    return call if call.method == "state_dict" and not call.args else None


def _is_used_later(reading: Training, each: Assignment, name: str, *methods: str) -> bool:
    for number, use in reading.numbered(reading.methods(*methods)):
        later = use.loops[: len(each.loops)] != each.loops and number >= each.position
        if later and use.scope == each.scope and (_uses(use, name) or _uses(use, each.target)):
            return True
    return False


def _on_condition(reading: Training, each: Assignment) -> bool:
    """It is kept where something was better, not in every iteration."""
    branches = _branches(reading, each)
    return any(reading.branches[branch].kind == "if" for branch in branches)


def _branches(reading: Training, each: Assignment) -> set[int]:
    """Conditions around it within its loop; what is around the loop decides no iteration."""
    loop = each.loops[-1]
    iterable = reading.loops[loop].iterable
    if iterable is not None and iterable.kind == "call":
        around = set(reading.calls[iterable.call].arms)
    else:
        around = reading.cached(_arms_of_training).get(loop, set())
    return {branch for branch, _ in set(each.arms) - around}


def _arms_of_training(reading: Training) -> dict[int, set[tuple[int, int]]]:
    """Loops that train, and the arms that all of their calls stand in."""
    return {
        loop: set.intersection(*(set(reading.calls[n].arms) for n in numbers))
        for loop, numbers in reading.by_loop.items()
        if not reading.backward_numbers.isdisjoint(numbers)
    }


def _is_trained_here(reading: Training, call: Call, loop: int) -> bool:
    """An optimizer of the file holds it, or it runs with a graph in a loop with backward()."""
    if reading.key(call.receiver, call.scope) in reading.trained_names:
        return True
    runs = (reading.calls[n] for n in reading.by_loop[loop])
    return _trains_in(reading, loop) and any(
        run.name == call.receiver and not reading.under_no_grad(run.contexts) for run in runs
    )


def _uses(call: Call, name: str) -> bool:
    return any(value.kind in ("name", "item") and value.name == name for value in call.args)


RULES = (
    Rule(
        code="SCR223",
        slug="best-state-not-copied",
        title="The best weights are kept as a copy",
        severity="fail",
        find=best_not_copied,
        why="state_dict() returns the parameters themselves. The 'best' state that is loaded or "
        "saved after the loop holds the weights of the last step.",
        fires=("best = model.state_dict() under a condition in the loop, used after the loop",),
        fix="Keep copy.deepcopy(model.state_dict()), or save it at once.",
        sources=("torch-saving",),
    ),
)
