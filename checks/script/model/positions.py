"""A rule on encodings of positions, and on sizes that are set and change no layer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import words
from doctor.checks.script.rendering import lines, texts_in
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training

PART = re.compile(r"(?P<name>[\w.]+)\[.*(?P<start>[01])::2\]")
WAVE = re.compile(r"(?:torch|numpy|math)\.(?P<wave>sin|cos)\(")
RATES = re.compile(
    r"(?:torch|numpy)\.exp\(\((?:torch|numpy)\.arange\(.*\)(?:\.\w+\(\))*\*\(?"
    r"(?:math|numpy|torch)\.log\((?:torch\.tensor\()?10000(?:\.0)?\)[^-]*"
)
"""exp(arange(0, d, 2) * log(10000) / d), which grows: without the minus."""
SIZES = ("out_features", "in_features", "out_channels", "in_channels", "num_features",
         "num_embeddings", "embedding_dim")  # fmt: skip


SETTINGS = {"cfg", "config", "conf", "args", "hparams", "opt", "opts", "params", "settings", "spec"}
LAYER = re.compile(r"\.(?:fc|classifier|heads?|conv1|features|last_layer|output)(?:\.\w+|\[.*\])*$")
COUNT = re.compile(r"(?:^|_|\.)(?:n|num|classes|nclass\w*|labels)(?:_|$)", re.IGNORECASE)


def encodings(reading: Training) -> Iterator[Match]:
    waves: dict[tuple[int, str], dict[str, str]] = {}
    for line in reading.cached(lines):
        part, wave = PART.fullmatch(line.target), WAVE.match(line.text)
        named = "sin" in line.target or "cos" in line.target  # one table of each, as in RoPE
        if part and wave and not named:
            found = waves.setdefault((line.scope, part["name"]), {})
            found[part["start"]] = wave["wave"]
            if len(found) == 2 and len(set(found.values())) == 1:
                text = f"{part['name']} has {wave['wave']} in even and odd places: sin and cos"
                yield Match(line.span, f"{text} together tell positions apart")
        if RATES.fullmatch(line.text) and line.target.isidentifier():
            own = texts_in(reading, line.scope)
            product = re.compile(rf"[a-z\])]\*{line.target}\b(?!\*\*-)")
            divided = any(re.search(rf"/\(?[^()]*{line.target}\b", text) for text in own)
            if not divided and any(product.search(text) for text in own):
                yield Match(
                    line.span, f"{line.target} grows to 10000: the exponent lacks its minus"
                )


def sizes_set(reading: Training) -> Iterator[Match]:
    """model.fc.out_features = 10: the weight of the layer stays as it is."""
    if any(".weight" in each.target for each in reading.assignments):
        return
    last = {each.target: each.span.order for each in reading.assignments}
    for each in reading.assignments:
        owner, _, name = each.target.rpartition(".")
        if name not in SIZES or not owner or owner in ("self", "cls"):
            continue
        count = each.value.literal if each.value.kind == "literal" else each.value.name
        if not (isinstance(count, int) or COUNT.search(str(count))) or not LAYER.search(owner):
            continue
        replaced = owner in last and last[owner] > each.span.order
        settings = SETTINGS & {part for name in owner.split(".") for part in words(name)}
        if not replaced and not settings:
            yield Match(each.span, f"{each.target} changes no weight: the layer keeps its size")


RULES = (
    Rule(
        code="SCR429",
        slug="position-encoding",
        title="Positions are told apart by their encoding",
        severity="fail",
        find=encodings,
        why="An encoding of sines and cosines of falling frequencies gives each position its own "
        "vector. Sines alone, or frequencies that grow, give near positions unrelated ones.",
        fires=(
            "sin, or cos, in both pe[:, 0::2] and pe[:, 1::2]",
            "torch.exp(torch.arange(0, d, 2) * (math.log(10000.0) / d)), and a product with it",
        ),
        fix="pe[:, 0::2] = sin(position * div), pe[:, 1::2] = cos(position * div), with div = "
        "exp(arange(0, d, 2) * (-log(10000.0) / d)).",
        sources=("torch-sdpa",),
        needs=("exp", "sin", "cos"),
    ),
    Rule(
        code="SCR430",
        slug="size-of-a-layer-set",
        title="The size of a layer is that of its weight",
        severity="fail",
        find=sizes_set,
        why="out_features is what the layer was made with, for its repr. Setting it changes no "
        "weight: the network keeps its old number of outputs.",
        fires=("model.fc.out_features = 10",),
        fix="Replace the layer: model.fc = nn.Linear(model.fc.in_features, 10).",
        sources=("torch-module",),
        limits="that a layer which is given a size by hand gets a weight of it elsewhere.",
        words=tuple(rf"\.{name}\s*=[^=]" for name in SIZES),
    ),
)
