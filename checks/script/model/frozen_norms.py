"""A rule on batch norms that are frozen."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

NORMED = re.compile(r"(?:wide_)?res(?:net|next)|densenet|mobilenet|efficientnet|regnet|inception|"
                    r"googlenet|shufflenet|mnasnet|vgg\d+_bn")  # fmt: skip
"""Networks of torchvision and timm with batch norms, by their names."""


def _frozen_whole(reading: Training) -> Iterator[Match]:
    """backbone.train(), where no parameter of the backbone trains, and its norms follow batches."""
    frozen = set(_frozen_names(reading))
    for number, call in reading.numbered(reading.methods("train") if frozen else ()):
        key = reading.key(call.receiver, call.scope)
        if key not in frozen or call.keywords or any(v.literal is not True for v in call.args):
            continue
        others = reading.named("eval")
        again = any(reading.key(c.receiver, c.scope) == key and c.span.order > call.span.order
                    and c.scope == call.scope for c in others)  # fmt: skip
        if not again and _has_norms(reading, call.receiver, call.scope, number):
            message = f"no weight of {call.receiver} trains, and its batch norms follow each batch"
            yield Match(call.span, f"{call.name}(): {message}")


def _frozen_names(reading: Training) -> Iterator[tuple[object, str]]:
    """Parts of a model, all of whose parameters are frozen, and none again trained or replaced."""
    thawed = any(
        a.target.endswith(".requires_grad") and a.value.literal is not False
        for a in reading.assignments
    ) or any(
        not other.args or other.args[0].literal is not False
        for other in reading.named("requires_grad_")
    )
    for each in reading.assignments if not thawed else ():
        loop = reading.loop_of(each)
        made = reading.call_of(reading.iterable_of(each))
        if made is None or made.method != "parameters" or each.arms or loop is None:
            continue
        if each.target == f"{loop.target}.requires_grad" and made.receiver:
            yield reading.key(made.receiver, made.scope)
    for call in reading.named("requires_grad_") if not thawed else ():
        if call.receiver and not call.loops and not call.arms:
            yield reading.key(call.receiver, call.scope)


def _has_norms(reading: Training, name: str, scope: int, number: int) -> bool:
    """A network with batch norms whole, and nothing of it is replaced by a new layer."""
    owner = reading.key(name, scope)
    if any(
        reading.key(a.target.rpartition(".")[0], a.scope) == owner
        for a in reading.assignments
        if "." in a.target and not a.target.endswith((".eval", ".training"))
    ):
        return False
    made = [m for m in objects.makers(reading, Value("name", name=name), scope, number)]
    return bool(made) and all(m is not None and _is_normed(reading, m) for m in made)


def _is_normed(reading: Training, made: Call) -> bool:
    """models.resnet50(), timm.create_model("resnet50"), or a Sequential of its children."""
    names = [str(v.literal) for v in made.args[:1]] if made.method == "create_model" else []
    if made.name.startswith("torchvision.models.") or names:
        return any(NORMED.match(name) for name in names or [made.method])
    if made.method != "Sequential":
        return False
    inner = [call for v in (*made.args, *made.unpacked) for call in reading.inside(v)]
    inner = [c for c in inner if c.method in ("children", "named_children") and c.receiver]
    return any(
        each is not None and _is_normed(reading, each)
        for c in inner
        for each in objects.makers(
            reading, Value("name", name=c.receiver), c.scope, reading.number(c)
        )
    )


def norms_thaw(reading: Training) -> Iterator[Match]:
    """eval() of single layers, once, and a train() of the whole model in the loop after it."""
    if reading.functions_by_name.get("train") or reading.functions_by_name.get("_freeze"):
        return
    for call in reading.named("eval"):
        loop = reading.loop_of(call)
        made = reading.call_of(reading.iterable_of(call))
        if made is None or made.method not in ("modules", "named_modules") or loop is None:
            continue
        if call.receiver not in loop.targets or not any(
            "Norm" in t.text for t in reading.tests(call)
        ):
            continue
        sites = reading.named(reading.function(call.scope).name)
        once = len(call.loops) == 1 and all(not site.loops for site in sites)
        later = [other for other in reading.named("train") if other.loops]
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
        find=each_of(norms_thaw, _frozen_whole),
        why="model.train() sets the mode of every layer, also of norms that eval() froze once: "
        "their statistics then follow small batches.",
        fires=(
            "eval() of each norm before the loop, and model.train() in it",
            "backbone.train() of a network with batch norms whose parameters are all frozen",
        ),
        fix="Freeze the norms after every model.train(), or override train() of the module.",
        needs=("eval", "train"),
        sources=("torch-train-mode",),
    ),
)
