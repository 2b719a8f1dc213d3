"""What neighbouring and sorted values of images tell: bytes that were divided by a deviation of 0
to 1 alone, and channels that a reshape took apart."""

from __future__ import annotations

import torch

LEAST_VALUES, MOST_STEPS, SLACK = 32, 255.5, 0.05
LEAST_STEP, MOST_STEP = 1.2, 20.0
"""Between two values: of a deviation of 0.05 to 0.8. Our own numbers."""
CLOSER = 0.8
"""Difference of values three places apart, in that of neighbours: of photographs it is larger than
1. Our own number."""


def are_divided_bytes(images: torch.Tensor) -> bool:
    """Whether the values of each channel (images x channels x pixels) are at most 256 steps that
    are larger than 1, from less than one below 0 on, as (byte - mean) / deviation has them. Where
    the step is a whole number, or 0 a place of the steps, bytes may have been multiplied on
    purpose."""
    return all(in_large_steps(each) for each in images.transpose(0, 1))


def in_large_steps(values: torch.Tensor) -> bool:
    found = torch.unique(values.float())
    if len(found) < LEAST_VALUES:
        return False
    step = float((found[1:] - found[:-1]).min())
    low = float(found[0]) / max(step, 1e-6)
    if not LEAST_STEP < step < MOST_STEP or low <= -1:
        return False
    if min(abs(each - round(each)) for each in (step, low)) < 0.01:
        return False
    steps = (found - found[0]) / step
    return float(steps[-1]) <= MOST_STEPS and bool((steps - steps.round()).abs().max() < SLACK)


def are_taken_apart(images: torch.Tensor) -> bool:
    """Whether images of 3 channels (images x 3 x height x width) are like themselves three places
    further along both sides, and unlike their neighbours: height x width x 3 was reshaped."""
    if images.shape[1] != 3 or min(images.shape[2:]) < 8:
        return False
    return all(
        differing(images, 3, axis) < CLOSER * min(differing(images, n, axis) for n in (1, 2))
        for axis in (-1, -2)
    )


def differing(images: torch.Tensor, step: int, axis: int) -> float:
    length = images.shape[axis] - step
    return float((images.narrow(axis, step, length) - images.narrow(axis, 0, length)).abs().mean())
