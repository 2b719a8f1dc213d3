"""Builds the subject of a training: the doctor's small model, a factory, a model directory.

Descriptions, with the fields that `own_model` and `transformers_model` read:
    {"kind": "small"}
    {"kind": "factory", "file": "train.py", "name": "make", "directory": working directory,
     "batch": 2, "length": 64, "seed": 2}
    {"kind": "hf", "directory": "models/llama", "layers": 2, "weights": false, "lora": null,
     "dtype": null, "batch": 2, "length": 64}
"""

from __future__ import annotations

import random
import sys
from typing import Any, Callable, Dict, Optional

import torch

from ... import wire
from ..foreign import observing
from . import modes, small_model
from .subjects import NotPossible, transformers_like
from .training_step import Subject

SEED = 67280421310721
"""Set before every build, so that code without a seed draws the same numbers in each repetition;
unless the subject has a "seed"."""


def build(
    spec: Dict[str, Any],
    device: torch.device,
    recipe: str,
    *,
    seed: Optional[int] = None,
    eager: bool = False,
) -> Subject:
    """The subject on the device, in train mode; its weights in bf16 for the recipe "pure-bf16".

    `seed` selects another batch, `eager` attention without a fused kernel. Raises NotPossible
    if that cannot be done, and any error of the user's code. The generators of torch, random and
    numpy are seeded first, on every build alike; the small model has its own.
    """
    if spec["kind"] == "small":
        changes = {} if seed is None else {"seed": seed}
        return small_model.subject(device, recipe, eager=eager, **changes)
    seed_generators(spec.get("seed", SEED))
    subject = _maker(spec["kind"])(spec, device, recipe, seed)
    if eager:
        attend_eagerly(subject.module)
    if spec["kind"] == "factory":
        left = observing.attempt(lambda: modes.left_in_evaluation(subject.module, spec), "")
        wire.send(note={"own": {"in_evaluation": left}})
    subject.module.train()
    return subject


def _maker(kind: str) -> Callable[..., Subject]:
    """What reads the user's subjects, which the small model does not need."""
    if kind == "factory":
        from . import own_model

        return own_model.make
    from . import transformers_model

    return transformers_model.make


def seed_generators(seed: int) -> None:
    """Seed torch, random and, if something has imported it, numpy."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def attend_eagerly(module: torch.nn.Module) -> None:
    """Select eager attention in a transformers model. Raises NotPossible for other models."""
    inner = transformers_like(module)
    if inner is None:
        raise NotPossible("no attn_implementation to set")
    try:
        if observing.has(inner, "set_attn_implementation"):
            inner.set_attn_implementation("eager")
        else:
            inner.config._attn_implementation = "eager"
    except Exception as error:
        raise NotPossible("attention could not be set to eager: " + wire.describe(error)) from None
