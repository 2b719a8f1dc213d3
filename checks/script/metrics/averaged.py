"""Averages that are none, and averages that the training goes on from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.rendering import lines, written_out
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call

AVERAGES = re.compile(r"(?:^|_|\.)(?:ema|avg|averaged?|swa|shadow)(?:_|$)")
APPLIES = ("copy_to", "apply_shadow", "apply_ema", "swap_in", "apply_to", "copy_params_to")
WRITING = ("apply", "copy_to", "assign", "to_model")
EACH = re.compile(r"ema|average|avg|shadow|%|val", re.IGNORECASE)
"""In the test of what happens in more than one epoch; another may end the training."""
UNDONE = (
    "restore", "backup", "swap", "average_parameters", "undo", "original_", "reset_w",
    "load_state_dict",
)  # fmt: skip


def averages(reading: Training) -> Iterator[Match]:
    yield from _copied(reading)
    yield from _never_updated(reading)
    yield from _left_in(reading)


def _copied(reading: Training) -> Iterator[Match]:
    """ema = copy.deepcopy(model) in the loop over batches."""
    for call in reading.named("deepcopy"):
        target = call.target
        loop = call.loops[-1] if call.loops else -1
        steps = [
            m
            for m in reading.by_loop.get(loop, ())
            if m in reading.backward_numbers and reading.calls[m].loops == call.loops
        ]
        if AVERAGES.search(target.casefold()) and steps and not call.arms:
            message = f"{target} is the model of this step: nothing of the steps before is in it"
            yield Match(call.span, message)


def _never_updated(reading: Training) -> Iterator[Match]:
    """AveragedModel without update_parameters()."""
    if reading.mentions("update_parameters", "swa_callback"):
        return
    for call in reading.named("AveragedModel"):
        passed = any(
            v.name in call.targets
            for c in reading.calls
            for v in c.args
            if c.method not in ("update_bn", "save", "evaluate", "validate", "test")
        )
        if call.name.startswith("torch.optim.swa_utils") and call.targets and not passed:
            yield Match(call.span, f"{call.targets[0]}.update_parameters() is never called")


def _left_in(reading: Training) -> Iterator[Match]:
    """ema.copy_to(model.parameters()) after each epoch, and nothing puts the weights back."""
    named = {c.span for c in reading.named(*APPLIES)} if not reading.mentions(*UNDONE) else set()
    for call in reading.calls:
        begun = bool(call.loops) and call.method.startswith(WRITING)
        written = begun and _written_here(reading, call)
        if not (written or call.span in named):
            continue
        held = [reading.test_of(b) for b, _ in call.arms]
        last = any(test is not None and "-1" in test.text.replace(" ", "") for test in held)
        last |= written and any(t is None or not EACH.search(t.text) for t in held)
        owners = [
            (reading.calls[m].receiver or v.name) for v in call.args for m in (v.calls or (-1,))
        ]
        other = any(o and reading.key(o, call.scope) not in reading.trained_names for o in owners)
        average = AVERAGES.search(call.receiver.casefold())
        if average and not last and not other and _trains_on(reading, call):
            message = "the average replaces the weights, and the training goes on from it"
            yield Match(call.span, message)


def _trains_on(reading: Training, call: Call) -> bool:
    """Its loop has backward(), also in a function of this file that the loop calls."""
    inside = reading.by_loop.get(call.loops[0], ()) if call.loops else ()
    entered = {reading.target_function(reading.calls[n]) for n in inside} - {None}
    return any(n in reading.backward_numbers for n in inside) or any(
        reading.calls[n].scope in entered for n in reading.backwards
    )


def _written_here(reading: Training, call: Call) -> bool:
    """A method of a class of this file that writes what it keeps into the weights it is given,
    while no method that puts them back is called, and nothing is kept outside of the class."""
    made = evaluate.receivers(reading, call)
    owners = {reading.calls[v.call].name for v in made if v.kind == "call"}
    owner = owners.pop() if len(owners) == 1 else ""
    function = objects.method_of(reading, owner, call.method) if owner else None
    if function is None or "contextmanager" in reading.script.identifiers:
        return False
    writes = any(
        c.receiver and not c.receiver.startswith("self.")
        and c.method in ("copy_", "load_state_dict")
        and any("self." in n for v in c.args for n in v.all_names)
        for c in reading.calls_in(function)
    ) or any(
        a.target.endswith(".data") and any("self." in n for n in a.value.all_names)
        for a in reading.assignments if a.scope == function
    )  # fmt: skip
    outside = [c.name for c in reading.calls if reading.function(c.scope).owner != owner]
    outside += [a.target for a in reading.assignments
                if reading.function(a.scope).owner != owner]  # fmt: skip
    outside += [c.name for c in reading.calls if c.receiver == "self"]
    return writes and not any(w in n for n in outside for w in UNDONE)


UPDATES = re.compile(r"update|step|call|forward|ema|average")


def decay_overwritten(reading: Training) -> Iterator[Match]:
    """self.decay = min(self.decay, ramp): the ramp begins low, and the decay stays there."""
    for line in reading.cached(lines):
        if not re.search(r"^self\.\w*(?:decay|momentum)$", line.target):
            continue
        itself = re.search(rf"\bmin\((?:[^,]*,)?{re.escape(line.target)}\b", line.text)
        ramp = itself and "/" in written_out(reading, line.scope, line.text)
        writes = reading.assigned_to(line.target, line.scope) if ramp else ()
        alone = sum(reading.function(a.scope).name != "__init__" for a in writes) == 1
        if alone and UPDATES.search(reading.function(line.scope).name):
            name = line.target
            yield Match(line.span, f"{name} is overwritten by its own minimum: it never rises",
                        fix="Keep the result in a local variable.")  # fmt: skip
