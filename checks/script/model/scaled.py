"""Whether attention's scores are scaled, where that is written."""

from __future__ import annotations

import re

from doctor.checks.script import evaluate, objects, rendering
from doctor.checks.script.training import Training
from doctor.facts.script import Call

SCALED = re.compile(
    r"\*\*-?0?\.5|sqrt|scal(?:e|ing)|\*\*\(-|norm|temperature|/\w*(?:dim|d_k|tau)", re.IGNORECASE
)
FACTORS = ("Mult", "Div")
QUERY = re.compile(r"\bw?_?q\w*\.weight\b")
INITIALISES = ("normal_", "trunc_normal_", "uniform_")


def is_scaled(reading: Training, call: Call, scores: str, product: str) -> bool:
    """By the scores' text, a factor on query or key, or a function before or after this one."""
    scopes = {call.scope, *objects.near(reading, call.scope)}
    texts = (text for scope in scopes for text in rendering.texts_in(reading, scope))
    if SCALED.search(scores) or any(map(SCALED.search, texts)):
        return True
    if _by_initialisation(reading):
        return True
    parts = _parts(product)
    return any(
        each.target in parts and (each.operator or each.value.name) in FACTORS
        for each in reading.assignments
        if each.scope == call.scope
    )


def _by_initialisation(reading: Training) -> bool:
    """The scale is in the queries' first weights: q.weight.normal_(std=width**-0.5), as in T5."""
    for call in reading.named(*INITIALISES):
        weight = call.args[0].name if call.receiver.endswith("init") and call.args else call.name
        given = (rendering.render(reading, value) for value in call.values)
        if QUERY.search(weight) and any(map(SCALED.search, given)):
            return True
    return False


def is_given(reading: Training, scope: int, product: str) -> bool:
    """A function that nothing in this file calls gets query or key."""
    given = any(evaluate.is_parameter(reading, scope, name) for name in _parts(product))
    return given and not objects.sites(reading, scope)


def _parts(product: str) -> set[str]:
    return set(re.findall(r"\w*[qk]\w*", product, re.IGNORECASE))
