"""Rules on modules, their weights and adapters."""

from __future__ import annotations

from doctor.checks.script.model import (
    adapters,
    added_tokens,
    attention,
    capability,
    dropout,
    effects,
    freezing,
    frozen_norms,
    heads,
    layers,
    module_base,
    modules,
    ownership,
    packed,
    parameters,
    peft,
    placement,
    pretrained,
    sequences,
    weight_casts,
    weights,
)
from doctor.checks.script.rule import Rule

RULES: tuple[Rule, ...] = (
    *adapters.RULES,
    *added_tokens.RULES,
    *attention.RULES,
    *capability.RULES,
    *dropout.RULES,
    *effects.RULES,
    *freezing.RULES,
    *frozen_norms.RULES,
    *heads.RULES,
    *layers.RULES,
    *module_base.RULES,
    *modules.RULES,
    *ownership.RULES,
    *packed.RULES,
    *parameters.RULES,
    *peft.RULES,
    *placement.RULES,
    *pretrained.RULES,
    *sequences.RULES,
    *weight_casts.RULES,
    *weights.RULES,
)
