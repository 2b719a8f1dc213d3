"""A rule on teachers: models whose outputs are targets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.losses import target_of_logarithms
from doctor.checks.script.naming import words
from doctor.checks.script.objects import MODE_LAYERS, NETWORKS
from doctor.checks.script.rendering import expanded, lines, lines_of
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


def _own_student(reading: Training) -> Iterator[Match]:
    """teacher = student: both are one object."""
    called = {call.name for call in reading.calls}
    for each in reading.assignments:
        if each.loops:
            continue  # the last round's student teaches a new one
        alias = each.value.kind == "name" and each.value.name in called and each.target in called
        if alias and "teacher" in words(each.target) and not reading.mentions("deepcopy"):
            yield Match(each.span, f"{each.target} is {each.value.name} itself: copy it")


def _sides(reading: Training, call: Call) -> Iterator[Match]:
    if len(call.args) < 2:
        return
    texts = [expanded(reading, value, call, 3) for value in call.args[:2]]
    axes = [AXIS.fullmatch(text) for text in texts]
    if axes[0] and axes[1] and _differ(axes[0][1], axes[1][1]):
        message = f"one side is normalized along axis {axes[0][1]}, the other along {axes[1][1]}"
        yield Match(call.span, message, "fail", fix="Take the softmax of both over the classes.")
    parts = [SOFTMAX.fullmatch(text) for text in texts]
    inputs = [part["x"] for part in parts if part is not None and part["x"]]
    if len(inputs) != 2:
        return
    first, second = inputs
    if _source(reading, first, call) == _source(reading, second, call):
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


SAME = r"\.(?:detach|float|clone|contiguous)\(\)"
RENAMED = re.compile(rf"[\w.]+(?:{SAME})*")


def _source(reading: Training, text: str, call: Call, rounds: int = 3) -> str:
    """The text with a name as what it was made of without a change, and without such calls."""
    for _ in range(rounds):
        for name in set(re.findall(r"(?<![\w.])\w+(?![\w(])", text)):
            held = lines_of(reading, call.scope, name)
            if _is_changed(reading, call.scope, name):
                continue
            if len(held) == 1 and RENAMED.fullmatch(held[0].text) and not held[0].augmented:
                text = re.sub(rf"(?<![\w.]){name}(?![\w(])", held[0].text, text)
        text = re.sub(SAME, "", text)
    return text


def _is_changed(reading: Training, scope: int, name: str) -> bool:
    """q[rows, labels] += 1, or q.mul_(2)."""
    parts = any(x.scope == scope and x.target.startswith(f"{name}[") for x in reading.cached(lines))
    return parts or any(
        c.receiver == name and c.method.endswith("_") and not c.method.endswith("__")
        and c.method != "requires_grad_" for c in reading.calls_in(scope)
    )  # fmt: skip


NESTED = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"
AXIS = re.compile(rf"(?:[\w.]+\.)?(?:log_)?softmax\({NESTED},(?:dim=)?(\d)\)(?:\.detach\(\))?")


def _differ(one: str, other: str) -> bool:
    """0 and a later axis, counted from the first one: -1 may be the only axis."""
    return one != other and "0" in (one, other)


def _teacher_trains(reading: Training) -> Iterator[Match]:
    """teacher.train() of a model that no optimizer holds."""
    trained = {name for _, name in reading.trained_names}
    for call in reading.named("train") if not _follows(reading) else ():
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


MODELS = re.compile(r"torchvision\.models\.(?:wide_|res|dense|mobile|efficient|vgg|goog|reg)")
"""Models of torchvision with batch norm or dropout, which are made in train mode."""


def _teacher_left(reading: Training) -> Iterator[Match]:
    """teacher = resnet50(...), called in the loop that trains another, and no eval()."""
    trained = {name for _, name in reading.trained_names}
    for call in reading.calls if not _follows(reading) else ():
        name = call.target
        if not set(words(name)) & NAMES or "." in name or name in trained or call.arms:
            continue
        own = any(reading.function(c.scope).owner == call.name for c in reading.named(*MODE_LAYERS))
        if (own or MODELS.match(call.name)) and _is_left(reading, call):
            message = f"{name} is in train mode: eval() is called nowhere"
            yield Match(call.span, message, fix="Call eval() of the teacher before the loop.")


def _follows(reading: Training) -> bool:
    """Some network is an average of another: mean teachers are in train mode on purpose."""
    over = (loop.iterable.calls for loop in reading.loops if loop.iterable is not None)
    zipped = any(sum(reading.calls[n].method in NETWORKS for n in each) > 1 for each in over)
    loaded = any(
        call.loops or any(reading.calls[n].method == "state_dict" for n in call.args[0].calls)
        for call in reading.named("load_state_dict") if call.args
    )  # fmt: skip
    return zipped or loaded or bool(reading.methods("mul_", "lerp_", "copy_", "AveragedModel"))


def _is_left(reading: Training, made: Call) -> bool:
    """No call may set its mode, and a loop that trains calls it."""
    keys = reading.names_of(made.target, made.scope)
    for call in reading.named("eval", "train"):
        root = reading.root(call)
        each = any(root in reading.loops[n].targets for n in call.loops)
        if not root or each or reading.key(root, call.scope) in keys:
            return False
    called = False
    for call in reading.calls:
        given = [v.name for v in call.values if v.kind == "name"]
        if reading.target_function(call) is None and any(
            reading.key(name, call.scope) in keys for name in given
        ):
            return False
        if call.loops and reading.key(call.name, call.scope) in keys:
            inside = (n for loop in call.loops for n in reading.by_loop[loop])
            called = called or not reading.backward_numbers.isdisjoint(inside)
    return called


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
        find=each_of(
            _teacher_trains,
            _teacher_left,
            _averaged,
            _both_sides,
            _own_student,
            target_of_logarithms,
        ),
        why="In train mode a teacher's targets are noise of dropout, and its batch statistics "
        "drift. KLDivLoss divides by all elements unless told otherwise: with a hundred classes "
        "the term is a hundred times too small.",
        fires=(
            "teacher.train() of a model that no optimizer holds",
            "a teacher of torchvision or of a class of this file, and no eval()",
            "KLDivLoss() or kl_div() with its default reduction",
            "a temperature that divides one side only",
            "teacher = student without a copy",
        ),
        errors=(
            "kl_div(log_softmax(t), softmax(t)), the same logits on both sides",
            "kl_div(x, log_softmax(t)) without log_target=True",
            "kl_div(log_softmax(s, 1), softmax(t, 0))",
        ),
        fix="teacher.eval(); reduction='batchmean'; kl_div(log_softmax(student / t), "
        "softmax(teacher / t)).",
        sources=("torch-kl-div",),
        needs=("KLDivLoss", "kl_div", "teacher"),
    ),
)
