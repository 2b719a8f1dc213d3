"""The rules for parameters that do not change: numbers in, alarms out. No torch."""

from __future__ import annotations

from typing import Iterator, List

from . import thresholds as limit
from .records import FAIL, WARN, Alarm, Look, Tracked

HALF_SMALLEST = 2.0**-25
"""Half a step of fp32 at 1.0."""


def judge(look: Look) -> List[Alarm]:
    """The alarms of one look at an optimizer's parameters."""
    return [*_sixteen_bit(look), *_ones(look), *_vectors(look), *_zeros(look), *_nothing(look)]


def _sixteen_bit(look: Look) -> Iterator[Alarm]:
    half = [p for p in look.tracked if p.half]
    if look.effective == 1 and half and not look.compensated:
        dtypes = " and ".join(sorted({p.dtype for p in half}))
        text = (
            f"{len(half)} of {len(look.tracked)} trainable parameters are {dtypes}, and "
            f"{look.name} keeps no fp32 copy: small updates are rounded away"
        )
        yield _alarm("GRD008", WARN, look, text, "16-bit", half)


def _settled(look: Look, steps: int = limit.SETTLED_OTHER) -> bool:
    """Whether enough steps were applied for every parameter with a gradient to change."""
    return look.effective >= (limit.SETTLED if look.adaptive else steps)


def _trained(look: Look, parameter: Tracked) -> bool:
    return look.rates[parameter.group] > HALF_SMALLEST


def _still(parameters: List[Tracked]) -> List[Tracked]:
    return [p for p in parameters if not p.moved]


def _waiting(look: Look, parameter: Tracked) -> bool:
    """Whether a learning rate that still rises may yet exceed the rounding."""
    return look.rising and not 0.0 < look.peak < limit.HALF_STEP[parameter.dtype]


def _explained(look: Look, parameter: Tracked) -> bool:
    """Whether the optimizer keeps what is rounded away, so that the weight moves later."""
    return parameter.half and look.compensated


def _ones(look: Look) -> Iterator[Alarm]:
    ones = [
        p
        for p in look.tracked
        if p.start == "ones" and _trained(look, p) and not _explained(look, p)
    ]
    still = _still(ones)
    if not still or len(still) < len(ones) or not _settled(look) or _waiting(look, still[0]):
        return
    with_gradient = [p for p in still if p.gradient]
    if with_gradient:
        cause = "rounding" if all(p.half for p in with_gradient) else "not-applied"
        yield _alarm("GRD005", FAIL, look, _unchanged(look, still, "1.0", cause), cause, still)
    elif look.effective >= limit.VECTORS and any(p.gradient for p in look.tracked):
        text = _unchanged(look, still, "1.0", "gradient")
        yield _alarm("GRD005", FAIL, look, text, "gradient", still)


def _unchanged(look: Look, still: List[Tracked], value: str, cause: str) -> str:
    dtype = still[0].dtype
    reason = {
        "rounding": f"updates lost to {dtype} rounding, learning rate up to {max(look.rates):.2g}",
        "not-applied": f"they have gradients, and the learning rate was up to "
        f"{max(look.rates):.2g}: the optimizer does not update them",
        "gradient": "their gradients are missing or 0",
    }[cause]
    return (
        f"{len(still)} of {len(still)} parameters initialized to {value} unchanged after "
        f"{look.effective} steps: {reason}"
    )


def _vectors(look: Look) -> Iterator[Alarm]:
    vectors = [
        p
        for p in look.tracked
        if p.vector
        and p.start != "zeros"
        and p.gradient
        and _trained(look, p)
        and not _explained(look, p)
        and (look.adaptive or p.half)
    ]
    if all(not p.moved for p in vectors if p.start == "ones"):
        vectors = [p for p in vectors if p.start != "ones"]  # the failure above
    still = _still(vectors)
    enough = limit.VECTORS if len(still) == len(vectors) else limit.SOME_VECTORS
    if not still or look.effective < enough or _waiting(look, still[0]):
        return
    cause = "rounding" if all(p.half for p in still) else "not-applied"
    reason = f"updates lost to {still[0].dtype} rounding" if cause == "rounding" else "no update"
    text = (
        f"{len(still)} of {len(vectors)} parameters of one dimension (norms, biases) are "
        f"bit-identical after {look.effective} steps, although they have gradients: {reason}"
    )
    yield _alarm("GRD005", WARN, look, text, cause, still)


def _zeros(look: Look) -> Iterator[Alarm]:
    zeros = [p for p in look.tracked if p.start == "zeros" and p.gradient and _trained(look, p)]
    still = _still(zeros)
    if still and _settled(look, limit.SETTLED_ZEROS_OTHER):
        text = (
            f"{len(still)} of {len(zeros)} parameters initialized to 0.0 (LoRA B, biases, gates) "
            f"still are 0.0 after {look.effective} steps, although they have gradients"
        )
        yield _alarm("GRD013", FAIL, look, text, "", still)


def _nothing(look: Look) -> Iterator[Alarm]:
    trained = [
        p for p in look.tracked if p.gradient and _trained(look, p) and not _explained(look, p)
    ]
    elements = sum(p.elements for p in trained)
    if elements < limit.ENOUGH_ELEMENTS or any(p.moved for p in trained) or not _settled(look):
        return
    half = all(p.half for p in trained)
    if look.effective < limit.VECTORS and (half or max(look.rates) < limit.SMALLEST_RATE):
        return
    text = (
        f"none of {elements:,} sampled weights with a gradient changed in {look.effective} steps, "
        f"learning rate up to {max(look.rates):.2g}"
    )
    yield _alarm("GRD007", FAIL, look, text, "rounding" if half else "not-applied", trained)


def _alarm(
    code: str, status: str, look: Look, text: str, cause: str, parameters: List[Tracked]
) -> Alarm:
    indices = [p.index for p in parameters]
    return Alarm(code, status, look.step, text, cause, look.optimizer, indices)
