"""A rule on what all processes of a job must draw alike."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call

SEEDED = re.compile(r"seed", re.IGNORECASE)
RANK = re.compile(r"\b(?:local_?)?rank\b|get_rank\(|process_index", re.IGNORECASE)


def split_apart(reading: Training) -> Iterator[Match]:
    """random_split() from a generator that each process seeds otherwise."""
    if not reading.mentions("distributedsampler", "init_process_group", "accelerator"):
        return
    seeds = [n for n in reading.calls_where(lambda name: SEEDED.search(name) is not None)
             if _by_rank(reading, reading.calls[n])]  # fmt: skip
    for number, call in reading.numbered(
        reading.methods("random_split", "randperm", "train_test_split")
    ):
        if {"generator", "random_state"} & call.keywords.keys() or call.loops:
            continue
        if call.method == "randperm" and not re.search("val|train|split", "".join(call.targets)):
            continue
        unseeded = call.name.startswith("sklearn.") and not reading.mentions("seed")
        before = [n for n in seeds if n < number or reading.calls[n].scope != call.scope]
        if before or unseeded:
            yield Match(
                call.span, "each process draws another split: its validation data train the others"
            )


def _by_rank(reading: Training, call: Call) -> bool:
    texts = [render(reading, v) for v in call.values]
    return any(RANK.search(text) for text in texts)


RULES = (
    Rule(
        code="SCR357",
        slug="split-differs-by-rank",
        title="All processes split the data alike",
        severity="fail",
        find=split_apart,
        why="A split from a generator that is seeded with the rank is another one in each process: "
        "what one validates on, the others train on.",
        fires=("random_split() without a generator after manual_seed(seed + rank)",),
        fix="random_split(..., generator=torch.Generator().manual_seed(seed)).",
        sources=("opentau-498",),
        needs=("random_split", "train_test_split", "randperm"),
    ),
)
