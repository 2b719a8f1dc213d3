"""The axis that a written norm of tokens takes its statistics over."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.rendering import Line, lines, lines_in, render, returned, texts_in
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

NAMED = re.compile(r"(?:^|_)(?:layer|rms)_?norm(?:alization)?$", re.IGNORECASE)
OVER = re.compile(
    r"\.(?:mean|var|std)\((?:dim=)?(?P<axis>0|1|-2),(?:keepdim=True|True|unbiased=\w+)"
    r"|\.(?:mean|var|std)\((?:unbiased=\w+,)?keepdim=True,dim=(?P<two>0|1|-2)\)"
)
SHAPE = re.compile(r"<?\w+\.(?:shape|size\(\))>?(?:\[\d\])?")
POOLED = re.compile(r"\.(?:mean|sum|max|amax|squeeze|flatten)\(|pool|\[(?::,|\.\.\.,)-?\w+[\],]")
ONE_AXIS = re.compile(r"torch\.nn\.Parameter\(torch\.(?:ones|zeros)\(\w+\)\)")


def of_tokens(reading: Training) -> Iterator[Match]:
    """x.mean(1, keepdim=True) of (batch, time, width), and a scale that is as long as the width."""
    attending = reading.cached(_attending)
    for scope, function in enumerate(reading.script.functions if attending else ()):
        if function.name != "forward" or not NAMED.search(function.owner):
            continue
        made = [c for c in reading.calls if c.name == function.owner]
        owners = {reading.function(c.scope).owner for c in made} & attending
        if not owners or not all(_gets_tokens(reading, owner, function.owner) for owner in owners):
            continue
        result = " ".join(text for text, _ in returned(reading, scope))
        scales = [re.escape(name) for name in _scales(reading, function.owner)]
        plain = any(re.search(rf"\*{name}(?![\w.\[])|{name}\*", result) for name in scales)
        given = [(line.text, line.span) for line in lines_in(reading, scope)]
        for text, span in (*given, *returned(reading, scope)) if plain else ():
            if found := OVER.search(text):
                axis = found["axis"] or found["two"]
                message = f"the statistics are over axis {axis}, and the scale is of the last axis"
                yield Match(span, message, "warn", fix="Take them over dim=-1.")
                return


def _gets_tokens(reading: Training, owner: str, norm: str) -> bool:
    """self.norm(x) or self.norm(x + ...) of a parameter x of forward(), which no line pools."""
    own = [c for c in reading.calls if reading.function(c.scope).owner == owner]
    held = [
        c for c in own if c.name.startswith("self.") and c.args
        and any(m is not None and m.name == norm for m in objects.callee(reading, c))
    ]  # fmt: skip
    for call in held:
        text = render(reading, call.args[0])
        root = re.match(r"\(?(\w+)(?=$|[+)])", text)
        given = {p.name for p in reading.function(call.scope).parameters}
        changed = [x.text for x in lines_in(reading, call.scope) if root and x.target == root[1]]
        if root is None or root[1] not in given or any(POOLED.search(x) for x in changed):
            return False
    return bool(held)


def _scales(reading: Training, owner: str) -> list[str]:
    """self.weight = nn.Parameter(torch.ones(width)) of the class."""

    def own(line: Line) -> bool:
        return line.target.startswith("self.") and reading.function(line.scope).owner == owner

    return [x.target for x in reading.cached(lines) if own(x) and ONE_AXIS.fullmatch(x.text)]


def _attending(reading: Training) -> set[str]:
    """Classes that attend over (batch, time, width)."""
    layers = reading.named("MultiheadAttention", "TransformerEncoderLayer")
    found = {
        reading.function(call.scope).owner
        for call in layers
        if (v := call.keywords.get("batch_first")) is not None and v.literal is True
    }
    found |= {
        function.owner
        for scope, function in enumerate(reading.script.functions)
        if function.owner in reading.modules and _unpacks_three(reading, scope)
        for text in texts_in(reading, scope)
        if "scaled_dot_product_attention(" in text or "softmax(" in text
    }
    return found - {""}


def _unpacks_three(reading: Training, scope: int) -> bool:
    """b, t, c = x.shape."""
    own = [a for a in reading.assignments if a.scope == scope]
    spans = [a.span for a in own if SHAPE.fullmatch(render(reading, a.value))]
    return any(spans.count(span) == 3 for span in spans)
