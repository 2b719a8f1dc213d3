"""Axes that a product sums over, and the axis along which its weights sum to 1."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.rendering import containing, expanded, texts_in
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


def over_queries(reading: Training, call: Call, scores: str, axis: Value) -> Iterator[Match]:
    """einsum('bhid,bhjd->bhij', q, k).softmax(-2): the weights of a key sum to 1."""
    found = PRODUCT.search(scores)
    if found is None or not isinstance(axis.literal, int):
        return
    one, two = (found["one"] or found["first"]), (found["two"] or found["second"])
    out, queries = _axes(found["before"] or found["behind"], one, two)
    place = axis.literal if axis.literal < 0 else axis.literal - len(out)
    if not queries or ("..." in out and axis.literal >= 0) or not -len(out) <= place < 0:
        return
    texts = texts_in(reading, call.scope)
    if out[place] == queries and _multiply(call, texts) and not any(map(AGAIN.search, texts)):
        message = f"attention sums to 1 over axis {axis.literal}, the queries, not over the keys"
        yield Match(call.span, message)


def _multiply(call: Call, texts: list[str]) -> bool:
    """The weights are a factor of a product: as masks of clusters they are not."""
    name = re.escape(call.target) if call.target else r"[\w.]*softmax\("
    factor = re.compile(rf"(?:einsum|matmul|bmm)\(.*(?<![\w.]){name}|(?<![\w.]){name}\S*?@")
    return any(factor.search(text) for text in texts)


POOLED = re.compile(
    r"(?:bmm|matmul)\((?P<a>\w+)(?:\.unsqueeze\((?:dim=)?1\)|\[:,None(?:,:)?\]),"
    r"|\((?P<b>\w+)(?:\.unsqueeze\((?:dim=)?1\)|\[:,None(?:,:)?\])@"
    r"|\(\(?(?P<c>\w+)(?:\.unsqueeze\((?:dim=)?(?:-1|2)\)|\[:,:,None\]|\[\.\.\.,None\])\*\w+\)"
    r"\.sum\((?:dim=)?1\)"
)
"""Weights (batch, time) that places are summed with, batch by batch."""


COMPUTED = re.compile(r"(?<![\w.])(?:torch\.|F\.)?(?:self\.)?(?!softmax)\w+\((?!\))[^()]*[a-z]")
"""Scores of samples are computed of them: a Parameter has one weight for each layer."""


def pooled_across(reading: Training) -> Iterator[Match]:
    """torch.bmm(w.unsqueeze(1), h) of w = softmax(scores, dim=0): shares of the batch."""
    for text, _, scope in containing(reading, POOLED):
        names = {n for m in POOLED.finditer(text) for n in m.groups() if n}
        for call in reading.calls_in(scope):
            given = objects.softmax_of(reading, call) if call.target in names else None
            if given is None or given[1].literal != 0 or given[1].literal is False:
                continue
            if not COMPUTED.search(expanded(reading, given[0], call, 2)):
                continue
            if len(reading.assigned_to(call.target, scope)) == 1:
                message = f"{call.target} sums to 1 over the batch, and is summed over the places"
                yield Match(call.span, message, fix="softmax(..., dim=1)")


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
