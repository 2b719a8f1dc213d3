"""What may have been done to an image, and not to its map or its boxes: turns and moves."""

from __future__ import annotations

import functools
from itertools import product
from typing import Any, Callable, Dict, List

import torch

SIDE = 16
"""Places along a side of an image. Our own number."""

MOVES = (1, 2, 3)
Turn = Callable[[torch.Tensor], torch.Tensor]


def rolled(steps: Any, axes: List[int], target: torch.Tensor) -> torch.Tensor:
    return target.roll(steps, axes)


def turns() -> Dict[str, Turn]:
    """What may have been done to an image, and not to its target."""
    made: Dict[str, Turn] = {
        "mirrored": lambda t: t.flip(-1),
        "upside down": lambda t: t.flip(-2),
        "turned by 180 degrees": lambda t: t.flip((-2, -1)),
        "with x and y exchanged": lambda t: t.transpose(-2, -1),
        "turned by 90 degrees": lambda t: t.rot90(1, (-2, -1)),
        "turned by 270 degrees": lambda t: t.rot90(3, (-2, -1)),
    }
    for move in MOVES:
        for down, right in product((-move, 0, move), repeat=2):
            if down or right:
                made[moved(down, right)] = functools.partial(rolled, [down, right], [-2, -1])
    for text, step in (("row before", 1), ("row behind", -1), ("second row before", 2)):
        made["of the " + text] = functools.partial(rolled, -step, [0])
    return made


def moved(down: int, right: int) -> str:
    """ "moved by 12 % up and 6 % to the left"."""
    parts = ((down, "down", "up"), (right, "to the right", "to the left"))
    texts = ["%d %% %s" % (100 * abs(n) / SIDE, a if n > 0 else b) for n, a, b in parts if n]
    return "moved by " + " and ".join(texts)
