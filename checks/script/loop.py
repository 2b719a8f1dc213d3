"""Rules on the order of calls in a training loop."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.lineage import lineage_of
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule, Severity
from doctor.checks.script.scaling import is_optimizer
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value
from doctor.facts.script_machine import ScriptMachine
from doctor.script.containers import MARK

MOST_FUNCTIONS = 20
"""Functions of the file that a loop is followed into. Our own number."""


def _is_scheduler(reading: Training, call: Call) -> bool:
    """A scheduler of torch or transformers, by how it was made."""
    key = reading.key(call.receiver, call.scope)
    for each in reading.assigned.get(key, ()):
        if each.value.kind in ("call", "item") and each.value.call >= 0:
            name = reading.calls[each.value.call].name
            if name.startswith(("torch.optim.lr_scheduler.", "transformers.get_")):
                return True
            if name.startswith("transformers.optimization.get_"):
                return True
    return False


def scheduler_before_step(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.methods("step"):
        call = reading.calls[number]
        if call.args or call.keywords or not call.loops or not call.receiver:
            continue
        if not _is_scheduler(reading, call):
            continue
        steps = [
            n
            for n in reading.methods("step")
            if reading.calls[n].scope == call.scope
            and reading.calls[n].loops[: len(call.loops)] == call.loops
            and _applies(reading, reading.calls[n])
            and not exclusive(reading.calls[n].arms, call.arms)
        ]
        steps += _entered(reading, call)
        if steps and min(steps) > number and not _at_end(reading, call, steps):
            message = f"{call.receiver}.step() comes before the optimizer's first step"
            yield Match(call.span, message)


def _entered(reading: Training, call: Call) -> list[int]:
    """Calls in the same loop of functions of this file in which an optimizer steps."""
    return [
        n
        for n in reading.by_loop[call.loops[-1]]
        if reading.calls[n].scope == call.scope
        and (function := reading.target_function(reading.calls[n])) is not None
        and any(
            reading.calls[m].method == "step" and _applies(reading, reading.calls[m])
            for m in calls_reached(reading, reading.scope_calls(function))
        )
    ]


def _at_end(reading: Training, call: Call, steps: list[int]) -> bool:
    """Under a condition of its own it may run later than the first step: if step > warmup."""
    shared = set(reading.calls[min(steps)].arms)
    return any(reading.decides(branch) for branch, arm in call.arms if (branch, arm) not in shared)


def _applies(reading: Training, call: Call) -> bool:
    return is_optimizer(reading, call) or "scaler" in call.receiver.casefold()


def zero_grad_missing(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    yield from _zeroed_outside(reading)
    yield from _one_of_several(reading)
    if reading.mentions("zero_grad", "zerograd", "deepspeed", "zero_gradients"):
        return
    if any(a.target.endswith(".grad") for a in reading.script.assignments):
        return
    if any(c.loops and c.method in ("Adam", "SGD", "AdamW") for c in reading.calls):
        return
    for step in reading.methods("step"):
        call = reading.calls[step]
        name = stepped(reading, call)
        if not name or not call.loops:
            continue
        known = _makes_optimizer(reading, name, call) or _is_passed(reading, name, call)
        if not known and not _is_given(reading, name, call):
            continue
        backward = [
            n
            for n in reading.backwards
            if reading.calls[n].scope == call.scope
            and n < step
            and reading.calls[n].loops[: len(call.loops)] == call.loops
        ]
        if backward and not _is_handed_on(reading, name, call):
            severity: Severity = "fail" if known else "warn"
            yield Match(call.span, f"{name} steps in a loop without zero_grad()", severity)
            return


def _zeroed_outside(reading: Training) -> Iterator[Match]:
    """Every zero_grad() of the file is outside of the loop that steps."""
    zeros = [reading.calls[n] for n in reading.methods("zero_grad")]
    if not zeros or any(a.target.endswith(".grad") for a in reading.script.assignments):
        return
    for number in reading.methods("step"):
        call = reading.calls[number]
        if (
            not call.loops
            or not stepped(reading, call)
            or (call.args and "scaler" not in call.name)
        ):
            continue
        backward = [
            n
            for n in reading.backwards
            if reading.calls[n].scope == call.scope and reading.calls[n].loops == call.loops
        ]
        outer = all(
            zero.scope == call.scope
            and len(zero.loops) < len(call.loops)
            and call.loops[: len(zero.loops)] == zero.loops
            for zero in zeros
        )
        if outer and backward and min(backward) < number:
            yield Match(
                call.span, f"{call.receiver} steps in a loop, and zero_grad() is outside of it"
            )
            return


def _one_of_several(reading: Training) -> Iterator[Match]:
    """Of the optimizers of one loop, each held by a name, one is never zeroed."""
    zeros = [reading.calls[n] for n in reading.methods("zero_grad")]
    made = {
        reading.key(name, reading.calls[n].scope): n
        for n in reading.optimizers
        for name in reading.calls[n].targets
    }
    if (
        len(made) < 2
        or not zeros
        or any(a.target.endswith(".grad") for a in reading.script.assignments)
    ):
        return
    trained = {key: each.sink for each in reading.trained for key in each.lineage.names}
    if any(reading.key(z.receiver, z.scope) not in made.keys() | trained.keys() for z in zeros):
        return
    owners = {
        n: {_root(each.name) for each in reading.trained if each.sink == n} for n in made.values()
    }
    for number in reading.methods("step"):
        call = reading.calls[number]
        name = stepped(reading, call)
        sink = made.get(reading.key(name, call.scope)) if name and call.loops else None
        if sink is None or any(zeroes(reading, zero, name, call) for zero in zeros):
            continue
        shared = any(owners[sink] & owners[n] for n in owners if n != sink)
        backward = any(
            n < number and reading.calls[n].loops == call.loops for n in reading.backwards
        )
        if owners[sink] and not shared and backward:
            yield Match(call.span, f"{name} steps without zero_grad(), and others have one")


def _root(name: str) -> str:
    """The network that a part belongs to: net of net.head, self.net of self.net.head."""
    parts = name.split(".")
    held = parts[0] == "self" or (parts[1:2] and parts[1].startswith(MARK))
    return ".".join(parts[: 2 if held else 1])


def _is_passed(reading: Training, name: str, call: Call) -> bool:
    """A parameter that a call in the file gives an optimizer which the file makes."""
    function = reading.function(call.scope)
    if not call.scope or not evaluate.is_parameter(reading, call.scope, name):
        return False
    for number in reading.methods(function.name):
        site = reading.calls[number]
        value = evaluate.argument_of(reading, site, call.scope, name)
        if value is not None and value.kind == "name" and _is_made(reading, value.name, site):
            return True
    return False


def _is_given(reading: Training, name: str, call: Call) -> bool:
    """A parameter of a function that other files call, and nothing in its loop gets it."""
    given = evaluate.is_parameter(reading, call.scope, name) and "opt" in name
    if any(reading.calls[n].args for n in reading.methods(reading.function(call.scope).name)):
        return False
    return given


def _is_handed_on(reading: Training, name: str, call: Call) -> bool:
    """Something in the loop gets the optimizer, and may zero its gradients."""
    return any(
        name in (value.name, *(item.name for item in value.items))
        for each in (reading.calls[n] for n in reading.by_loop[call.loops[-1]])
        if each.method not in ("step", "unscale_")
        for value in (*each.args, *each.keywords.values())
    )


def zeroes(reading: Training, zero: Call, name: str, step: Call) -> bool:
    """The gradients are those that the optimizer applies."""
    key = reading.key(zero.receiver, zero.scope)
    if key == reading.key(name, step.scope):
        return True
    made = {n for n in reading.optimizers if name in reading.calls[n].targets}
    return any(each.sink in made and key in each.lineage.names for each in reading.trained)


def stepped(reading: Training, call: Call) -> str:
    """The optimizer that optimizer.step() or scaler.step(optimizer) applies."""
    if "scaler" in call.receiver.casefold():
        return call.args[0].name if call.args and call.args[0].kind == "name" else ""
    return call.receiver if not call.args and is_optimizer(reading, call) else ""


def _makes_optimizer(reading: Training, name: str, call: Call) -> bool:
    """The name holds an optimizer that this file makes, or a wrapper of one."""
    for each in reading.assigned.get(reading.key(name, call.scope), ()):
        if each.value.kind != "call":
            continue
        made = reading.calls[each.value.call]
        if each.value.call in reading.optimizers:
            return True
        if any(_is_made(reading, part.name, made) for part in made.args[:1] if part.name):
            return True
    return False


def _is_made(reading: Training, name: str, call: Call) -> bool:
    return any(
        each.value.kind == "call" and each.value.call in reading.optimizers
        for each in reading.assigned.get(reading.key(name, call.scope), ())
    )


DETACHES = ("item", "detach", "tolist", "numpy")


def loss_detached(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.methods("backward"):
        call = reading.calls[number]
        if call.name == "backward" or reading.is_autograd(call):
            continue
        name = reading.loss_name(call)
        if call.receiver_call >= 0 and not name:
            inner = reading.calls[call.receiver_call]
            if inner.method in DETACHES:
                yield Match(call.span, f"backward() of .{inner.method}(): no gradient is left")
            continue
        if not name or _regains(reading, name):
            continue
        results = evaluate.definitions(reading, name, call.scope, number, call.arms)
        yield from _numbers_in_sum(reading, call, results[:1])
        if results and all(_detaches(reading, each.value) for each in results):
            method = reading.calls[results[0].value.call].method
            message = f"{name} comes from .{method}(): no gradient is left"
            yield Match(call.span, message)


def _detaches(reading: Training, value: Value) -> bool:
    if value.kind != "call":
        return False
    call = reading.calls[value.call]
    return (
        call.method in DETACHES
        and not call.args
        and (call.receiver_call >= 0 or bool(call.receiver))
    )


def _numbers_in_sum(reading: Training, call: Call, results: list[Assignment]) -> Iterator[Match]:
    """Parts of the loss of a loop that are plain numbers."""
    for each in results if call.loops else ():
        for term in _terms(each.value):
            if _is_number(reading, term, call, each.position):
                message = f"{term.name} comes from .item(): it gives {call.receiver} no gradient"
                yield Match(each.span, message, "warn")


def _terms(value: Value) -> Iterator[Value]:
    """What is added up, without a number in front."""
    if value.kind == "other" and value.name in ("Add", "Sub"):
        for item in value.items:
            yield from _summand(item)


def _summand(value: Value) -> Iterator[Value]:
    if value.kind == "other" and value.name in ("Add", "Sub"):
        yield from _terms(value)
    elif value.kind == "other" and value.name == "Mult" and len(value.items) == 2:
        first, second = value.items
        yield from (second,) if first.kind == "literal" else ()
        yield from (first,) if second.kind == "literal" else ()
    else:
        yield value


def _is_number(reading: Training, value: Value, call: Call, position: int) -> bool:
    """A name that only holds the result of .item() of this iteration."""
    if value.kind != "name":
        return False
    found = evaluate.definitions(reading, value.name, call.scope, position, call.arms)
    return bool(found) and all(
        each.value.kind == "call"
        and reading.calls[each.value.call].method == "item"
        and each.loops == call.loops
        for each in found
    )


def _regains(reading: Training, name: str) -> bool:
    """requires_grad is turned on again between."""
    return any(
        each.target == f"{name}.requires_grad" for each in reading.script.assignments
    ) or any(reading.calls[n].receiver == name for n in reading.methods("requires_grad_"))


def eval_left_on(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    yield from _eval_in_loops(reading)
    yield from _eval_before(reading)


def _eval_in_loops(reading: Training) -> Iterator[Match]:
    for loop in sorted(reading.by_loop):
        reached = calls_reached(reading, reading.by_loop[loop])
        if reading.backward_numbers.isdisjoint(reached):
            continue
        if not any(reading.calls[n].method == "train" for n in reached):
            yield from _first_eval(reading, reached)


def _first_eval(reading: Training, reached: list[int]) -> Iterator[Match]:
    """The first eval() of a trained object among the calls of a loop."""
    for number in reached:
        call = reading.calls[number]
        if call.method != "eval" or call.args or not call.receiver:
            continue
        state = _is_trained(reading, call, number)
        if state is False or _is_made_in(reading, call, reached):
            continue
        message = f"{call.receiver}.eval() in the loop, and no train() there"
        yield Match(call.span, message, "fail", "" if state else "it may be another model")
        return


def _is_made_in(reading: Training, call: Call, reached: list[int]) -> bool:
    """Every iteration makes its own model: folds, runs with other settings."""
    key = reading.key(call.receiver, call.scope)
    made = {n for each in reading.trained for n in each.lineage.calls}
    own = {n for each in reading.trained if key in each.lineage.names for n in each.lineage.calls}
    return any(
        reading.calls[n].method[:1].isupper() or reading.calls[n].method == "from_pretrained"
        for n in (own or made) & set(reached)
    )


def _eval_before(reading: Training) -> Iterator[Match]:
    """eval() above the loop of a file that never calls train()."""
    if any(reading.calls[n].receiver for n in reading.methods("train")) or reading.trainers:
        return
    for number in reading.methods("eval"):
        call = reading.calls[number]
        if call.loops or call.arms or not call.receiver or call.args:
            continue
        if _has_reference(reading, call):
            continue
        if reading.key(call.receiver, call.scope) not in reading.stepped_names:
            continue
        if not _trains_later(reading, call, number):
            continue
        if _is_trained(reading, call, number):
            yield Match(call.span, f"{call.receiver}.eval() before the loop, and train() nowhere")


def _has_reference(reading: Training, call: Call) -> bool:
    """A reference network is in evaluation mode, too: both are compared without dropout."""
    return any(
        "ref" in reading.calls[n].receiver.casefold() and reading.calls[n].scope == call.scope
        for n in reading.methods("eval")
    )


def _trains_later(reading: Training, call: Call, number: int) -> bool:
    """A loop with backward() follows, here or in a function that is called later."""
    for backward in reading.backwards:
        scope = reading.calls[backward].scope
        if not reading.calls[backward].loops:
            continue
        if scope == call.scope and backward > number:
            return True
        sites = reading.call_sites.get(scope, ())
        if any(n > number and reading.calls[n].scope == call.scope for n in sites):
            return True
    return False


def calls_reached(reading: Training, inside: list[int]) -> list[int]:
    """Calls in a loop, and those in functions of the file that it calls."""
    reached = list(inside)
    visited: set[int] = set()
    for number in reached:
        function = reading.target_function(reading.calls[number])
        if function is not None and function not in visited and len(visited) < MOST_FUNCTIONS:
            visited.add(function)
            reached.extend(reading.scope_calls(function))
    return reached


def _is_trained(reading: Training, call: Call, number: int) -> bool | None:
    """Whether eval() is called on what an optimizer has; None where it may be another object."""
    names = reading.trained_names
    if reading.key(call.receiver, call.scope) in reading.partly_trained:
        frozen = reading.methods("requires_grad_") or reading.freezes
        return not frozen and not any(
            each.target.endswith(".requires_grad") for each in reading.script.assignments
        )
    if reading.key(call.receiver, call.scope) in names:
        return True
    lineage = lineage_of(reading, call.receiver, call.scope, number)
    if not lineage.names & names:
        return False
    own = reading.key(call.receiver, call.scope)
    others = {key for key in lineage.names - names - {own} if "ema" in str(key[1]).casefold()}
    return None if others else True


RULES = (
    Rule(
        code="SCR151",
        slug="scheduler-before-step",
        title="The scheduler steps after the optimizer",
        severity="warn",
        find=scheduler_before_step,
        why="A scheduler that steps first skips the first learning rate, for example the start of "
        "the warm-up. PyTorch warns about it since 1.1.",
        fires=("scheduler.step() before optimizer.step() in one loop",),
        fix="Call scheduler.step() after optimizer.step().",
        sources=("ps-P12",),
    ),
    Rule(
        code="SCR152",
        slug="zero-grad-missing",
        title="Gradients are set to zero between steps",
        severity="fail",
        find=zero_grad_missing,
        why="backward() adds to the gradients. Without zero_grad() every step applies the sum of "
        "all gradients so far.",
        fires=(
            "backward() and optimizer.step() in a loop, and no zero_grad in the file",
            "the same, and every zero_grad() is outside of that loop",
            "one of several optimizers has none, and the others do",
            "the same of an optimizer that a function is given (a warning)",
        ),
        fix="Call optimizer.zero_grad(set_to_none=True) once per step.",
        sources=("ps-P4",),
    ),
    Rule(
        code="SCR153",
        slug="loss-detached",
        title="The loss that backward() is called on has a graph",
        severity="fail",
        find=loss_detached,
        why="item(), detach() and numpy() leave no graph: backward() raises 'element 0 of tensors "
        "does not require grad', or is called on a plain number.",
        fires=(
            "backward() on the result of item(), detach(), tolist() or numpy()",
            "a part of the sum that backward() is called on comes from item() (a warning)",
        ),
        fix="Keep the tensor for backward(); detach a copy for the log.",
        sources=("cbl-root",),
    ),
    Rule(
        code="SCR154",
        slug="eval-left-on",
        title="train() follows every evaluation in the loop",
        severity="warn",
        find=eval_left_on,
        why="eval() turns dropout and the update of batch statistics off. Without train() the "
        "rest of the training runs without them.",
        fires=("model.eval() before the training loop, and train() nowhere",),
        errors=("model.eval() within the training loop, and no train() in that loop",),
        fix="Call model.train() after the evaluation, or at the start of every epoch.",
        needs=("eval",),
        sources=("torch-train-mode",),
    ),
)
