"""A rule on modules whose base class is not initialized."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call


def base_not_initialized(reading: Training) -> Iterator[Match]:
    for number in reading.functions_by_name.get("__init__", ()):
        function = reading.function(number)
        bases = [c.bases for c in reading.script.classes if c.name == function.owner]
        known = ("torch.nn.Module", "LightningModule", "LightningDataModule")
        if not bases or not any(b.endswith(known) for b in bases[0]):
            continue
        calls = reading.calls_in(number)
        started = [
            n for n in reading.scope_calls(number)
            if reading.calls[n].method == "__init__" or reading.calls[n].name == "super"
        ]  # fmt: skip
        if bases[0][0].endswith("LightningDataModule") and not started and calls is not None:
            if len(bases[0]) == 1 and _sets_attributes(reading, number):
                yield Match(function.span, f"{function.owner} does not call super().__init__()")
            continue
        if started and not any(_is_set(reading.calls[n]) for n in reading.scope_calls(number)
                               if n < started[0]):  # fmt: skip
            continue
        layers = [call for call in calls if _is_set(call)]
        if layers and len(bases[0]) == 1:
            message = f"{function.owner} sets layers before Module.__init__(): it raises"
            yield Match(function.span, message)


def _is_set(call: Call) -> bool:
    """self.x = nn.Layer(...)."""
    own = bool(call.targets) and call.targets[0].startswith("self.")
    return call.name.startswith("torch.nn.") and own and not call.arms


def _sets_attributes(reading: Training, scope: int) -> bool:
    return any(a.scope == scope and a.target.startswith("self.") for a in reading.assignments)


RULES = (
    Rule(
        code="SCR284",
        slug="base-not-initialized",
        title="Modules call super().__init__() first",
        severity="fail",
        find=base_not_initialized,
        why="Setting a layer before it raises an AttributeError: cannot assign module before "
        "Module.__init__() call.",
        fires=(
            "__init__ of a Module sets layers before __init__ of its base, or without it",
            "__init__ of a LightningDataModule without that of its base",
        ),
        fix="Begin __init__ with super().__init__().",
        needs=("Module", "LightningModule", "PreTrainedModel", "LightningDataModule"),
        sources=("torch-module",),
    ),
)
