"""All rules, by code."""

from __future__ import annotations

from doctor.checks.script import (
    absent,
    amp_rules,
    configuration,
    loop,
    numerics,
    peft,
    tokens,
    versions,
    weights,
)
from doctor.checks.script.rule import Rule

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            *amp_rules.RULES,
            *weights.RULES,
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
