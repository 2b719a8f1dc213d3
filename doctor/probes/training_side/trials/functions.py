"""Whether the backward pass of an own torch.autograd.Function uses the gradient that it gets."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch

from ..foreign import Foreign, observing
from ..repetition import own_functions
from ..subject.training_step import Subject

MOST = 20
"""Functions that are tried."""


def trial(subject: Subject) -> Dict[str, Any]:
    """Passes zeros down: a gradient is linear in what it is multiplied by, so all become 0.

    Straight-through estimators, reversed, scaled and clipped gradients, which differ from the
    derivative on purpose, are linear there, too. A function whose result is one of its arguments
    has a backward pass for what it adds, as the gradient of an auxiliary loss.
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
    zeros = _gradients(results, leaves, torch.zeros_like)
    if not zeros or not all(bool(torch.isfinite(each).all()) for each in zeros.values()):
        return None
    wrong = [index for index, each in zeros.items() if bool(each.any())]
    if wrong and all(_is_one_of(each, passed) for each in results):
        ones = _gradients(results, leaves, torch.ones_like)
        returned = [index for index in wrong if _is_one_of(leaves[index], results)]
        wrong = [index for index in returned if torch.equal(ones[index], zeros[index])]
    return not wrong


def _gradients(
    results: List[torch.Tensor], leaves: List[torch.Tensor], made: Callable[[Any], torch.Tensor]
) -> Dict[int, torch.Tensor]:
    """The gradients of the leaves that have one, by their indices."""
    given = [made(each) for each in results]
    found = torch.autograd.grad(results, leaves, given, retain_graph=True, allow_unused=True)
    return {index: each for index, each in enumerate(found) if each is not None}


def _is_one_of(tensor: torch.Tensor, others: Sequence[Any]) -> bool:
    """Whether a tensor has the values of another one; a clone, a view or another dtype is equal."""
    return any(
        isinstance(each, torch.Tensor)
        and each.shape == tensor.shape
        and bool((each.detach() == tensor.detach()).all())
        for each in others
    )
