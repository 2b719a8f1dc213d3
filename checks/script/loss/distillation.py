"""A rule on teachers: models whose outputs are targets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.naming import words
from doctor.checks.script.rendering import expanded
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

SOFTMAX = re.compile(
    r"(?:torch\.nn\.functional\.|torch\.)?(?:log_)?softmax\((?P<x>.+?)(?:,(?:dim=)?-?\d)?\)(?:\.detach\(\))?"
    r"|(?P<y>[\w.]+)\.(?:log_)?softmax\(.*\)"
)
NAMES = {"teacher", "reference", "ref", "frozen", "pretrained", "oracle"}


def _both_sides(reading: Training) -> Iterator[Match]:
    """kl_div(log_softmax(a / t), softmax(a / t)): the same logits on both sides."""
    for number in reading.methods("KLDivLoss", "kl_div", "kd_loss", "criterion_kl"):
        yield from _sides(reading, reading.calls[number])
    for call in reading.calls if "KLDivLoss" in reading.by_method else ():
        if any(m is not None and m.method == "KLDivLoss" for m in objects.callee(reading, call)):
            yield from _sides(reading, call)


def _sides(reading: Training, call: Call) -> Iterator[Match]:
    if len(call.args) < 2:
        return
    texts = [expanded(reading, value, call, 3) for value in call.args[:2]]
    parts = [SOFTMAX.fullmatch(text) for text in texts]
    if parts[0] is None or parts[1] is None:
        return
    first, second = (part["x"] for part in parts if part is not None)
    if first == second:
        shown = first.strip("()").split("/")[0]
        message = f"{shown} is compared with itself: the term is 0 and teaches nothing"
        yield Match(call.span, message, "fail")
        return
    scales = [re.fullmatch(r"\((?P<x>[^/]+)/(?P<t>[\w.]+)\)", text) for text in (first, second)]
    if (scales[0] is None) != (scales[1] is None):
        plain = next(t for t, s in zip((first, second), scales, strict=True) if s is None)
        if re.fullmatch(r"[\w.]+(?:\.detach\(\))?", plain) and not re.search(
            "prob|soft|temp", plain
        ):
            yield Match(call.span, f"{plain} is not divided by the temperature, the other side is")


def _teacher_trains(reading: Training) -> Iterator[Match]:
    """teacher.train() of a model that no optimizer holds."""
    trained = {name for _, name in reading.trained_names}
    for call in reading.named("train"):
        name = call.receiver
        if not call.statement or name in trained or not set(words(name)) & NAMES or call.args:
            continue
        if not reading.optimizers or any(other.receiver == name for other in reading.named("eval")):
            continue
        made = list(objects.makers_at(reading, Value("name", name=name), call))
        if made and all(m is not None for m in made):
            yield Match(
                call.span,
                f"{name} gives targets with dropout and batch statistics: nothing trains it",
            )


def _averaged(reading: Training) -> Iterator[Match]:
    """KLDivLoss() divides by the number of elements, and not by that of samples."""
    for call in reading.named("KLDivLoss", "kl_div"):
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
        find=each_of(_teacher_trains, _averaged, _both_sides),
        why="In train mode a teacher's targets are noise of dropout, and its batch statistics "
        "drift. KLDivLoss divides by all elements unless told otherwise: with a hundred classes "
        "the term is a hundred times too small.",
        fires=(
            "teacher.train() of a model that no optimizer holds",
            "KLDivLoss() or kl_div() with its default reduction",
            "a temperature that divides one side only",
        ),
        errors=("kl_div(log_softmax(t), softmax(t)), the same logits on both sides",),
        fix="teacher.eval(); reduction='batchmean'; kl_div(log_softmax(student / t), "
        "softmax(teacher / t)).",
        sources=("torch-kl-div",),
        needs=("KLDivLoss", "kl_div", "teacher"),
    ),
)
