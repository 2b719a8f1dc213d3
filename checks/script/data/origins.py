"""Where the rows of a dataset or a loader come from: names, calls and parts followed back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from doctor.checks.script import evaluate, objects
from doctor.checks.script.naming import is_held_out, is_training
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

KEEPS = {
    "map", "filter", "shuffle", "with_format", "rename_column", "rename_columns", "cast_column",
    "remove_columns", "select_columns", "reset_index", "copy", "dropna", "fillna", "cast",
    "with_transform", "add_column", "to_numpy", "to_pandas", "batch", "prefetch", "astype",
}  # fmt: skip
"""Methods that return the rows that they are called on."""
TAKES = {"sample", "select", "head", "tail", "take", "skip", "drop", "query", "iloc"}
"""Methods that return some of them."""
CUTS = {"Subset", "random_split", "train_test_split", "sample", "select", "ConcatDataset"}
OF_LIBRARIES = ("torchvision.datasets.", "torchaudio.datasets.", "datasets.load")
DEPTH = 8
CHOOSES = re.compile("^id|_id|ind|fold|split|mode|phase|mask|subset|part|train", re.IGNORECASE)
"""In the name of an argument that chooses rows."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Rows by what made them; `part` where only some of them are taken."""

    made: str
    part: bool = False
    training: bool = False
    """Its name or an argument says that it is for training."""


def origin(reading: Training, value: Value, call: Call, depth: int = DEPTH) -> Origin | None:
    """Where the rows of a value come from, None where the file does not decide it."""
    reading.step()
    if value.kind == "item" and value.items and value.name.endswith("]"):
        return Origin(value.name, training=is_training(value.name) or "[train]" in value.name)
    if value.kind == "item" and value.items and depth:
        return _part(origin(reading, value.items[0], call, depth - 1))
    if value.kind == "call" and depth:
        return _made(reading, reading.calls[value.call], depth - 1)
    return _named(reading, value.name, call, depth) if value.kind == "name" and depth else None


def _named(reading: Training, name: str, call: Call, depth: int) -> Origin | None:
    """Of what the name holds, or of the name where this does not say it."""
    named = Origin(name, training=is_training(name))
    found = evaluate.definitions_at(reading, name, call)
    if len(found) != 1:
        return None if found else named
    value, scope = found[0].value, found[0].scope
    if value.kind == "call":
        return _made(reading, reading.calls[value.call], depth - 1) or named
    before = [reading.calls[n] for n in reading.scope_calls(scope) if n < found[0].position]
    unpacked = value.kind == "item" and value.items and value.items[0].kind == "call"
    place = before[-1] if before else call
    if unpacked or value.name == name or place.scope != scope:
        return named
    return origin(reading, value, place, depth - 1) or named


def _part(whole: Origin | None) -> Origin | None:
    return Origin(whole.made, True, whole.training) if whole is not None else None


def _made(reading: Training, call: Call, depth: int) -> Origin | None:
    receiver = objects.receiver_of(call)
    if call.method in KEEPS and (call.receiver or call.receiver_call >= 0):
        return origin(reading, receiver, call, depth)
    if call.method in TAKES and (call.receiver or call.receiver_call >= 0):
        return _part(origin(reading, receiver, call, depth))
    data = call.given("dataset", 0)
    if call.method in CUTS or data is None:
        return _of_library(reading, call) if call.name.startswith(OF_LIBRARIES) else None
    if call.method in ("DataLoader", "TensorDataset", "tqdm"):
        return origin(reading, data, call, depth)
    if call.name.startswith(OF_LIBRARIES):
        return _of_library(reading, call)
    if call.method[:1].isupper() and data.kind == "name":
        inner = origin(reading, data, call, depth)
        return inner if inner is not None and not _says_part(call) else None
    return None


def _says_part(call: Call) -> bool:
    """Another argument chooses the rows: Data(root, split="val")."""
    return any(
        isinstance(v.literal, (str, bool)) or v.kind in ("item", "test", "slice")
        for v in call.args[1:]
    ) or any(
        CHOOSES.search(key) or is_training(name) or is_held_out(name)
        for key, name in (*((v.name, v.name) for v in call.args[1:]),
                          *((key, v.name) for key, v in call.keywords.items()))
    )  # fmt: skip


def _of_library(reading: Training, call: Call) -> Origin | None:
    """Of datasets and torchvision: the arguments that choose rows."""
    value = evaluate.argument(reading, call, "split") or evaluate.argument(reading, call, "train")
    found = evaluate.literals(reading, value, call)
    if len(found) != 1 or evaluate.UNDECIDED in found:
        return None
    chosen = found.pop()
    text, _, bounds = str(chosen).partition("[")
    named = call.args if call.name.startswith("datasets.") else ()
    files = [call.keywords[k] for k in ("name", "data_files", "data_dir") if k in call.keywords]
    source = ", ".join((*(v.name or str(v.literal or v) for v in (*named, *files)), text))
    return Origin(f"{call.name}({source})", bool(bounds), text in ("train", "True"))


def roles(reading: Training) -> Iterator[tuple[str, Value, Call]]:
    """What is read to train and to evaluate: the name that says which, the data, the call."""
    keys = {
        item.call: key
        for value, _, _ in reading.expressions
        if value.kind == "dict"
        for key, item in zip(value.keys, value.items, strict=False)
        if item.kind == "call"
    }
    for number, call in reading.numbered(reading.methods("DataLoader")):
        data = call.given("dataset", 0)
        name = call.targets[0] if len(call.targets) == 1 else keys.get(number, "")
        name = name or (reading.function(call.scope).name if not call.targets else "")
        drawn = {"sampler", "batch_sampler"} & call.keywords.keys() or call.unpacked
        if data is not None and name and not drawn:
            yield name, data, call
    for number in reading.trainers:
        call = reading.calls[number]
        for key in ("train_dataset", "eval_dataset"):
            if key in call.keywords:
                yield key, call.keywords[key], call


def shared_rows(reading: Training) -> Iterator[tuple[Call, str, str]]:
    """What evaluates on rows that also train: the call, its name, and the rows."""
    training: list[tuple[Origin, Call]] = []
    held: list[tuple[Origin, str, Call]] = []
    for name, data, call in roles(reading):
        found = origin(reading, data, call)
        if found is not None and (is_held_out(name) or name == "eval_dataset"):
            held.append((found, name, call))
        elif found is not None and is_training(name):
            training.append((found, call))
    for found, name, call in held:
        for other, trains in training:
            said = found.training or (found.part and not other.part)
            whole = not other.part and not (found.part and other.part)
            if found.made == other.made and said and whole and _together(reading, call, trains):
                yield call, name, found.made
                break


def _together(reading: Training, one: Call, other: Call) -> bool:
    """Both belong to one function, one class or, where names are attributes, one file."""
    same = reading.function(one.scope).owner == reading.function(other.scope).owner
    return same and (one.scope == other.scope or bool(reading.function(one.scope).owner))
