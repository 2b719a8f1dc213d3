"""Which GPU code in a torch build runs on which GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable

from doctor.hardware.product import Capability

_CODE = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")

ONLY_DISCRETE: dict[Capability, frozenset[str]] = {
    (5, 3): frozenset({"50", "52"}),
    (6, 2): frozenset({"60", "61"}),
    (7, 2): frozenset({"70"}),
    (8, 7): frozenset({"80", "86"}),
    (8, 9): frozenset({"87"}),
    (10, 1): frozenset({"100"}),
    (10, 3): frozenset({"101"}),
}
"""Capability -> cubins of its major version that do not run there: Tegra and discrete GPUs do not
run each other's code. After DEVICE_REQUIREMENT in torch.cuda, torch 2.11 and later."""

JETSONS = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (10, 1)})
"""Chips of Jetson that run none of the cubins in PyTorch's wheels, by the table above."""

RENAMED = {(11, 0): "101"}
"""Thor was 10.1 before CUDA 13; cubins for 10.1 run on it under the new number."""

FIRST_OF_MAJOR: dict[int, tuple[int, int]] = {8: (11, 0), 9: (11, 8), 10: (12, 8), 12: (12, 8)}
"""Major part of the capability -> the first toolkit that compiles any cubin which runs there: those
of 8.0, 9.0, 10.0 and 12.0, which run on 8.9, 10.3 and 12.1 as well. Source cuda-release-notes."""

HIDDEN_PTX = (12, 0)
"""Linux wheels for CUDA 13 contain PTX for 12.0, which torch's arch list does not show."""


def runs_as_cubin(code: str, on: Capability) -> bool:
    """Whether this entry of the arch list is a cubin that runs on that capability."""
    match = _CODE.fullmatch(code)
    if match is None or match[1] != "sm":
        return False
    major, minor = int(match[2]), int(match[3])
    if match[4] == "a":
        return (major, minor) == on
    if match[2] + match[3] in ONLY_DISCRETE.get(on, ()):
        return False
    if match[2] + match[3] == RENAMED.get(on):
        return True
    return major == on[0] and minor <= on[1]


def runs_as_ptx(code: str, on: Capability) -> bool:
    """Whether this entry is PTX that the driver can compile for that capability."""
    match = _CODE.fullmatch(code)
    if match is None or match[1] != "compute":
        return False
    target = int(match[2]), int(match[3])
    if match[4]:
        return target == on or (match[4] == "f" and _same_family(target, on))
    return target <= on


def _same_family(target: Capability, on: Capability) -> bool:
    return target[0] == on[0] and target[1] <= on[1]


def cubins(archs: Iterable[str], on: Capability) -> tuple[str, ...]:
    """The entries that run there without compilation."""
    return tuple(code for code in archs if runs_as_cubin(code, on))


def ptx(archs: Iterable[str], on: Capability) -> tuple[str, ...]:
    """The entries that the driver can compile for it."""
    return tuple(code for code in archs if runs_as_ptx(code, on))


def toolkit_without_cubins(cuda: str | None, on: Capability) -> tuple[int, int] | None:
    """The first toolkit that compiles code of this capability's major version, if the build's is
    older: then no build for it has a cubin that runs there, whatever its list says."""
    match = re.match(r"(\d+)\.(\d+)", cuda or "")
    first = FIRST_OF_MAJOR.get(on[0])
    if not match or first is None:
        return None
    return first if (int(match[1]), int(match[2])) < first else None


def may_hide_ptx(cuda: str | None, on: Capability) -> bool:
    """Whether the build may contain PTX for this capability that its arch list does not show."""
    major = (cuda or "").split(".")[0]
    return major.isdecimal() and int(major) >= 13 and on >= HIDDEN_PTX
