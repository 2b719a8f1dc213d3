"""Masks of attention that is written out: which triangle of the scores they hide."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import lines, render, statements, texts_in
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call

LOWEST = re.compile(r"-(?:\w+\.)*inf\b|float\('-inf'\)|-1e\+?\d|finfo\(.*\)\.min|-(?:65|99)\d\d\d")
INFINITE = re.compile(r"(?<!f)inf\b")
NEGATED = re.compile(r"^\(?~|==\s*(?:0|False)\b|logical_not\(|<\s*(?:0?\.5|1)\b|\(1-|==0\b|!=1\b")
TRIANGLE = re.compile(r"(?:\b|\.)(?P<kind>tril|triu)\(")
DIAGONAL = re.compile(r".*,(?:diagonal=)?(-?\d+)")
PRODUCT = re.compile(
    r"q\w*@\w*k|(?:matmul|bmm)\(\w*q\w*,\w*k|einsum\(.*,\w*q\w*,\w*k", re.IGNORECASE
)
TURNED = ("anticausal", "anti_causal", "reverse_mask", "backward_mask", "right_to_left")
PAST = "the mask hides what comes before, and leaves what is to be predicted"
ITSELF = "the mask hides each token from itself too: the first row is all -inf, and NaN"
NEXT = "the mask leaves the next token, which is to be predicted"


def written_masks(reading: Training) -> Iterator[Match]:
    """scores.masked_fill(torch.triu(ones) == 0, -inf), and torch.tril(full(-inf)) as a summand."""
    if {"tril", "triu"}.isdisjoint(reading.by_method) or reading.mentions(*TURNED):
        return
    for call in reading.named("masked_fill", "masked_fill_"):
        scored = any(PRODUCT.search(text) for text in texts_in(reading, call.scope))
        if len(call.args) != 2 or not scored:
            continue
        if LOWEST.search(render(reading, call.args[1])):
            message = _wrong(
                *_hidden(reading, call),
                infinite=INFINITE.search(render(reading, call.args[1])) is not None,
            )
            if message:
                yield Match(call.span, message)
    yield from _added(reading)


def _hidden(reading: Training, call: Call) -> tuple[str, bool, int]:
    """The triangle that a mask is, whether it is negated, and its diagonal."""
    value = call.args[0]
    text = value.text.replace(" ", "") if value.kind == "test" else render(reading, value)
    negated = NEGATED.search(text) is not None
    made = text
    for _ in range(3):
        if TRIANGLE.search(made):
            break
        name = re.match(r"[(~]*(?P<name>[A-Za-z_][\w.]*)", made)
        made = _definition(reading, call, name["name"] if name else "")
        negated ^= NEGATED.search(made) is not None
    found = TRIANGLE.search(made)
    if found is None or re.search(r"inf|transpose\(|\.t\(\)|\.m?T\b|\.T\b", made + text):
        return "", False, 0
    diagonal = DIAGONAL.fullmatch(_arguments(made[found.end() :]))
    return found["kind"], negated, int(diagonal[1]) if diagonal else 0


def _arguments(text: str) -> str:
    """What stands before the parenthesis that closes; of methods, x.triu(1), behind a comma."""
    depth = 1
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if not depth:
            inner = text[:place]
            own = inner.removeprefix("diagonal=").lstrip("-").isdigit()
            return f",{inner}" if own else inner
    return text


def _definition(reading: Training, call: Call, name: str) -> str:
    """What the only assignment of a name, or its register_buffer(), gives it."""
    name = re.sub(r"\.(?:bool|to|type|float|unsqueeze|view|logical_not|eq)$", "", name)
    key = reading.key(name, call.scope)
    held = [line for line in reading.cached(lines) if reading.key(line.target, line.scope) == key]
    owner = reading.function(call.scope).owner
    buffers = [
        render(reading, made.args[1])
        for made in (reading.named("register_buffer") if name.startswith("self.") else ())
        if len(made.args) > 1
        and f"self.{made.args[0].literal}" == name
        and reading.function(made.scope).owner == owner
    ]
    texts = [line.text for line in held] + buffers
    return texts[0] if len(texts) == 1 else ""


def _wrong(kind: str, negated: bool, diagonal: int, *, infinite: bool) -> str:
    """What is wrong with the places that are hidden, "" where the later ones are."""
    if not kind:
        return ""
    if kind == ("triu" if negated else "tril"):
        return PAST
    if kind == "triu" and diagonal <= 0:
        return ITSELF if infinite else ""
    if kind == "tril" and diagonal > 0:
        return NEXT
    return ITSELF if kind == "tril" and diagonal < 0 and infinite else ""


def _added(reading: Training) -> Iterator[Match]:
    """torch.tril(torch.full((n, n), -inf)): what is added to the scores."""
    filled = re.compile(
        r"torch\.(?P<kind>tril|triu)\((?:torch\.full\(\(?[\w.,()]+\)?,(?:float\('-inf'\)|-(?:\w+\.)*inf)(?:,\w+=[\w.]+)*\)"
        r"|\(torch\.ones\([\w.,()=]+\)\*(?:float\('-inf'\)|-(?:\w+\.)*inf)\))(?:,(?:diagonal=)?(?P<k>-?\d+))?\)"
    )
    for text, span, _ in reading.cached(statements):
        found = filled.search(text) if "inf" in text else None
        if found is not None:
            message = _wrong(found["kind"], False, int(found["k"] or 0), infinite=True)
            if message:
                yield Match(span, message)
