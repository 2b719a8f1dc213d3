"""A rule on DeepSpeed engines: what they do themselves, and settings that exclude each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rendering import expanded
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value
from doctor.facts.script_machine import ScriptMachine


def engines(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for n in reading.methods("initialize"):
        made = reading.calls[n]
        if made.name != "deepspeed.initialize" or not made.targets:
            continue
        settings = _settings(reading, made)
        if settings is not None:
            yield from _halves(reading, made, settings)
        engine = made.targets[0]
        accumulates = _accumulates(reading, made, settings)
        for number in reading.methods("backward"):
            call = reading.calls[number]
            if call.receiver == engine and call.args and accumulates:
                yield from _divided(reading, call)
        for number in reading.methods("step"):
            call = reading.calls[number]
            tested = [
                t.text
                for t in reading.tests(call)
                if re.search(r"%\s*[\w.\[\]'\"()]+\s*==", t.text)
            ]
            asked = any("boundary" in t.text for t in reading.tests(call))
            if call.receiver == engine and tested and accumulates and not asked:
                message = f"{engine}.step() counts micro batches itself: under `{tested[0]}` "
                yield Match(call.span, message + "it steps in each Nth of the Nth")


def _settings(reading: Training, made: Call) -> Value | None:
    value = made.keywords.get("config") or made.keywords.get("config_params")
    found = evaluate.options(reading, value, made) if value is not None else []
    return found[0] if len(found) == 1 and found[0].kind == "dict" else None


def _halves(reading: Training, made: Call, settings: Value) -> Iterator[Match]:
    """fp16 and bf16 are both enabled."""
    on = []
    for key in ("fp16", "bf16"):
        part = evaluate.entry(reading, settings, key)
        switch = evaluate.entry(reading, part, "enabled") if part is not None else None
        on.append(switch is not None and switch.literal is True)
    if all(on):
        yield Match(made.span, "fp16 and bf16 are both enabled: initialize() raises")


def _accumulates(reading: Training, made: Call, settings: Value | None) -> bool:
    """gradient_accumulation_steps is set here, and not to 1."""
    value = evaluate.entry(reading, settings, "gradient_accumulation_steps") if settings else None
    if value is None:
        return False
    found = evaluate.literals(reading, value, made)
    return 1 not in found and bool(found)


def _divided(reading: Training, call: Call) -> Iterator[Match]:
    """loss / accumulation before engine.backward(loss), which divides itself."""
    text = expanded(reading, call.args[0], call, 1)
    if re.search(r"/[\w.\[\]']*(?:accum\w*|grad_acc\w*|ga_steps)", text, re.IGNORECASE):
        yield Match(call.span, "the loss is divided twice: the engine's backward() does it")


RULES = (
    Rule(
        code="SCR393",
        slug="engine-counts-itself",
        title="A DeepSpeed engine accumulates, and the loop does not",
        severity="fail",
        find=engines,
        why="The engine divides the loss, and its step() acts in each Nth micro batch only. A loop "
        "that does the same divides twice, or steps N times too rarely.",
        fires=(
            "engine.step() under a test of the remainder, beside gradient_accumulation_steps",
            "loss / accumulation before engine.backward(loss)",
            "fp16 and bf16 both enabled in the dictionary of settings",
        ),
        fix="Call engine.backward(loss) and engine.step() for every micro batch; enable one of "
        "fp16 and bf16.",
        sources=("deepspeed-config",),
        needs=("deepspeed",),
    ),
)
