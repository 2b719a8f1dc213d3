"""Rules on loading what the script saved."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

OF_OTHERS = ("transformers.", "diffusers.", "timm.", "open_clip.")
"""Libraries with functions of the name load_state_dict, which read a file."""


def result_of_load(reading: Training) -> Iterator[Match]:
    for call in reading.named("load_state_dict"):
        root = reading.root(call)
        if call.targets == (root,) and root and not call.name.startswith("torch.distributed."):
            yield Match(call.span, f"load_state_dict() returns the keys, and {root} becomes that")
        own = "load_state_dict" in reading.functions_by_name or call.name.startswith(OF_OTHERS)
        read = call.first is not None and isinstance(call.first.literal, str)
        if "map_location" in call.keywords and call.receiver and not own and not read:
            known = reading.key(call.receiver, call.scope) in reading.trained_names
            fix = "Pass map_location to torch.load."
            message = "load_state_dict() has no parameter map_location"
            yield Match(call.span, message, None if known else "warn", fix=fix)


def saved_dictionaries(reading: Training) -> list[tuple[Call, Value]]:
    """Calls of torch.save with a dictionary that is written out."""
    found = []
    for call in reading.named("save"):
        if call.name != "torch.save" or len(call.args) < 2:
            continue
        for option in evaluate.options(reading, call.args[0], call):
            if option.kind == "dict" and option.keys and len(option.items) == len(option.keys):
                found.append((call, option))
    return found


def _is_whole(option: Value) -> bool:
    """A dictionary of which all keys are known: {**other, "key": value} has those of another."""
    if option.kind != "dict" or not option.keys or len(option.items) != len(option.keys):
        return False
    return set(option.names) <= {name for item in option.items for name in item.all_names}


def _entries(reading: Training, call: Call) -> set[str]:
    """Keys that what is saved gets behind its first assignment."""
    name = call.args[0].name
    targets = (each.target for each in reading.stores)
    return {t[len(name) + 1 : -1] for t in targets if name and t.startswith(f"{name}[")}


def _grows(reading: Training, call: Call) -> bool:
    """What is saved may have other keys: it is joined from others, or a key is a name."""
    options = evaluate.options(reading, call.args[0], call)
    if _entries(reading, call) & set(reading.script.identifiers):
        return True
    return not all(_is_whole(option) for option in options)


def loaded_names(reading: Training) -> Iterator[tuple[str, Call]]:
    """Names that hold what torch.load returned."""
    for call in reading.named("load"):
        if call.name == "torch.load" and len(call.targets) == 1:
            yield call.targets[0], call


def epoch_repeated(reading: Training) -> Iterator[Match]:
    """start = checkpoint["epoch"], where the epoch that was trained is saved under it."""
    for call, saved in saved_dictionaries(reading):
        if not any(n in reading.backward_numbers for loop in call.loops[:1]
                   for n in calls_within(reading, loop)):  # fmt: skip
            continue
        for key, value in zip(saved.keys, saved.items, strict=True):
            if value.kind != "name" or not call.loops:
                continue
            loops = [n for n in call.loops if reading.loops[n].target == value.name]
            for each in _starts(reading, key) if loops else ():
                iterable = reading.loops[loops[0]].iterable
                if iterable is not None and each.target in iterable.names:
                    message = f"{each.target} is the epoch that was saved after it was trained"
                    yield Match(each.span, message)


def calls_within(reading: Training, loop: int) -> list[int]:
    inside = list(reading.by_loop.get(loop, ()))
    for n in tuple(inside):
        function = reading.target_function(reading.calls[n])
        if function is not None:
            inside += reading.scope_calls(function)
    return inside


def _starts(reading: Training, key: str) -> Iterator[Assignment]:
    names = {name for name, _ in loaded_names(reading)}
    for each in reading.assignments:
        if each.value.kind == "item" and each.value.name in {f"{name}[{key}]" for name in names}:
            again = [a for a in reading.assigned_to(each.target, each.scope) if a.augmented]
            if not again and "epoch" in each.target.casefold():
                yield each


def key_missing(reading: Training) -> Iterator[Match]:
    """A key is read of a file that this script writes without it."""
    saves = [other for other in reading.named("save") if other.name == "torch.save"]
    written = saved_dictionaries(reading)
    known = {id(call) for call, _ in written if not _grows(reading, call)}
    if not written or {id(call) for call in saves} != known:
        return
    keys = {key for _, saved in written for key in saved.keys}
    keys |= {key for call, _ in written for key in _entries(reading, call)}
    paths = [call.args[1] for call, _ in written]
    for name, load in loaded_names(reading):
        if not load.args or load.args[0].kind == "other" or load.args[0] not in paths:
            continue
        for call in reading.calls:
            for wanted in _wanted(call, name) if call.scope == load.scope else ():
                if wanted not in keys and not _asked(reading, call, wanted):
                    yield Match(call.span, f"{name}[{wanted}] is not among the keys that are saved")


def _wanted(call: Call, name: str) -> Iterator[str]:
    """Keys of the name that a call is given."""
    for value in call.args:
        key = value.name.removeprefix(f"{name}[").removesuffix("]")
        if value.kind == "item" and value.name == f"{name}[{key}]":
            yield key


def _asked(reading: Training, call: Call, key: str) -> bool:
    """`if "scheduler" in checkpoint`, or a try statement around it."""
    tried = any(reading.branches[branch].kind == "try" for branch, _ in call.arms)
    return tried or any(key in test.text for test in reading.tests(call))


RULES = (
    Rule(
        code="SCR290",
        slug="state-dict-result-as-model",
        title="load_state_dict() works in place",
        severity="fail",
        find=result_of_load,
        why="load_state_dict() returns the missing and unexpected keys. Assigned to the model's "
        "name, the next call of the model raises. Where tensors go, torch.load decides.",
        fires=(
            "model = model.load_state_dict(...)",
            "model.load_state_dict(state, map_location=d)",
        ),
        fix="Call it without assigning the result to the model.",
        needs=("load_state_dict",),
        sources=("torch-module",),
        words=(r"=\s*[\w.]+\.load_state_dict\s*\(", r"load_state_dict\s*\(.{0,99}map_location"),
    ),
    Rule(
        code="SCR291",
        slug="epoch-repeated-on-resume",
        title="A resumed run goes on with the next epoch",
        severity="warn",
        find=epoch_repeated,
        why="The epoch that is saved after its training is trained once more on every resume, and "
        "schedules count one too many.",
        fires=("'epoch': epoch is saved in the loop, and the loop starts at checkpoint['epoch']",),
        fix="Start at checkpoint['epoch'] + 1, or save epoch + 1.",
        needs=("save",),
        sources=("scan-19", "catalyst-764"),
    ),
    Rule(
        code="SCR292",
        slug="checkpoint-key-missing",
        title="Keys that are loaded are saved",
        severity="fail",
        find=key_missing,
        why="A resume that reads a key which the same script never writes raises a KeyError, after "
        "the run was interrupted.",
        fires=("checkpoint[key] of the path that torch.save writes, without this key",),
        fix="Add the entry to the dictionary that is saved.",
        needs=("save",),
        sources=("srgan-pytorch-92",),
    ),
)
