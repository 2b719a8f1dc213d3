"""An embedding and an output layer that are meant to share their weights, and do not; modules that
share them because a default argument made one for all."""

from __future__ import annotations

import inspect
import re
from typing import Dict, Iterator, List, Tuple

import torch

from ..foreign import Foreign, descriptions, observing

MEANT = re.compile(r"^(?:tied?|share[sd]?)_|_(?:tied|tying)$|^(?:weight_)?tying$", re.IGNORECASE)
OF_WEIGHTS = re.compile(r"weight|embed|emb(?:$|_)|head|proj|output|decoder|tying", re.IGNORECASE)
"""Names of a setting or a method that ties: tie_word_embeddings, share_weights, weight_tying."""
LIBRARIES = ("torch", "transformers", "peft", "lightning", "pytorch_lightning")
CONFIGS = ("config", "cfg", "args", "hparams", "opt")
MOST = 3


def untied(module: torch.nn.Module) -> List[str]:
    """What is wrong in pairs of an embedding and a linear layer of the same shape: "lm_head.weight
    starts as a copy of wte.weight" where the model says that they are tied; "lm_head.weight is a
    parameter of its own in the memory of wte.weight" whatever it says."""
    pairs = list(_pairs(module))
    meant = _meant(module)
    found = []
    for (name, table), (other, weight) in pairs:
        if table.data_ptr() == weight.data_ptr():
            found.append("%s is a parameter of its own in the memory of %s" % (other, name))
        elif meant and _is_copy(table, weight):
            found.append("%s starts as a copy of %s, in spite of %s" % (other, name, meant))
        elif meant and len(pairs) == 1 and not _is_of_library(module):
            found.append("%s and %s are two parameters, in spite of %s" % (other, name, meant))
    return found[:MOST]


Named = Tuple[str, torch.Tensor]


def _pairs(module: torch.nn.Module) -> Iterator[Tuple[Named, Named]]:
    """The trained weights of each embedding and of each linear layer of the same shape, where they
    are two parameters, and no third one is shared."""
    tables = dict(_weights(module, torch.nn.Embedding))
    layers = dict(_weights(module, torch.nn.Linear))
    shared = {id(each) for each in layers.values()} & {id(each) for each in tables.values()}
    for name, table in tables.items():
        for other, weight in layers.items():
            if table.shape == weight.shape and not {id(table), id(weight)} & shared:
                yield (name, table), (other, weight)


def _weights(module: torch.nn.Module, kind: type) -> Iterator[Named]:
    for name, each in module.named_modules():
        weight = observing.attribute(each, "weight")
        if not isinstance(each, kind) or not isinstance(weight, torch.nn.Parameter):
            continue
        if weight.requires_grad and weight.numel():
            yield "%s.weight" % name if name else "weight", weight


def _is_copy(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both have the same random values."""
    a, b = one.detach(), other.detach()
    return bool((a[0] != a[0, :1]).any()) and torch.equal(a, b.to(a.dtype))


def _meant(module: torch.nn.Module) -> str:
    """A setting that is on, or a method of the user's classes, which says that weights are tied:
    "tie_word_embeddings", "tie_weights()"; "" without one."""
    for part in module.modules():
        holders = [part, *(observing.attribute(part, name) for name in CONFIGS)]
        settings = {name: on for holder in holders for name, on in _settings(holder).items()}
        named = [name for name, on in settings.items() if on is True and _ties(name)]
        named += ["%s()" % name for name in _methods(part) if _ties(name)]
        if named:
            return named[0]
    return ""


def _methods(part: torch.nn.Module) -> List[str]:
    own = (each for each in type(part).__mro__ if each.__module__.split(".")[0] not in LIBRARIES)
    return [name for base in own for name, value in vars(base).items() if callable(value)]


def _ties(name: str) -> bool:
    return bool(MEANT.search(name) and OF_WEIGHTS.search(name))


def _settings(holder: Foreign) -> Dict[str, Foreign]:
    if isinstance(holder, dict):
        return {str(name): value for name, value in holder.items()}
    values = getattr(holder, "__dict__", {})
    return dict(values) if isinstance(values, dict) else {}


def _is_of_library(module: torch.nn.Module) -> bool:
    return type(module).__module__.split(".")[0] in LIBRARIES


def of_defaults(module: torch.nn.Module) -> List[str]:
    """Modules with parameters that a default argument of a class made once for all of its
    instances: "norm=LayerNorm of Block is blocks.0.norm, blocks.1.norm and 2 more"."""
    places: Dict[int, List[str]] = {}
    for name, part in module.named_modules(remove_duplicate=False):
        places.setdefault(id(part), []).append(name)
    found: List[str] = []
    for kind in dict.fromkeys(type(part) for part in module.modules()):
        if kind.__module__.split(".")[0] in LIBRARIES:
            continue
        for name, parameter in inspect.signature(kind).parameters.items():
            value = parameter.default
            names = places.get(id(value), [])
            if len(names) < 2 or not any(True for _ in value.parameters()):
                continue
            text = "%s=%s of %s is " % (name, type(value).__name__, kind.__name__)
            found.append(text + descriptions.listed(names, 2))
    return found[:MOST]
