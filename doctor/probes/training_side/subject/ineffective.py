"""Attributes that were meant to freeze parameters, or to train them, and have no effect."""

from __future__ import annotations

import difflib
from typing import Dict, List

import torch

from ..foreign import Foreign, descriptions

FLAG = "requires_grad"
ALIKE = 0.85
"""Similarity of a misspelled name."""
MOST = 8


def ineffective(module: torch.nn.Module) -> List[str]:
    """ "classifier.requires_grad = True", of a module whose parameters do not follow; of parameters
    a flag of another name, "require_grad = False of 0.weight, 0.bias and 2 more"."""
    found: List[str] = []
    for name, part in module.named_modules():
        flags = {each.requires_grad for each in part.parameters()}
        for attribute, value in flags_in(part).items():
            if flags == {not value}:
                found.append("%s.%s = %s" % (name or "model", attribute, value))
    by_flag: Dict[str, List[str]] = {}
    for name, weight in module.named_parameters():
        for attribute, value in flags_in(weight).items():
            if weight.requires_grad != value:
                by_flag.setdefault("%s = %s" % (attribute, value), []).append(name)
    for flag, names in by_flag.items():
        found.append("%s of %s" % (flag, descriptions.listed(names, 2)))
    return found[:MOST]


def flags_in(owner: Foreign) -> Dict[str, bool]:
    """The truth values that an object holds under requires_grad or a name that is spelled alike.
    A name of more words, pos_requires_grad, is that of a setting."""
    return {
        name: value
        for name, value in list(vars(owner).items())
        if isinstance(value, bool)
        and not name.startswith("_")
        and name.rstrip("_").count("_") <= FLAG.count("_")
        and difflib.SequenceMatcher(None, name, FLAG).ratio() >= ALIKE
    }
