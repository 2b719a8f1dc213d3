"""Formulas of values that were changed before: reduced to a mean, squashed, cut from a table."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rendering import containing, render, statements
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

REDUCES = {"reduction", "reduce", "size_average"}
TANH = r"(?:(?:torch\.(?:nn\.functional\.)?)?tanh\((\w+)\)|(\w+)\.tanh\(\))"
CORRECTION = re.compile(rf"\(1-(?:\({TANH}\*\*2\)|{TANH}\.(?:pow\(2\)|square\(\)))")
SQUASHED = re.compile(r"torch\.(?:nn\.functional\.)?tanh\(.*\)|[\w.]+\.tanh\(\)")
STRAIGHT = re.compile(r"\((?P<input>[\w.]+)\+\((?P<codes>\w+)-(?P=input)\)\.detach\(\)\)")


def changed_before(reading: Training) -> Iterator[Match]:
    yield from _focal_of_mean(reading)
    yield from _squashed_twice(reading)
    yield from _codes_of_straight_through(reading)


def _codes_of_straight_through(reading: Training) -> Iterator[Match]:
    """mse_loss(z_q, z.detach()) of z_q = z + (q - z).detach(), whose gradient z gets."""
    if reading.mentions("ema", "cluster_size"):
        return
    for number, call in reading.numbered(reading.methods("mse_loss")):
        if len(call.args) != 2 or call.keywords.keys() - {"reduction"}:
            continue
        one, other = call.args
        if one.kind == "call" and other.kind == "name":
            one, other = other, one
        cut = reading.call_of(other)
        if one.kind != "name" or cut is None or cut.method != "detach":
            continue
        found = evaluate.options(reading, one, call)
        if len(found) == 1 and _is_straight_through(reading, found[0], call.scope, number):
            yield Match(call.span, f"{one.name} has no path to the codes: they do not learn")


def _is_straight_through(reading: Training, value: Value, scope: int, own: int) -> bool:
    """z + (q - z).detach(), also as the result of a module of this file."""
    if parts := STRAIGHT.fullmatch(render(reading, value)):
        codes = parts["codes"]
        taken = [render(reading, v) for n in reading.methods("mse_loss") if n != own
                 for v in reading.calls[n].args if reading.calls[n].scope == scope]  # fmt: skip
        formula = re.compile(rf"(?<![\w.]){codes}-[\w.]+\.detach\(\)")
        written = any(formula.search(t) for t, _, s in reading.cached(statements) if s == scope)
        return codes not in taken and not written
    index = value.items[1].literal if value.kind == "item" and len(value.items) == 2 else None
    if not isinstance(index, int) or value.items[0].kind != "call":
        return False
    made = objects.callee(reading, reading.calls[value.items[0].call])
    name = made[0].name if len(made) == 1 and made[0] is not None else ""
    forward = objects.method_of(reading, name, "forward")
    results = reading.returns(forward)
    listed = results[0].items if len(results) == 1 else ()
    if forward is None or index >= len(listed) or any("loss" in each.name for each in listed):
        return False
    held = _held(reading, listed[index].name, forward)
    return bool(held) and _is_straight_through(reading, held[-1].value, forward, own)


def _held(reading: Training, name: str, scope: int) -> list[Assignment]:
    return [a for a in reading.assigned_to(name, scope) if a.scope == scope]


def _focal_of_mean(reading: Training) -> Iterator[Match]:
    """(1 - exp(-ce)) ** gamma * ce, where ce is the mean of the batch."""
    seen: set[tuple[str, int]] = set()
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        if kind not in ("cross_entropy", "bce", "bce_logits", "nll") or not _is_mean(reading, call):
            continue
        name, home = (call.target, call.scope) if call.target else _passed_on(reading, number)
        if (
            not name
            or (name, home) in seen
            or len(_held(reading, name, home)) != (home == call.scope)
        ):
            continue
        seen.add((name, home))
        own = [(t, s) for t, s, scope in reading.cached(statements) if scope == home]
        likely = "|".join(
            re.escape(a.target) for a in reading.assignments
            if a.scope == home
            and re.fullmatch(rf"torch\.exp\(-{name}\)|-{name}\.exp\(\)", render(reading, a.value))
        )  # fmt: skip
        given = rf"(?:{likely}|torch\.exp\(-{name}\))" if likely else rf"torch\.exp\(-{name}\)"
        factor = re.compile(rf"\(1-{given}\)\*\*[\w.]+\)\*{name}\)|\b{name}\*\(\(1-{given}\)\*\*")
        for text, span in own:
            if factor.search(text):
                message = f"{name} is the mean of the batch: one factor for all samples"
                yield Match(span, message, fix="reduction='none', and mean() of the product.")
                break


def _passed_on(reading: Training, number: int) -> tuple[str, int]:
    """The parameter of a function of this file that gets the result of a call, and its scope, of
    what is called a focal loss: a factor of the whole batch may be meant."""
    for call in reading.calls[number + 1 : number + 2]:
        place = next((i for i, v in enumerate(call.args) if v.call == number), -1)
        function = reading.target_function(call) if place >= 0 else None
        if function is None or place >= len(reading.function(function).parameters):
            continue
        homes = [reading.function(n) for n in (function, call.scope)]
        if any("focal" in f"{home.owner}{home.name}".casefold() for home in homes):
            return homes[0].parameters[place].name, function
    return "", -1


def _is_mean(reading: Training, call: Call) -> bool:
    """The loss has the reduction that it has by default."""
    if call.unpacked or call.loops or len(call.args) > 3 or REDUCES & call.keywords.keys():
        return False
    if call.name.startswith("torch.nn.functional."):
        return True
    made = objects.callee(reading, call)
    return bool(made) and all(
        m is not None
        and m.name.startswith("torch.nn.")
        and not (m.unpacked or REDUCES & m.keywords.keys())
        for m in made
    )


def _squashed_twice(reading: Training) -> Iterator[Match]:
    """log(1 - tanh(a) ** 2) of a = tanh(u)."""
    for text, span, scope in containing(reading, CORRECTION):
        for found in CORRECTION.finditer(text):
            name = next(each for each in found.groups() if each)
            held = _held(reading, name, scope)
            before = [a for a in held if a.span.order < span.order]
            if held == before and held and all(
                SQUASHED.fullmatch(render(reading, a.value)) and not a.augmented for a in held
            ):  # fmt: skip
                yield Match(span, f"{name} is tanh() already: the correction is 1 - {name} ** 2")
