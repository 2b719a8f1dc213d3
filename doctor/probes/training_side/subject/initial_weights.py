"""Weights that look as they were initialized: too large for their layer, or of a frozen head; and
settings of norms that are those of another library."""

from __future__ import annotations

import functools
import math
from typing import Dict, List

import torch

from ..foreign import Foreign, observing

LARGE = 5.0
"""Times the deviation that keeps the size of what a layer gets, 1 / sqrt(fan in)."""
LISTED = 6
HEADS = ("SequenceClassification", "TokenClassification", "ImageClassification", "MultipleChoice",
         "AudioClassification", "VideoClassification", "QuestionAnswering",
         "SemanticSegmentation")  # fmt: skip
"""What transformers puts behind "For" in the classes whose head is made anew for each task."""
LEAST, NEAR = 64, 0.2
"""Values of a head, and how near their deviation is to the one that they were drawn with."""


def large(module: torch.nn.Module) -> List[str]:
    """Linear and convolutional layers whose weights enlarge what they get: "net.0, 11 times"."""
    found = []
    for name, layer in module.named_modules():
        weight = observing.attribute(layer, "weight")
        kinds = (torch.nn.Linear, torch.nn.modules.conv._ConvNd)
        if not isinstance(layer, kinds) or not isinstance(weight, torch.Tensor):
            continue
        factor = float(weight.detach().float().std()) * math.sqrt(weight[0].numel())
        if factor > LARGE and weight.numel() >= LEAST:
            found.append("%s, %.0f times" % (name, factor))
    return found[:LISTED]


NEAR_ZERO, NO_GAIN = 1e-2, 1e-3
"""Times 1 / sqrt(fan in), below which a matrix lets hardly anything through, and the largest value
of a gain that does. Our own numbers: GPT-2 starts with 0.5 times, LayerScale with a gain of 1e-6 to
0.1."""


def near_zero(weights: Dict[str, torch.Tensor]) -> List[str]:
    """Matrices and gains that let hardly anything through, as the last layer of a block does that
    starts as the identity; biases start at 0 without that."""
    return [
        name
        for name, each in weights.items()
        if each.numel() and observing.attempt(functools.partial(_is_near_zero, name, each), False)
    ]


def _is_near_zero(name: str, weight: torch.Tensor) -> bool:
    values = observing.plain(weight)
    if not values.is_floating_point():
        return False
    if weight.dim() < 2:
        return "bias" not in name and float(values.abs().max()) <= NO_GAIN
    size = float(torch.linalg.vector_norm(values, dtype=torch.float32)) / math.sqrt(values.numel())
    return size * math.sqrt(values[0].numel()) < NEAR_ZERO


HASTY = 0.9, 1.0
"""A momentum of torch from 0.9 on, and below 1, which replaces the statistics on purpose: other
libraries call the share that stays momentum, 0.9 or 0.99."""


def hasty_norms(module: torch.nn.Module) -> List[str]:
    """Batch norms in training whose statistics are nearly those of the last batch: "bn1, momentum
    0.99"."""
    return [
        "%s, momentum %g" % (name, layer.momentum)
        for name, layer in module.named_modules()
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm)
        and layer.training
        and layer.track_running_stats
        and layer.momentum is not None
        and HASTY[0] <= layer.momentum < HASTY[1]
    ][:LISTED]


HEAVY = 0.9, 1.0
"""A share above which a dropout leaves hardly anything: elsewhere the number is the share that
stays, 0.95. Dropping everything is meant so."""


def heavy_dropouts(module: torch.nn.Module) -> List[str]:
    """Dropouts in training that leave less than a tenth of the values: "drop, p 0.95"."""
    return [
        "%s, p %g" % (name, layer.p)
        for name, layer in module.named_modules()
        if isinstance(layer, torch.nn.modules.dropout._DropoutNd)
        and layer.training
        and HEAVY[0] < layer.p < HEAVY[1]
    ][:LISTED]


def fresh_heads(module: Foreign) -> List[str]:
    """Heads of a task that peft has frozen as they were initialized: "score (Linear)"."""
    if not observing.has(module, "peft_config"):
        return []
    inner = (m for m in module.modules() if type(m).__name__.partition("For")[2] in HEADS)
    model: Foreign = next(inner, None)
    prefix = observing.attribute(model, "base_model_prefix")
    config = observing.attribute(model, "config")
    deviation = observing.attribute(config, "initializer_range")
    if not prefix or not isinstance(deviation, float) or not deviation:
        return []
    beside = [p for path, p in model.named_parameters() if path.split(".")[0] != prefix]
    if any(parameter.requires_grad for parameter in beside):  # modules_to_save keeps the original
        return []
    found = []
    for path, layer in model.named_modules():
        weight = observing.attribute(layer, "weight")
        if path.split(".")[0] == prefix or not isinstance(layer, torch.nn.Linear):
            continue
        size = float(weight.detach().float().std()) if weight.numel() >= LEAST else 0.0
        plain = layer.bias is None or not bool(layer.bias.any())
        if plain and size and abs(size / deviation - 1) < NEAR:
            found.append("%s (%s)" % (path, type(layer).__name__))
    return found[:LISTED]


def is_trained(module: torch.nn.Module) -> bool:
    """Whether a norm has weights that differ, which are alike when they are made."""
    norms = [each for each in module.modules() if "Norm" in type(each).__name__]
    weights = [observing.attribute(each, "weight") for each in norms]
    flat = [each.detach().flatten() for each in weights if isinstance(each, torch.Tensor)]
    return any(bool((each != each[:1]).any()) for each in flat)
