"""A rule on what a checkpoint holds: all that trained, and only what torch.load admits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, installed
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule, Severity
from doctor.checks.script.saving.merged import merged_into_rounded
from doctor.checks.script.saving.statistics import statistics_lost
from doctor.checks.script.training import WORDS, Training
from doctor.facts.script import Call

ONLY_WEIGHTS = (2, 6)
"""The release of torch since which torch.load reads tensors and plain values by default."""
LORA = re.compile(r"['\"]\.?lora_?(?:[AB]|down|up)?\.?['\"]\s+in\s+\w+")


def contents(reading: Training) -> Iterator[Match]:
    yield from statistics_lost(reading)
    yield from merged_into_rounded(reading)
    if not reading.trains:
        return
    yield from _without_modules(reading)
    new = reading.machine.torch is None or installed.release(reading.machine.torch) >= ONLY_WEIGHTS
    yield from _refused(reading, "warn" if reading.machine.torch is None else "fail", new)


def _without_modules(reading: Training) -> Iterator[Match]:
    """The keys with lora_ alone, beside modules_to_save that train whole."""
    whole = [
        option
        for call in reading.named("LoraConfig")
        for option in evaluate.options(reading, call.keywords.get("modules_to_save"), call)
    ]
    if not whole or not all(each.kind == "list" and each.items for each in whole):
        return
    names = {str(item.literal) for each in whole for item in each.items}
    for value, span, _ in reading.expressions:
        if value.kind != "other" or value.name != "DictComp" or not value.calls:
            continue
        states = any(other.method == "state_dict" for other in reading.inside(value))
        tests = [part.text for part in flatten([value]) if part.kind == "test"]
        if states and len(tests) == 1 and LORA.fullmatch(tests[0]):
            message = f"the keys leave out modules_to_save, which trained: {min(names)}"
            yield Match(span, message, "fail")


PLAIN = "Save plain values in its place: of a Namespace vars(args), each Path as a string."


def _refused(reading: Training, severity: Severity, new: bool) -> Iterator[Match]:
    """A Namespace, a Path or an object of this file in what torch.load reads without others."""
    if reading.mentions("safe_globals"):
        return
    new = new and not installed.limited(reading, "torch", ONLY_WEIGHTS)
    saves = [call for call in reading.named("save") if call.name == "torch.save"]
    kept = [(call, what) for call in saves if (what := _foreign(reading, call))]
    held = {path: what for call, what in kept for path in _paths(reading, call, 1)}
    for call in reading.named("load") if held else ():
        asked = call.name == "torch.load" and _restricted(reading, call)
        if not (asked or (asked is None and new)):
            continue
        found = [held[path] for path in _paths(reading, call, 0) if path in held]
        how = "weights_only=True" if asked else "torch.load of torch 2.6 and later"
        for what in found[:1]:
            message = f"the file holds {what}: {how} refuses it"
            yield Match(call.span, message, "fail" if asked else severity, fix=PLAIN)


def _restricted(reading: Training, load: Call) -> bool | None:
    """Whether weights_only is asked for; None by default, False where that is not known."""
    only = evaluate.argument(reading, load, "weights_only")
    if only is None:
        return False if "pickle_module" in load.keywords or load.unpacked else None
    return evaluate.truth(reading, only, load) is True


def _paths(reading: Training, call: Call, position: int) -> set[tuple[object, str]]:
    """What the path of a call may be, as text with the owner of its name."""
    found: set[tuple[object, str]] = set()
    path = evaluate.argument(reading, call, "f", position)
    for each in evaluate.options(reading, path, call):
        text = render(reading, each)
        found.add(reading.key(text, call.scope) if each.kind == "name" else ("", text))
    return found


def _foreign(reading: Training, call: Call) -> str:
    """What of a saved dictionary is neither a tensor nor a plain value, "" for nothing known."""
    for saved in evaluate.options(reading, call.args[0], call) if call.args else ():
        for value in saved.items if saved.kind == "dict" else ():
            for option in evaluate.options(reading, value, call):
                made = reading.call_of(option)
                what = _kind(reading, made) if made is not None else ""
                if what:
                    return what
    return ""


def _kind(reading: Training, made: Call) -> str:
    """A Namespace, a Path, or an object of a plain class of this file."""
    if made.method == "parse_args" and not made.args:
        return "a Namespace"
    if made.name in ("pathlib.Path", "argparse.Namespace"):
        return f"a {made.method}"
    typed = [call.keywords.get("type") for call in reading.named("add_argument")]
    if made.name == "vars" and any(t is not None and t.name == "pathlib.Path" for t in typed):
        return "a Path of the arguments"
    own = [c.name for c in reading.script.classes if not c.bases and c.name == made.name]
    return f"a {own[0]} of this file" if own else ""


RULES = (
    Rule(
        code="SCR386",
        slug="checkpoint-contents",
        title="A checkpoint holds all that trained, and what torch.load admits",
        severity="warn",
        find=contents,
        why="Weights that are left out of a file start anew where it is loaded with strict=False. "
        "Since torch 2.6 torch.load reads tensors and plain values only, and raises at anything "
        "else.",
        fires=(
            "torch.load without weights_only of the path that a Namespace, a Path or an object of "
            "a class of this file is saved to",
            "VecNormalize around the environment of a policy that is saved without it",
            "an adapter that is merged into a model of 4 or 8 bits, which is saved",
        ),
        errors=(
            "the keys with lora_ alone, beside modules_to_save",
            "the same load where the job's torch is 2.6 or later, or with weights_only=True",
        ),
        fix="Save get_peft_model_state_dict(model); save plain values alone: of a Namespace "
        "vars(args), each Path as a string.",
        sources=("torch-saving",),
        needs=("save", "state_dict", "merge_and_unload"),
        words=(*WORDS, "VecNormalize", r"merge_and_unload\s*\("),
    ),
)
