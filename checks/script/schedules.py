"""Rules on learning-rate schedulers: what is stepped, how often, and for how many steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import is_

from doctor.checks.script import evaluate, objects
from doctor.checks.script.lightning_schedules import stepped_per_epoch
from doctor.checks.script.loop import stepped
from doctor.checks.script.naming import direction
from doctor.checks.script.objects import functions_of
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.steps import leaves
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Loop, Value
from doctor.facts.script_machine import ScriptMachine

LENGTHS = {
    "CosineAnnealingLR": ("T_max", 1), "LinearLR": ("total_iters", 3), "StepLR": ("step_size", 1),
    "PolynomialLR": ("total_iters", 1), "OneCycleLR": ("total_steps", 2),
    "get_linear_schedule_with_warmup": ("num_training_steps", 2),
    "get_cosine_schedule_with_warmup": ("num_training_steps", 2),
    "get_polynomial_decay_schedule_with_warmup": ("num_training_steps", 2),
    "get_scheduler": ("num_training_steps", 3),
}  # fmt: skip
"""The argument that says after how many steps a schedule ends, and its position."""
GO_ON = ("CosineAnnealingLR", "LinearLR")
"""After its length the first turns back and the second stays: one epoch of them may be meant."""


def schedulers(reading: Training) -> Iterator[tuple[int, str]]:
    """Schedulers that are held by one name."""
    for number in reading.calls_where(lambda name: name[:1].isupper() or "schedule" in name):
        call = reading.calls[number]
        if len(call.targets) == 1 and is_scheduler_call(call):
            yield number, call.targets[0]


def is_scheduler_call(call: Call) -> bool:
    name = call.name
    return name.startswith("torch.optim.lr_scheduler.") or (
        name.startswith(("transformers.get_", "transformers.optimization.get_"))
        and "schedule" in call.method
    )


def _steps(
    reading: Training, name: str, made: Call, agrees: Callable[[Call], bool]
) -> Iterator[Call]:
    """Steps of the scheduler, where all that the name may hold there agrees."""
    held = reading.names_of(name, made.scope)
    for number in reading.methods("step"):
        step = reading.calls[number]
        if reading.key(step.receiver, step.scope) not in held:
            continue
        makers = _makers(reading, step, number)
        known = [each for each in makers if each is not None and agrees(each)]
        if len(known) == len(makers) and any(each is made for each in known):
            yield step


def _makers(reading: Training, step: Call, number: int) -> list[Call | None]:
    """What may have made the scheduler, also later in a loop around; None for what is unknown."""
    values = evaluate.options(reading, Value("name", name=step.receiver), step)
    values += [
        each.value
        for each in reading.assigned.get(reading.key(step.receiver, step.scope), ())
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


def _takes_epoch(made: Call) -> bool:
    return made.name.startswith("torch.optim.") and not _is_plateau(made)


QUIET = {"state_dict", "load_state_dict", "get_last_lr"}


def never_steps(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
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
        stepped(reading, reading.calls[n]) and reading.calls[n].loops
        for n in reading.methods("step")
        if reading.function(reading.calls[n].scope).owner == owner
    )
    last = name.removeprefix("self.")
    elsewhere = any(
        each.name.endswith(f".{last}") and not each.name.startswith("self.")
        for each in reading.script.references
    )
    used = any(f".{last}.step" in f".{call.name}" for call in reading.calls) or any(
        name in (v.name, *v.names) and v.kind != "call"
        for call in reading.calls
        for v in (*call.args, *call.keywords.values())
    )
    plain = name.startswith("self.") and "." not in last and len(classes) == 1
    return plain and not classes[0].bases and steps and not elsewhere and not used


def plateau_without_metric(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number, name in schedulers(reading):
        made = reading.calls[number]
        if not _is_plateau(made) or made.arms:
            continue
        for call in _steps(reading, name, made, _is_plateau):
            if not call.args and not call.keywords and not call.unpacked:
                yield Match(call.span, f"{name}.step() of ReduceLROnPlateau needs the metric")


def metric_to_steps(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    losses = {reading.calls[n].receiver for n in reading.backwards} - {""}
    for number, name in schedulers(reading):
        made = reading.calls[number]
        if not _takes_epoch(made):
            continue
        for call in _steps(reading, name, made, _takes_epoch):
            given = call.args[0].name if len(call.args) == 1 else ""
            if given in losses or given.rpartition(".")[2].casefold() in ("loss", "val_loss"):
                yield Match(
                    call.span, f"{name}.step({given}): {made.method} takes it for the epoch"
                )


def wrong_unit(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    yield from stepped_per_epoch(reading)
    yield from _in_micro_batches(reading)
    for number, name in schedulers(reading):
        made = reading.calls[number]
        length = _length(reading, made)
        if length is None:
            continue
        for step in _steps(reading, name, made, partial(is_, made)):
            applied = _applied(reading, step)
            if step.loops and _in_epochs_of_caller(reading, made, step, length):
                yield Match(step.span, f"{name} is as long as the epochs, and steps in every batch")
                break
            if step.args or step.keywords or not step.loops or applied is None:
                continue
            if message := _mismatch(reading, made, step, applied, length):
                yield Match(step.span, f"{name} {message}")
                break


def _in_micro_batches(reading: Training) -> Iterator[Match]:
    """The scheduler steps in an inner loop with backward(), and the optimizer after that loop."""
    for number, name in schedulers(reading):
        made = reading.calls[number]
        for step in _steps(reading, name, made, _takes_epoch):
            if not step.loops or step.arms:
                continue
            inside = reading.by_loop[step.loops[-1]]
            applied = [n for n in reading.methods("step") if stepped(reading, reading.calls[n])]
            after = [
                n for n in applied
                if reading.calls[n].loops == step.loops[:-1] != ()
                and reading.calls[n].scope == step.scope
            ]  # fmt: skip
            summed = reading.backward_numbers & set(inside)
            if summed and after and not set(applied) & set(inside):
                yield Match(step.span, f"{name} steps in every batch that one step sums up")


def _in_epochs_of_caller(reading: Training, made: Call, step: Call, length: list[Value]) -> bool:
    """The step is in the loop of a function that the loop over epochs calls."""
    sites = [reading.calls[n] for n in reading.call_sites.get(step.scope, ())]
    if len(sites) != 1 or made.scope != sites[0].scope or step.args or made.loops:
        return False
    if made.method == "StepLR":
        return False
    counts = [_count(reading, reading.script.loops[n]) for n in sites[0].loops]
    return any(_same(count, each) for count in counts if count is not None for each in length)


def _length(reading: Training, made: Call) -> list[Value] | None:
    """What the schedule's length may be, written out."""
    if made.method == "OneCycleLR" and "steps_per_epoch" in made.keywords:
        return [Value("other", name="Mult", calls=made.keywords["steps_per_epoch"].calls)]
    name, position = LENGTHS.get(made.method, ("", 0))
    value = evaluate.argument(reading, made, name, position) if name else None
    if value is None:
        return None
    return [value, *evaluate.options(reading, value, made)]


def _applied(reading: Training, step: Call) -> Call | None:
    """The step of an optimizer nearest to the scheduler's, in the loops around or inside."""
    steps = [
        call
        for n in reading.methods("step")
        if stepped(reading, call := reading.calls[n])
        and call.scope == step.scope
        and call.loops
        and _nested(call.loops, step.loops)
    ]
    return max(steps, key=lambda call: len(call.loops), default=None)


def _ends_early(reading: Training, step: Call, applied: Call, length: list[Value]) -> bool:
    """The length is divided by the accumulation that decides about the optimizer's step alone."""
    own = {branch for branch, _ in step.arms}
    extra = [branch for branch, _ in applied.arms if branch not in own]
    tests = [reading.script.branches[branch].test for branch in extra]
    divided = any(each.name in ("Div", "FloorDiv") for each in length)
    return divided and any(test is not None and "%" in test.text for test in tests)


def _nested(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one[: len(other)] == other or other[: len(one)] == one


def _mismatch(reading: Training, made: Call, step: Call, applied: Call, length: list[Value]) -> str:
    loops = [reading.script.loops[n] for n in applied.loops]
    per_step = step.loops == applied.loops
    epochs = [loop for loop in loops[:-1] if _count(reading, loop) is not None]
    product = any(_is_product(reading, each) for each in length)
    if per_step and len(loops) > 1 and not product and not _is_written_out(loops[-1]):
        counts = [_count(reading, loop) for loop in epochs]
        if any(_same(count, each) for count in counts if count is not None for each in length):
            return "is as long as the epochs, and steps in every batch"
        if len(made.loops) < len(applied.loops) - 1 or not made.loops:
            source = _source(loops[-1])
            whole = source and any(_is_len(reading, each, source) for each in length)
            ends = made.method not in GO_ON and made.method != "StepLR"
            if ends and epochs and whole and not any(_count_is_one(count) for count in counts):
                return "is as long as one epoch, and steps through several"
    if per_step:
        return _too_early(reading, step, applied, length)
    if len(step.loops) < len(applied.loops) and product and not made.loops:
        source = _source(reading.script.loops[applied.loops[len(step.loops)]])
        cycle = "steps_per_epoch" in made.keywords and bool(length[0].calls)
        if cycle or (source and any(_holds_len(reading, each, source) for each in length)):
            return "is made for every batch, and steps once per epoch"
    return ""


def _too_early(reading: Training, step: Call, applied: Call, length: list[Value]) -> str:
    """A schedule that is divided by something, and steps in every batch."""
    loops = [reading.script.loops[n] for n in applied.loops]
    counts = [count for loop in loops[:-1] if (count := _count(reading, loop)) is not None]
    if not _is_written_out(loops[-1]) and any(
        _is_part(count, each) for count in counts for each in length
    ):
        return "is a part of the epochs long, and steps in every batch"
    if _ends_early(reading, step, applied, length):
        return "is made for the optimizer's steps, and steps in every batch"
    return ""


def _count(reading: Training, loop: Loop) -> Value | None:
    """N of `for epoch in range(N)`, also from a first epoch on, and under tqdm."""
    value = loop.iterable
    while value is not None and value.kind == "call":
        call = reading.calls[value.call]
        if call.method == "range" and 1 <= len(call.args) <= 2:
            return _without_one(call.args[-1])
        value = call.args[0] if call.method in ("tqdm", "trange", "track") and call.args else None
        if call.method == "trange":
            return value
    return None


def _without_one(value: Value) -> Value:
    """N of range(1, N + 1)."""
    if value.kind == "other" and value.name == "Add" and len(value.items) == 2:
        first, second = value.items
        return first if second.kind == "literal" and second.literal == 1 else value
    return value


def _is_part(count: Value, length: Value) -> bool:
    """N // 2 of N epochs."""
    return (
        length.kind == "other"
        and length.name in ("FloorDiv", "Div")
        and len(length.items) == 2
        and _same(count, length.items[0])
        and length.items[1].kind == "literal"
    )


def _count_is_one(count: Value | None) -> bool:
    return count is not None and count.kind == "literal" and count.literal == 1


def _is_written_out(loop: Loop) -> bool:
    """`for x in [batch]`: as many steps as anyone can count."""
    return loop.iterable is not None and loop.iterable.kind == "list"


def _same(one: Value, other: Value) -> bool:
    """The same name: equal numbers may count different things."""
    return one.kind == "name" == other.kind and one.name == other.name


def _source(loop: Loop) -> str:
    """The name of what a loop over batches iterates, under enumerate and tqdm."""
    value = loop.iterable
    names = [name for name in ((value.name, *value.names) if value else ()) if name]
    return names[0] if len(names) == 1 else ""


def _is_len(reading: Training, value: Value, source: str) -> bool:
    if value.kind != "call":
        return False
    call = reading.calls[value.call]
    return call.name == "len" and bool(call.args) and call.args[0].name == source


def _holds_len(reading: Training, value: Value, source: str) -> bool:
    return any(
        reading.calls[n].name == "len" and source in [v.name for v in reading.calls[n].args]
        for n in value.calls
    )


def _is_product(reading: Training, value: Value) -> bool:
    return value.kind == "other" and value.name in ("Mult", "FloorDiv", "Div")


RATES = {"lr", "base_lr", "learning_rate", "max_lr", "peak_lr", "init_lr", "initial_lr"}


def _absolute_rates(reading: Training) -> Iterator[Match]:
    """LambdaLR multiplies the rate of the optimizer by what its function returns."""
    for number in reading.methods("LambdaLR"):
        call = reading.calls[number]
        given = evaluate.argument(reading, call, "lr_lambda", 1)
        if given is None or not call.name.startswith("torch.optim."):
            continue
        made = [reading.calls[n] for n in reading.optimizers if call.args and (
            call.args[0].name in reading.calls[n].targets)]  # fmt: skip
        if not made or any((rate := m.keywords.get("lr")) is None or rate.literal in (1, 1.0)
                           for m in made):  # fmt: skip
            continue
        for function in functions_of(reading, given, call):
            returns = reading.function(function).returns
            if returns and any(_is_rate(value) for value in returns):
                name = reading.function(function).name
                yield Match(call.span, f"{name}() returns a rate: LambdaLR multiplies by it")


def _is_rate(value: Value) -> bool:
    """A product with a rate that no rate divides."""
    parts = list(flatten([value]))
    if any(part.name in ("Div", "FloorDiv") and any(
        set(each.name.rpartition(".")[2:]) & RATES for item in part.items[1:]
        for each in flatten([item])
    ) for part in parts):  # fmt: skip
        return False
    return any(
        part.name == "Mult" and any(
            each.name.rpartition(".")[2] in RATES for item in part.items for each in flatten([item])
        )
        for part in parts
    )  # fmt: skip


def scheduler_settings(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    yield from _absolute_rates(reading)
    for number, name in schedulers(reading):
        made = reading.calls[number]
        gamma = evaluate.argument(reading, made, "gamma")
        if gamma is not None and gamma.kind == "literal" and gamma.literal == 0:
            yield Match(made.span, f"gamma=0 sets the rate to 0 at the first decay of {name}")
        steps = list(_steps(reading, name, made, partial(is_, made)))
        if made.loops and any(step.loops == made.loops for step in steps):
            optimizers = {n for n in reading.optimizers if reading.calls[n].loops == made.loops}
            if not optimizers and not made.arms:
                yield Match(made.span, f"{name} is made anew in every iteration: it never decays")
        if _is_plateau(made):
            yield from _waits_for(reading, made, steps)


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
        find=never_steps,
        why="A scheduler that is made sets the first learning rate, with a warm-up one near 0; "
        "only "
        "step() goes on from there.",
        fires=("a scheduler that is neither stepped nor given to anything",),
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
        "rate of "
        "epoch 0.3, at the end of every epoch.",
        fires=("step(loss) of a scheduler of torch other than ReduceLROnPlateau",),
        fix="Call scheduler.step() without an argument.",
        sources=("torch-lr-scheduler",),
    ),
    Rule(
        code="SCR208",
        slug="schedule-in-wrong-unit",
        title="A schedule is as long as the steps that it gets",
        severity="fail",
        find=wrong_unit,
        why="A schedule of as many steps as epochs ends after the first few batches; one for all "
        "batches that steps per epoch stays in its warm-up. The rate is wrong for most of the run.",
        fires=(
            "a length that is the number of epochs, and step() in the loop over batches",
            "a length of len(loader) of a schedule that ends, and step() per batch in a loop over "
            "epochs",
            "a length of len(loader) * epochs, and step() once per epoch",
            "a warning: configure_optimizers of Lightning returns OneCycleLR(steps_per_epoch=...), "
            'or a schedule of estimated_stepping_batches, without interval="step"',
        ),
        fix="Count the schedule in optimizer steps, epochs * len(loader), and step it after each; "
        "or count in epochs and step it once per epoch.",
        sources=("torch-lr-scheduler", "pytorch-65417", "pytorch-lightning-19774"),
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
        ),
        fix='mode="max" for accuracies; gamma=1 for no decay; make the scheduler before the loop.',
        sources=("torch-lr-scheduler",),
    ),
)
