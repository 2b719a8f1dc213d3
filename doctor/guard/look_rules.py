"""The rules for parameters that do not change: numbers in, alarms out. No torch."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Tuple

from . import codes
from . import thresholds as limit
from .records import FAIL, WARN, Alarm, Look, Tracked

HALF_SMALLEST = 2.0**-25
"""Half a step of fp32 at 1.0."""


def judge(look: Look) -> List[Alarm]:
    """The alarms of one look at an optimizer's parameters."""
    return [
        *_sixteen_bit(look),
        *_ones(look),
        *_vectors(look),
        *_zeros(look),
        *_nothing(look),
        *_undone(look),
        *_tiny(look),
    ]


def _sixteen_bit(look: Look) -> Iterator[Alarm]:
    half = [p for p in look.tracked if p.half]
    if look.effective == 1 and half and not look.compensated:
        dtypes = " and ".join(sorted({p.dtype for p in half}))
        text = (
            f"{len(half)} of {len(look.tracked)} trainable parameters are {dtypes}, and "
            f"{look.name} keeps no fp32 copy: updates below half a step of the dtype are lost, "
            "unless it rounds stochastically"
        )
        yield _alarm(codes.UPDATES_SURVIVE, WARN, look, text, "16-bit", half)


def _settled(look: Look, steps: int = limit.SETTLED_OTHER) -> Optional[str]:
    """What an unchanged parameter with a gradient means after so many steps; None for nothing."""
    if look.effective >= (limit.SETTLED_TWICE if look.adaptive else steps):
        return FAIL
    return WARN if look.adaptive and look.effective >= limit.SETTLED else None


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
    ones = [p for p in look.tracked if p.start == "ones" and _trained(look, p)]
    if ones and not any(p.gradient for p in ones):
        yield from _ones_without_gradient(look, ones)
        return
    ones = [p for p in ones if not _explained(look, p)]
    still, status = _still(ones), _settled(look)
    if not still or len(still) < len(ones) or not status or _waiting(look, still[0]):
        return
    rounding = all(p.half for p in still if p.gradient)
    rate = f"learning rate up to {max(look.rates):.2g}"
    reason = (
        f"updates lost to {still[0].dtype} rounding, {rate}"
        if rounding
        else f"they have gradients, {rate}: the optimizer does not update them"
    )
    text = (
        f"{len(still)} of {len(still)} parameters initialized to 1.0 unchanged after "
        f"{look.effective} steps: {reason}"
    )
    yield _alarm(
        codes.ONES_MOVE, status, look, text, "rounding" if rounding else "not-applied", still
    )


def _ones_without_gradient(look: Look, ones: list[Tracked]) -> Iterator[Alarm]:
    """Weight decay may change them; they do not learn."""
    if look.effective >= limit.VECTORS and any(p.gradient for p in look.tracked):
        text = (
            f"{len(ones)} of {len(ones)} parameters initialized to 1.0 without a gradient, or "
            f"with one of 0, in {look.effective} steps; other parameters have gradients"
        )
        several = len(ones) > 1 and look.effective > limit.VECTORS
        yield _alarm(codes.ONES_MOVE, FAIL if several else WARN, look, text, "gradient", ones)


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
    yield _alarm(codes.ONES_MOVE, WARN, look, text, cause, still)


def _zeros(look: Look) -> Iterator[Alarm]:
    zeros = [p for p in look.tracked if p.start == "zeros" and p.gradient and _trained(look, p)]
    still, status = _still(zeros), _settled(look, limit.SETTLED_ZEROS_OTHER)
    if still and status:
        text = (
            f"{len(still)} of {len(zeros)} parameters initialized to 0.0 (LoRA B, biases, gates) "
            f"still are 0.0 after {look.effective} steps, although they have gradients"
        )
        yield _alarm(codes.ZEROS_MOVE, status, look, text, "", still)


def _nothing(look: Look) -> Iterator[Alarm]:
    trained = [
        p for p in look.tracked if p.gradient and _trained(look, p) and not _explained(look, p)
    ]
    elements = sum(p.elements for p in trained)
    status = _settled(look)
    if elements < limit.ENOUGH_ELEMENTS or any(p.moved for p in trained) or not status:
        return
    half = all(p.half for p in trained)
    if look.effective < limit.VECTORS and (half or max(look.rates) < limit.SMALLEST_RATE):
        return
    text = (
        f"none of {elements:,} sampled weights with a gradient changed in {look.effective} steps, "
        f"learning rate up to {max(look.rates):.2g}"
    )
    yield _alarm(
        codes.TRAINING_WEIGHTS_MOVE,
        status,
        look,
        text,
        "rounding" if half else "not-applied",
        trained,
    )


def _undone(look: Look) -> Iterator[Alarm]:
    """The step changes weights, and the loop puts them back."""
    moved = [p for p in look.tracked if p.moved and p.gradient]
    if look.undone and sum(p.elements for p in moved) >= limit.ENOUGH_ELEMENTS:
        text = (
            "each step changes the weights, and before the next one all sampled weights are back "
            f"at their start, {look.effective} steps after it"
        )
        yield _alarm(codes.TRAINING_WEIGHTS_MOVE, FAIL, look, text, "undone", moved)


def _tiny(look: Look) -> Iterator[Alarm]:
    """A learning rate that changes no fp32 weight of ordinary size."""
    if not look.adaptive or not look.tiny_since:
        return
    lasts = look.effective - look.tiny_since
    long = lasts >= max(limit.VECTORS, limit.TINY_SHARE * look.effective)
    if long and (not look.rising or look.effective >= limit.TINY_RISING):
        text = (
            f"the learning rate is {look.rate:.2g}, and has been {HALF_SMALLEST:.2g} or less for "
            f"at least {lasts} steps: fp32 weights near 1 do not change"
        )
        yield _alarm(codes.LEARNING_RATE, WARN, look, text, "tiny", [])


def next_look(effective: int) -> int:
    """The first step after `effective` at which parameters are compared."""
    later = (effective // limit.LOOK_EVERY + 1) * limit.LOOK_EVERY
    return min([look for look in limit.LOOKS if look > effective], default=later)


def never_reached(
    indices: List[int], names: Dict[int, str], look: Tuple[int, int, int], parameters: int
) -> List[Alarm]:
    """The alarm for parameters that never had a gradient.

    An expert that no token chose is no reason. `look` is the optimizer, its step and its effective
    steps, `parameters` how many it has.
    """
    optimizer, step, effective = look
    indices = [i for i in indices if "experts." not in names.get(i, "")]
    if not indices or len(indices) == parameters:
        return []
    text = (
        f"{len(indices)} of {parameters} trainable parameters had no gradient in {effective} steps"
    )
    cause = "replaced" if names and not names.keys() & set(indices) else ""
    text += "; no module has these, as after a layer was replaced" if cause else ""
    return [Alarm(codes.PARAMETERS_REACHED, WARN, step, text, cause, optimizer, indices)]


def _alarm(
    code: str, status: str, look: Look, text: str, cause: str, parameters: List[Tracked]
) -> Alarm:
    indices = [p.index for p in parameters]
    return Alarm(code, status, look.step, text, cause, look.optimizer, indices)
