"""backward() on the loss itself, where accelerate or DeepSpeed has a backward() of its own."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, gradients
from doctor.checks.script.installed import limited, pinned, release
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call

AVERAGES = (0, 18, 3)
"""The first DeepSpeed whose engine sees the backward() of a loss."""


def accelerate_plain_backward(reading: Training) -> Iterator[Match]:
    made = [n for n in reading.methods("Accelerator") if reading.calls[n].targets]
    names = {reading.key(t, reading.calls[n].scope) for n in made for t in reading.calls[n].targets}
    prepared = {
        reading.key(target, call.scope)
        for call in (reading.named("prepare"))
        if reading.key(call.receiver, call.scope) in names
        for target in call.targets
    }
    prepared |= _engines(reading)
    backwards = [reading.calls[n] for n in reading.backwards] if prepared else []
    for number, call in reading.numbered(reading.backwards if prepared else ()):
        key = reading.key(call.receiver, call.scope)
        if call.args or not call.receiver or not call.loops or key in names:
            continue
        if not gradients.sources(reading, call, number) & prepared:
            continue
        if any(other.args and exclusive(other.arms, call.arms) for other in backwards):
            continue  # if engine: engine.backward(loss), else: loss.backward()
        fp16 = any(_mixed(reading, reading.calls[n]) == {"fp16"} for n in made)
        if made:
            message = f"{call.receiver}.backward() goes past accelerator.backward()"
            yield Match(call.span, message, "fail" if fp16 else "warn")
        elif release(pinned(reading, "deepspeed") or "") < AVERAGES:
            old = limited(reading, "deepspeed", AVERAGES)
            message = f"{call.receiver}.backward() is the engine's since DeepSpeed 0.18.3 only"
            reason = "" if old else "the requirements beside it do not decide DeepSpeed's version"
            yield Match(call.span, message, undecided=reason)


def _engines(reading: Training) -> set[tuple[object, str]]:
    """Names of what deepspeed.initialize returned first."""
    calls = reading.named("initialize")
    return {
        reading.key(call.targets[0], call.scope)
        for call in calls
        if call.name == "deepspeed.initialize" and call.targets
    }


def _mixed(reading: Training, call: Call) -> set[object]:
    value = call.keywords.get("mixed_precision")
    return evaluate.literals(reading, value, call)
