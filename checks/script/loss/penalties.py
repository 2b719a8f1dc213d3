"""A rule on the penalty of a critic's gradient."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.rendering import expanded, render, texts_in
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

FLAT = re.compile(r"\.(?:view|reshape|flatten)\(|torch\.flatten\(|rearrange\(")
ONE = re.compile(
    r"(?:torch\.rand\((?:\(?1\)?|\(?\[?1,?\]?\)?)(?:,(?:device|dtype)=.*)?\)"
    r"|torch\.rand\(\)|(?:numpy\.random|random)\.(?:rand|random|uniform)\([01,]*\))"
    r"(?:\.(?:to|cuda|item)\(.*\))*"
)


def penalties(reading: Training) -> Iterator[Match]:
    for n, call in reading.numbered(reading.methods("grad")):
        if call.name not in ("torch.autograd.grad", "autograd.grad"):
            continue
        names = {
            a.target for a in reading.assignments if a.scope == call.scope and n in a.value.calls
        }
        norms = [
            c
            for m in reading.methods("norm", "vector_norm")
            if (c := reading.calls[m]).scope == call.scope and m > n
        ]
        if not _is_two_sided(reading, call.scope):
            continue
        for norm in norms:
            yield from _norm(reading, norm, names, n)
        yield from _mixed_once(reading, call)
        yield from _mixed_by_pixel(reading, call)
        yield from _over_batch(reading, call)


def _is_two_sided(reading: Training, scope: int) -> bool:
    """(norm - 1) ** 2: each sample's gradient is drawn towards 1."""
    texts = texts_in(reading, scope)
    return any(re.search(r"-1\)(?:\*\*2|\.pow\(2\)|\.square\(\)|\)\*\*2)", t) for t in texts)


def _norm(reading: Training, norm: Call, names: set[str], number: int) -> Iterator[Match]:
    """The norm is one of the whole batch, or one of each pixel."""
    value = objects.operand(norm)
    torch = norm.name.startswith("torch.")
    if value is None:
        return
    text = expanded(reading, value, norm, 2)
    written = set(re.findall(r"\w+", render(reading, value)))
    if not (names.intersection({*value.all_names, *written}) or number in value.calls):
        return
    axis = evaluate.argument(reading, norm, "dim", 2 if torch else 1)
    if axis is None:
        own = len(norm.args) <= (2 if torch else 1) and not norm.unpacked
        if own and "ndim" not in text:
            yield Match(norm.span, "one norm of the whole batch: each sample has its own")
        return
    if axis.literal == 0 and axis.literal is not False:
        yield Match(norm.span, "the norm runs over the batch: each sample has its own")
    if axis.literal != 1 or not isinstance(axis.literal, int):
        return
    if _is_of_images(reading, norm.scope) and not _flat(reading, text, norm, value):
        yield Match(norm.span, "the norm runs over channels alone: one for each pixel, not sample")


def _is_of_images(reading: Training, scope: int) -> bool:
    """What is mixed has four axes: rand(n, 1, 1, 1) mixes it."""
    own = (render(reading, v) for v, _, where in reading.expressions if where == scope)
    return any(",1,1,1" in text for text in own)


def _flat(reading: Training, text: str, norm: Call, value: Value) -> bool:
    if FLAT.search(text):
        return True
    return any(
        FLAT.search(render(reading, each.value))
        for name in value.all_names
        for each in reading.assignments
        if each.scope == norm.scope and each.target == name
    )


def _mixed_once(reading: Training, call: Call) -> Iterator[Match]:
    """One number mixes all samples of the batch."""
    for each in reading.assignments:
        text = render(reading, each.value) if each.scope == call.scope else ""
        if not ONE.fullmatch(text):
            continue
        uses = [
            a
            for a in reading.assignments
            if a.scope == call.scope and each.target in a.value.names and a.target != each.target
        ]
        mixes = [
            a for a in uses if re.search(rf"1-{re.escape(each.target)}\b", render(reading, a.value))
        ]
        expands = any(
            other.receiver == each.target and other.method in ("expand", "expand_as", "repeat")
            for other in reading.calls_in(call.scope)
        )
        if mixes and not expands:
            message = f"{each.target} is one number for the batch: each sample has its own"
            yield Match(each.span, message, "warn")


def _mixed_by_pixel(reading: Training, call: Call) -> Iterator[Match]:
    """alpha = torch.rand_like(real): a number for each pixel."""
    whole = re.compile(
        r"torch\.rand_like\(\w+\)|torch\.rand\(\*?(?P<x>\w+)\.(?:shape|size\(\))(?:,.*)?\)"
        r"|(?:torch\.\w*Tensor|torch\.empty)\(.*(?:\.shape|\.size\(\))\)\.uniform_\(.*\)"
    )
    for each in reading.assignments:
        text = render(reading, each.value) if each.scope == call.scope else ""
        drawn = re.sub(r"\.(?:to|cuda|type_as)\([\w.]*\)", "", text)
        if whole.fullmatch(drawn) and _mixes(reading, call, each.target):
            yield Match(each.span, f"{each.target} is a number per pixel: each sample has one")


def _mixes(reading: Training, call: Call, name: str) -> bool:
    """name * real + (1 - name) * fake."""
    return any(
        re.search(rf"1-{re.escape(name)}\b", render(reading, a.value))
        for a in reading.assignments
        if a.scope == call.scope and a.target != name
    )


def _over_batch(reading: Training, call: Call) -> Iterator[Match]:
    """The critic's batch norm makes the gradient of a sample depend on all others."""
    value = call.given("outputs", 0)
    seen = [] if value is None else [reading.calls[m] for m in (value.call, *value.calls) if m >= 0]
    for name in value.all_names if value is not None else ():
        for held in objects.last_definition(reading, name, call) if name else ():
            seen += [reading.calls[m] for m in (held.call, *held.calls) if m >= 0]
    for critic in seen:
        made = objects.callee(reading, critic) if critic.args else []
        classes = {m.name for m in made if m is not None} & reading.modules
        for each in reading.named("BatchNorm2d", "BatchNorm1d"):
            if reading.function(each.scope).owner in classes:
                message = "batch norm in a critic whose gradient is penalized by sample"
                yield Match(each.span, message, "warn")
                return


RULES = (
    Rule(
        code="SCR388",
        slug="gradient-penalty",
        title="The gradient of a critic is penalized sample by sample",
        severity="fail",
        find=penalties,
        why="WGAN-GP draws the norm of each sample's gradient towards 1. A norm of the batch or of "
        "each pixel is another number, and batch norm makes samples depend on each other.",
        fires=(
            "grads.norm(2, dim=1) of images that nothing flattened",
            "(grads.norm(2) - 1) ** 2: one norm of the whole batch; grads.norm(2, dim=0)",
            "alpha = torch.rand_like(real), a number for each pixel",
            "one random number that mixes all samples, and batch norm in the critic (a warning)",
        ),
        fix="grads.flatten(1).norm(2, dim=1); torch.rand(batch, 1, 1, 1); layer or instance norm.",
        sources=("wgan-gp", "pytorch-gan-5"),
        needs=("grad",),
    ),
)
