"""Two images of a row that the model gets both, as two views, and that are equal: the change was
drawn once for both."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Callable, Dict, List

import torch

from ..foreign import Foreign, containers, observing
from .documents import host
from .relations import relation


def of_batches(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], batches: List[Foreign]
) -> List[Dict[str, Any]]:
    """Where dropout makes two views of one input, equal inputs are meant; where the second is a
    target, as of an autoencoder, the model does not get it."""
    names = equal_images(batches[0])
    if not names or any(each.p > 0 for each in dropouts(module)):
        return []
    count = len(containers.tensors(batches[0])[names[0]])
    got = inputs_of_first_layer(module, loss, batches[0])
    if len(got) != 2 * count or not torch.equal(got[:count], got[count:]):
        return []  # the model gets one, or changes each by itself
    whole = sum(len(containers.tensors(each)[names[0]]) for each in batches)
    part = whole if all(equal_images(each) == names for each in batches) else count
    return [relation("equal inputs", part, whole, names)]


def equal_images(batch: Foreign) -> List[str]:
    """The names of the two fields of images, where there are two, and they are equal."""
    named = {n: host(e) for n, e in containers.tensors(batch).items() if e.dim() == 4}
    alike = [
        [one, other]
        for one, other in combinations(named, 2)
        if named[one].shape == named[other].shape and torch.equal(named[one], named[other])
    ]
    return alike[0] if len(named) == 2 and alike else []


def dropouts(module: torch.nn.Module) -> List[Any]:
    known = torch.nn.modules.dropout._DropoutNd
    return [each for each in module.modules() if isinstance(each, known)]


def inputs_of_first_layer(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], batch: Foreign
) -> torch.Tensor:
    """Images that the first layer with weights gets in a step, of all of its calls."""
    calls: List[Any] = []

    def look(layer: Foreign, arguments: Foreign) -> None:
        value = arguments[0] if arguments else None
        if isinstance(value, torch.Tensor) and value.dim() == 4:
            calls.append((layer, value.detach()))

    layers = [each for each in module.modules() if each._parameters]
    handles = [each.register_forward_pre_hook(look) for each in layers]
    try:
        with torch.no_grad():
            observing.attempt(lambda: loss(module, batch), None)
    finally:
        for handle in handles:
            handle.remove()
    first = [value for layer, value in calls if layer is calls[0][0]]
    return torch.cat(first) if first else torch.zeros(0)
