"""Rules on networks of torchvision: where their head is, how wide, and frozen chance."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call

HEADS: tuple[tuple[str, str], ...] = (
    (r"resnet|resnext|wide_resnet|regnet|shufflenet|inception|googlenet", "fc"),
    (r"vgg|alexnet|mobilenet|densenet|efficientnet|convnext|squeezenet|mnasnet", "classifier"),
    (r"vit_", "heads"),
    (r"swin", "head"),
)
NAMES = {"fc", "classifier", "heads", "head", "last_linear", "output"}
WIDTHS = {
    "resnet18": 512,
    "resnet34": 512,
    "resnet50": 2048,
    "resnet101": 2048,
    "resnet152": 2048,
    "resnext50_32x4d": 2048,
    "resnext101_32x8d": 2048,
    "wide_resnet50_2": 2048,
    "wide_resnet101_2": 2048,
    "densenet121": 1024,
    "densenet161": 2208,
    "densenet169": 1664,
    "densenet201": 1920,
    "googlenet": 1024,
    "inception_v3": 2048,
    "vgg11": 4096,
    "vgg13": 4096,
    "vgg16": 4096,
    "vgg19": 4096,
    "alexnet": 4096,
    "mobilenet_v2": 1280,
    "efficientnet_b0": 1280,
}
"""Inputs of the last layer."""


def _networks(reading: Training) -> Iterator[tuple[Call, str]]:
    """Classifiers of torchvision, and the name that holds each."""
    for call in reading.calls:
        plain = call.name.startswith("torchvision.models.") and call.name.count(".") == 2
        if plain and len(call.targets) == 1 and call.method.islower():
            yield call, call.targets[0]


def other_head(reading: Training) -> Iterator[Match]:
    for call, name in _networks(reading):
        right = next((head for kind, head in HEADS if re.match(kind, call.method)), "")
        for each in reading.assignments:
            base, _, part = each.target.rpartition(".")
            if base != name or reading.key(base, each.scope) != reading.key(name, call.scope):
                continue
            replaced = any(a.target == f"{base}.{right}" for a in reading.assignments)
            read = replaced or _read(reading, each.target)
            if not right or part not in NAMES or part == right or read:
                continue
            if each.value.kind == "call" and reading.calls[each.value.call].name.startswith(
                "torch.nn."
            ):
                yield Match(
                    each.span, f"{call.method} has no {part}: its head is {right}, which stays"
                )
        yield from _other_width(reading, call, name, right)


def _read(reading: Training, target: str) -> bool:
    """The script calls the attribute itself, or reads it."""
    return any(call.name == target for call in reading.calls)


def _other_width(reading: Training, call: Call, name: str, right: str) -> Iterator[Match]:
    """model.fc = nn.Linear(512, n) of a network whose last layer has 2048 inputs."""
    width = WIDTHS.get(call.method)
    for each in reading.assignments if width else ():
        if re.fullmatch(rf"{re.escape(name)}\.{right}(?:\[-?\d\])?", each.target) is None:
            continue
        first = _first_linear(reading, each)
        value = evaluate.argument(reading, first, "in_features", 0) if first is not None else None
        found = evaluate.literals(reading, value, first) if first is not None and value else set()
        given = found.pop() if len(found) == 1 else None
        whole = each.target.endswith(right) and call.method.startswith(("vgg", "alexnet"))
        if isinstance(given, int) and given != width and not whole:
            yield Match(
                each.span, f"the last layer of {call.method} has {width} inputs, not {given}"
            )


def _first_linear(reading: Training, each: Assignment) -> Call | None:
    made = reading.call_of(each.value)
    if made is not None and made.name == "torch.nn.Sequential" and made.args:
        made = next(
            (
                reading.calls[v.call]
                for v in made.args
                if v.kind == "call" and reading.calls[v.call].name == "torch.nn.Linear"
            ),
            None,
        )
    return made if made is not None and made.name == "torch.nn.Linear" else None


def frozen_chance(reading: Training) -> Iterator[Match]:
    """weights=None, and the parameters are frozen."""
    for call, name in _networks(reading):
        weights = call.keywords.get("weights")
        old = call.given("pretrained", 0)
        none = (weights is None or (weights.kind == "literal" and weights.literal is None)) and (
            old is None or old.literal is False
        )
        asked = weights is not None or old is not None or "num_classes" not in call.keywords
        names = _held_as(reading, name)
        loads = any(c.receiver in names for c in reading.named("load_state_dict"))
        passed = any(
            v.name in names
            for c in reading.calls
            for v in c.args
            if re.search(r"load|restore|resume|init|copy", c.method)
        )
        if (
            not (none and asked)
            or loads
            or passed
            or call.unpacked
            or not _is_frozen(reading, name)
        ):
            continue
        yield Match(call.span, f"{name} has random weights, and they are frozen")


def _held_as(reading: Training, name: str) -> set[str]:
    """The names of a network, of what wraps it and of what it wraps: `plain = teacher.module`."""
    names = {name}
    for each in sorted(reading.assignments, key=lambda each: each.span.order):
        used = {*each.value.all_names, *(n for c in reading.inside(each.value) for v in c.args
                                         for n in v.all_names)}  # fmt: skip
        if any(n in names or n.removesuffix(".module") in names for n in used):
            names.add(each.target)
    return names


def _is_frozen(reading: Training, name: str) -> bool:
    """All parameters, or those of a part, get requires_grad = False."""
    own = re.compile(rf"{re.escape(name)}(?:\.(?:features|layer\d|conv1|encoder|backbone))?")
    for call in reading.named("requires_grad_"):
        if own.fullmatch(call.receiver) and call.args and call.args[0].literal is False:
            return True
    loops = {
        number
        for number, loop in enumerate(reading.loops)
        if loop.iterable is not None
        and any(
            other.method in ("parameters", "named_parameters") and own.fullmatch(other.receiver)
            for other in reading.inside(loop.iterable)
        )
    }
    return any(
        each.target.endswith(".requires_grad")
        and each.value.literal is False
        and loops & set(each.loops)
        and not each.arms
        for each in reading.assignments
    )


RULES = (
    Rule(
        code="SCR396",
        slug="head-of-another-network",
        title="A new head replaces the one that the network has",
        severity="fail",
        find=other_head,
        why="An attribute of another name is never called: the network keeps its 1000 classes, and "
        "the new layer gets no gradient. A layer of another width raises.",
        fires=(
            "model.fc = nn.Linear(...) of a VGG, MobileNet, DenseNet or EfficientNet",
            "model.classifier = nn.Linear(...) of a ResNet",
            "model.fc = nn.Linear(512, n) of a ResNet with 2048 features",
        ),
        fix="model.classifier[-1] = nn.Linear(model.classifier[-1].in_features, n); "
        "model.fc = nn.Linear(model.fc.in_features, n).",
        sources=("torchvision-models",),
        needs=("torchvision",),
    ),
    Rule(
        code="SCR397",
        slug="frozen-without-weights",
        title="What is frozen was trained before",
        severity="fail",
        find=frozen_chance,
        why="A frozen network with the weights that it was made with gives random features, and "
        "nothing will train them.",
        fires=("torchvision.models.resnet50(weights=None), and requires_grad = False of it",),
        fix='Pass weights="DEFAULT", or load a checkpoint.',
        sources=("torchvision-models",),
        needs=("torchvision",),
    ),
)
