"""The sign of a policy gradient: log-probabilities times what is to grow, that are minimized."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.loss.signs import is_turned
from doctor.checks.script.naming import words
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import formulas, lines_of, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Span, Value

GAINS = {"advantage", "advantages", "reward", "rewards"}
SHORT = {"adv", "advs", "gae", "rew", "rews", "return", "returns", "ret", "rets", "r", "g", "gt"}
"""The same and those of papers, which other files have for other things."""
SPOKEN = ("reward", "policy", "episode", "reinforce", "actor")
"""Words of files in which they are returns."""
COSTS = ("cost", "tour", "route", "distance", "makespan", "regret", "penalt", "energy",
         "latency", "adversar", "_length", "tsp", "vrp", "runtime", "risk", "maximize", "neg_",
         "negative", "ascent", "divergence", "elbo", "kl_", "_kl")  # fmt: skip
"""Words of files whose "reward" may be what is to shrink, as the length of a tour in
https://github.com/mveres01/pytorch-drl4vrp, and of those that turn the sign elsewhere."""
MEANS = ("mean", "sum")
SHAPES = ("sum", "mean", "squeeze", "unsqueeze", "view", "reshape", "flatten", "to", "float")
NEGATED = re.compile(
    r"(?<![\w)\]])-\(*(?:[\w.]*(?:rew|adv|ret|gain|loss|obj|pg|policy)|[rRgG]\b)|"
    r"(?:-1(?:\.0)?\*|\*-1|\*\(?-)|\.grad\b|lr=-",
    re.IGNORECASE,
)
"""A minus before a reward or a loss, or gradients that are changed by hand."""


def minimized(reading: Training) -> Iterator[Match]:
    """(advantage * log_prob).mean() as the loss of an optimizer that minimizes."""
    if not reading.optimizers or "log_prob" not in reading.by_method or reading.mentions(*COSTS):
        return
    if any(NEGATED.search(text) for text, _, _ in reading.cached(formulas)):
        return
    for value, scope in _losses(reading):
        for term, place in _terms(reading, value, scope):
            gain = _gain(reading, flatten_product(term), scope)
            if gain:
                text = f"the loss grows with {gain} * log_prob: a minus is missing before it"
                yield Match(place, text, fix=f"loss = -({gain} * log_prob).mean().")


def _losses(reading: Training) -> Iterator[tuple[Value, int]]:
    """What backward() is called on, and what forward() of an own loss returns."""
    for call in (reading.calls[n] for n in reading.backwards):
        if call.base is not None or call.receiver_call >= 0:
            yield call.base or Value("call", call=call.receiver_call), call.scope
        elif call.receiver:
            yield Value("name", name=call.receiver), call.scope
    for scope, function in enumerate(reading.script.functions):
        called = {*words(function.owner or ""), *words(function.name)}
        if "loss" in called and function.name != "__init__" and not is_turned(reading, function):
            yield from ((value, scope) for value in function.returns)


def _terms(
    reading: Training, value: Value, scope: int, depth: int = 6
) -> Iterator[tuple[Value, Span]]:
    """Products whose mean or sum is added to a loss, with no minus before them."""
    if value.kind == "name" and depth:
        held = lines_of(reading, scope, value.name)
        if len(held) == 1 and not held[0].augmented:
            yield from _terms(reading, held[0].value, scope, depth - 1)
    elif value.kind == "call":
        yield from _product(reading, value, scope)
    elif value.kind == "other" and value.name in ("Add", "Sub") and depth:
        for item in value.items[: 2 if value.name == "Add" else 1]:
            yield from _terms(reading, item, scope, depth - 1)


def _product(reading: Training, value: Value, scope: int) -> Iterator[tuple[Value, Span]]:
    """a * b of (a * b).mean()."""
    call, inner = reading.calls[value.call], _inner(reading, value)
    if call.method in MEANS and inner is not None:
        product = _written(reading, inner, scope)
        if product.name == "Mult":
            yield product, call.span


def _inner(reading: Training, value: Value) -> Value | None:
    """x of x.mean(), and of torch.mean(x)."""
    call = reading.calls[value.call]
    if call.base is not None:
        return call.base
    if call.receiver_call >= 0:
        return Value("call", call=call.receiver_call)
    if call.name.startswith("torch."):
        return call.first
    return Value("name", name=call.receiver) if call.receiver else None


def _written(reading: Training, value: Value, scope: int) -> Value:
    """A name's only value."""
    held = lines_of(reading, scope, value.name) if value.kind == "name" else []
    return held[0].value if len(held) == 1 and not held[0].augmented else value


def flatten_product(value: Value) -> list[Value]:
    """a, b and c of a * b * c."""
    if value.kind == "other" and value.name == "Mult":
        return [each for item in value.items for each in flatten_product(item)]
    return [value]


def _gain(reading: Training, factors: list[Value], scope: int) -> str:
    """What is to grow among the factors, where one other is a log-probability; "" otherwise."""
    logs = [each for each in factors if _is_log_prob(reading, each, scope)]
    texts = [render(reading, each) for each in factors]
    named = [t for t in texts if _is_gain(reading, _root(t), scope)]
    turned = any("-" in text for text in texts)
    return named[0] if len(logs) == len(named) == 1 and not turned else ""


def _root(text: str) -> str:
    """advantage of advantage.detach(); "" of other expressions."""
    found = re.fullmatch(r"([A-Za-z_]\w*)(?:\.detach\(\)|\.squeeze\([-\d]*\)|\[[\w:,]*\])*", text)
    return found[1] if found else ""


def _is_log_prob(reading: Training, value: Value, scope: int) -> bool:
    """dist.log_prob(action), or a name for it alone; summed, or in another shape."""
    value = _written(reading, value, scope)
    while value.kind == "call":
        call = reading.calls[value.call]
        if call.method == "log_prob":
            return True
        inner = _inner(reading, value) if call.method in SHAPES else None
        if inner is None:
            return False
        value = _written(reading, inner, scope)
    return False


def _is_gain(reading: Training, name: str, scope: int) -> bool:
    """An advantage, return or reward by its name; not of baseline - reward."""
    spoken = SHORT & {*words(name)} and reading.mentions(*SPOKEN)
    if not (spoken or GAINS & {*words(name)}):
        return False
    for line in lines_of(reading, scope, name):
        for part in _differences(line.value):
            if (GAINS | SHORT) & {w for n in part.items[1].all_names for w in words(n)} - {
                *words(name)
            }:
                return False
    return True


def _differences(value: Value) -> Iterator[Value]:
    for each in flatten([value]):
        if each.kind == "other" and each.name == "Sub":
            yield each
