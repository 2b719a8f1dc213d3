"""Rules on the training loop: steps, scaling, schedules."""

from __future__ import annotations

from doctor.checks.script.loop import (
    absent,
    accumulation,
    autocasting,
    kept_graphs,
    lengths,
    optimizer_settings,
    order,
    reached,
    recreated,
    scaling,
    schedule_units,
    schedules,
    several_networks,
    shared_lists,
    steps,
    switches,
    unfinished,
    zeroed,
)
from doctor.checks.script.rule import Rule

RULES: tuple[Rule, ...] = (
    *absent.RULES,
    *accumulation.RULES,
    *autocasting.RULES,
    *kept_graphs.RULES,
    *lengths.RULES,
    *optimizer_settings.RULES,
    *order.RULES,
    *reached.RULES,
    *recreated.RULES,
    *scaling.RULES,
    *schedule_units.RULES,
    *schedules.RULES,
    *several_networks.RULES,
    *shared_lists.RULES,
    *steps.RULES,
    *switches.RULES,
    *unfinished.RULES,
    *zeroed.RULES,
)
