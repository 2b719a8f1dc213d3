"""What goes on from one fold of a cross-validation to the next."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.lineage import WRAPPERS
from doctor.checks.script.loop.order import calls_reached
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Trained, Training
from doctor.facts.script import Loop

FOLDS = {
    "KFold", "StratifiedKFold", "GroupKFold", "RepeatedKFold", "RepeatedStratifiedKFold",
    "StratifiedGroupKFold", "LeaveOneOut", "LeaveOneGroupOut", "ShuffleSplit",
    "StratifiedShuffleSplit", "MultilabelStratifiedKFold",
}  # fmt: skip
"""Splitters whose folds know nothing of each other; TimeSeriesSplit may go on."""
RESETS = {
    "load_state_dict", "reset_parameters", "apply", "reset_weights", "init_weights", "reset",
    "set_weights", "weight_reset", "reset_model", "_init_weights", "initialize",
}  # fmt: skip


def models_of_folds(reading: Training) -> Iterator[Match]:
    """The network of the first fold goes on training in the others."""
    for number, loop in enumerate(reading.loops):
        if loop.kind != "for" or not _over_folds(reading, loop):
            continue
        inside = set(calls_reached(reading, reading.by_loop.get(number, [])))
        methods = {reading.calls[n].method for n in inside}
        if methods & RESETS or any("reset" in m or "init_" in m for m in methods):
            continue
        if not _trains(reading, inside):
            continue
        for each in reading.trained:
            if _goes_on(reading, each, number, inside):
                call = reading.calls[each.sink]
                name = each.name or "the model"
                message = (
                    f"{name} is made before the folds: from the second on it knows "
                    "their held-out data"
                )
                yield Match(call.span, message)
                return


def _over_folds(reading: Training, loop: Loop) -> bool:
    """for train, test in kfold.split(x), also under enumerate."""
    value = loop.iterable
    for n in (value.call, *value.calls) if value is not None else ():
        call = reading.calls[n] if n >= 0 else None
        if call is None or call.method != "split":
            continue
        made = evaluate.options(reading, objects.receiver_of(call), call)
        if any(each.method in FOLDS for each in reading.calls_of(made)):
            return True
    return False


def _trains(reading: Training, inside: set[int]) -> bool:
    return bool(inside & (reading.backward_numbers | set(reading.fits))) or any(
        reading.calls[n].method == "train" and "trainer" in reading.calls[n].receiver.casefold()
        for n in inside
    )


def _goes_on(reading: Training, each: Trained, loop: int, inside: set[int]) -> bool:
    """Everything that makes the network stands before the loop, in its function."""
    scope = reading.loops[loop].scope
    made = [n for n in each.lineage.calls if _makes(reading, n)]
    made = made or [n for n in each.lineage.calls if each.name in reading.calls[n].targets]
    if not made or any(n in inside for n in each.lineage.calls):
        return False
    if any(a.loops and loop in a.loops for key in each.lineage.names
           for a in reading.assigned.get(key, ())):  # fmt: skip
        return False
    if any(reading.calls[n].method == "deepcopy" for n in each.lineage.calls):
        return False
    sink = reading.calls[each.sink]
    before = sink.scope == scope and each.sink < min(inside)
    used = each.sink in inside or (before and loop not in sink.loops)
    return used and all(
        loop not in reading.calls[n].loops and reading.calls[n].scope in (0, scope) for n in made
    )


def _makes(reading: Training, number: int) -> bool:
    call = reading.calls[number]
    return (
        (call.method[:1].isupper() and call.method not in WRAPPERS)
        or call.method in ("from_pretrained", "create_model")
        or call.name.startswith(("torchvision.models.", "timm."))
    )
