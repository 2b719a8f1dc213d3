"""A rule on batch norms that are frozen."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script_machine import ScriptMachine


def norms_thaw(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """eval() of single layers, once, and a train() of the whole model in the loop after it."""
    if reading.functions_by_name.get("train") or reading.functions_by_name.get("_freeze"):
        return
    for number in reading.methods("eval"):
        call = reading.calls[number]
        loop = reading.script.loops[call.loops[-1]] if call.loops else None
        over = loop.iterable if loop is not None else None
        made = reading.calls[over.call] if over is not None and over.kind == "call" else None
        if made is None or made.method not in ("modules", "named_modules") or loop is None:
            continue
        if call.receiver not in loop.targets or not any(
            "Norm" in t.text for t in reading.tests(call)
        ):
            continue
        sites = [reading.calls[n] for n in reading.methods(reading.function(call.scope).name)]
        once = len(call.loops) == 1 and all(not site.loops for site in sites)
        later = [reading.calls[n] for n in reading.methods("train") if reading.calls[n].loops]
        plain = [t for t in later if not t.args and not t.keywords and t.receiver]
        plain = [t for t in plain if call.scope or t.receiver == made.receiver]
        if (
            once
            and plain
            and (sites or not call.scope)
            and reading.function(call.scope).name not in ("train", "forward")
        ):
            yield Match(plain[0].span, f"{plain[0].name}() puts the norms back that eval() froze")
            return


RULES = (
    Rule(
        code="SCR330",
        slug="frozen-norms-thaw",
        title="Batch norms that are frozen stay frozen",
        severity="warn",
        find=norms_thaw,
        why="model.train() sets the mode of every layer, also of norms that eval() froze once: "
        "their statistics then follow small batches.",
        fires=("eval() of each norm before the loop, and model.train() in it",),
        fix="Freeze the norms after every model.train(), or override train() of the module.",
        needs=("eval",),
        sources=("torch-train-mode",),
    ),
)
