"""Autograd Functions of the user's, against differences in float64.

Straight-through estimators, reversed gradients and clipping differ from them on purpose. What has
no such purpose is a gradient that is right for another input, returned in another order.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

from ... import wire
from ..foreign import observing, places
from ..subject.training_step import Subject

STEP, TOLERANCE = 1e-5, 1e-3
MOST = 4096
"""Elements of an input."""
CALLS = 8


def trial(subject: Subject) -> Dict[str, Any]:
    """Records the calls of one forward pass, then repeats each in float64."""
    calls: List[Tuple[Any, Tuple[Any, ...]]] = []
    own = [each for each in _subclasses(torch.autograd.Function) if _is_own(each)]
    originals = []
    for each in own:
        originals.append((each, each.__dict__.get("apply")))
        each.apply = staticmethod(_recording(each, calls))
    try:
        subject.loss(subject.module, subject.batch)
    finally:
        for each, original in originals:
            if original is None:
                del each.apply
            else:
                each.apply = original
    if not calls:
        return {"applies": False, "reason": "no autograd Function of the code's own"}
    applies = False
    for function, args in calls[:CALLS]:
        swapped = _swapped(function, args)
        applies = applies or swapped is not None
        if swapped:
            code = observing.code_of(function.backward)
            place = places.place_of(code) if code is not None else ""
            text = "backward of %s returns for %s the gradient of %s" % (
                function.__name__,
                *swapped,
            )
            return {"applies": True, "found": "functions", "operation": text, "place": place}
    return {
        "applies": applies,
        "found": "",
        "reason": "" if applies else "no two inputs of one shape",
    }


def _subclasses(kind: Any) -> List[Any]:
    return [each for sub in kind.__subclasses__() for each in (sub, *_subclasses(sub))]


def _is_own(kind: Any) -> bool:
    code = observing.code_of(observing.attribute(kind, "backward"))
    if code is None or code.co_filename.startswith((places.TORCH, wire.PROBES, "<")):
        return False
    return not places.of_library(code.co_filename)


def _recording(kind: Any, calls: List[Any]) -> Any:
    original = kind.apply

    def apply(*args: Any) -> Any:
        calls.append((kind, args))
        return original(*args)

    return apply


def _swapped(kind: Any, args: Tuple[Any, ...]) -> Any:
    """Numbers of two inputs whose gradients are exchanged, () if none are, None if there are no two
    of one shape that can be compared."""
    apply = super(kind, kind).apply
    floats = [n for n, each in enumerate(args)
              if isinstance(each, torch.Tensor) and each.is_floating_point()]  # fmt: skip
    pairs = [(a, b) for a in floats for b in floats if a < b and args[a].shape == args[b].shape]
    if not pairs or any(args[n].numel() > MOST for n in floats):
        return None
    generator = torch.Generator().manual_seed(0)
    wide = [each.detach().double() if n in floats else each for n, each in enumerate(args)]

    def value(inputs: List[Any], weight: Any = None) -> Any:
        out = apply(*inputs)
        out = out[0] if isinstance(out, tuple) else out
        return (out * weight).sum() if weight is not None else out

    weight = torch.randn(value(wide).shape, generator=generator, dtype=torch.float64)
    leaves = [each.clone().requires_grad_() if n in floats else each for n, each in enumerate(wide)]
    value(leaves, weight).backward()
    for a, b in pairs:
        ways = {
            n: torch.randn(args[n].shape, generator=generator, dtype=torch.float64) for n in (a, b)
        }
        true = {}
        for n in (a, b):
            up, down = list(wide), list(wide)
            up[n], down[n] = wide[n] + STEP * ways[a], wide[n] - STEP * ways[a]
            with torch.no_grad():
                true[n] = float(value(up, weight) - value(down, weight)) / (2 * STEP)
        given = {n: float((leaves[n].grad * ways[a]).sum()) if leaves[n].grad is not None else 0.0
                 for n in (a, b)}  # fmt: skip
        size = max(abs(true[a]), abs(true[b]), 1e-12)
        apart = abs(true[a] - true[b]) > 100 * TOLERANCE * size
        crossed = all(abs(given[m] - true[n]) <= TOLERANCE * size for m, n in ((a, b), (b, a)))
        if apart and crossed:
            return "input %d" % a, "input %d" % b
    return ()
