"""Rules on what one iteration does with gradients, and on optimizers that are made or not used."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import amp, evaluate, objects
from doctor.checks.script.lineage import parameter_owners
from doctor.checks.script.loop import stepped, zeroes
from doctor.checks.script.reading import exclusive, flatten, within
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Loop, Span, Value
from doctor.facts.script_machine import ScriptMachine
from doctor.script.containers import MARK


def steps_in_loops(reading: Training) -> Iterator[tuple[int, str, list[int]]]:
    """Steps of an optimizer within a loop, its name, and the backward calls before it there."""
    for number in reading.methods("step"):
        call = reading.calls[number]
        name = stepped(reading, call)
        if not name or not call.loops:
            continue
        before = [
            n
            for n in reading.backwards
            if n < number
            and reading.calls[n].scope == call.scope
            and reading.calls[n].loops[: len(call.loops)] == call.loops
            and not exclusive(reading.calls[n].arms, call.arms)
        ]
        yield number, name, before


def zeroed_before_step(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    zeros = reading.methods("zero_grad")
    for number, name, before in steps_in_loops(reading) if zeros else ():
        call = reading.calls[number]
        for zero in zeros:
            each = reading.calls[zero]
            if not before or not before[-1] < zero < number or each.loops != call.loops:
                continue
            if not within(call.arms, each.arms) or not zeroes(reading, each, name, call):
                continue
            if not _refilled(reading, zero, number):
                yield Match(each.span, f"{each.receiver}.zero_grad() between backward() and step()")


def _refilled(reading: Training, zero: int, step: int) -> bool:
    """Something between may set the gradients again."""
    if any(
        ".grad" in each.target
        for each in reading.script.assignments
        if zero < each.position <= step
    ):
        return True
    for number in range(zero + 1, step):
        call = reading.calls[number]
        names = [
            call.receiver,
            *(name for value in call.args for name in (value.name, *value.names)),
        ]
        if any(name.endswith(".grad") for name in names):
            return True
        if amp.is_clip(call) or call.method in ("unscale_", "item", "print"):
            continue
        if reading.target_function(call) is not None or call.method in ("backward", "grad"):
            return True
        if any("loss" in name or name == call.receiver for name in names[1:] if name):
            return True
    return False


def clip_before_backward(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.methods(*amp.CLIPS):
        call = reading.calls[number]
        if not call.loops or not amp.is_clip(call) or reading.is_evaluation(call):
            continue
        here = objects.around(reading, call, call.loops[-1])
        backward = [n for n in here if n in reading.backward_numbers]
        steps = [n for n in here if n > number and stepped(reading, reading.calls[n])]
        first = min(backward, default=number)
        if first <= number or not steps or any(n < first for n in steps):
            continue
        between = [n for n in here if first > n > number and reading.calls[n].method == "step"]
        calls_out = any(
            reading.target_function(reading.calls[n]) is not None for n in here if n < number
        )
        if not between and not calls_out:
            yield Match(call.span, "gradients are clipped before backward() computes them")


STATEFUL = ("Adam", "AdamW", "RMSprop", "NAdam", "RAdam", "Adagrad", "Adamax", "Adadelta", "Lion")
RESET = re.compile("load|reset|restore|init|apply|copy_")
"""In the names of what gives a model other weights."""


def optimizer_made_each_step(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.optimizers:
        call = reading.calls[number]
        if not call.loops or not call.targets or not _keeps_state(call):
            continue
        steps = [
            reading.calls[n]
            for n in reading.methods("step")
            if stepped(reading, reading.calls[n]) in call.targets
            and reading.calls[n].scope == call.scope
        ]
        if not any(step.loops == call.loops and within(step.arms, call.arms) for step in steps):
            continue
        owners = list(parameter_owners(reading, call, number))
        loop = call.loops[-1]
        if _is_made_otherwise(reading, call, number, loop):
            continue
        backward = [
            n
            for n in reading.backwards
            if reading.calls[n].loops[: len(call.loops)] == call.loops
            and reading.calls[n].scope == call.scope
        ]
        outside = owners and not any(_made_in(reading, owner, call, loop) for owner in owners)
        if backward and outside and not _starts_again(reading, owners, call, loop):
            message = f"{call.method} is made in every step: it starts without its averages"
            yield Match(call.span, message)
    yield from scaler_made_each_step(reading)
    yield from _made_each_epoch(reading)


def _made_each_epoch(reading: Training) -> Iterator[Match]:
    """An optimizer with momentum that every epoch makes anew, over a model from outside."""
    for number in reading.optimizers:
        call = reading.calls[number]
        if len(call.loops) != 1 or len(call.targets) != 1 or not _keeps_state(call) or call.arms:
            continue
        loop = reading.script.loops[call.loops[0]]
        held = reading.names_of(call.targets[0], call.scope)
        steps = [
            reading.calls[n]
            for n in reading.methods("step")
            if reading.key(reading.calls[n].receiver, reading.calls[n].scope) in held
        ]
        owners = list(parameter_owners(reading, call, number))
        if (
            not _counts_epochs(loop)
            or not owners
            or not any(s.scope != call.scope or len(s.loops) > 1 for s in steps)
        ):
            continue
        if any(_made_in(reading, owner, call, call.loops[0]) for owner in owners):
            continue
        if not _starts_again(reading, owners, call, call.loops[0]):
            yield Match(call.span, f"{call.method} is made in every epoch: it starts without its "
                        "averages", "warn")  # fmt: skip


def _counts_epochs(loop: Loop) -> bool:
    names = loop.iterable.names if loop.iterable is not None else ()
    return any("epoch" in name.casefold() for name in (loop.target, *names))


def _is_made_otherwise(reading: Training, made: Call, number: int, loop: int) -> bool:
    """The name gets another object in the loop: booster.boost(model, optimizer)."""
    return any(
        n != number and set(reading.calls[n].targets) & set(made.targets)
        for n in reading.by_loop[loop]
    )


def _starts_again(reading: Training, owners: list[str], made: Call, loop: int) -> bool:
    """The weights are set back in every iteration, too: each task has its own training."""
    for number in objects.around(reading, made, loop):
        call = reading.calls[number]
        if not RESET.search(call.method.casefold()) or not within(made.arms, call.arms):
            continue
        given = {call.receiver, *(value.name for value in call.args)} - {""}
        whole = any(f"{owner}.".startswith(f"{name}.") for owner in owners for name in given)
        if whole or call.method == "copy_":
            return True
    return False


def _keeps_state(call: Call) -> bool:
    momentum = call.keywords.get("momentum")
    return call.method in STATEFUL or (
        call.method == "SGD" and momentum is not None and momentum.literal not in (0, 0.0)
    )


def _made_in(reading: Training, name: str, call: Call, loop: int) -> bool:
    """The object is made anew, copied or bound in the loop."""
    root = name.partition(".")[0]
    if root in reading.script.loops[loop].targets:
        return True
    return any(
        loop in each.loops
        for part in (name, root)
        for each in reading.assigned.get(reading.key(part, call.scope), ())
    )


def scaler_made_each_step(reading: Training) -> Iterator[Match]:
    for number in amp.scalers(reading):
        call = reading.calls[number]
        steps = [reading.calls[n] for n in reading.methods("step")]
        if call.loops and any(
            step.receiver in call.targets and (step.scope, step.loops) == (call.scope, call.loops)
            for step in steps
        ):
            yield Match(call.span, "the GradScaler is made in every step: its scale starts again")


def backward_missing(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    words = ("backward", "closure", "autograd", "accelerator", "fabric", "engine", "scaler", "hebb")
    if reading.mentions(*words) or reading.trainers or reading.fits:
        return
    for number in reading.methods("step"):
        call = reading.calls[number]
        name = stepped(reading, call)
        if not name or not call.loops or reading.assigned.get(reading.key(f"{name}.step", 0)):
            continue
        made = [reading.calls[n] for n in reading.optimizers if name in reading.calls[n].targets]
        zeroed = any(
            reading.calls[n].receiver == name and reading.calls[n].loops == call.loops
            for n in reading.methods("zero_grad")
        )
        losses = [
            each
            for each in reading.script.assignments
            if each.loops == call.loops and each.target.casefold().endswith("loss")
            and not any(re.search("train|step|update|fit|learn", reading.calls[n].name.casefold())
                        for n in each.value.calls)
        ]  # fmt: skip
        if (
            made
            and zeroed
            and losses
            and not any(".grad" in a.target for a in reading.script.assignments)
        ):
            yield Match(call.span, f"{name} steps, and backward() is called nowhere")
            return


def returns_in_loop(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """A return at the end of the first iteration, unconditionally."""
    for scope, function in enumerate(reading.script.functions):
        for (position, arms), span, loops in zip(
            function.exits, function.exit_spans, function.exit_loops, strict=False
        ):
            if arms or not loops or reading.script.loops[loops[-1]].kind != "for":
                continue
            inside = [
                n
                for n in reading.backwards
                if reading.calls[n].scope == scope and reading.calls[n].loops == loops
            ]
            steps = any(
                reading.calls[n].scope == scope and n < position
                for n in reading.methods("step")
                if reading.calls[n].loops == loops
            )
            if inside and max(inside) < position and steps:
                yield Match(span, "the function returns after the first iteration of the loop")


def closure_missing(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.methods("step"):
        call = reading.calls[number]
        if call.args or call.keywords or call.unpacked or not call.receiver:
            continue
        values = evaluate.options(reading, Value("name", name=call.receiver), call)
        if values and all(
            each.kind == "call" and reading.calls[each.call].name == "torch.optim.LBFGS"
            for each in values
        ):
            yield Match(call.span, f"{call.receiver} is LBFGS: step() needs a closure")


def optimizer_never_steps(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    if reading.trainers or reading.imports_from(*amp.FRAMEWORKS) or reading.fits:
        return
    looped = any(reading.calls[n].loops for n in reading.backwards)
    calls = [reading.calls[n] for n in reading.methods("step")]
    for number in reading.optimizers if looped else ():
        call = reading.calls[number]
        if len(call.targets) != 1 or call.arms or "." in call.targets[0].replace(f".{MARK}", ""):
            continue
        name = call.targets[0]
        if any(each.name == f"{name}.step" for each in reading.script.bare):
            continue
        held = reading.names_of(name, call.scope)
        if any(_steps_it(reading, each, held) for each in calls):
            continue
        if not any(leaves(reading, *key) for key in held):
            yield Match(call.span, f"{name}.step() is never called")


def _steps_it(reading: Training, step: Call, held: set[tuple[object, str]]) -> bool:
    names = [step.receiver, *(v.name for v in step.args if v.kind == "name")]
    return any(name and reading.key(name, step.scope) in held for name in names)


SCHEDULES = ("torch.optim.lr_scheduler.", "transformers.get_", "torch.save")


def leaves(reading: Training, owner: object, name: str, quiet: tuple[str, ...] = SCHEDULES) -> bool:
    """The object gets another name, is returned, or reaches a function of another file.

    `quiet`: the beginnings of names of functions that may have it.
    """
    for value, _, scope in reading.expressions:
        names = {value.name, *value.names}
        if f"{name}.step" in names:
            return True
        if name in names and reading.key(name, scope) == (owner, name):
            whole = value.kind == "name" or any(v.name == name for v in flatten(value.items))
            if whole and not _is_argument(reading, value, scope):
                return True
    return any(
        name in (v.name, *v.names) and reading.key(name, call.scope) == (owner, name)
        for call in reading.calls
        if reading.target_function(call) is None and not call.name.startswith(quiet)
        for v in (*call.args, *call.keywords.values(), *call.unpacked)
        if v.kind in ("name", "list", "dict")
    )


def _is_argument(reading: Training, value: Value, scope: int) -> bool:
    """It is an argument of some call, which is judged by that call."""
    return any(
        value in (*reading.calls[n].args, *reading.calls[n].keywords.values())
        for n in reading.scope_calls(scope)
    )


METHODS = {"zero_grad", "step", "backward", "eval", "train", "unscale_", "barrier", "synchronize"}


def method_not_called(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for each in reading.script.bare:
        if each.name.rpartition(".")[2] in METHODS:
            yield Match(each.span, f"{each.name} is named and not called: () is missing")
    for number in reading.methods("save"):
        call = reading.calls[number]
    for number in (*reading.optimizers, *reading.methods("save")):
        call = reading.calls[number]
        first = call.args[0].name if call.args and call.args[0].kind == "name" else ""
        wanted = "state_dict" if call.name == "torch.save" else "parameters"
        if (
            first.rpartition(".")[2] == wanted
            and "." in first
            and not _is_setting(reading, first, call)
            and call.method != "create_optimizer"
        ):
            yield Match(call.span, f"{first} is passed and not called: () is missing")


def _is_setting(reading: Training, name: str, call: Call) -> bool:
    """config.parameters of an argument that is no model by its name."""
    root = name.partition(".")[0]
    given = evaluate.is_parameter(reading, call.scope, root)
    return given and not re.search("model|net|module|encoder|self", root.casefold())


FEW = 100
"""Iterations of which the graphs may be kept. Our own number."""


def graph_kept(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.backwards:
        call = reading.calls[number]
        yield from _graph_of_gradients(reading, call)
        name = reading.loss_name(call)
        if not name or call.keywords.get("retain_graph") is not None:
            continue
        if call.loops and not _is_short(reading, call):
            for target, span in _kept(reading, call, name):
                if not _reaches_backward(reading, target, call.scope):
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
    if any(each.position > reading.numbers[id(backward)] for each in results):
        return
    sites = set(reading.call_sites.get(backward.scope, ()))
    for each in reading.script.assignments:
        kept = each.augmented and each.value.call in sites and each.loops
        if kept and not _reaches_backward(reading, each.target, each.scope):
            yield Match(each.span, f"{each.target} holds the graph of every {name}")


def _metered(reading: Training, backward: Call, name: str) -> Iterator[Match]:
    """meter.update(loss), where a class of this file adds what it is given to an attribute."""
    for n in reading.methods("update", "add", "append", "push", "record"):
        call = reading.calls[n]
        if (call.scope, call.loops) != (backward.scope, backward.loops) or not call.args:
            continue
        functions = [f for f in reading.functions_by_name.get(call.method, ())]
        if call.args[0].kind != "name" or call.args[0].name != name or len(functions) != 1:
            continue
        function = reading.function(functions[0])
        names = [p.name for p in function.parameters if p.name not in ("self", "cls")]
        sums = any(
            each.scope == functions[0] and each.augmented and each.target.startswith("self.")
            and names and names[0] in (each.value.name, *each.value.names) and not each.value.calls
            for each in reading.script.assignments
        )  # fmt: skip
        changed = any(a.scope == functions[0] and a.target == names[0]
                      for a in reading.script.assignments) if names else True  # fmt: skip
        if sums and not changed and _same_loss(reading, backward, name, n):
            yield Match(call.span, f"{call.name}({name}) adds losses with their graphs")


def _is_short(reading: Training, call: Call) -> bool:
    """All loops around it are over a range of few literal numbers."""
    for number in call.loops:
        iterable = reading.script.loops[number].iterable
        made = reading.calls[iterable.call] if iterable and iterable.kind == "call" else None
        if made is None or made.name != "range" or len(made.args) != 1:
            return False
        counts = evaluate.literals(reading, made.args[0], made)
        if not counts or not all(isinstance(n, int) and n <= FEW for n in counts):
            return False
    return True


def _kept(reading: Training, call: Call, name: str) -> Iterator[tuple[str, Span]]:
    """Sums and lists that outlive the iteration and receive the loss itself."""
    reading.step(len(reading.script.assignments))
    sums = [
        (each.target, each.span, each.position)
        for each in reading.script.assignments
        if each.augmented
        and (each.scope, each.loops) == (call.scope, call.loops)
        and _holds(each.value, name)
        and not _is_inference(reading, each.contexts)
    ]
    lists = [
        (other.receiver, other.span, n)
        for n in reading.methods("append")
        if (other := reading.calls[n]).scope == call.scope
        and other.loops == call.loops
        and len(other.args) == 1
        and _holds(other.args[0], name)
        and not _is_inference(reading, other.contexts)
    ]
    for target, span, position in (*sums, *lists):
        if _outlives(reading, target, call) and _same_loss(reading, call, name, position):
            yield target, span


def _is_inference(reading: Training, contexts: tuple[int, ...]) -> bool:
    return any(reading.is_inference(reading.script.contexts[n].value) for n in contexts)


def _holds(value: Value, name: str) -> bool:
    """The tensor itself, or a sum or product of it, not what a call makes of it."""
    if value.kind == "name":
        return bool(value.name == name)
    return value.kind in ("other", "list") and any(_holds(item, name) for item in value.items)


def _outlives(reading: Training, target: str, call: Call) -> bool:
    """It is started outside of the loop, as a number or a list, and not in it."""
    results = reading.assigned.get(reading.key(target, call.scope), ())
    started = [each for each in results if not each.augmented]
    if any(each.loops == call.loops[:-1] != () for each in started):
        inside = reading.by_loop[call.loops[-1]]
        if not any(stepped(reading, reading.calls[n]) for n in inside):
            return False  # the batches of one step
    return bool(started) and not any(call.loops[-1] in each.loops for each in started)


def _same_loss(reading: Training, call: Call, name: str, position: int) -> bool:
    """The name holds the same tensor at both places: loss = loss.item() is not between."""
    first = reading.numbers[id(call)]
    low, high = sorted((first, position))
    return not any(
        low < each.position <= high
        for each in reading.assigned.get(reading.key(name, call.scope), ())
    )


def _reaches_backward(reading: Training, target: str, scope: int) -> bool:
    """backward() is called on it or on something that is computed from it."""
    names = {target}
    for each in reading.script.assignments:
        if names & {each.value.name, *each.value.names} and not _holds(each.value, "item"):
            names.add(each.target)
    for number in reading.methods("backward"):
        call = reading.calls[number]
        inner = call.receiver_call
        used = {call.receiver}
        while inner >= 0:
            made = reading.calls[inner]
            used |= {made.receiver, *(n for v in made.args for n in (v.name, *v.names))}
            inner = made.receiver_call
        if names & used:
            return True
    return False


RULES = (
    Rule(
        code="SCR201",
        slug="zeroed-before-step",
        title="Gradients are kept between backward() and step()",
        severity="fail",
        find=zeroed_before_step,
        why="step() applies the gradients that zero_grad() just removed: with plain SGD no weight "
        "changes, and Adam applies its weight decay only.",
        fires=("backward(), zero_grad() and step() of one optimizer in this order",),
        fix="Call zero_grad() before backward(), or after step().",
        needs=("zero_grad",),
        sources=("ps-P4",),
    ),
    Rule(
        code="SCR202",
        slug="clip-before-backward",
        title="Gradients are clipped after backward()",
        severity="warn",
        find=clip_before_backward,
        why="Before backward() the gradients are empty or those of the step before: the step "
        "applies gradients that nothing clipped.",
        fires=("a clip and then the iteration's only backward(), before the step",),
        fix="Move the clip between backward() and step().",
        needs=("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_"),
        sources=("ps-P13",),
    ),
    Rule(
        code="SCR203",
        slug="optimizer-made-each-step",
        title="The optimizer is made once",
        severity="fail",
        find=optimizer_made_each_step,
        why="A new optimizer has no momentum and no averages. Adam's first step has the size of "
        "the "
        "learning rate in every parameter, whatever the gradient is.",
        fires=("an optimizer with state, or a GradScaler, is made in the loop that steps it",),
        fix="Make the optimizer before the loop.",
        sources=("torch-optimizer",),
    ),
    Rule(
        code="SCR204",
        slug="optimizer-never-steps",
        title="The optimizer steps",
        severity="fail",
        find=optimizer_never_steps,
        why="backward() computes gradients; only step() changes weights.",
        fires=("backward() in a loop, and no step in the file",),
        fix="Call optimizer.step() after backward().",
        sources=("ps-P4",),
    ),
    Rule(
        code="SCR205",
        slug="method-not-called",
        title="Methods of the training loop are called",
        severity="fail",
        find=method_not_called,
        why="Python evaluates `optimizer.zero_grad` and discards it: without parentheses nothing "
        "happens, and nothing complains.",
        fires=("a line that is only the name of step, zero_grad, backward, train or eval",),
        fix="Add the parentheses.",
        sources=("ps-P4",),
    ),
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
    Rule(
        code="SCR287",
        slug="backward-missing",
        title="A loop that steps calls backward()",
        severity="fail",
        find=backward_missing,
        why="Without backward() there are no gradients: step() changes nothing.",
        fires=("a loss, zero_grad() and step() in a loop, and no backward() in the file",),
        fix="Call loss.backward() before the step.",
        needs=("zero_grad",),
        sources=("pyramidbox-7",),
    ),
    Rule(
        code="SCR288",
        slug="return-in-loop",
        title="The loop over batches reads all batches",
        severity="fail",
        find=returns_in_loop,
        why="A return that is indented too far ends the function after the first batch: every "
        "epoch trains on one.",
        fires=("an unconditional return in a for loop that calls backward() and step()",),
        fix="Move the return out of the loop.",
        sources=("ps-P4",),
    ),
    Rule(
        code="SCR289",
        slug="closure-missing",
        title="LBFGS steps with a closure",
        severity="fail",
        find=closure_missing,
        why="LBFGS evaluates the loss several times in a step: step() without a closure raises a "
        "TypeError.",
        fires=("step() without an argument on torch.optim.LBFGS",),
        fix="Pass a function that zeroes gradients, computes the loss, propagates and returns it.",
        needs=("LBFGS",),
        sources=("torch-optim-closure",),
    ),
)
