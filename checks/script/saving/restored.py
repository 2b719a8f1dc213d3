"""A rule on what a checkpoint holds and a resume does not restore."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.loop.schedules import is_scheduler_call, schedulers
from doctor.checks.script.metrics.scores import improvements
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.saving.resuming import calls_within, loaded_names, saved_dictionaries
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Value


def not_restored(reading: Training) -> Iterator[Match]:
    """What is saved beside the model and the epoch, and a resume does not read."""
    if not reading.trains:
        return
    loaded = list(loaded_names(reading))
    names = {name for name, _ in loaded}
    keys = {reading.key(name, call.scope) for name, call in loaded}
    handed = {c.name for c in reading.calls for v in c.values
              if v.kind == "name" and reading.key(v.name, c.scope) in keys} - {"print"}  # fmt: skip
    returned = any(reading.key(v.name, scope) in keys for scope, f in
                   enumerate(reading.script.functions) for v in f.returns)  # fmt: skip
    if not names or returned or handed - {"torch.save"}:
        return
    yield from _unused(reading, names)
    if handed:
        return
    read = _keys_read(reading, names)
    written = saved_dictionaries(reading)
    for _, saved in written:
        starts = [a for k in saved.keys if "epoch" in k for a in _epochs(reading, k)]
        if not starts:
            continue
        for key, value in zip(saved.keys, saved.items, strict=True):
            call = reading.call_of(value)
            state = call is not None and call.method == "state_dict"
            best = "best" in key.casefold() and value.kind == "name"
            if (state or best) and key not in read:
                name = call.receiver if call is not None else value.name
                message = f"{name} is saved as {key}, and starts anew on a resume"
                yield Match(starts[0].span, message)
                return
    yield from _best_not_saved(reading, [saved for _, saved in written])
    yield from _state_not_saved(reading, [saved for _, saved in written])


def _best_not_saved(reading: Training, written: list[Value]) -> Iterator[Match]:
    """A resumed run forgets the best score: its first epoch replaces the best checkpoint."""
    starts = [a for d in written for k in d.keys if "epoch" in k for a in _epochs(reading, k)]
    if not starts or any("best" in k.casefold() for d in written for k in d.keys):
        return
    for each in improvements(reading):
        reading.step(len(reading.calls))
        found = reading.assigned_to(each.target, each.scope)
        fixed = [a for a in found if not a.loops and a is not each]
        if "best" in each.target.casefold() and fixed and all(
            a.value.kind in ("literal", "call", "other") and not a.value.names for a in fixed
        ) and any(n in reading.methods("save") and reading.calls[n].arms[-1:] == each.arms[-1:]
                  for n in reading.methods("save")):  # fmt: skip
            yield Match(starts[0].span, f"{each.target} starts anew on a resume: it is not saved")
            return


COUNTER = re.compile(
    r"epoch|^(?:global_|current_|cur_|start_|last_|train_)?(?:step|iter|iteration)$"
)


def _state_not_saved(reading: Training, written: list[Value]) -> Iterator[Match]:
    """The epoch or the step is restored, and an optimizer or a schedule that steps begins anew."""
    counters = [k for d in written for k in d.keys if COUNTER.search(k)]
    starts = [a for k in counters for a in _epochs(reading, k)]
    if not starts or reading.mentions("last_epoch", "initial_step", "save_state"):
        return
    if any(c.receiver_call >= 0 and reading.calls[c.receiver_call].name == "getattr"
           for c in reading.named("state_dict")):  # fmt: skip
        return  # of attributes by their names
    made = [(n, t) for n in reading.optimizers for t in reading.calls[n].targets]
    held = _saved_by_container(reading)
    for number, name in (*schedulers(reading), *_by_functions(reading), *made):
        call = reading.calls[number]
        if (
            "Plateau" in call.name
            or "SGD" in call.name
            or held & reading.names_of(name, call.scope)
        ):
            continue
        keys, last = reading.names_of(name, call.scope), name.rpartition(".")[2]
        steps = [
            each
            for n in reading.methods("step")
            if reading.key((each := reading.calls[n]).receiver, each.scope) in keys
        ]
        saved = any(
            last == other.receiver.rpartition(".")[2] for other in reading.named("state_dict")
        )
        advanced = any(each.args or not set(each.loops) <= _trains(reading) for each in steps)
        if steps and not saved and not advanced:
            yield Match(starts[0].span, f"{name} starts anew on a resume: it is not saved")
            return


def _by_functions(reading: Training) -> Iterator[tuple[int, str]]:
    """Schedules that a function of this file makes."""
    for number, call in enumerate(reading.calls):
        if len(call.targets) == 1 and reading.target_function(call) is not None:
            made = evaluate.options_at(reading, Value("call", call=number), call.scope, number, ())
            calls = reading.calls_of(made)
            if len(calls) == len(made) > 0 and all(
                is_scheduler_call(each) and "Plateau" not in each.name for each in calls
            ):
                yield number, call.targets[0]


def _saved_by_container(reading: Training) -> set[tuple[object, str]]:
    """Names in dictionaries, lists and arguments, where state_dict() is called on what these hold:
    part.state_dict() of a loop, a comprehension or a parameter, getattr(self, name).state_dict().
    """
    calls = reading.named("state_dict")
    if all(reading.assigned.get(reading.key(each.receiver, each.scope)) for each in calls):
        return set()
    held = [(item, scope) for value, _, scope in reading.expressions
            if value.kind in ("list", "dict") for item in value.items]  # fmt: skip
    held += [(v, c.scope) for c in reading.calls for v in c.values
             if reading.target_function(c) is not None or c.method[:1].isupper()]  # fmt: skip
    return {reading.key(value.name, scope) for value, scope in held if value.kind == "name"}


def _trains(reading: Training) -> set[int]:
    """Loops in which something trains or that call what does."""
    found = {loop for n in reading.backwards for loop in reading.calls[n].loops}
    return found | {
        number
        for number in range(len(reading.loops))
        if any(n in reading.backward_numbers for n in calls_within(reading, number))
        or any("train" in reading.calls[n].method for n in reading.by_loop.get(number, ()))
    }


def _keys_read(reading: Training, names: set[str]) -> set[str]:
    """Keys of a loaded checkpoint that the file reads or asks for."""
    found: set[str] = set()
    for value, _, _ in reading.expressions:
        for part in flatten([value]):
            if part.kind == "item" and part.name.endswith("]"):
                found.add(part.name.rpartition("[")[2][:-1])
    for call in reading.calls:
        if call.method in ("get", "pop") and call.receiver in names:
            found |= {str(v.literal) for v in call.args[:1]}
        if call.receiver.endswith("]"):
            found.add(call.receiver.rpartition("[")[2][:-1])
    return found


def _unused(reading: Training, names: set[str]) -> Iterator[Match]:
    """start = checkpoint["epoch"] + 1, which nothing reads."""
    if not reading.backwards or not _goes_on(reading):
        return
    for each in reading.assignments:
        loaded = any(n.partition("[")[0] in names and "epoch" in n for n in
                     each.value.all_names)  # fmt: skip
        if not loaded or "epoch" not in each.target or "[" in each.target or each.augmented:
            continue
        if not _is_read(reading, each) and any("epoch" in name for loop in reading.loops
                                               for name in loop.targets):  # fmt: skip
            yield Match(each.span, f"{each.target} is restored, and no loop starts at it")


def _goes_on(reading: Training) -> bool:
    """The state of an optimizer is loaded: without it the weights are only a start."""
    own = {t.rpartition(".")[2] for n in reading.optimizers for t in reading.calls[n].targets}
    return any(c.receiver.rpartition(".")[2] in own for c in reading.named("load_state_dict"))


def _is_read(reading: Training, each: Assignment) -> bool:
    return each.target.rpartition(".")[2] in reading.cached(_read)


def _read(reading: Training) -> set[str]:
    """Last names that are read, but for what is only shown."""
    shown = {c.span for c in reading.calls
             if c.name == "print" or re.search(r"log(?:ger|ging)?$", c.receiver)}  # fmt: skip
    values = [v for v, span, _ in reading.expressions if span not in shown]
    values += [loop.iterable for loop in reading.loops if loop.iterable is not None]
    values += [v for c in reading.comparisons for v in (c.left, c.right)]
    return {name.rpartition(".")[2] for v in values for name in v.all_names}


def _epochs(reading: Training, key: str) -> Iterator[Assignment]:
    """Assignments of checkpoint[key], also of checkpoint[key] + 1."""
    names = {f"{name}[{key}]" for name, _ in loaded_names(reading)}
    for each in reading.assignments:
        known = COUNTER.search(each.target.rpartition(".")[2].casefold()) or any(
            loop.iterable is not None and each.target in loop.iterable.names
            for loop in reading.loops
        )
        if known and names.intersection(each.value.all_names) and _is_read(reading, each):
            yield each


RULES = (
    Rule(
        code="SCR303",
        slug="optimizer-not-restored",
        title="A resume restores what was saved",
        severity="warn",
        find=not_restored,
        why="A fresh Adam has no averages, so the loss jumps after every resume; a fresh scheduler "
        "starts its warm-up again; a fresh best score lets a worse epoch replace the best weights.",
        fires=(
            "a state_dict() or a best score is saved, a resume reads the epoch, and never that key",
            "a resume reads the epoch, and the best score that decides about saving is not saved",
            "the same of a schedule, or of an optimizer other than SGD, also beside a step",
            "the epoch and the state of an optimizer are read, and no loop starts at this epoch",
        ),
        fix="Call load_state_dict(checkpoint[...]) for each entry, and start the loop at the "
        "restored epoch.",
        needs=("load_state_dict",),
        sources=("torch-optimizer-state",),
    ),
)
