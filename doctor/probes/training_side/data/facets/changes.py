"""What one split may have been given and the other one not: each change of an input that may make
the second split like the first."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Callable, Iterator, List, NamedTuple

import torch

from ..inputs import NORMALIZATIONS
from .features import channels_first, kind_of

SHORT = {
    name.split(" mean")[0].replace("a mean", "the 0.5"): (list(mean), list(std))
    for name, (mean, std) in NORMALIZATIONS.items()
}
AS_IT_IS = [0.0], [1.0]
"""No normalization."""
DECIBELS = 10 / math.log(10)
FACTORS = (10.0, 100.0, 1e3, 1e4, 1e6, 60.0, 3600.0, 24.0, 12.0, 365.0, 57.29578, 255.0)
"""Between units of length, time, weight and angle; smaller ones may be a drift."""


class Change(NamedTuple):
    """What eval lacks, or has too much."""

    text: str
    apply: Callable[[torch.Tensor], torch.Tensor]
    """Of the values of eval."""


def scaled(factor: float, value: torch.Tensor, offset: float = 0.0) -> torch.Tensor:
    return value.float() * factor + offset


def along(axes: List[int], value: torch.Tensor) -> torch.Tensor:
    return value.flip(axes)


def by_channel(factor: List[float], offset: List[float], value: torch.Tensor) -> torch.Tensor:
    shape = [1, len(factor), *[1] * (value.dim() - 2)]
    return value.float() * torch.tensor(factor).view(shape) + torch.tensor(offset).view(shape)


def of_field(value: torch.Tensor) -> Iterator[Change]:
    kind = kind_of(value)
    if kind == "image":
        yield from of_images(channels_first(value))
    elif kind in ("signal", "series", "columns"):
        yield from of_signals(value)
    elif kind == "tokens":
        for step in (-3, -2, -1, 1, 2, 3):
            yield Change("numbers of tokens in eval = those of train %+d" % step,
                         functools.partial(moved, step))  # fmt: skip


def moved(step: int, value: torch.Tensor) -> torch.Tensor:
    """Numbers of tokens without a step; padding of 0 stays."""
    return torch.where(value == 0, value, (value - step).clamp(min=0))


def of_images(value: torch.Tensor) -> Iterator[Change]:
    """Plain ones, and the same before a normalization of both splits."""
    low = float(value.min())
    yield from before(value, *AS_IT_IS)
    if value.shape[1] == 1 or value.shape[1] == 3:
        for name, (mean, std) in SHORT.items():
            means, stds = mean[: value.shape[1]], std[: value.shape[1]]
            yield from before(value, means, stds)
            yield from of_normalization(name, means, stds, low)


def before(value: torch.Tensor, mean: List[float], std: List[float]) -> Iterator[Change]:
    """Changes of values from 0 to 1, where both splits were normalized then."""

    def within(change: Callable[[torch.Tensor], torch.Tensor], each: torch.Tensor) -> torch.Tensor:
        scale, middle = (torch.tensor(one).view(1, -1, 1, 1) for one in (std, mean))
        return (change(each.float() * scale + middle) - middle) / scale

    plain = (mean, std) == AS_IT_IS
    each = functools.partial
    yield Change("eval = train x 255", each(within, each(scaled, 1 / 255)))
    yield Change("eval = train / 255", each(within, each(scaled, 255.0)))
    yield Change("eval = 1 - train, inverted", each(within, each(scaled, -1.0, offset=1.0)))
    if plain:
        yield Change("eval = 255 - train, inverted", each(scaled, -1.0, offset=255.0))
        yield Change("eval is upside down", each(along, [2]))
    for order in itertools.permutations(range(value.shape[1])) if value.shape[1] == 3 else ():
        if list(order) != sorted(order):
            text = "its channels stand in the order %d, %d, %d of those of train" % order
            back = [order.index(n) for n in range(3)]
            yield Change(text, each(within, each(chosen, back)))


def chosen(channels: List[int], value: torch.Tensor) -> torch.Tensor:
    return value[:, channels]


def of_normalization(
    name: str, mean: List[float], std: List[float], low: float
) -> Iterator[Change]:
    """One that a split alone got, or got in part, or twice."""
    make = functools.partial
    less, over = [-m / s for m, s in zip(mean, std)], [1 / s for s in std]
    none, bytes_ = [0.0] * len(mean), [1 / 255 / s for s in std]
    again = "twice" if low < -0.3 else "alone"
    yield Change("%s normalization is in train %s" % (name, again), make(by_channel, over, less))
    yield Change("%s normalization is in train alone, 0 to 255 in eval" % name,
                 make(by_channel, bytes_, less))  # fmt: skip
    yield Change("%s normalization is in eval alone, or twice" % name, make(by_channel, std, mean))
    yield Change("eval is not divided by %s deviation" % name, make(by_channel, over, none))
    yield Change("train is not divided by %s deviation" % name, make(by_channel, std, none))
    yield Change("%s mean is not subtracted in eval" % name,
                 make(by_channel, [1.0] * len(mean), less))  # fmt: skip


def of_signals(value: torch.Tensor) -> Iterator[Change]:
    make = functools.partial
    yield Change("eval = train x 32,768, as bytes of sound", make(scaled, 1 / 32768))
    yield Change("eval = train / 32,768, as bytes of sound", make(scaled, 32768.0))
    yield Change("eval = train x 255", make(scaled, 1 / 255))
    yield Change("eval = train / 255", make(scaled, 255.0))
    yield Change("eval = -train, in its inputs or its targets", make(scaled, -1.0))
    if value.dim() == 3:
        yield Change("time runs backwards in eval", make(along, [1]))
    if value.dim() == 3 or value.shape[1] > 32:
        yield Change("time runs backwards in eval", make(along, [-1]))
        yield Change("eval has two steps for each one of train", lambda each: each[..., ::2])
        if value.dim() == 3:
            yield Change("eval has two steps for each one of train", lambda each: each[:, ::2])
    for text, factor in (("10 log10", 1 / DECIBELS), ("20 log10", 0.5 / DECIBELS)):
        yield Change("eval is %s where train is a natural logarithm" % text, make(scaled, factor))
        yield Change(
            "train is %s where eval is a natural logarithm" % text, make(scaled, 1 / factor)
        )
    yield Change("train is a logarithm, and eval is not", logarithm)
    yield Change("eval is a logarithm, and train is not", torch.exp)


def logarithm(value: torch.Tensor) -> torch.Tensor:
    return value.clamp(min=1e-6).log()
