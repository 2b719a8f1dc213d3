"""Schedules against the run: where they end and begin again, and what asks every Nth time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loop.counters import counter_taken
from doctor.checks.script.naming import is_held_out, is_loader
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

EVERY = re.compile(r"(?!.*\b(?:not|or)\b)[\w.() +]+%\s*[\w.]+")
ACTS = {
    "step", "save", "save_pretrained", "validate", "evaluate", "zero_grad", "save_checkpoint",
    "save_state", "eval_model", "test",
}  # fmt: skip


def beyond(reading: Training, made: Call) -> Iterator[Match]:
    """Literal settings that the optimizer or the number of epochs contradicts."""
    if not made.name.startswith("torch.optim.lr_scheduler."):
        return
    yield from _floor(reading, made)
    yield from _milestones(reading, made)
    yield from _begun_again(reading, made)


def _optimizer(reading: Training, made: Call) -> Call | None:
    value = evaluate.argument(reading, made, "optimizer", 0)
    found = evaluate.options(reading, value, made)
    calls = reading.calls_of(found)
    return calls[0] if len(calls) == len(found) == 1 else None


def _floor(reading: Training, made: Call) -> Iterator[Match]:
    """eta_min above the rate: a decay that rises."""
    low = evaluate.number(reading, evaluate.argument(reading, made, "eta_min"), made)
    optimizer = _optimizer(reading, made)
    if low is None or optimizer is None or "Cosine" not in made.method:
        return
    rate = evaluate.number(reading, evaluate.argument(reading, optimizer, "lr", 1), optimizer)
    if rate is not None and low > rate:
        yield Match(made.span, f"eta_min={low:g} is above lr={rate:g}: the rate rises")


def _milestones(reading: Training, made: Call) -> Iterator[Match]:
    """The first milestone is behind the last epoch."""
    value = evaluate.argument(reading, made, "milestones", 1)
    options = evaluate.options(reading, value, made)
    lists = [v for v in options if v.kind == "list"]
    if made.method != "MultiStepLR" or len(lists) != 1 or len(options) != 1:
        return
    first = min((v.literal for v in lists[0].items if isinstance(v.literal, int)), default=0)
    for step in reading.named("step"):
        if step.receiver not in made.targets or len(step.loops) != 1:
            continue
        end = _end(reading, step)
        if end is not None and first >= end:
            yield Match(
                made.span, f"the first milestone is {first}, and the run has {end:g} epochs", "warn"
            )


def _end(reading: Training, step: Call) -> float | None:
    """How often the loop around runs: n of range(n)."""
    iterable = reading.loops[step.loops[0]].iterable
    made = reading.call_of(iterable)
    if made is None or made.name != "range" or len(made.args) not in (1, 2):
        return None
    return evaluate.number(reading, made.args[-1], made)


def _begun_again(reading: Training, made: Call) -> Iterator[Match]:
    """last_epoch other than -1 needs groups with initial_lr, which only a loaded state has."""
    value = evaluate.argument(reading, made, "last_epoch")
    if value is None or value.literal == -1 or reading.mentions("initial_lr"):
        return
    optimizer = _optimizer(reading, made)
    names = set(optimizer.targets) if optimizer is not None else set()
    known = evaluate.literals(reading, value, made)
    loaded = any(call.receiver in names for call in reading.named("load_state_dict"))
    if (
        names
        and not loaded
        and not reading.mentions("last_epoch_")
        and known != {-1}
        and (not known & {None, evaluate.UNDECIDED})
    ):
        yield Match(made.span, "last_epoch is set, and no group has initial_lr: it raises KeyError")


def inverted(reading: Training) -> Iterator[Match]:
    """if step % 100: acts in all steps but each hundredth."""
    for number, branch in enumerate(reading.branches):
        test = branch.test
        text = test.text if test is not None else ""
        bare = EVERY.fullmatch(text.strip().strip("()")) if branch.kind == "if" else None
        if not bare or branch.guard:
            continue
        acts = [each for each in reading.calls if each.method in ACTS]
        if any((number, 1) in each.arms for each in acts):
            continue  # the else acts in each of these steps
        for call in acts:
            held = [arm for b, arm in call.arms if b == number]
            if held == [0] and call.loops:
                message = (
                    f"`{text.strip()}` is true in all steps but each of these: == 0 is missing"
                )
                yield Match(call.span, message, "warn")
                break


def same_batch(reading: Training) -> Iterator[Match]:
    """next(iter(loader)) in the loop that trains begins anew each time."""
    for call in reading.named("next"):
        inner = call.args[0] if call.args else Value("other")
        made = reading.call_of(inner)
        if made is None or made.name != "iter" or not call.loops or not made.args:
            continue
        loop = call.loops[-1]
        inside = reading.by_loop.get(loop, ())
        if reading.backward_numbers.isdisjoint(inside) or not any(
            reading.calls[n].method == "step" for n in inside
        ):
            continue
        trained = [
            m
            for m in reading.by_loop[loop]
            if m in reading.backward_numbers and reading.calls[m].loops == call.loops
        ]
        source = made.args[0]
        loaders = [c for c in objects.makers_at(reading, source, call)]
        known = [c for c in loaders if c is not None and c.method == "DataLoader"]
        named = loaders == [None] and is_loader(source.name) and not is_held_out(source.name)
        if trained and named:
            message = "iter() starts anew: every step trains on a first batch"
            yield Match(call.span, message, "warn")
        if trained and known and len(known) == len(loaders):
            shuffled = any({"shuffle", "sampler"} & c.keywords.keys() for c in known)
            what = "a first batch of a new order" if shuffled else "the first batch"
            message = f"iter() starts anew: every step trains on {what}"
            yield Match(call.span, message, "warn" if shuffled else "fail")


def never_counted(reading: Training) -> Iterator[Match]:
    """A rate that depends on a step number, and nothing ever counts the steps."""
    for each in reading.assignments:
        if each.target not in ("lr", "new_lr", "cur_lr", "learning_rate", "beta", "kl_weight"):
            continue
        for name in each.value.names if each.loops else ():
            if not re.fullmatch(r"(?:global_|cur_|train_)?(?:step|iteration|iter_num|it)s?", name):
                continue
            held = reading.assigned_to(name, each.scope)
            loops = any(name in loop.targets for loop in reading.loops)
            zero = [a for a in held if a.value.literal == 0 and not a.augmented]
            if len(zero) == len(held) == 1 and not loops and each.target != name:
                text = render(reading, each.value)
                message = f"{name} stays 0: nothing counts it, and {each.target} with it"
                if name in text:
                    yield Match(each.span, message, "fail")


RULES = (
    Rule(
        code="SCR391",
        slug="loop-stands-still",
        title="A loop goes on to the next batch, and acts in every Nth step",
        severity="warn",
        find=each_of(inverted, same_batch, counter_taken),
        training=True,
        why="iter(loader) starts a new epoch: next() of it is always a first batch. The remainder "
        "of a division is true in all steps but each Nth.",
        fires=(
            "next(iter(loader)) in the loop that trains, of a loader that shuffles",
            "`if step % 100:` around a step, a save or an evaluation",
            "for i, x in enumerate(xs), i read, an inner loop over i, and i read behind that loop",
        ),
        errors=("next(iter(loader)) in the loop that trains, of a loader in order",),
        fix="for batch in loader, or one iterator before the loop; `if step % 100 == 0:`.",
        sources=("torch-dataloader",),
    ),
)
