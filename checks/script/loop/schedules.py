"""Rules on learning-rate schedulers: what is stepped, how often, and for how many steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from operator import is_

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loop import lengths
from doctor.checks.script.loop.lightning_schedules import left_by_hand
from doctor.checks.script.loop.steps import leaves
from doctor.checks.script.loop.unused_rates import rate_unused
from doctor.checks.script.loop.zeroed import stepped
from doctor.checks.script.naming import direction
from doctor.checks.script.objects import functions_of
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value


def schedulers(reading: Training) -> Iterator[tuple[int, str]]:
    """Schedulers that are held by one name."""
    for number, call in reading.numbered(
        reading.calls_where(lambda name: name[:1].isupper() or "schedule" in name)
    ):
        if len(call.targets) == 1 and is_scheduler_call(call):
            yield number, call.targets[0]


def returned_schedulers(reading: Training) -> Iterator[tuple[int, str, int]]:
    """Schedulers that a function of this file returns: the call, its name there, and where."""
    for function, sites in reading.call_sites.items():
        returns = reading.function(function).returns
        if len(returns) != 1 or len(sites) != 1:
            continue
        site = reading.calls[sites[0]]
        parts = returns[0].items if returns[0].kind == "list" else (returns[0],)
        for part, target in zip(parts, site.targets, strict=False):
            number = _made_in(reading, part, function)
            if number >= 0 and len(parts) == len(site.targets):
                yield number, target, site.scope


def _made_in(reading: Training, value: Value, function: int) -> int:
    """The call of a scheduler that a returned value is, -1 for anything else."""
    if value.kind == "name":
        found = reading.assigned_to(value.name, function)
        value = found[0].value if len(found) == 1 and found[0].scope == function else value
    known = value.kind == "call" and is_scheduler_call(reading.calls[value.call])
    return value.call if known else -1


def is_scheduler_call(call: Call) -> bool:
    name = call.name
    return name.startswith("torch.optim.lr_scheduler.") or (
        name.startswith(("transformers.get_", "transformers.optimization.get_"))
        and "schedule" in call.method
    )


def scheduler_steps(
    reading: Training, name: str, made: Call, agrees: Callable[[Call], bool], home: int = -1
) -> Iterator[Call]:
    """Steps of the scheduler, where all that the name may hold there agrees.

    `home` is the scope of the name, where another function made it.
    """
    held = reading.names_of(name, made.scope if home < 0 else home)
    for number, step in reading.numbered(reading.methods("step")):
        if reading.key(step.receiver, step.scope) not in held:
            continue
        makers = scheduler_makers(reading, step, number)
        known = [each for each in makers if each is not None and agrees(each)]
        if len(known) == len(makers) and any(each is made for each in known):
            yield step


def scheduler_makers(reading: Training, step: Call, number: int) -> list[Call | None]:
    """What may have made the scheduler, also later in a loop around; None for what is unknown."""
    values = evaluate.receivers(reading, step)
    values += [
        each.value
        for each in reading.assigned_to(step.receiver, step.scope)
        if each.position > number and set(each.loops) & set(step.loops)
    ]
    return [
        made
        for value in values
        if value.kind != "literal" or value.literal is not None
        for made in objects.makers(reading, value, step.scope, number, step.arms)
    ]


def _is_plateau(made: Call) -> bool:
    return made.method == "ReduceLROnPlateau"


def takes_epoch(made: Call) -> bool:
    return made.name.startswith("torch.optim.") and not _is_plateau(made)


QUIET = {"state_dict", "load_state_dict", "get_last_lr"}


def never_steps(reading: Training) -> Iterator[Match]:
    if not reading.backwards or reading.trainers or reading.fits:
        return
    for number, name in schedulers(reading):
        call = reading.calls[number]
        owner, _ = reading.key(name, call.scope)
        if not isinstance(owner, int) and not _is_own(reading, call, name):
            continue
        held = reading.names_of(name, call.scope)
        if any(
            reading.key(c.receiver, c.scope) in held and c.method not in QUIET
            for c in reading.calls
        ):
            continue
        if not any(leaves(reading, *key, quiet=("torch.save",)) for key in held):
            yield Match(call.span, f"{name}.step() is never called: the rate stays as it starts")


def _is_own(reading: Training, made: Call, name: str) -> bool:
    """self.name of a class that steps an optimizer itself, derives from nothing, and shows it."""
    owner = reading.function(made.scope).owner
    classes = [each for each in reading.script.classes if each.name == owner]
    steps = any(
        stepped(reading, other) and other.loops
        for other in reading.named("step")
        if reading.function(other.scope).owner == owner
    )
    last = name.removeprefix("self.")
    elsewhere = any(
        each.name.endswith(f".{last}") and not each.name.startswith("self.")
        for each in reading.script.references
    )
    used = any(f".{last}.step" in f".{call.name}" for call in reading.calls) or any(
        name in v.all_names and v.kind != "call" for call in reading.calls for v in call.values
    )
    plain = name.startswith("self.") and "." not in last and len(classes) == 1
    return plain and not classes[0].bases and steps and not elsewhere and not used


def plateau_without_metric(reading: Training) -> Iterator[Match]:
    for number, name in schedulers(reading):
        made = reading.calls[number]
        if not _is_plateau(made) or made.arms:
            continue
        for call in scheduler_steps(reading, name, made, _is_plateau):
            if not call.args and not call.keywords and not call.unpacked:
                yield Match(call.span, f"{name}.step() of ReduceLROnPlateau needs the metric")


def metric_to_steps(reading: Training) -> Iterator[Match]:
    losses = {reading.calls[n].receiver for n in reading.backwards} - {""}
    for number, name in schedulers(reading):
        made = reading.calls[number]
        if not takes_epoch(made):
            continue
        for call in scheduler_steps(reading, name, made, takes_epoch):
            given = call.args[0].name if len(call.args) == 1 else ""
            if given in losses or given.rpartition(".")[2].casefold() in ("loss", "val_loss"):
                yield Match(
                    call.span, f"{name}.step({given}): {made.method} takes it for the epoch"
                )


RATES = {"lr", "base_lr", "learning_rate", "max_lr", "peak_lr", "init_lr", "initial_lr"}


FACTORS = 0.01
"""From here on a number in a schedule is as well the factor of a decay: 0.1, 0.01."""


def _absolute_rates(reading: Training) -> Iterator[Match]:
    """LambdaLR multiplies the rate of the optimizer by what its function returns."""
    for call in reading.named("LambdaLR"):
        given = evaluate.argument(reading, call, "lr_lambda", 1)
        if given is None or not call.name.startswith("torch.optim."):
            continue
        made = [reading.calls[n] for n in reading.optimizers if call.args and (
            call.args[0].name in reading.calls[n].targets)]  # fmt: skip
        if not made or any((rate := m.keywords.get("lr")) is None
                           or evaluate.literals(reading, rate, m) & {1}
                           for m in made):  # fmt: skip
            continue
        own = {m.keywords["lr"].name.rpartition(".")[2] for m in made} - {""}
        rates = {
            number for m in made
            if evaluate.is_number(number := m.keywords["lr"].literal) and 0 < number < FACTORS
        }  # fmt: skip
        bodies = [("the lambda", given.items)] if given.name == "Lambda" else []
        bodies += [(f"{reading.function(n).name}()", reading.returns(n))
                   for n in _lambdas(reading, given, call)]  # fmt: skip
        yield from _noam(reading, given, call, made, [v for _, each in bodies for v in each])
        for name, results in bodies:
            values = [v for each in results for v in _bounded(reading, each)]
            if any(v.kind == "other" and (_is_rate(v, own) or _holds(v, rates)) for v in values):
                message = f"{name} returns a rate: LambdaLR multiplies by it"
                yield Match(call.span, message, fix="Return the factor alone, or set lr=1.0.")


STEP = r"(?:[\w.]+|\([\w.]+\+1\)|\(1\+[\w.]+\)|max\([\w.,]+\))"
ROOT, RISE = rf"\({STEP}\*\*-0\.5\)", rf"\({STEP}\*\([\w.]+\*\*-1\.5\)\)"
LEAST = rf"min\((?:{ROOT},{RISE}|{RISE},{ROOT})\)"
SIZE = r"\([\w.]+\*\*-0\.5\)"
NOAM = re.compile(rf"<?\((?:{SIZE}\*{LEAST}|{LEAST}\*{SIZE})\)>?")
"""dim ** -0.5 * min(step ** -0.5, step * warmup ** -1.5): a rate of about 0.001 at its peak."""


def _noam(
    reading: Training, given: Value, call: Call, made: list[Call], results: list[Value]
) -> Iterator[Match]:
    """The schedule of the first Transformer is the rate itself."""
    factory = reading.call_of(given)
    inner = reading.returns(reading.target_function(factory)) if factory is not None else ()
    texts = [render(reading, value) for value in (*results, *inner)]
    rates = [evaluate.number(reading, m.keywords.get("lr"), m) for m in made]
    if any(map(NOAM.fullmatch, texts)) and all(r is not None and 0 < r < FACTORS for r in rates):
        message = "this schedule is a rate, about 0.001 at its peak: LambdaLR multiplies by it"
        yield Match(call.span, message, fix="Set lr=1.0.")


def _bounded(reading: Training, value: Value) -> Iterator[Value]:
    """What max() and min() choose from, and both sides of `a if test else b`."""
    call = reading.call_of(value)
    bounds = call is not None and call.name in ("max", "min")
    parts = call.args if call is not None and bounds else value.items
    yield from parts if bounds or value.kind == "choice" else (value,)


def _lambdas(reading: Training, given: Value, call: Call) -> Iterator[int]:
    """The function of this file, also below `lambda step: rate(step, config)` and partial()."""
    yield from functions_of(reading, given, call)
    inner = given.items[0] if given.name == "Lambda" and given.items else given
    made = reading.call_of(inner)
    if made is None:
        return
    function = reading.target_function(made)
    unit = any(made.keywords[k].literal == 1 for k in RATES & made.keywords.keys())
    if inner is not given and function is not None and not unit:
        yield function
    if made.method == "partial" and made.args and not unit:
        yield from functions_of(reading, made.args[0], made)


def _holds(value: Value, rates: set[float]) -> bool:
    """The rate of the optimizer is written out as a factor of what is divided or a power."""
    parts, kinds = [value], {value.name}
    for part in parts:
        kinds.add(part.name)
        taken = {"Mult": part.items, "Div": part.items[:1]} if part.kind == "other" else {}
        parts += taken.get(part.name, ())
    return bool(kinds & {"Div", "Pow"}) and any(
        part.literal in rates for part in parts if part.kind == "literal"
    )


def _is_rate(value: Value, own: set[str]) -> bool:
    """A product with a rate that no rate divides; `own`: what the optimizer's is named."""
    parts, rates = list(flatten([value])), RATES | own
    if any(part.name in ("Div", "FloorDiv") and any(
        set(each.name.rpartition(".")[2:]) & rates for item in part.items[1:]
        for each in flatten([item])
    ) for part in parts):  # fmt: skip
        return False
    return any(
        part.name == "Mult" and any(
            each.name.rpartition(".")[2] in rates for item in part.items for each in flatten([item])
        )
        for part in parts
    )  # fmt: skip


def scheduler_settings(reading: Training) -> Iterator[Match]:
    yield from _absolute_rates(reading)
    yield from lengths.never_counted(reading)
    for made in filter(is_scheduler_call, reading.calls):
        yield from _factor(made, evaluate.argument(reading, made, "gamma"))
    for number, name in schedulers(reading):
        made = reading.calls[number]
        yield from _never_warm(reading, made)
        yield from lengths.beyond(reading, made)
        steps = list(scheduler_steps(reading, name, made, partial(is_, made)))
        if made.loops and any(step.loops == made.loops for step in steps):
            optimizers = {n for n in reading.optimizers if reading.calls[n].loops == made.loops}
            if not optimizers and not made.arms:
                yield Match(made.span, f"{name} is made anew in every iteration: it never decays")
        if _is_plateau(made):
            yield from _waits_for(reading, made, steps)
            factor = evaluate.number(reading, made.keywords.get("factor"), made)
            if factor is not None and factor >= 1:
                yield Match(made.span, f"factor={factor:g} is refused: it is to be below 1")


def _factor(made: Call, gamma: Value | None) -> Iterator[Match]:
    """A factor of 0, or of 2 and more; one a little above 1 may look for the highest rate."""
    decays = made.method in ("StepLR", "MultiStepLR", "ExponentialLR")
    factor = gamma.literal if gamma is not None and gamma.kind == "literal" else None
    if factor == 0 and not isinstance(factor, bool):
        yield Match(made.span, "gamma=0 sets the rate to 0 at the first decay")
    if decays and isinstance(factor, int | float) and factor >= 2:
        yield Match(made.span, f"gamma={factor:g} makes the rate grow at each decay")


def _never_warm(reading: Training, made: Call) -> Iterator[Match]:
    """A warm-up that is as long as the schedule."""
    if not made.name.startswith("transformers."):
        return
    counts = []
    for key, position in (("num_warmup_steps", 1), ("num_training_steps", 2)):
        value = evaluate.argument(reading, made, key, position)
        found = evaluate.literals(reading, value, made)
        counts.append(found.pop() if len(found) == 1 else None)
    warm, total = counts
    if isinstance(warm, int) and isinstance(total, int) and 0 < total <= warm:
        yield Match(made.span, f"the warm-up of {warm} steps is as long as the run of {total}")


def _waits_for(reading: Training, made: Call, steps: list[Call]) -> Iterator[Match]:
    """min for what should be high, max for what should be low."""
    mode = evaluate.argument(reading, made, "mode", 1)
    text = "min" if mode is None else mode.literal
    for step in steps:
        better = direction(step.args[0].name) if len(step.args) == 1 else 0
        if (text, better) in (("min", 1), ("max", -1)):
            yield Match(step.span, f"mode={text} waits for {step.args[0].name} to get worse")


RULES = (
    Rule(
        code="SCR206",
        slug="scheduler-never-steps",
        title="The scheduler steps",
        severity="warn",
        find=each_of(never_steps, left_by_hand, rate_unused),
        why="A scheduler that is made sets the first learning rate, with a warm-up one near 0; "
        "only step() goes on from there.",
        fires=(
            "a scheduler that is neither stepped nor given to anything",
            "schedules of a LightningModule with automatic_optimization = False, which no "
            "lr_schedulers() of it asks for",
            "lr = get_lr(step) in the loop that trains, and no optimizer gets it",
        ),
        fix="Call scheduler.step() after optimizer.step(), or remove the scheduler.",
        sources=("ps-P12",),
    ),
    Rule(
        code="SCR207",
        slug="plateau-without-metric",
        title="ReduceLROnPlateau receives the metric",
        severity="fail",
        find=plateau_without_metric,
        why="ReduceLROnPlateau.step(metrics) has no default: the first epoch ends with a "
        "TypeError.",
        fires=("step() without an argument on a ReduceLROnPlateau",),
        fix="Call scheduler.step(val_loss).",
        needs=("ReduceLROnPlateau",),
        sources=("torch-lr-scheduler",),
    ),
    Rule(
        code="SCR224",
        slug="metric-to-step-scheduler",
        title="Only ReduceLROnPlateau receives a metric",
        severity="fail",
        find=metric_to_steps,
        why="Other schedulers take the argument of step() for the epoch. A loss of 0.3 sets the "
        "rate of epoch 0.3, at the end of every epoch.",
        fires=("step(loss) of a scheduler of torch other than ReduceLROnPlateau",),
        fix="Call scheduler.step() without an argument.",
        sources=("torch-lr-scheduler",),
    ),
    Rule(
        code="SCR227",
        slug="scheduler-settings",
        title="A scheduler decays when it should",
        severity="fail",
        find=scheduler_settings,
        why="A plateau in the wrong mode lowers the rate while the metric improves; gamma=0 ends "
        "the training at the first decay; a scheduler that is made again never gets there.",
        fires=(
            "ReduceLROnPlateau in mode min with an accuracy, or max with a loss",
            "gamma=0",
            "a scheduler is made in the loop that steps it",
            "eta_min above lr; last_epoch of an optimizer that loads no state",
            "a rate of a number of steps that nothing counts",
            "milestones behind the last epoch (a warning)",
            "LambdaLR of a function that returns the rate of the optimizer, not a factor, or the "
            "rate of the first Transformer beside lr=1e-4",
        ),
        fix='mode="max" for accuracies; gamma=1 for no decay; make the scheduler before the loop.',
        sources=("torch-lr-scheduler",),
    ),
)
