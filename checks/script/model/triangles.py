"""Masks of attention that is written out: which triangle of the scores they hide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from doctor.checks.script import objects
from doctor.checks.script.directions import is_turned
from doctor.checks.script.rendering import (
    Line,
    expanded,
    formulas_in,
    lines,
    render,
    statements,
    written_out,
)
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call

LOWEST = re.compile(r"-(?:\w+\.)*inf\b|float\('-inf'\)|-1e\+?\d|finfo\(.*\)\.min|-(?:65|99)\d\d\d")
INFINITE = re.compile(r"(?<!f)inf\b")
GIVEN = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
"""Arguments of a call, in balanced parentheses."""
NEGATED = re.compile(
    r"~(?P<a>.+)|torch\.logical_not\((?P<b>.+)\)|(?P<c>.+?)(?:==(?:0|False)|<1|<0?\.5)"
    r"|(?P<d>.+)\.(?:logical_not\(\)|eq\((?:0|False)\)|lt\(1\))"
)
SAME = re.compile(rf"(?P<a>.+)\.(?:bool|to|type|float|unsqueeze|view|cuda|expand){GIVEN}"
                  r"|(?P<b>.+)\[[^\[\]]*\]|(?P<c>.+)(?:!=0|==1|==True|>0)")  # fmt: skip
ONES = rf"torch\.ones(?:_like)?{GIVEN}"
TRIANGLE = re.compile(
    rf"torch\.(?P<kind>tril|triu)\({ONES}(?:,(?:diagonal=)?(?P<k>-?\d+))?\)"
    rf"|{ONES}\.(?P<method>tril|triu)\((?:(?:diagonal=)?(?P<by>-?\d+))?\)"
)
PRODUCT = re.compile(
    r"q\w*@\w*k|(?:matmul|bmm)\(\w*q\w*,\w*k|einsum\(.*,\w*q\w*,\w*k", re.IGNORECASE
)
SHARES = re.compile(r"softmax\((?:.*,)?(?:dim=)?-1\b")
VALUES = re.compile(
    r"@[\w.]*v\w*|(?:matmul|bmm)\(.*,[\w.]*v\w*\)|einsum\(.*,[\w.]*v", re.IGNORECASE
)
OTHER = re.compile(r"cat\(|concat\(|nan_to_num|flip\(|roll\(|isnan|pad\(")
"""What changes the scores, or cares for rows that are hidden as a whole."""
PAST = "the mask hides what comes before, and leaves what is to be predicted"
ITSELF = "the mask hides each token from itself too: the first row is all -inf, and NaN"
NEXT = "the mask leaves the next token, which is to be predicted"


@dataclass(frozen=True, slots=True)
class Triangle:
    """Which part of a matrix a mask is."""

    kind: str
    diagonal: int
    negated: bool


def written_masks(reading: Training) -> Iterator[Match]:
    """scores.masked_fill(torch.triu(ones) == 0, -inf), and torch.tril(full(-inf)) as a summand."""
    if {"tril", "triu"}.isdisjoint(reading.by_method) or reading.cached(is_turned):
        return
    attends = reading.cached(_attends)
    for call, known in _fills(reading, attends):
        value = render(reading, call.args[1])
        if known is not None and LOWEST.search(value):
            message = _wrong(known, infinite=INFINITE.search(value) is not None)
            if message:
                yield Match(call.span, message)
    yield from _added(reading, attends)
    yield from _blocks(reading)


def _fills(reading: Training, attends: set[int]) -> list[tuple[Call, Triangle | None]]:
    """The only triangle that a function of attention fills."""
    fills: dict[int, list[tuple[Call, Triangle | None]]] = {}
    for call in reading.named("masked_fill", "masked_fill_") if attends else ():
        if len(call.args) == 2 and call.scope in attends:
            mask, known = _mask(reading, call)
            if known is not None or "tri" in mask:
                fills.setdefault(call.scope, []).append((call, known))
    return [found[0] for found in fills.values() if len(found) == 1]


def _attends(reading: Training) -> set[int]:
    """Functions in which scores of queries and keys become shares, by which values are added."""
    scopes = {scope for text, _, scope in reading.cached(statements) if "softmax" in text}
    found = set()
    for scope in scopes:
        texts = [text for text, _ in formulas_in(reading, scope)]
        needed = all(any(p.search(text) for text in texts) for p in (PRODUCT, SHARES, VALUES))
        if needed and not any(OTHER.search(text) for text in texts):
            found.add(scope)
    return found


def _mask(reading: Training, call: Call) -> tuple[str, Triangle | None]:
    """A mask written out, and the triangle that it is, None where it may be anything else."""
    value = call.args[0]
    text = value.text.replace(" ", "") if value.kind == "test" else render(reading, value)
    whole = text = written_out(reading, call.scope, text).replace(" ", "")
    negated = False
    for _ in range(12):
        text = _bare(text)
        if found := TRIANGLE.fullmatch(text):
            kind, diagonal = found["kind"] or found["method"], found["k"] or found["by"] or "0"
            return whole, Triangle(kind, int(diagonal), negated)
        if re.fullmatch(r"self\.\w+", text):
            text = _held(reading, call, text)
            whole += text
        elif found := NEGATED.fullmatch(text):
            negated = not negated
            text = next(part for part in found.groups() if part)
        elif found := SAME.fullmatch(text):
            text = next(part for part in found.groups() if part)
        else:
            break
    return whole, None


def _bare(text: str) -> str:
    """Without parentheses around the whole."""
    while re.fullmatch(GIVEN, text):
        text = text[1:-1]
    return text


def _held(reading: Training, call: Call, name: str) -> str:
    """What the only assignment of an attribute, or its register_buffer(), gives it."""
    owner = reading.function(call.scope).owner
    texts = reading.cached(_attributes).get((owner, name), [])
    return texts[0] if len(texts) == 1 else ""


def _attributes(reading: Training) -> dict[tuple[str, str], list[str]]:
    table: dict[tuple[str, str], list[str]] = {}

    def holds(scope: int, name: str, text: str) -> None:
        key = (reading.function(scope).owner, name)
        table.setdefault(key, []).append(written_out(reading, scope, text).replace(" ", ""))

    line: Line
    for line in reading.cached(lines):
        if line.target.startswith("self."):
            holds(line.scope, line.target.partition("[")[0], line.text)
    for made in reading.named("register_buffer"):
        if len(made.args) > 1:
            holds(made.scope, f"self.{made.args[0].literal}", render(reading, made.args[1]))
    return table


def _wrong(mask: Triangle, *, infinite: bool) -> str:
    """What is wrong with the places that are hidden, "" where the later ones are, or a window."""
    if mask.kind == ("triu" if mask.negated else "tril"):
        beside = mask.diagonal < 0 if mask.kind == "triu" else mask.diagonal < -1
        return "" if beside else PAST
    if mask.negated:
        return NEXT if mask.diagonal > 0 else ITSELF if mask.diagonal < 0 and infinite else ""
    return ITSELF if mask.diagonal == 0 and infinite else ""


def _added(reading: Training, attends: set[int]) -> Iterator[Match]:
    """torch.tril(torch.full((n, n), -inf)): what is added to the scores."""
    filled = re.compile(
        r"torch\.(?P<kind>tril|triu)\((?:torch\.full\(\(?[\w.,()]+\)?,(?:float\('-inf'\)|-(?:\w+\.)*inf)(?:,\w+=[\w.]+)*\)"
        r"|\(torch\.ones\([\w.,()=]+\)\*(?:float\('-inf'\)|-(?:\w+\.)*inf)\))(?:,(?:diagonal=)?(?P<k>-?\d+))?\)"
    )
    made: dict[int, list[Match | None]] = {}
    for text, span, scope in reading.cached(statements) if attends else ():
        if scope in attends and re.search(r"tri[lu]\(", text):
            found = filled.fullmatch(text)
            mask = Triangle(found["kind"], int(found["k"] or 0), False) if found else None
            message = _wrong(mask, infinite=True) if mask else ""
            made.setdefault(scope, []).append(Match(span, message) if message else None)
    for each in (one[0] for one in made.values() if len(one) == 1):
        if each is not None:
            yield each


CHANGED = re.compile(rf"(?P<a>.+)\.(?:bool|to|unsqueeze|view|expand){GIVEN}|(?P<b>.+)\[[^\[\]]*\]")


def _blocks(reading: Training) -> Iterator[Match]:
    """torch.zeros(...).masked_fill(same & tril, -inf): places that may be attended are hidden."""
    for call in reading.named("masked_fill", "masked_fill_"):
        value = objects.operand(call)
        made = expanded(reading, value, call, 1) if value is not None else ""
        if len(call.args) != 2 or not made.startswith("torch.zeros("):
            continue
        text = written_out(reading, call.scope, render(reading, call.args[0])).replace(" ", "")
        text = _bare(text)
        while changed := CHANGED.fullmatch(text):
            text = _bare(changed["a"] or changed["b"])
        parts = [_bare(part) for part in text.split("&")]
        found = [m for part in parts if (m := TRIANGLE.fullmatch(part))]
        known = [m["kind"] or m["method"] for m in found if (m["k"] or m["by"] or "0") == "0"]
        whole = len(parts) == 1 or any("==" in part for part in parts)
        if known == ["tril"] and whole and LOWEST.search(render(reading, call.args[1])):
            yield Match(call.span, PAST)
