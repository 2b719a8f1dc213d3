"""What rows of a split show that are read once more."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from ..foreign import Foreign
from . import (
    boxes,
    collated,
    conditions,
    crossing,
    dates,
    directed,
    episodes,
    held_answers,
    interactions,
    mixed_targets,
    paired_files,
    passes,
    points,
    row_seeds,
    unread_classes,
)
from .targets import Source
from .vocabulary import Vocabulary

Look = Callable[[], List[Dict[str, Any]]]


def of_source(
    source: Source, batches: List[Foreign], module: Foreign, vocabulary: Vocabulary
) -> List[Look]:
    """Functions that give relations."""
    looks: List[Look] = [
        lambda: interactions.negatives(source, batches[0]),
        lambda: passes.of_source(source),
        lambda: paired_files.of_source(source),
        lambda: boxes.backgrounds(source, module),
        lambda: boxes.in_a_corner(source),
        lambda: boxes.in_padding(source),
        lambda: points.of_source(source),
        lambda: crossing.of_source(source),
        lambda: episodes.of_source(source),
        lambda: episodes.jumps(source),
        lambda: held_answers.of_source(source, vocabulary),
    ]
    if source.name == "train":
        looks += [
            lambda: row_seeds.of_source(source),
            lambda: collated.of_source(source),
            lambda: conditions.of_classes(source, batches),
            lambda: dates.of_source(source),
            lambda: directed.of_source(source),
            lambda: mixed_targets.of_source(source),
            lambda: unread_classes.of_source(source),
        ]
    return looks
