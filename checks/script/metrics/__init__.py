"""Rules on what is measured of a model, and on its evaluation."""

from __future__ import annotations

from doctor.checks.script.metrics import (
    answers,
    averages,
    best_state,
    counted,
    discarded,
    evaluation,
    followers,
    gathered,
    generation,
    sampling,
    scores,
    unused,
    values,
)
from doctor.checks.script.rule import Rule

RULES: tuple[Rule, ...] = (
    *answers.RULES,
    *averages.RULES,
    *best_state.RULES,
    *counted.RULES,
    *discarded.RULES,
    *evaluation.RULES,
    *followers.RULES,
    *gathered.RULES,
    *generation.RULES,
    *sampling.RULES,
    *scores.RULES,
    *unused.RULES,
    *values.RULES,
)
