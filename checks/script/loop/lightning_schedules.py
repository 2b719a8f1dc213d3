"""Schedules that Lightning steps: once per epoch, unless their dictionary says otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.objects import functions_of
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value


def lightning_modules(reading: Training) -> set[str]:
    """Classes of this file that are modules of Lightning, also through each other."""
    names: set[str] = set()
    for each in reading.script.classes:
        if any(base.endswith("LightningModule") or base in names for base in each.bases):
            names.add(each.name)
    return names


def stepped_per_epoch(reading: Training) -> Iterator[Match]:
    """Schedules that count batches, returned to Lightning without interval="step"."""
    if reading.mentions("automatic_optimization", "lr_scheduler_step"):
        return
    modules = lightning_modules(reading)
    for scope in reading.functions_by_name.get("configure_optimizers", ()) if modules else ():
        function = reading.function(scope)
        changed = any(
            each.scope == scope and each.target.endswith("[interval]")
            for each in reading.assignments
        )
        if function.owner not in modules or changed:
            continue
        for number, made in reading.numbered(reading.scope_calls(scope)):
            if _counts_batches(reading, made) and any(
                _is_bare(reading, value, scope, number) for value in function.returns
            ):
                message = f"{made.method} counts batches, and Lightning steps it once per epoch"
                yield Match(made.span, message, "warn")


def left_by_hand(reading: Training) -> Iterator[Match]:
    """With manual optimization nothing but the module itself steps its schedules."""
    if reading.mentions("lr_schedulers", "lr_scheduler_step", "lr_scheduler_configs"):
        return
    manual = {
        reading.function(a.scope).owner
        for a in reading.assignments
        if a.target == "self.automatic_optimization" and a.value.literal is False and not a.arms
    }
    direct = {
        c.name for c in reading.script.classes
        if all(b.rpartition(".")[2] == "LightningModule" for b in c.bases)
    }  # fmt: skip
    for scope in reading.functions_by_name.get("configure_optimizers", ()):
        if reading.function(scope).owner not in manual & direct & lightning_modules(reading):
            continue
        for call in reading.calls_in(scope):
            held = call.targets and not any("." in name for name in call.targets)
            if held and call.name.startswith("torch.optim.lr_scheduler.") and not call.arms:
                message = "automatic_optimization is off: only the module steps its schedules"
                own = "Call step() on each of self.lr_schedulers() in training_step."
                yield Match(call.span, f"{call.target}.step() is never called, and {message}",
                            fix=own)  # fmt: skip


def _counts_batches(reading: Training, made: Call) -> bool:
    per_epoch = made.keywords.get("steps_per_epoch")
    if made.method == "OneCycleLR" and per_epoch is not None:
        return per_epoch.literal != 1
    if not ("lr_scheduler" in made.name or "schedule" in made.method):
        return False
    given = made.values
    if made.method in ("SequentialLR", "ChainedScheduler"):
        parts = [each for value in given for each in evaluate.options(reading, value, made)]
        inner = {v.call for part in parts if part.kind == "list" for item in part.items
                 for v in evaluate.options(reading, item, made) if v.kind == "call"}  # fmt: skip
        return any(_counts_batches(reading, reading.calls[n]) for n in inner)
    return not made.method.startswith(("StepLR", "MultiStepLR", "Exponential")) and any(
        _is_steps(reading, value, made) for value in given
    )


STEPS = re.compile(
    r"(?:^|[._])(?:estimated_stepping_batches|steps_per_epoch|"
    r"num_training_batches|(?:num|max|total|warmup|warm_up|train|training)_(?:\w+_)?steps)$"
)


def _is_steps(reading: Training, value: Value, made: Call) -> bool:
    """A number of batches by the names that it is made of; of a function, by those it reads."""
    parts = [value, *(Value("name", name=name) for name in value.names if value.kind == "other")]
    options = [o for each in parts for o in evaluate.options(reading, each, made) if o != each]
    for function in functions_of(reading, value, made):
        options += reading.values_in(function)
        options += [v for c in reading.comparisons if c.scope == function
                    for v in (c.left, c.right)]  # fmt: skip
    if any(_counts_loader(reading, n) for each in (value, *options) for n in each.calls):
        return True
    names = [n for each in options for n in each.all_names]
    if any("epoch" in name for name in names):
        return any(map(STEPS.search, names))
    return any(map(STEPS.search, (*value.all_names, *names)))


def _counts_loader(reading: Training, number: int) -> bool:
    """len(train_loader), len(self.train_dataloader())."""
    call = reading.calls[number]
    parts = [n for v in call.args for n in v.all_names]
    parts += [other.name for v in call.args for other in reading.inside(v)]
    return call.name == "len" and any("loader" in part for part in parts)


def _is_bare(reading: Training, value: Value, scope: int, number: int) -> bool:
    """The returned value holds the scheduler, and nothing beside it says another interval."""
    for each in evaluate.options_at(reading, value, scope, len(reading.calls), ()):
        if each.kind == "call" and each.call == number:
            return True
        items = each.items
        if each.kind == "call" and reading.calls[each.call].name == "dict":
            items = tuple(reading.calls[each.call].keywords.values())
        elif each.kind not in ("list", "dict") or (
            each.kind == "dict" and len(each.keys) < len(items)
        ):
            continue
        interval = evaluate.entry(reading, each, "interval")
        if (interval is None or interval.literal == "epoch") and any(
            _is_bare(reading, item, scope, number) for item in items
        ):
            return True
    return False
