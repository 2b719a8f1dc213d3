"""A split that is drawn anew for each part of the data."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call

DRAWS = {"random_split", "train_test_split", "randperm", "permutation", "shuffle"}
SEEDS = {"manual_seed", "seed", "seed_everything", "set_seed", "default_rng", "RandomState"}
KINDS = {"split", "train", "is_train", "training", "mode", "phase", "stage", "subset", "partition"}
MODULES = ("torch.", "sklearn.", "numpy.", "random.")


def drawn_for_each_part(reading: Training) -> Iterator[Match]:
    """load("train") and load("val"), each with a random split of its own."""
    for number, function in enumerate(reading.script.functions):
        kind = next((p.name for p in function.parameters if p.name in KINDS), "")
        inside = reading.calls_in(number) if kind else []
        draws = [c for c in inside if c.method in DRAWS and c.name.startswith(MODULES)]
        fixed = any(c.method in SEEDS for c in inside) or any(
            c.keywords.keys() & {"generator", "random_state", "seed"} or len(c.args) > 2
            or "shuffle" in c.keywords or (c.method == "shuffle" and len(c.args) > 1)
            for c in draws
        )  # fmt: skip
        if not draws or fixed or any(c.arms for c in draws) or not _chooses(reading, number, kind):
            continue
        sites = [reading.calls[n] for n in
                 (reading.call_sites.get(number) or reading.made_at(number))]  # fmt: skip
        given = [evaluate.argument_of(reading, call, number, kind) for call in sites]
        parts = {v.literal for v in given if v is not None and v.kind == "literal"}
        if len(parts) > 1 and not _seeded_before(reading, sites):
            message = f"each call draws another split: the parts of {kind} overlap"
            yield Match(draws[0].span, message, fix="Pass a generator or a seed, or split once.")


def _chooses(reading: Training, number: int, kind: str) -> bool:
    """The parameter decides which part is kept, and the split is not of the training part."""
    tests = [test for place in (*reading.assignments, *reading.calls_in(number))
             if place.scope == number for test in reading.tests(place)]  # fmt: skip
    values = [v for v, _, scope in reading.expressions if scope == number]
    chosen = [v for v in values if v.kind == "choice" and kind in v.text]
    return bool(chosen) or any(kind in test.all_names for test in tests)


def _seeded_before(reading: Training, sites: list[Call]) -> bool:
    """Two seeds, one before each call, give one split."""
    return len([c for c in reading.calls if c.method in SEEDS]) >= len(sites)
