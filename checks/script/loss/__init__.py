"""Rules on what a loss receives, computes and passes back."""

from __future__ import annotations

from doctor.checks.script.loss import (
    adversarial,
    agents,
    backward_calls,
    contrastive,
    detached,
    distillation,
    environments,
    generative,
    graphs,
    imbalance,
    latents,
    layouts,
    losses,
    noise,
    numerics,
    outputs,
    preferences,
    roles,
    shapes,
    temperature,
    written_out,
)
from doctor.checks.script.rule import Rule

RULES: tuple[Rule, ...] = (
    *adversarial.RULES,
    *agents.RULES,
    *backward_calls.RULES,
    *contrastive.RULES,
    *detached.RULES,
    *distillation.RULES,
    *environments.RULES,
    *generative.RULES,
    *graphs.RULES,
    *imbalance.RULES,
    *latents.RULES,
    *layouts.RULES,
    *losses.RULES,
    *noise.RULES,
    *numerics.RULES,
    *outputs.RULES,
    *preferences.RULES,
    *roles.RULES,
    *shapes.RULES,
    *temperature.RULES,
    *written_out.RULES,
)
