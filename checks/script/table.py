"""All rules, by code."""

from __future__ import annotations

from doctor.checks.script import (
    absent,
    autocasting,
    capability,
    configuration,
    loop,
    numerics,
    peft,
    placement,
    scaling,
    switches,
    tokens,
    versions,
    weight_casts,
    weights,
)
from doctor.checks.script.rule import Rule

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            *autocasting.RULES,
            *capability.RULES,
            *scaling.RULES,
            *placement.RULES,
            *switches.RULES,
            *weights.RULES,
            *weight_casts.RULES,
            *peft.RULES,
            *tokens.RULES,
            *numerics.RULES,
            *loop.RULES,
            *versions.RULES,
            *absent.RULES,
            *configuration.RULES,
        ),
        key=lambda rule: rule.code,
    )
)
BY_CODE = {rule.code: rule for rule in RULES}
