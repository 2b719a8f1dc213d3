"""Stacks whose cuDNN attention has a known bug in cases that no step of training meets by itself.

The attention trial runs such a case on cuDNN only where a bug of it is known: cuDNN builds a plan
for each case, which takes about a second (modelscope/FunASR#3704). The table of all known bugs is
that of NUM003, which uses these rows.
"""

from __future__ import annotations

from typing import NamedTuple

from packaging.version import InvalidVersion, Version

Capabilities = tuple[tuple[int, int], tuple[int, int]]

HOPPER: Capabilities = ((9, 0), (9, 0))
HOPPER_BLACKWELL: Capabilities = ((9, 0), (10, 9))


class Stack(NamedTuple):
    """Affected versions of one bug."""

    torch: tuple[str, str]
    """From this version, to before that one."""
    cudnn: tuple[int, int]
    """First and last version, as torch.backends.cudnn.version() spells them."""
    capability: Capabilities
    """First and last."""

    def may_match(self, torch: str, cudnn: int | None, capability: tuple[int, int] | None) -> bool:
        """Whether the bug can be in this stack; True for what cannot be read."""
        return (
            is_between(torch, self.torch)
            and (cudnn is None or self.cudnn[0] <= cudnn <= self.cudnn[1])
            and (capability is None or self.capability[0] <= capability <= self.capability[1])
        )


def is_between(version: str, ends: tuple[str, str]) -> bool:
    """Whether a version of torch is in a range; True if it cannot be parsed."""
    low, high = (Version(end) for end in ends)
    try:
        parsed = Version(version)
    except InvalidVersion:
        return True
    return Version(parsed.base_version) >= low and Version(parsed.public) < high


NO_PLAN_FOR_ONE_QUERY = Stack(("2.5.0", "2.5.1"), (90100, 90199), HOPPER_BLACKWELL)
WRONG_DECODING = Stack(("2.11.0", "2.14.0"), (91900, 92500), ((10, 0), (11, 9)))
NAN_FOR_ONE_QUERY = Stack(("2.11.0", "3.0"), (92501, 92600), HOPPER)
NO_PLAN_WITH_DROPOUT = Stack(("2.5.0", "2.9.1"), (91100, 91399), ((8, 0), (12, 9)))

CASES = {
    "one query": (NO_PLAN_FOR_ONE_QUERY, WRONG_DECODING, NAN_FOR_ONE_QUERY),
    "dropout": (NO_PLAN_WITH_DROPOUT,),
}
"""Case of the attention trial -> the stacks on which cuDNN is tried with it."""
NO_KNOWN_BUG = "no bug of cuDNN attention is known for this case with these versions on this GPU"


def not_worth_trying(
    torch: str, cudnn: int | None, capability: tuple[int, int] | None
) -> tuple[str, ...]:
    """Cases that cuDNN is not tried with on this stack."""
    return tuple(
        case
        for case, stacks in CASES.items()
        if not any(stack.may_match(torch, cudnn, capability) for stack in stacks)
    )
