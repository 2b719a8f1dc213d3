"""Why no parameter of a model requires a gradient: adapters that are frozen, off or merged, or
weights that are held where torch does not see them."""

from __future__ import annotations

import difflib
import re
from typing import List

import torch

from ..foreign import Foreign, descriptions, observing
from . import ineffective, unregistered

ADAPTER = re.compile(r"(^|\.)(lora_|ia3_|prompt_embeddings|hada_|lokr_|oft_|vera_lambda)")
"""Names of parameters that PEFT adds."""


def nothing_trains(module: torch.nn.Module) -> str:
    """The message, one of the rows of doctor.errors.tables.frozen for each cause."""
    message = "no parameter of the model requires a gradient: nothing would train; "
    if next(module.parameters(), None) is None:
        return message + "it has none%s" % without_parameters(module)
    adapters = [name for name, _ in module.named_parameters() if ADAPTER.search(name)]
    if adapters:
        disabled = sum(
            observing.attribute(each, "_disable_adapters") is True for each in module.modules()
        )
        if disabled:
            return message + "the adapters of %d layers are disabled" % disabled
        return (
            message
            + "%d parameters of adapters are frozen, as of an adapter that was loaded"
            % (len(adapters))
        )
    if observing.has(module, "peft_config"):
        return message + "it has a peft_config and no adapter: it was merged or unloaded"
    without = ineffective.ineffective(module)
    clause = "; without effect: %s" % ", ".join(without) if without else ""
    return message + "all %d are frozen%s" % (len(list(module.parameters())), clause)


def without_parameters(module: torch.nn.Module) -> str:
    """Where a model without a parameter keeps its weights, as a clause; "" if it is not known."""
    if misspelled := _misspelled(type(module)):
        return ": %s is not called by Python" % misspelled
    layers: List[str] = []
    tensors: List[str] = []
    for name, value in unregistered.attributes(module).items():
        held = list(_held(value))
        if any(isinstance(each, torch.nn.Module) for each in held):
            layers.append("%s, a %s" % (name, type(value).__name__))
        elif any(isinstance(each, torch.Tensor) and each.is_floating_point() for each in held):
            tensors.append(name)
    if layers:
        return ": layers are in %s" % descriptions.listed(layers, 3)
    return ": tensors are in %s" % descriptions.listed(tensors, 3) if tensors else ""


def _held(value: Foreign, depth: int = 0) -> Foreign:
    """An object, and the members of a list or dict, of lists of them as well."""
    yield value
    for _, each in unregistered.members(value) if depth < unregistered.DEEPEST else ():
        yield from _held(each, depth + 1)


def _misspelled(kind: type) -> str:
    """A method of a class without __init__ whose name is spelled almost like it: "Net.__int__"."""
    if "__init__" in vars(kind):
        return ""
    alike = (
        name
        for name, value in vars(kind).items()
        if observing.code_of(value) is not None
        and difflib.SequenceMatcher(None, name, "__init__").ratio() > 0.8
    )
    return next(("%s.%s" % (kind.__name__, name) for name in alike), "")
