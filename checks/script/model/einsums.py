"""Axes that the letters of an einsum name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import texts_in
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

PRODUCT = re.compile(
    r"einsum\('(?P<before>[^']+)',(?P<one>[\w.]+),(?P<two>[\w.]+)\)"
    r"|einsum\((?P<first>[\w.]+),(?P<second>[\w.]+),'(?P<behind>[^']+)'\)"
)
QUERY = re.compile(r"q(?:$|_|uer)", re.IGNORECASE)
KEY = re.compile(r"k(?:$|_|ey)", re.IGNORECASE)
AGAIN = re.compile(r"/\(?[\w.]+\.sum\(|slot|normalize\(", re.IGNORECASE)
"""Shares of queries that are normalized over the keys afterwards, as slots are."""


def over_queries(reading: Training, call: Call, scores: str, axis: Value | None) -> Iterator[Match]:
    """einsum('bhid,bhjd->bhij', q, k).softmax(-2): the weights of a key sum to 1."""
    found = PRODUCT.search(scores)
    if found is None or axis is None or not isinstance(axis.literal, int):
        return
    one, two = (found["one"] or found["first"]), (found["two"] or found["second"])
    out, queries = _axes(found["before"] or found["behind"], one, two)
    place = axis.literal if axis.literal < 0 else axis.literal - len(out)
    if not queries or ("..." in out and axis.literal >= 0) or not -len(out) <= place < 0:
        return
    if out[place] == queries and not any(AGAIN.search(x) for x in texts_in(reading, call.scope)):
        message = f"attention sums to 1 over axis {axis.literal}, the queries, not over the keys"
        yield Match(call.span, message)


def _axes(spec: str, one: str, two: str) -> tuple[list[str], str]:
    """The letters of the product, and the one that only the query and the product have."""
    inputs, _, out = spec.partition("->")
    parts = [_letters(part) for part in inputs.split(",")]
    names = [name.rpartition(".")[2] for name in (one, two)]
    if len(parts) != 2 or not out:
        return [], ""
    if QUERY.match(names[1]) and KEY.match(names[0]):
        parts.reverse()
    elif not (QUERY.match(names[0]) and KEY.match(names[1])):
        return [], ""
    query, key = parts
    own = [x for x in query if x not in key and x in _letters(out)]
    other = [x for x in key if x not in query and x in _letters(out)]
    return (_letters(out), own[0]) if len(own) == len(other) == 1 else ([], "")


def _letters(part: str) -> list[str]:
    """b, h, i and j of bhij, and of b h i j; ... is one of them."""
    part = part.strip()
    return part.split() if " " in part else re.findall(r"\.\.\.|\w", part)
