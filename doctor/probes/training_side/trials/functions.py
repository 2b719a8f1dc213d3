"""Whether the backward pass of an own torch.autograd.Function uses the gradient that it gets."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

from ..foreign import Foreign, observing
from ..repetition import own_functions
from ..subject.training_step import Subject

MOST = 20
"""Functions that are tried."""


def trial(subject: Subject) -> Dict[str, Any]:
    """Passes zeros down: a gradient is linear in what it is multiplied by, so all become 0.

    Straight-through estimators, reversed, scaled and clipped gradients, which differ from the
    derivative on purpose, are linear there, too.
    """
    calls: Dict[Any, Tuple[Any, ...]] = {}

    def apply(original: Any, cls: Any, *args: Any, **options: Any) -> Any:
        if not options and not cls.__module__.startswith("torch.") and len(calls) < MOST:
            calls.setdefault(cls, args)
        return original(cls, *args, **options)

    with observing.functions_called(apply):
        subject.loss(subject.module, subject.batch)
    tried = [(kind, _tried(kind, args)) for kind, args in calls.items()]
    wrong = [kind for kind, result in tried if result is False]
    if wrong:
        place = own_functions.line_of_class(wrong[0])
        name = "%s.backward" % wrong[0].__name__
        return {"applies": True, "found": "functions", "operation": name, "place": place}
    if any(result for _, result in tried):
        return {"applies": True, "found": ""}
    return {"applies": False, "reason": "no torch.autograd.Function of the model's own code"}


def _tried(kind: Any, args: Tuple[Any, ...]) -> Foreign:
    return observing.attempt(lambda: _of_zeros(kind, args), None)


def _of_zeros(kind: Any, args: Tuple[Any, ...]) -> Foreign:
    """Whether all gradients are 0 for a gradient of zeros; None if there is no gradient."""
    leaves: List[torch.Tensor] = []
    passed = []
    for each in args:
        if isinstance(each, torch.Tensor) and each.is_floating_point():
            each = each.detach().clone().requires_grad_(each.requires_grad)
            leaves += [each] if each.requires_grad else []
        passed.append(each)
    with torch.enable_grad():
        result = kind.apply(*passed)
    results = [
        each
        for each in (result if isinstance(result, tuple) else (result,))
        if isinstance(each, torch.Tensor) and each.requires_grad
    ]
    if not leaves or not results:
        return None
    zeros = [torch.zeros_like(each) for each in results]
    found = torch.autograd.grad(results, leaves, zeros, allow_unused=True)
    gradients = [each for each in found if each is not None]
    if not gradients or not all(bool(torch.isfinite(each).all()) for each in gradients):
        return None
    return not any(bool(each.any()) for each in gradients)
