"""Rules on what is trained on: splits, loaders, labels, tokens."""

from __future__ import annotations

from doctor.checks.script.data import (
    answer_labels,
    audio,
    augmented,
    collators,
    detection,
    ends_of_answers,
    fitted,
    handles,
    ignored_places,
    images,
    items,
    labels,
    loaders,
    padding,
    pairs,
    samplers,
    sets,
    splits,
    tables,
    tokens,
    vocabularies,
    windows,
)
from doctor.checks.script.rule import Rule

RULES: tuple[Rule, ...] = (
    *answer_labels.RULES,
    *audio.RULES,
    *augmented.RULES,
    *collators.RULES,
    *detection.RULES,
    *ends_of_answers.RULES,
    *fitted.RULES,
    *handles.RULES,
    *ignored_places.RULES,
    *images.RULES,
    *items.RULES,
    *labels.RULES,
    *loaders.RULES,
    *padding.RULES,
    *pairs.RULES,
    *samplers.RULES,
    *sets.RULES,
    *splits.RULES,
    *tables.RULES,
    *tokens.RULES,
    *vocabularies.RULES,
    *windows.RULES,
)
