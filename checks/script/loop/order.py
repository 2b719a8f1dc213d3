"""Rules on the order of calls in a training loop."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import alive, objects
from doctor.checks.script.lineage import lineage_of
from doctor.checks.script.loop.scaling import is_optimizer
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

DRAWS = {"next", "sample", "randint", "choice", "get_batch", "randperm", "batch", "next_batch"}
"""Calls that bring another batch into a loop that counts."""
IN_BRANCH = "Move scheduler.step() into the branch of optimizer.step(), directly behind it."
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


def scheduler_before_step(reading: Training) -> Iterator[Match]:
    for number, call in reading.numbered(reading.methods("step")):
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
            seldom = set(reading.calls[min(steps)].arms) - set(call.arms)
            tests = (reading.written_test(branch, call.scope) for branch, _ in seldom)
            within = any(test is not None and "%" in test.text for test in tests)
            yield Match(call.span, message, fix=IN_BRANCH if within else "")


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
    """Under a condition of its own it may run later than the first step: if step > warmup; not
    where this only asks whether there is a scheduler."""
    shared = set(reading.calls[min(steps)].arms)
    asks = {call.receiver, f"{call.receiver} is not None"}
    own = [b for b, arm in call.arms if (b, arm) not in shared and reading.decides(b)]
    tests = (reading.test_of(branch) for branch in own)
    return any(t is None or not asks & {t.text, t.name} for t in tests)


def _applies(reading: Training, call: Call) -> bool:
    return is_optimizer(reading, call) or "scaler" in call.receiver.casefold()


def _eval_in_loops(reading: Training) -> Iterator[Match]:
    for loop in sorted(reading.by_loop):
        reached = calls_reached(reading, reading.by_loop[loop])
        if reading.backward_numbers.isdisjoint(reached):
            continue
        if not any(reading.calls[n].method == "step" for n in reached):
            continue  # a loop over held-out data calls what has a backward() for training
        if not any(reading.calls[n].method == "train" for n in reached):
            yield from _first_eval(reading, reached, loop)


def _first_eval(reading: Training, reached: list[int], loop: int) -> Iterator[Match]:
    """The first eval() of a trained object among the calls of a loop."""
    for number, call in reading.numbered(reached):
        if call.method != "eval" or call.args or not call.receiver:
            continue
        state = _is_trained(reading, call, number) or _runs_in(reading, call, reached)
        state = state or _is_left(reading, call, loop)
        if state is False or _is_made_in(reading, call, reached):
            continue
        if _is_probe(reading, call):
            return
        foreign = _inherited(reading, call, [reading.calls[n] for n in reached])
        back = next((name for name in foreign if re.search("train|mode|restore", name)), "")
        open_ = f"{back}() may set it back" if back else "" if state else "it may be another model"
        message = f"{call.receiver}.eval() in the loop, and no train() there"
        if _has_no_modes(reading, call, number):
            yield Match(call.span, f"{message}: no layer of it differs so far", "note")
        else:
            yield Match(call.span, message, "fail", open_)
        return


def _is_probe(reading: Training, call: Call) -> bool:
    """The function that trains calls eval() itself, and layers are frozen by their names: their
    batch norm keeps the statistics of the pretraining."""
    trains = (reading.calls[n] for n in reading.backward_numbers)
    by_name = (each.arms for each in reading.assignments if each.target.endswith(".requires_grad"))
    return any(by_name) and any(each.scope == call.scope for each in trains)


def _runs_in(reading: Training, call: Call, reached: list[int]) -> bool | None:
    """The loop passes the model to a function that calls eval(), and runs it with a graph."""
    names = [p.name for p in reading.function(call.scope).parameters]
    place = names.index(call.receiver) if call.receiver in names else -1
    here = [reading.calls[n] for n in reached]
    for site in here if place >= 0 else ():
        given = site.given(call.receiver, place)
        if given is None or not given.name or reading.target_function(site) != call.scope:
            continue
        runs = [c for c in here if c.name == given.name and c.scope == site.scope]
        if runs and not all(reading.is_without_graph(c) for c in runs):
            return True
    return None


def _is_left(reading: Training, call: Call, loop: int) -> bool | None:
    """self.validate() evaluates self.model, which the loop runs with a graph, and which is set to
    train() above the loop; nothing leaves the loop beside the evaluation, and no method of another
    file's base may set the mode back."""
    key = reading.key(call.receiver, call.scope)
    own = [reading.calls[n] for n in reading.by_loop[loop]]
    runs = [c for c in own if reading.key(c.name, c.scope) == key and c.name.startswith("self.")]
    sites = [c for c in own if reading.target_function(c) == call.scope and c.arms]
    sets = any(reading.key(c.receiver, c.scope) == key for c in reading.named("train"))
    left = {(b.loops, b.arms) for b in reading.script.bare if b.name == "break"}
    leaves = any((c.loops, c.arms) in left for c in sites)
    graph = bool(runs) and not all(reading.is_without_graph(c) for c in runs)
    foreign = any(_inherited(reading, call, own))
    return True if graph and sets and sites and not leaves and not foreign else None


def _inherited(reading: Training, call: Call, inside: list[Call]) -> Iterator[str]:
    """Methods that another file's base has, called in the loop and where eval() is."""
    key = reading.key(call.receiver, call.scope)
    for each in (*inside, *reading.calls_in(call.scope)):
        if not re.fullmatch(r"self\.\w+", each.name) or reading.target_function(each) is not None:
            continue
        own = reading.key(each.name, each.scope) == key
        if not own and not reading.assigned_to(each.name, each.scope):
            yield each.method


def _has_no_modes(reading: Training, call: Call, number: int) -> bool:
    """It is made of layers that compute the same in evaluation: no dropout, no batch norm."""
    if reading.mentions("drop", "batchnorm", "batch_norm", "instancenorm", "rrelu"):
        return False
    value = Value("name", name=call.receiver)
    made = list(objects.makers(reading, value, call.scope, number, call.arms))
    return bool(made) and all(each is not None and _is_plain(reading, each) for each in made)


def _is_plain(reading: Training, made: Call) -> bool:
    """A layer of torch, or a module of this file that holds nothing else."""
    if made.name.startswith("torch.nn."):
        return True
    held = [
        each
        for each in reading.calls
        if each.method[:1].isupper() and reading.function(each.scope).owner == made.name
    ]
    return made.name in reading.modules and all(
        each.name.startswith("torch.") or each.name in reading.modules for each in held
    )


def _is_made_in(reading: Training, call: Call, reached: list[int]) -> bool:
    """Every iteration makes its own model: folds, runs with other settings."""
    key = reading.key(call.receiver, call.scope)
    made = {n for each in reading.trained for n in each.lineage.calls}
    own = {n for each in reading.trained if key in each.lineage.names for n in each.lineage.calls}
    return any(
        reading.calls[n].method[:1].isupper()
        or reading.calls[n].method == "from_pretrained"
        or reading.calls[n].name.startswith(("torchvision.models.", "timm."))
        for n in (own or made) & set(reached)
    )


def _eval_before(reading: Training) -> Iterator[Match]:
    """eval() above the loop of a file that never calls train()."""
    if any(other.receiver for other in reading.named("train")) or reading.trainers:
        return
    for number, call in reading.numbered(reading.methods("eval")):
        if call.loops or call.arms or not call.receiver or call.args:
            continue
        if _has_reference(reading, call) or _is_probe(reading, call):
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
        "ref" in other.receiver.casefold() and other.scope == call.scope
        for other in reading.named("eval")
    )


def _trains_later(reading: Training, call: Call, number: int) -> bool:
    """A loop with backward() follows, here or in a function that is called later, and what trains
    this network is at work then."""
    if not alive.trains_after(reading, {reading.key(call.receiver, call.scope)}, call):
        return False
    for backward in reading.backwards:
        scope = reading.calls[backward].scope
        if not reading.calls[backward].loops:
            continue
        if not _reads_batches(reading, reading.calls[backward]):
            continue
        if scope == call.scope and backward > number:
            return True
        sites = reading.call_sites.get(scope, ())
        if any(n > number and reading.calls[n].scope == call.scope for n in sites):
            return True
    return False


def _reads_batches(reading: Training, backward: Call) -> bool:
    """The loops around it read data: steps on one batch alone, as to memorise it, may be meant."""
    loops = [reading.loops[n] for n in backward.loops]
    counted = [
        loop
        for loop in loops
        if loop.kind == "while"
        or (loop.iterable is not None and loop.iterable.kind == "call"
            and reading.calls[loop.iterable.call].method in ("range", "trange", "count"))
    ]  # fmt: skip
    inside = {reading.calls[n].method for n in reading.by_loop[backward.loops[-1]]}
    return len(counted) < len(loops) or bool(inside & DRAWS)


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
            each.target.endswith(".requires_grad") for each in reading.assignments
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
        code="SCR154",
        slug="eval-left-on",
        title="train() follows every evaluation in the loop",
        severity="warn",
        find=each_of(_eval_in_loops, _eval_before),
        why="eval() turns dropout and the update of batch statistics off. Without train() the "
        "rest of the training runs without them.",
        fires=("model.eval() before the training loop, and train() nowhere",),
        errors=("model.eval() within the training loop, and no train() in that loop",),
        fix="Call model.train() after the evaluation, or at the start of every epoch.",
        needs=("eval",),
        sources=("torch-train-mode",),
    ),
)
