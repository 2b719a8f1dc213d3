"""A rule on teachers: models whose outputs are targets."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.naming import words
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Value
from doctor.facts.script_machine import ScriptMachine

NAMES = {"teacher", "reference", "ref", "frozen", "pretrained", "oracle"}


def taught(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    yield from _teacher_trains(reading)
    yield from _averaged(reading)


def _teacher_trains(reading: Training) -> Iterator[Match]:
    """teacher.train() of a model that no optimizer holds."""
    trained = {name for _, name in reading.trained_names}
    for number in reading.methods("train"):
        call = reading.calls[number]
        name = call.receiver
        if not call.statement or name in trained or not set(words(name)) & NAMES or call.args:
            continue
        if not reading.optimizers or any(
            reading.calls[n].receiver == name for n in reading.methods("eval")
        ):
            continue
        made = list(
            objects.makers(reading, Value("name", name=name), call.scope, number, call.arms)
        )
        if made and all(m is not None for m in made):
            yield Match(
                call.span,
                f"{name} gives targets with dropout and batch statistics: nothing trains it",
            )


def _averaged(reading: Training) -> Iterator[Match]:
    """KLDivLoss() divides by the number of elements, and not by that of samples."""
    for number in reading.methods("KLDivLoss", "kl_div"):
        call = reading.calls[number]
        if not call.name.startswith("torch.") or len(call.args) > 2 or call.unpacked:
            continue
        value = evaluate.argument(reading, call, "reduction")
        found = evaluate.literals(reading, value, call) if value is not None else {"mean"}
        if found == {"mean"} and "size_average" not in call.keywords:
            yield Match(call.span, "the mean is over classes, too: batchmean is the divergence")


RULES = (
    Rule(
        code="SCR342",
        slug="teacher-settings",
        title="A teacher is in evaluation mode, and its divergence is per sample",
        severity="warn",
        find=taught,
        why="In train mode a teacher's targets are noise of dropout, and its batch statistics "
        "drift. KLDivLoss divides by all elements unless told otherwise: with a hundred classes "
        "the term is a hundred times too small.",
        fires=(
            "teacher.train() of a model that no optimizer holds",
            "KLDivLoss() or kl_div() with its default reduction",
        ),
        fix="teacher.eval(); reduction='batchmean'.",
        sources=("torch-kl-div",),
        needs=("KLDivLoss", "kl_div", "teacher"),
    ),
)
