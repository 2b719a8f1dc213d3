"""Rows about trainings that stay finite and do not learn as they should."""

from __future__ import annotations

from doctor.checks.log.differential import evidence
from doctor.checks.log.differential.rates import too_low
from doctor.checks.log.differential.relations import (
    at_least,
    at_most,
    both,
    of_method,
    off,
)
from doctor.checks.log.differential.row import Differential
from doctor.checks.log.differential.symptoms import (
    FLAT,
    OVERFITS,
    RATE_ZERO,
    REWARDS,
    STANDS,
    WORSE,
)

ROWS = (
    Differential(
        id="data-in-order",
        symptoms=(*WORSE, *FLAT),
        evidence=off("shuffle"),
    ),
    Differential(
        id="preference-factor-zero",
        symptoms=(*FLAT, *REWARDS),
        evidence=both(of_method("preference"), off("beta")),
        suffices=FLAT,
    ),
    Differential(
        id="warm-up-too-long",
        symptoms=(*FLAT, *STANDS, *RATE_ZERO),
        evidence=evidence.warm_up_too_long,
        suffices=(*FLAT, *RATE_ZERO),
    ),
    Differential(
        id="decay-too-strong",
        symptoms=(*FLAT, *STANDS),
        evidence=evidence.strong_decay,
        suffices=FLAT,
    ),
    Differential(
        id="classes-unequal",
        symptoms=(*STANDS, *FLAT),
        evidence=at_most("minority_share", 0.05),
    ),
    Differential(
        id="dropout-too-strong",
        symptoms=(*FLAT, *STANDS),
        evidence=at_least("dropout", 0.7),
        suffices=FLAT,
    ),
    Differential(
        id="rate-below-usual",
        symptoms=(*FLAT, *STANDS, *REWARDS),
        evidence=too_low,
        suffices=(*FLAT, *REWARDS),
    ),
    Differential(
        id="updates-rounded-away",
        symptoms=FLAT,
        evidence=evidence.rounded_away,
        suffices=FLAT,
    ),
    Differential(
        id="schedule-too-short",
        symptoms=(*RATE_ZERO, *FLAT),
        evidence=evidence.schedule_too_short,
    ),
    Differential(
        id="schedule-counts-epochs",
        symptoms=RATE_ZERO,
        evidence=evidence.shorter_than_an_epoch,
        suffices=RATE_ZERO,
    ),
    Differential(
        id="schedule-stands-still",
        symptoms=RATE_ZERO,
        evidence=evidence.should_have_moved,
        suffices=RATE_ZERO,
    ),
    Differential(
        id="schedule-stepped-per-process",
        symptoms=RATE_ZERO,
        evidence=evidence.stepped_per_process,
    ),
    Differential(
        id="overfits-without-regularization",
        symptoms=OVERFITS,
        evidence=evidence.unregularized,
    ),
    Differential(
        id="too-many-epochs",
        symptoms=OVERFITS,
        evidence=evidence.many_epochs,
    ),
    Differential(
        id="few-samples",
        symptoms=OVERFITS,
        evidence=evidence.few_rows,
    ),
    Differential(
        id="auxiliary-loss-heavy",
        symptoms=(*FLAT, *WORSE),
        evidence=at_least("router_loss_weight", 0.3),
        suffices=FLAT,
    ),
    Differential(
        id="policy-unbound",
        symptoms=REWARDS,
        evidence=both(of_method("policy"), off("beta")),
    ),
    Differential(
        id="samples-greedy",
        symptoms=REWARDS,
        evidence=at_most("temperature", 0.1, zero=True),
    ),
    Differential(
        id="one-completion",
        symptoms=REWARDS,
        evidence=at_most("generations", 1),
    ),
    Differential(
        id="policy-epochs",
        symptoms=("value-function-fails",),
        evidence=at_least("policy_epochs", 21),
    ),
    Differential(
        id="exploration-off",
        symptoms=("collapsed",),
        evidence=off("entropy_weight"),
    ),
    Differential(
        id="latents-pressed",
        symptoms=("collapsed",),
        evidence=at_least("kl_weight", 0.1),
    ),
    Differential(
        id="discriminator-favoured",
        symptoms=("discriminator-won",),
        evidence=evidence.sides_differ,
    ),
)  # fmt: skip
