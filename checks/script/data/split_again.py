"""A split that is drawn anew for each part of the data."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call

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
        if len(parts) > 1 and not fixed and not seeded and _chooses(reading, number, kind, draws):
            message = f"each call draws another split: the parts of {kind} overlap"
            yield Match(draws[0].span, message, fix="Pass a generator or a seed, or split once.")


def _chooses(reading: Training, number: int, kind: str, draws: list[Call]) -> bool:
    """The parameter decides which part of what was drawn is kept."""
    names = {t for call in draws for t in call.targets}
    names |= {call.first.name for call in draws if call.method == "shuffle" and call.first}
    cut = re.compile(rf"\b(?:{'|'.join(map(re.escape, names - {''}))})\[[^\[\]]*:")
    drawn = min(reading.number(call) for call in draws)
    function = reading.function(number)
    places = [(a.value, a.position, a.arms) for a in reading.assignments if a.scope == number]
    places += [(v, *e) for v, e in zip(function.returns, function.exits, strict=False)]
    for value, position, arms in places:
        tests = [t for branch, _ in arms if (t := reading.test_of(branch)) is not None]
        chosen = (value.kind == "choice" and kind in value.text) or any(
            kind in test.all_names for test in tests
        )
        parts = names & set(value.all_names) and any(len(call.targets) > 1 for call in draws)
        if chosen and position > drawn and (parts or cut.search(render(reading, value))):
            return True
    return False
