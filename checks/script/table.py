"""All rules, by code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from re import _constants as opcodes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]

from doctor.checks.script import (
    absent,
    accelerating,
    accumulation,
    adapters,
    added_tokens,
    adversarial,
    agents,
    attention,
    augmented,
    autocasting,
    averages,
    backward_calls,
    best_state,
    capability,
    collators,
    collectives,
    config_distributed,
    config_training,
    configuration,
    contrastive,
    counted,
    detached,
    detection,
    discarded,
    distillation,
    distributed,
    dropout,
    ends_of_answers,
    environments,
    evaluation,
    fitted,
    followers,
    freezing,
    frozen_norms,
    gathered,
    generation,
    generative,
    graphs,
    ignored_places,
    images,
    imbalance,
    kept_graphs,
    labels,
    latents,
    launching,
    layers,
    layouts,
    lightning,
    loaders,
    loop,
    losses,
    module_base,
    modules,
    noise,
    numerics,
    outputs,
    ownership,
    padding,
    pairs,
    parameters,
    peft,
    placement,
    preferences,
    pretrained,
    ranks_apart,
    reached,
    recreated,
    removed,
    restored,
    resuming,
    roles,
    samplers,
    scaling,
    schedule_units,
    schedules,
    scores,
    sequences,
    sets,
    several_networks,
    shapes,
    sharding,
    splits,
    steps,
    switches,
    tables,
    temperature,
    tokens,
    trainer_settings,
    trainers,
    unfinished,
    unused,
    versions,
    vocabularies,
    weight_casts,
    weights,
    windows,
    zeroed,
)
from doctor.checks.script.rule import CODE, Rule
from doctor.checks.script.training import WORDS

MODULES = (
    absent, accelerating, accumulation, adapters, added_tokens, adversarial, agents, attention,
    augmented, autocasting, averages, backward_calls, best_state, capability, collators,
    collectives, config_distributed, config_training, configuration, contrastive, counted,
    detached, detection, discarded, distillation, distributed, dropout, ends_of_answers,
    environments, evaluation, fitted, followers, freezing, frozen_norms, gathered, generation,
    generative, graphs, ignored_places, images, imbalance, kept_graphs, labels, latents,
    launching, layers, layouts, lightning, loaders, loop, losses, module_base, modules, noise,
    numerics, outputs, ownership, padding, pairs, parameters, peft, placement, preferences,
    pretrained, ranks_apart, reached, recreated, removed, restored, resuming, roles, samplers,
    scaling, schedule_units, schedules, scores, sequences, sets, several_networks, shapes,
    sharding, splits, steps, switches, tables, temperature, tokens, trainer_settings, trainers,
    unfinished, unused, versions, vocabularies, weight_casts, weights, windows, zeroed,
)  # fmt: skip
RULES: tuple[Rule, ...] = tuple(
    sorted((rule for each in MODULES for rule in each.RULES), key=lambda rule: rule.code)
)
BY_CODE = {rule.code: rule for rule in RULES}
FIXES = {rule.code: rule.fixes for rule in RULES if rule.fixes is not None}


@dataclass(frozen=True, slots=True)
class Words:
    """Expressions of which one occurs in every Python file that a rule may fire in."""

    expressions: tuple[tuple[bytes, bytes], ...]
    """Each behind the longest text that it requires: most files are ruled out by these alone."""

    def search(self, data: bytes) -> bool:
        """Whether one of them occurs."""
        return any(text in data and re.search(word, data) for text, word in self.expressions)


def relevant(rules: Iterable[Rule]) -> Words | None:
    """What occurs in every Python file that one of the rules may fire in; None: anything may."""
    words: set[str] = set()
    for rule in rules:
        if not set(CODE).isdisjoint(rule.kinds):
            own = rule.words or (WORDS if rule.training else ())
            if not own:
                return None
            words.update(own)
    common_first = sorted(words, key=lambda word: (word not in WORDS, word))
    return Words(tuple((_longest_text(word), word.encode()) for word in common_first))


def _longest_text(expression: str) -> bytes:
    """The longest text outside groups that every match contains, b"" where there is none."""
    texts = [""]
    for opcode, argument in parser.parse(expression):
        if opcode is opcodes.LITERAL:
            texts[-1] += chr(argument)
        else:
            texts.append("")
    return max(texts, key=len).encode()


RELEVANT = relevant(RULES)
