"""Schedules whose warm-up, milestones or steps are counted in epochs, and that step per batch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from operator import is_

from doctor.checks.script import evaluate
from doctor.checks.script.kinds.dimensions import stated
from doctor.checks.script.loop.schedules import scheduler_steps
from doctor.checks.script.loop.zeroed import stepped
from doctor.checks.script.naming import is_loader
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import NAME, formulas_in, render, written_out
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

SETTINGS = {
    "LinearLR": (("total_iters", 3),), "ConstantLR": (("total_iters", 2),),
    "MultiStepLR": (("milestones", 1),), "StepLR": (("step_size", 1),),
    "SequentialLR": (("milestones", 2),), "LambdaLR": (("lr_lambda", 1),),
    "CosineAnnealingWarmRestarts": (("T_0", 1),),
}  # fmt: skip
"""What says after how many steps something changes, and its position."""
STEPS = re.compile(
    r"len\(|(?:^|[_.])(?:steps?|n?iters?|iterations?|batch(?:es)?|loader|updates?)(?:$|[_.\[])|per_ep"
)
COUNTERS = {"step", "it", "iter", "iteration", "epoch", "current_step", "cur_step", "i", "e"}
"""What the argument of a lambda is called, whatever it counts."""
DECAYS = {"MultiStepLR", "StepLR"}


def counted_apart(reading: Training, number: int, name: str, home: int) -> Iterator[Match]:
    """A setting of the schedule is counted in epochs, and it steps in the loop over batches."""
    made = reading.calls[number]
    parts = [made, *_children(reading, made)]
    if not any(part.method in SETTINGS for part in parts):
        return
    for step in scheduler_steps(reading, name, made, partial(is_, made), home):
        if setting := _in_batches(reading, parts, step):
            yield Match(step.span, f"{name} counts {setting} in batches, and steps once per epoch")
            return
        epochs = _epochs_around(reading, step)
        inside = any(step.loops[-2] in part.loops for part in parts) if epochs else False
        if epochs is None or inside or step.args or step.keywords or step.arms:
            continue
        for part in parts:
            if unit := _in_epochs(reading, part, epochs):
                yield Match(step.span, f"{name} counts {unit} in epochs, and steps in every batch")
                return


def _in_batches(reading: Training, parts: list[Call], step: Call) -> str:
    """The setting that len(loader) is a factor of, where the step is behind the loop over it."""
    inside = [
        call
        for call in reading.named("step")
        if stepped(reading, call) and call.scope == step.scope and not call.arms
        and len(call.loops) > len(step.loops) > 0 and call.loops[: len(step.loops)] == step.loops
    ]  # fmt: skip
    loops = [reading.loops[call.loops[len(step.loops)]].iterable for call in inside]
    sources = {name for value in loops if value is not None for name in value.all_names if name}
    for made in parts if sources and not step.args and not step.arms else ():
        for name, position in SETTINGS.get(made.method, ()):
            if name == "lr_lambda":
                continue  # it may convert what it counts
            value = evaluate.argument(reading, made, name, position)
            held = [value, *evaluate.options(reading, value, made)] if value else []
            text = " ".join(f"{render(reading, each)} {each.text}" for each in held)
            if any(
                re.search(rf"\*len\({re.escape(s)}\)|len\({re.escape(s)}\)\*", text)
                for s in sources
            ):
                return name
    return ""


def _children(reading: Training, made: Call) -> list[Call]:
    """The schedulers of a SequentialLR."""
    value = made.given("schedulers", 1) if made.method == "SequentialLR" else None
    listed = [v for each in evaluate.options(reading, value, made) for v in each.items]
    return [
        reading.calls[each.call]
        for v in listed
        for each in evaluate.options(reading, v, made)
        if each.kind == "call"
    ]


def _epochs_around(reading: Training, step: Call) -> Value | None:
    """How many epochs the loop around that over batches has, where the optimizer steps beside."""
    if len(step.loops) < 2:
        return None
    beside = any(
        stepped(reading, call) and call.loops == step.loops and not call.arms
        for call in reading.named("step")
    )
    outer, inner = (reading.loops[n] for n in step.loops[-2:])
    over = inner.iterable.all_names if inner.iterable is not None else ()
    batches = any(is_loader(name) for name in over if name)
    count = reading.call_of(outer.iterable)
    if not beside or not batches or count is None or count.name != "range" or not count.args:
        return None
    named = [*outer.targets, render(reading, count.args[-1])]
    return count.args[-1] if any("epoch" in each.casefold() for each in named) else None


def _in_epochs(reading: Training, made: Call, epochs: Value) -> str:
    """The setting that is counted in epochs: by a name, or as a number of a run of so many."""
    for name, position in SETTINGS.get(made.method, ()):
        value = evaluate.argument(reading, made, name, position)
        if value is None:
            continue
        names, texts = _names(reading, value, made)
        if any(CONVERTED.search(text) or _ignores_argument(text) for text in texts):
            continue
        if any(STEPS.search(each.casefold()) for each in names):
            continue
        epoch = render(reading, epochs)
        if epoch in names or any(_states_epochs(each) for each in names):
            return "its rate" if name == "lr_lambda" else name
        if made.method in DECAYS and _are_epochs(reading, value, made, epochs):
            return name
    return ""


def _states_epochs(name: str) -> bool:
    kind = stated(name.rpartition(".")[2]).get("progress")
    return kind is not None and kind.name == "epochs"


CONVERTED = re.compile(
    r"epochs?\w*\)*\*|\*\(?(?:\w+\.)*\w*epoch|//|/(?!\(*(?:\w+\.)*\w*epoch)", re.IGNORECASE
)
"""A factor or divisor that may be the length of an epoch."""


def _ignores_argument(text: str) -> bool:
    """lambda _: ..., or of an element, which says how far the run is."""
    written = {name for name in re.findall(r"\w+", text)}
    return text.startswith("<") and ("[" in text or not written & COUNTERS)


def _names(reading: Training, value: Value, made: Call) -> tuple[set[str], list[str]]:
    """All names and calls that a setting is computed of, also in the function that it names, and
    the texts of it.
    """
    texts = [render(reading, value)]
    given = set(COUNTERS)
    if value.kind == "name":
        for function in reading.functions_by_name.get(value.name, ()):
            given |= {each.name for each in reading.function(function).parameters}
            texts += [text for text, _ in formulas_in(reading, function)]
            texts += [
                render(reading, side)
                for each in reading.comparisons
                if each.scope == function
                for side in (each.left, each.right)
            ]
    options = evaluate.options(reading, value, made)
    texts += [render(reading, each) for each in options]
    texts += [part.text for each in (value, *options) for part in flatten([each]) if part.text]
    found = set()
    written = [written_out(reading, made.scope, text).replace(" ", "") for text in texts]
    for whole in written:
        found |= {m[0] for m in NAME.finditer(whole)} | set(re.findall(r"[A-Za-z_][\w.]*", whole))
        if "len(" in whole:
            found.add("len(")
    return found - given, written


def _are_epochs(reading: Training, value: Value, made: Call, epochs: Value) -> bool:
    """Numbers that fit into the number of epochs, and reach its last two thirds."""
    number = evaluate.number(reading, epochs, made)
    options = evaluate.options(reading, value, made)
    given = options[0].items if len(options) == 1 and options[0].kind == "list" else options
    literals = [v.literal for v in given]
    numbers = [n for n in literals if isinstance(n, int) and not isinstance(n, bool)]
    gamma = evaluate.argument(reading, made, "gamma", 2)
    rate = evaluate.number(reading, gamma, made) if gamma is not None else 0.1
    if number is None or rate is None or not numbers or len(numbers) != len(literals):
        return False
    return number >= 10 and rate <= 0.5 and number / 4 <= max(numbers) < number
