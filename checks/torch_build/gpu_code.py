"""Which GPU code in a torch build runs on which GPU, and which wheels have code for it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

Capability = tuple[int, int]

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

RENAMED = {(11, 0): "101"}
"""Thor was 10.1 before CUDA 13; cubins for 10.1 run on it under the new number."""

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


def may_hide_ptx(cuda: str | None, on: Capability) -> bool:
    """Whether the build may contain PTX for this capability that its arch list does not show."""
    major = (cuda or "").split(".")[0]
    return major.isdecimal() and int(major) >= 13 and on >= HIDDEN_PTX


class Wheel(NamedTuple):
    """A torch wheel with code for a GPU, as a remedy."""

    fix: str
    commands: tuple[str, ...] = ()


_INDEX = "python -m pip install --force-reinstall torch --index-url https://download.pytorch.org"
_DEFAULT = "python -m pip install --upgrade torch"
_JETSON = Wheel(
    "Install the wheel that NVIDIA builds for this Jetson and its JetPack: PyTorch's own wheels "
    "have no code for it, although they have cubins of the same major version."
)


def wheel_for(on: Capability) -> Wheel:
    """The PyTorch wheel that has code for this capability."""
    if on in {(5, 3), (6, 2), (7, 2), (8, 7), (10, 1)}:
        return _JETSON
    if not (5, 0) <= on < (13, 0):
        return Wheel(f"No default wheel from torch 2.1 to 2.15 has code for {on[0]}.{on[1]}.")
    if on < (7, 5):
        return _older(on, "2.10" if on == (7, 0) else "2.7")
    if on[0] < 10:
        fix = "Install a default torch wheel: all of them have sm_75, sm_80, sm_86 and sm_90."
        return Wheel(fix, (_DEFAULT,))
    if on[0] == 11:
        fix = "Install the aarch64 wheel for CUDA 13: only these have sm_110."
        return Wheel(fix, (f"{_INDEX}/whl/cu130",))
    fix = (
        "Install torch 2.8 or newer: its default wheels are the first with sm_100 and sm_120 "
        "(from 2.11 on they are built for CUDA 13, which requires driver 580 or newer)."
    )
    return Wheel(fix, ('python -m pip install --upgrade "torch>=2.8"',))


def _older(on: Capability, last: str) -> Wheel:
    fix = (
        "Install torch from the cu126 index, whose x86_64 builds keep sm_50, sm_60 and sm_70; "
        f"the default wheels have no code for {on[0]}.{on[1]} after torch {last}."
    )
    return Wheel(fix, (f"{_INDEX}/whl/cu126",))
