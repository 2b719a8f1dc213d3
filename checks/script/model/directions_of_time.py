"""Recurrent layers in both directions, and masks of attention that are read the other way."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import expanded, lines, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

RECURRENT = {"LSTM", "GRU", "RNN"}
HIDES = re.compile(
    r"~(?:\w+\.)*\w*(?:attention_mask|attn_mask|valid|keep)\w*"
    r"|\((?:\w+\.)*attention_mask(?:\.\w+\(\))?\s*==\s*0\)"
    r"|\((?:\w+\.)*(?:ids|tokens|input_ids|x|src)\s*==\s*(?:\w+\.)*\w*(?:pad|PAD)\w*\)"
    r"|(?:\w+\.)*(?:key_)?padding_mask"
)


def both_directions(reading: Training) -> Iterator[Match]:
    """out[:, -1] and h.view(-1, 2 * width) of a bidirectional layer."""
    for call in reading.calls:
        if call.name.startswith("self.") and _is_bidirectional(reading, call):
            names = _results(reading, call)
            yield from _last_step(reading, call, names)
            yield from _mixed_states(reading, call, names[1:] or _unnamed(reading, call.scope))


def _last_step(reading: Training, call: Call, names: list[str]) -> Iterator[Match]:
    for value, span, scope in reading.expressions:
        if scope != call.scope or span.order <= call.span.order or not names:
            continue
        if any(is_last_column(part, names[0]) for part in flatten([value])):
            message = f"the backward direction of {call.name} has read one step at [:, -1]"
            yield Match(span, message, "warn")
            return


def _mixed_states(reading: Training, call: Call, states: list[str]) -> Iterator[Match]:
    for shaped in reading.named("view", "reshape"):
        if shaped.scope != call.scope or shaped.receiver not in states or len(shaped.args) != 2:
            continue
        if render(reading, shaped.args[0]) == "-1":
            name = shaped.receiver
            message = f"{name} has the directions first: {shaped.method}() mixes samples"
            yield Match(shaped.span, message)
            return


def _is_bidirectional(reading: Training, call: Call) -> bool:
    made = objects.known_callees(reading, call)
    return (
        len(made) == 1
        and made[0].name.startswith("torch.nn.")
        and (
            made[0].method in RECURRENT
            and (value := made[0].keywords.get("bidirectional")) is not None
            and value.literal is True
        )
    )


def _results(reading: Training, call: Call) -> list[str]:
    """out, h and c of out, (h, c) = self.lstm(x)."""
    number = reading.number(call)
    made = [a for a in reading.assignments if a.scope == call.scope and number in
            (a.value.call, *a.value.calls) and a.span.order <= call.span.order]  # fmt: skip
    names = [a.target for a in made]
    if len(names) == 1 and made[0].value.kind == "item":
        index = made[0].value.items[-1].literal
        return names if index == 0 else ["", *names]
    return names or list(call.targets)


def _unnamed(reading: Training, scope: int) -> list[str]:
    """h of out, (h, c) = self.lstm(x), which nothing else assigns."""
    return [
        name
        for name in ("h", "hn", "h_n", "hidden", "ht", "h_t")
        if not reading.assigned.get(reading.key(name, scope))
    ]


def hidden_tokens(reading: Training) -> Iterator[Match]:
    """scaled_dot_product_attention(attn_mask=pad == 0): True takes part there."""
    for call in reading.named("scaled_dot_product_attention"):
        value = call.keywords.get("attn_mask") or (call.args[3] if len(call.args) > 3 else None)
        if value is None:
            continue
        text = expanded(reading, value, call, 3)
        text = re.sub(r"\[[:,None ]*\]|\.(?:unsqueeze|expand|bool|to|view)\([^()]*\)", "", text)
        text = text.strip("()")
        found = HIDES.fullmatch(f"({text})") or HIDES.fullmatch(text)
        if found is None and value.kind == "name":
            held = [a.text for a in reading.cached(lines)
                    if a.target == value.name and a.scope == call.scope]  # fmt: skip
            turned = any("~" in t or "logical_not" in t for t in held[1:])
            found = HIDES.fullmatch(held[0]) if held and not turned else None
        if found is None:
            text = _passed(reading, value, call)
            found = HIDES.fullmatch(text) if text else None
        if found is not None:
            yield Match(
                call.span, "attn_mask is True at padding: here True takes part in attention"
            )


def _passed(reading: Training, value: Value, call: Call) -> str:
    """(pad == 0) of a parameter that is an attention mask where the module is called."""
    text = expanded(reading, value, call, 3)
    named = re.match(r"\(*(?P<name>\w+)\s*==\s*0\)", text)
    if named is None:
        return ""
    parameters = [p.name for p in reading.function(call.scope).parameters]
    if named["name"] not in parameters:
        return ""
    place = parameters.index(named["name"]) - (parameters[:1] == ["self"])
    for site in objects.sites(reading, call.scope):
        given = reading.calls[site].args
        if place < len(given) and given[place].name.rpartition(".")[2] == "attention_mask":
            return "(attention_mask == 0)"
    return ""


def is_last_column(part: Value, name: str) -> bool:
    """name[:, -1] or name[:, -1, :]."""
    if part.kind != "item" or len(part.items) != 2 or part.items[0].name != name or not name:
        return False
    index = part.items[1]
    if index.kind != "list" or len(index.items) < 2 or index.items[0].kind != "slice":
        return False
    return index.items[1].literal == -1 and all(v.literal is None for v in index.items[0].items)
