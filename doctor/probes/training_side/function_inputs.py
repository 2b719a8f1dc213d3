"""What is wrong in the arguments of a function of torch that calls several operations.

Imported by first_nonfinite.py; standard library and torch only, Python 3.9. The operation with the
first non-finite result is inside of the function; its arguments say more than those of it.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Tuple

import torch
import wire

inspect_inputs = wire.sibling("inspect_inputs")

values, count = inspect_inputs.values, inspect_inputs.count


def remarks(called: Any) -> Tuple[List[str], bool]:
    """What explains a non-finite result, and whether that is certain; [] if nothing does.

    `called` is the value_origins.Called. Never raises.
    """
    try:
        arguments = called.arguments()
        rule = RULES.get(called.name)
        lines = rule(arguments) if rule and arguments else []
        return (lines, True) if lines else (_invalid(arguments), False)
    except Exception:
        return [], False


def smoothing(given: Dict[str, Any]) -> List[str]:
    """Label smoothing gives a share of the label to each class, also to those of -inf."""
    smoothed, logits = given.get("label_smoothing", 0.0), given["input"]
    if not smoothed or not bool((logits == -math.inf).any()):
        return []
    line = values(logits == -math.inf, "of its input are -inf")[0]
    return ["%s, and label_smoothing=%g gives each class a share" % (line, smoothed)]


def divergence(given: Dict[str, Any]) -> List[str]:
    value, target = given["input"], given["target"]
    if given.get("log_target") or not bool((target < 0).any()):
        return []
    lines = values(target < 0, "of its target are negative, which no probability is")
    swapped = bool((value >= 0).all()) and bool((target <= 0).all())
    return [*lines, "input and target are swapped"] if swapped else lines


Rule = Callable[[Dict[str, Any]], List[str]]
RULES: Dict[str, Rule] = {"cross_entropy": smoothing, "kl_div": divergence}


def _invalid(arguments: Dict[str, Any]) -> List[str]:
    """Arguments that are not finite, by their names."""
    lines: List[str] = []
    for name, each in arguments.items():
        if not isinstance(each, torch.Tensor) or not each.is_floating_point():
            continue
        bad = ~torch.isfinite(each)
        if bool(bad.any()):
            kinds = {"NaN": each.isnan(), "inf": each == math.inf, "-inf": each == -math.inf}
            text = " or ".join(kind for kind, condition in kinds.items() if bool(condition.any()))
            lines += values(bad, "of its %s are %s already" % (name, text))
    return lines
