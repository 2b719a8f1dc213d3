"""The end token as padding, where a collator leaves all padding out of the labels."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

ADDS = ("append", "extend", "insert", "cat", "concatenate")
"""Calls that put the end token behind the others."""
SHOWS = ("print", "info", "debug", "warning", "error", "log", "write", "ValueError", "RuntimeError")
"""Calls whose texts are read by people."""


def end_masked(reading: Training) -> Iterator[Match]:
    """pad = eos, and eos is appended to the texts: the collator leaves it out of the labels."""
    if reading.mentions("group_texts", "packing", "concatenat", "block_size"):
        return
    for each in reading.assignments:
        owner, _, last = each.target.rpartition(".")
        source = f"{owner}.{last.replace('pad_', 'eos_')}"
        if last not in ("pad_token", "pad_token_id") or each.value.name != source:
            continue
        rendered = [call.scope for call in reading.named("apply_chat_template")]
        rendered += _ended(reading, each, owner)
        rendered += _by_tokenizer(reading, each, owner)
        if any(_belongs(reading, scope, each.scope) for scope in rendered):
            message = f"{each.target} is the end token: the collator leaves it out of the labels"
            yield Match(each.span, message, "warn")


def _ended(reading: Training, pad: Assignment, owner: str) -> Iterator[int]:
    """Functions that write the end as text, or put its number behind the tokens."""
    held = reading.names_of(owner, pad.scope)
    shown = {id(v) for c in reading.named(*SHOWS) for v in c.values}
    for value, _, scope in reading.expressions:
        written = f"{owner}.eos_token" in value.names or _is_joined(reading, value, owner)
        if value is not pad.value and written and id(value) not in shown:
            yield pad.scope if reading.key(owner, scope) in held else scope
    for call in reading.named(*ADDS):
        if any(_has_end(reading, value, owner, call) for value in call.args):
            yield pad.scope if reading.key(owner, call.scope) in held else call.scope
    given = {*_given_to_objects(reading, held)}
    for value, _, scope in reading.expressions if given else ():
        readers = [n.removesuffix(".eos_token") for n in _written(value)]
        if id(value) not in shown and any(reading.key(name, scope) in given for name in readers):
            yield pad.scope


def _written(value: Value) -> Iterator[str]:
    """tokenizer.eos_token of text + tokenizer.eos_token, and of a text with braces."""
    for part in flatten([value]):
        if part.kind == "other" and part.name in ("", "Add"):
            yield from (v.name for v in part.items if v.name.endswith(".eos_token"))


def _given_to_objects(
    reading: Training, held: set[tuple[object, str]]
) -> Iterator[tuple[object, str]]:
    """The parameters of __init__ that get the tokenizer, and the attributes that keep it."""
    for number in reading.functions_by_name.get("__init__", ()):
        sites = [reading.calls[n] for n in reading.made_at(number)[:8]]
        for parameter in reading.function(number).parameters if sites else ():
            values = [evaluate.argument_of(reading, c, number, parameter.name) for c in sites]
            if not all(
                v is not None and v.kind == "name" and reading.key(v.name, c.scope) in held
                for v, c in zip(values, sites, strict=True)
            ):
                continue
            yield number, parameter.name
            for each in reading.assignments:
                kept = each.scope == number and each.value.kind == "name"
                if kept and each.value.name == parameter.name and each.target.startswith("self."):
                    yield reading.key(each.target, number)


def _is_joined(reading: Training, value: Value, owner: str) -> bool:
    """ids + [tokenizer.eos_token_id], also within a comprehension."""
    return any(
        part.kind == "other"
        and part.name == "Add"
        and any(
            item.kind == "list" and f"{owner}.eos_token_id" in item.names for item in part.items
        )
        for part in flatten([value])
    )


def _has_end(reading: Training, value: Value, owner: str, call: Call) -> bool:
    """tokenizer.eos_token_id, also in a list and by a name."""
    names = {f"{owner}.eos_token_id"}
    held = [a for a in reading.assigned_to(value.name, call.scope)] if value.name else []
    return bool(names & set(value.all_names)) or (len(held) == 1 and held[0].value.name in names)


def _by_tokenizer(reading: Training, pad: Assignment, owner: str) -> Iterator[int]:
    """AutoTokenizer.from_pretrained(name, add_eos_token=True), or the attribute."""
    for call in reading.named("from_pretrained"):
        value = call.keywords.get("add_eos_token")
        if owner in call.targets and value is not None and value.literal is True:
            yield pad.scope
    for each in reading.assignments:
        if each.target == f"{owner}.add_eos_token" and each.value.literal is True:
            yield each.scope


def _belongs(reading: Training, inner: int, outer: int) -> bool:
    """A function of the script, or one within the function."""
    if not outer or not inner:
        return True
    while inner > 0 and inner != outer:
        inner = reading.function(inner).parent
    return inner == outer
