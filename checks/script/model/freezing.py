"""Rules on how parameters are frozen."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

TYPOS = {
    "require_grad", "requires_grads", "require_grads", "required_grad", "requires_gradient",
    "require_gradient", "requires_gard", "requries_grad", "requires_garad", "reqires_grad",
    "requres_grad", "requires_grad_", "require_grad_", "requiers_grad", "requires_grade",
}  # fmt: skip


def requires_grad_typo(reading: Training) -> Iterator[Match]:
    for each in reading.assignments:
        owner, _, name = each.target.rpartition(".")
        if name not in TYPOS or not owner or owner in ("self", "cls", "args", "config", "opt"):
            continue
        if each.value.kind == "literal" and isinstance(each.value.literal, bool):
            yield Match(each.span, f"{each.target} is no attribute of tensors: nothing is frozen")


def requires_grad_on_module(reading: Training) -> Iterator[Match]:
    for each in reading.assignments:
        owner, _, name = each.target.rpartition(".")
        if name != "requires_grad" or not owner or not isinstance(each.value.literal, bool):
            continue
        if _is_module(reading, owner, each):
            done = "frozen" if each.value.literal is False else "unfrozen"
            yield Match(each.span, f"{owner} is a module: no parameter is {done} by {each.target}")


PARTS = {
    "features", "classifier", "fc", "layer1", "layer2", "layer3", "layer4", "backbone", "encoder",
    "decoder", "bert", "roberta", "distilbert", "transformer", "base_model", "visual", "layers",
    "vision_model", "text_model", "wav2vec2", "vit", "blocks", "layer", "embeddings", "avgpool",
}  # fmt: skip
"""Attributes of models of libraries that are modules, and lists of them."""


def _is_part(reading: Training, name: str, at: Assignment, depth: int = 3) -> bool:
    """layer of `for layer in model.features`, and model.features of a model of a library."""
    for loop in (reading.loops[n] for n in at.loops if name in reading.loops[n].targets):
        value = loop.iterable
        while value is not None and value.kind == "item" and value.items[-1].kind == "slice":
            value = value.items[0]
        call = reading.call_of(value)
        if call is not None and call.name == "enumerate" and call.args:
            value, call = call.args[0], reading.call_of(call.args[0])
        listed = call is not None and not call.args and name == loop.targets[-1]
        if call is not None and listed and call.method in CHILDREN:
            return True
        named = value.name if value is not None and value.kind == "name" and depth else ""
        return bool(named) and _is_part(reading, named, at, depth - 1)
    owner, _, part = name.rpartition(".")
    roots = [owner.rpartition(".")[0]] if owner.rpartition(".")[2] in PARTS else []
    return part in PARTS and any(
        root and _is_module(reading, root, at, parts=False) for root in (owner, *roots)
    )


CHILDREN = {"children", "modules", "named_children", "named_modules"}


def _is_module(reading: Training, name: str, at: Assignment, *, parts: bool = True) -> bool:
    """Every object that the name may hold is a module of torch, of this file or of a library."""
    if parts and _is_part(reading, name, at):
        return True
    value = Value("name", name=name)
    made = list(objects.makers(reading, value, at.scope, at.position, at.arms))
    return bool(made) and all(each is not None and _makes_module(reading, each) for each in made)


def _makes_module(reading: Training, call: Call) -> bool:
    return (
        objects.is_layer(reading, call)
        or (call.method == "from_pretrained" and call in [reading.calls[n] for n in reading.loads])
        or call.name.startswith(("torchvision.models.", "timm.create_model"))
    )


RULES = (
    Rule(
        code="SCR232",
        slug="requires-grad-typo",
        title="requires_grad is spelled so",
        severity="fail",
        find=requires_grad_typo,
        why="Python sets any attribute. p.require_grad = False creates a new one, and the "
        "parameter trains.",
        fires=("True or False is assigned to require_grad, requires_grads and the like",),
        fix="Write requires_grad.",
        sources=("torchfix-rules",),
    ),
    Rule(
        code="SCR233",
        slug="requires-grad-on-module",
        title="Parameters are frozen, not modules",
        severity="fail",
        find=requires_grad_on_module,
        why="A module has no requires_grad: the assignment creates an attribute that nothing "
        "reads, and its parameters stay as they were.",
        fires=(
            "module.requires_grad = False, or True",
            "the same of a part of a model of a library, or of each of its children in a loop",
        ),
        fix="Call module.requires_grad_(False).",
        sources=("torch-module",),
    ),
)
