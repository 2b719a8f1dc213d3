"""All rules, by code."""

from __future__ import annotations

import re
from collections.abc import Iterable

from doctor.checks.script import (
    absent,
    accumulation,
    autocasting,
    capability,
    configuration,
    distributed,
    evaluation,
    graphs,
    labels,
    loop,
    losses,
    modules,
    numerics,
    ownership,
    peft,
    placement,
    removed,
    scaling,
    schedules,
    steps,
    switches,
    tokens,
    versions,
    weight_casts,
    weights,
)
from doctor.checks.script.rule import CODE, Rule
from doctor.checks.script.training import WORDS

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            *autocasting.RULES,
            *capability.RULES,
            *scaling.RULES,
            *steps.RULES,
            *removed.RULES,
            *distributed.RULES,
            *graphs.RULES,
            *evaluation.RULES,
            *labels.RULES,
            *ownership.RULES,
            *modules.RULES,
            *schedules.RULES,
            *accumulation.RULES,
            *placement.RULES,
            *switches.RULES,
            *weights.RULES,
            *weight_casts.RULES,
            *peft.RULES,
            *tokens.RULES,
            *numerics.RULES,
            *loop.RULES,
            *losses.RULES,
            *versions.RULES,
            *absent.RULES,
            *configuration.RULES,
        ),
        key=lambda rule: rule.code,
    )
)
BY_CODE = {rule.code: rule for rule in RULES}
FIXES = {rule.code: rule.fixes for rule in RULES if rule.fixes is not None}


def relevant(rules: Iterable[Rule]) -> re.Pattern[bytes] | None:
    """What occurs in every Python file that one of the rules may fire in; None: anything may."""
    words: set[str] = set()
    for rule in rules:
        if not set(CODE).isdisjoint(rule.kinds):
            own = rule.words or (WORDS if rule.training else ())
            if not own:
                return None
            words.update(own)
    return re.compile("|".join(sorted(words)).encode())


RELEVANT = relevant(RULES)
