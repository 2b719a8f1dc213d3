"""Numbers beside the weights of a torch file: sizes in its settings, and updates of averages."""

from __future__ import annotations

import re
from typing import Any

from doctor._util.units import shown
from doctor.checkpoint.pickle.nodes import attributes, mapping

SETTINGS = ("hyper_parameters", "hparams", "model_args", "config", "cfg", "args")
"""Where files keep what the model was made with."""
SIZES = (
    "num_classes", "n_classes", "nb_classes", "num_labels", "n_labels", "vocab_size", "n_vocab",
    "num_embeddings", "num_outputs", "out_features", "output_dim", "in_features", "input_dim",
    "in_channels", "out_channels",
)  # fmt: skip
"""Settings that a tensor of the model shows as one of its dimensions."""
AVERAGE = re.compile(r"(?:^|_)(?:ema|swa|averaged?|polyak|shadow)(?:_|$)", re.IGNORECASE)
UPDATES = (
    "num_updates", "n_updates", "updates", "num_averaged", "n_averaged", "optimization_step",
    "step", "steps", "num_steps",
)  # fmt: skip
"""How averages name the times that they were updated."""
LATER = re.compile(r"after|start|begin|warm|delay|from")
"""In names of the step from which an average is updated."""


def named_sizes(top: dict[Any, Any]) -> dict[str, int]:
    """Setting, "hyper_parameters.num_classes" -> its number."""
    return {
        f"{place}.{key}": value
        for place in SETTINGS
        for key, value in _held(top.get(place)).items()
        if key in SIZES and type(value) is int and value > 0
    }


def idle_averages(top: dict[Any, Any], step: int | None) -> tuple[str, ...]:
    """Counters of updates of averages of the weights that are 0, without those that begin later
    than `step`."""
    found = []
    for name, value in top.items():
        if type(name) is not str or not AVERAGE.search(name):
            continue
        held = _held(value)
        later = [each for key, each in held.items() if LATER.search(key) and type(each) is int]
        if step is None or max(later, default=0) >= step:
            continue
        found += [
            f"{shown(name, 60)}.{key}" for key in UPDATES if type(held.get(key)) is int
            and held[key] == 0
        ]  # fmt: skip
    return tuple(found)


def _held(node: object) -> dict[str, Any]:
    """Entries of a dict, or attributes of an object such as argparse.Namespace."""
    held = mapping(node) or attributes(node)
    return {key: value for key, value in held.items() if type(key) is str}
