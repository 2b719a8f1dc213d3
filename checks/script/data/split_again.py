"""A split that is drawn anew for each part of the data."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call

DRAWS = {"random_split", "train_test_split", "randperm", "permutation", "shuffle"}
SEEDS = {"manual_seed", "seed", "seed_everything", "set_seed", "default_rng", "RandomState"}
SEEDED = {"generator", "random_state", "seed", "shuffle"}
KINDS = {"split", "train", "is_train", "training", "mode", "phase", "stage", "subset", "partition"}
MODULES = ("torch.", "sklearn.", "numpy.", "random.")


def drawn_for_each_part(reading: Training) -> Iterator[Match]:
    """load("train") and load("val"), each with a random split of its own."""
    for number, function in enumerate(reading.script.functions):
        kind = next((p.name for p in function.parameters if p.name in KINDS), "")
        inside = reading.calls_in(number) if kind else []
        draws = [c for c in inside if c.method in DRAWS and c.name.startswith(MODULES)]
        fixed = any(c.method in SEEDS for c in inside) or any(
            c.arms or c.keywords.keys() & SEEDED or len(c.args) > 2 for c in draws
        )
        sites = reading.call_sites.get(number) or reading.made_at(number) if draws else []
        given = [evaluate.argument_of(reading, reading.calls[n], number, kind) for n in sites]
        parts = {v.literal for v in given if v is not None and v.kind == "literal"}
        seeded = len(reading.named(*SEEDS)) >= len(sites)  # one before each call
        if len(parts) > 1 and not fixed and not seeded and _chooses(reading, number, kind):
            message = f"each call draws another split: the parts of {kind} overlap"
            yield Match(draws[0].span, message, fix="Pass a generator or a seed, or split once.")


def _chooses(reading: Training, number: int, kind: str) -> bool:
    """The parameter decides which part is kept."""
    places: list[Assignment | Call] = [*reading.assignments, *reading.calls_in(number)]
    tests = [test for each in places if each.scope == number for test in reading.tests(each)]
    chosen = any(v.kind == "choice" and kind in v.text for v in reading.values_in(number))
    return chosen or any(kind in test.all_names for test in tests)
