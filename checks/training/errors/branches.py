"""Maps of convolutions of another size: those that are added, as at the end of a residual block,
and those that a loss compares with their targets."""

from __future__ import annotations

import math
import re

from doctor.checks.training.errors.changes import Sizes
from doctor.checks.training.errors.explanation import Explanation
from doctor.checks.training.errors.sizes import Call, text
from doctor.facts.raised import Raised

ADDITION = re.compile(r"(__)?[ir]?add_?(__)?")
STRIDES = range(1, 9)
COLORS = 4
"""Channels of an image at most."""
TO_SIZE = ", then bring the output to its size, F.interpolate(output, size=(height, width))"
OF_PIXELS = (
    "If the target has the number of a class at each pixel, keep the channels, one for each "
    "class, and use cross_entropy(output, target.squeeze(1).long())."
)


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
        "Make these sizes equal: cut a mask or a bias as its tensor was cut. If both are feature "
        f"maps of convolutions, in a residual block {same}pass its input through {layer}, which "
        f"makes {text(small)} of {text(large)}, and add the result."
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


def compared_maps(have: Sizes, want: Sizes) -> tuple[str, str] | None:
    """Maps [N, C, H, W], or sequences, of another size than their targets: a cause and a fix."""
    if len(have) != len(want) or len(have) < 3:
        return None
    if len(have) == 3:
        return _of_sequences(have, want)
    cause = f"the output is {text(have[1:])} for each sample, its target {text(want[1:])}"
    if len(have) == 4 and have[1] == want[3] <= COLORS < want[1]:
        resize = have[2:] != want[1:3]
        return (
            cause,
            f"Put the channels of the target second, target.permute(0, 3, 1, 2){TO_SIZE * resize}.",
        )
    fixes = []
    if have[2:] != want[2:]:
        fixes.append("bring the output to the size of the target, "
                     "F.interpolate(output, size=target.shape[2:])")  # fmt: skip
        if all(a >= b for a, b in zip(have[2:], want[2:], strict=True)):
            cut = ", ".join(f":{size}" for size in want[2:])
            fixes[0] += f", or cut what a decoder makes too large, output[..., {cut}]"
    if have[1] != want[1]:
        fixes.append(f"give the last layer {want[1]} channels (out_channels={want[1]})")
    fix = ", and ".join(fixes)
    if want[1] == 1 != have[1]:
        return cause, f"{OF_PIXELS} Otherwise {fix}."
    return cause, f"{fix[:1].upper()}{fix[1:]}."


def _of_sequences(have: Sizes, want: Sizes) -> tuple[str, str] | None:
    """As many values behind dimension 1, which has channels behind a convolution and positions
    behind other layers."""
    if have[2] != want[2]:
        return None
    cause = f"{have[1]} in dimension 1 of the output against {want[1]} of the target"
    return cause, (
        f"Where dimension 1 has channels, as behind nn.Conv1d, give the last layer {want[1]} "
        f"(out_channels={want[1]}). Where it has positions, let the model give {want[1]}, or "
        "compare those that belong together: which ones depends on the task."
    )
