"""A rule on classes that are numbered in the order of a set."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.naming import words
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

WRAPPERS = {"list", "tuple", "iter"}
NUMBERS = {"tolist", "numpy", "int", "range", "unique", "astype", "item", "argmax", "long"}
"""Calls that make integers, whose order in a set does not differ between two runs."""
OF_NUMBERS = {"targets", "target", "y", "ids", "idx", "indices", "index"}
KEEPS = ("dump", "save", "write", "to_json", "to_csv", "to_pickle", "log_artifact")
PARALLEL = {"init_process_group", "Accelerator", "init_distributed", "DistributedDataParallel"}
SAVES = ("save", "save_pretrained", "save_model", "save_state", "save_checkpoint", "save_file")


def numbered_by_set(reading: Training) -> Iterator[Match]:
    """{c: i for i, c in enumerate(set(labels))}, in a file that saves weights or has ranks."""
    lasting = reading.methods(*SAVES, *PARALLEL) or reading.trainers or reading.fits
    if not lasting or reading.mentions("pythonhashseed"):
        return
    for number, call in reading.numbered(reading.methods("enumerate", "zip")):
        if any(_is_set(reading, value, call) for value in call.args):
            for each in reading.assignments:
                if _numbers(reading, each, number) and not _is_kept(reading, each):
                    yield Match(call.span, f"{each.target} numbers in the order of a set")


def _numbers(reading: Training, each: Assignment, number: int) -> bool:
    """The assignment makes a dict of it."""
    made = each.value.kind == "call" and reading.calls[each.value.call].name == "dict"
    return number in each.value.calls and (made or each.value.name == "DictComp")


def _is_set(reading: Training, value: Value, call: Call, depth: int = 6) -> bool:
    """Each thing that it may be is a set that may hold text, as it is or as a list."""
    sorts = reading.named("sort")
    if value.kind == "name" and any(each.receiver == value.name for each in sorts):
        return False
    found = evaluate.options(reading, value, call)
    return bool(found) and all(_is_set_of_text(reading, each, depth) for each in found)


def _is_set_of_text(reading: Training, value: Value, depth: int) -> bool:
    if value.kind == "call":
        made = reading.calls[value.call]
        if made.name in WRAPPERS and len(made.args) == 1:
            return depth > 0 and _is_set(reading, made.args[0], made, depth - 1)
        if made.name not in ("set", "frozenset") or not made.args:
            return False
    elif value.name != "SetComp":
        return False
    if any(call.method in NUMBERS for call in reading.inside(value)):
        return False
    return not any(OF_NUMBERS & set(words(name)) for name in value.names)


def _is_kept(reading: Training, each: Assignment) -> bool:
    """Something writes the numbers to a file, or a model's configuration has them."""
    for call in reading.calls:
        values = call.values
        if any(each.target in v.all_names for v in values) and (
            call.method.startswith(KEEPS) or {"label2id", "id2label"} & call.keywords.keys()
        ):
            return True
    stored = (a for a in reading.assignments if "config" in a.target)
    return any(each.target in a.value.all_names for a in stored)


RULES = (
    Rule(
        code="SCR336",
        slug="classes-numbered-by-a-set",
        title="Classes and words have the same numbers in every run",
        severity="warn",
        find=numbered_by_set,
        why="Python salts the hashes of text anew in each process, so a set of names is in another "
        "order in each run and on each rank. Weights that are saved with one numbering are read "
        "with another, and ranks train on labels that differ.",
        fires=(
            "a dict of names to numbers is made by enumerate(set(names)), nothing saves it, and "
            "the file saves weights or has ranks",
        ),
        fix="Number sorted(set(names)), or save the dict beside the weights and read it.",
        sources=("python-hash",),
        limits="that names which come from another file are in one order; sets of integers are "
        "left out, as their order does not differ.",
        needs=("enumerate", "zip"),
    ),
)
