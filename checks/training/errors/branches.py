"""Two maps of convolutions that are added, as at the end of a residual block."""

from __future__ import annotations

import math
import re

from doctor.checks.training.errors.changes import Sizes
from doctor.checks.training.errors.explanation import Explanation
from doctor.checks.training.errors.sizes import Call, text
from doctor.facts.raised import Raised

ADDITION = re.compile(r"(__)?[ir]?add_?(__)?")
STRIDES = range(1, 9)


def added_maps(raised: Raised, call: Call) -> Explanation | None:
    """Maps [N, C, H, W] of as many samples, of which a convolution with a kernel of 1 makes one to
    the other; three dimensions may be tokens. Whether the larger one is an input that is passed
    by, or a skip connection of a decoder, the shapes do not say."""
    if not ADDITION.fullmatch(raised.function) or any(each.parameter for each in call.operands):
        return None
    large, small = sorted(call.sizes, key=lambda each: (-math.prod(each[2:]), each[1:2]))
    if len(large) not in (4, 5) or len(large) != len(small) or large[0] != small[0]:
        return None
    stride = _stride(large[2:], small[2:])
    if not stride:
        return None
    layer = f"nn.Conv{len(large) - 2}d({large[1]}, {small[1]}, kernel_size=1, stride={stride})"
    same = "give both branches the same stride, or " if large[1] == small[1] else ""
    fix = (
        f"In a residual block {same}pass its input through {layer}, which makes {text(small)} of "
        f"{text(large)}, and add the result."
    )
    if stride > 1:
        fix += (
            " In a decoder that adds a skip connection enlarge the smaller one first, "
            f"F.interpolate(small, size=large.shape[2:])"
            f"{'' if large[1] == small[1] else ', and give both the same channels'}."
        )
    return Explanation(f"{text(large)} and {text(small)} are added", fix)


def _stride(large: Sizes, small: Sizes) -> int:
    """The stride that makes the one of the other; 0: none does."""
    fitting = (
        n for n in STRIDES
        if all(-(-a // n) == b for a, b in zip(large, small, strict=True))
    )  # fmt: skip
    return next(fitting, 0)
