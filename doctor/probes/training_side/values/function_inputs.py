"""What is wrong in the arguments of a function of torch that calls several operations.

The operation with the first non-finite result is inside of the function; its arguments say more
than those of it.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Tuple

import torch

from ..foreign import Options
from .inspect_inputs import invalid, values


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


def smoothing(arguments: Options) -> List[str]:
    """Label smoothing gives a share of the label to each class, also to those of -inf."""
    smoothed, logits = arguments.get("label_smoothing", 0.0), arguments["input"]
    if not smoothed or not bool((logits == -math.inf).any()):
        return []
    line = values(logits == -math.inf, "of its input are -inf")[0]
    return ["%s, and label_smoothing=%g gives each class a share" % (line, smoothed)]


def divergence(arguments: Options) -> List[str]:
    value, target = arguments["input"], arguments["target"]
    if arguments.get("log_target") or not bool((target < 0).any()):
        return []
    lines = values(target < 0, "of its target are negative, which no probability is")
    swapped = bool((value >= 0).all()) and bool((target <= 0).all())
    return [*lines, "input and target are swapped"] if swapped else lines


def alignment(arguments: Options) -> List[str]:
    """Samples of a CTC loss with more labels than frames: there is no alignment, so the loss is
    inf. Between two labels that are the same there must be a blank."""
    targets, begin, short = arguments["targets"].tolist(), 0, []
    lengths = [list(map(int, arguments[name])) for name in ("input_lengths", "target_lengths")]
    for sample, (frames, length) in enumerate(zip(*lengths)):
        rows = isinstance(targets[0], list)
        labels = targets[sample][:length] if rows else targets[begin : begin + length]
        begin += length
        needed = length + sum(a == b for a, b in zip(labels[1:], labels))
        if needed > frames:
            short.append("sample %d has %d frames, and its %d labels need %d"
                         % (sample, frames, length, needed))  # fmt: skip
    count = "%d of %d samples are too short for their labels" % (len(short), len(lengths[0]))
    return ["%s: %s" % (count, short[0])] if short else []


Rule = Callable[[Dict[str, Any]], List[str]]
RULES: Dict[str, Rule] = {"cross_entropy": smoothing, "kl_div": divergence, "ctc_loss": alignment}


def _invalid(arguments: Options) -> List[str]:
    """Arguments that are not finite, by their names."""
    tensors = {name: x for name, x in arguments.items() if isinstance(x, torch.Tensor)}
    return [line for name, x in tensors.items() for line in invalid(x, "its " + name)]
