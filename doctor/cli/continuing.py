"""How a run is to be continued, from the flags of `doctor scan RUN --continue`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from doctor._util.errors import UserError
from doctor._util.records import Unknown
from doctor.checkpoint.records import Plan
from doctor.cli.facts_file import read_facts
from doctor.cli.scripts import read_scripts
from doctor.facts.interpreter import Interpreter
from doctor.facts.script import Call, Script, Value

ARGUMENTS = ("TrainingArguments", "Trainer", "Accelerator")
"""Ends of the names of calls that say how long and with which batch a run trains."""

STEPS = ("max_steps", "num_training_steps", "total_steps")
EPOCHS = ("num_train_epochs", "max_epochs", "num_epochs")
BATCH = ("per_device_train_batch_size",)
ACCUMULATION = ("gradient_accumulation_steps", "accumulate_grad_batches")


def plan_of(
    requested: bool, gpus: int | None, script: str | None, facts: Path | None
) -> Plan | None:
    """None without --continue. Raises UserError for flags that need it."""
    if requested:
        return read_plan(gpus, script, facts)
    given = {"--gpus": gpus, "--script": script, "--facts": facts}
    if flag := next((name for name, value in given.items() if value is not None), None):
        raise UserError(f"{flag} needs --continue: it says how the run is to be continued")
    return None


def read_plan(gpus: int | None, script: str | None, facts: Path | None) -> Plan:
    """Raises UserError for a script or a facts file that cannot be read."""
    calls = list(_calls(read_scripts((script,))[0])) if script else []
    return Plan(
        gpus=gpus,
        script=script or "",
        max_steps=_whole(calls, STEPS),
        epochs=_number(calls, EPOCHS),
        batch_size=_whole(calls, BATCH),
        accumulation=_whole(calls, ACCUMULATION),
        precision=_precision(calls),
        packages=_packages(facts) if facts else {},
    )


def _calls(script: Script) -> Iterator[Call]:
    for call in script.calls:
        if call.method.endswith(ARGUMENTS) or call.method.endswith("Config"):
            yield call


def _literals(calls: list[Call], names: tuple[str, ...]) -> Iterator[object]:
    for call in calls:
        for name in names:
            value: Value | None = call.keywords.get(name)
            if value is not None and value.kind == "literal":
                yield value.literal


def _number(calls: list[Call], names: tuple[str, ...]) -> float | None:
    numbers = (
        float(each)
        for each in _literals(calls, names)
        if isinstance(each, int | float) and not isinstance(each, bool) and each > 0
    )
    return next(numbers, None)


def _whole(calls: list[Call], names: tuple[str, ...]) -> int | None:
    number = _number(calls, names)
    return int(number) if number is not None and number == int(number) else None


def _precision(calls: list[Call]) -> str | None:
    for name in ("fp16", "bf16"):
        if any(each is True for each in _literals(calls, (name,))):
            return name
    for each in _literals(calls, ("mixed_precision", "precision")):
        if isinstance(each, str) and each.startswith(("fp16", "bf16", "16")):
            return "bf16" if each.startswith("bf16") else "fp16"
    return None


def _packages(path: Path) -> dict[str, str]:
    facts = read_facts(path)
    interpreter = facts.interpreter
    if not isinstance(interpreter, Interpreter):
        return {}
    pairs = (each.partition("==") for each in interpreter.installed or interpreter.packages)
    known = {name.lower().replace("_", "-"): version for name, _, version in pairs if version}
    torch = facts.torch
    if torch is not None and not isinstance(torch, Unknown):
        known["torch"] = torch.version
    return known
