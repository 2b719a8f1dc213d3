"""Which driver runs a PyTorch wheel, and which wheel to take for a machine.

Tables and arithmetic only; nothing is looked up at run time. Rows name the sources of wheel_table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from doctor._util.records import Unknown
from doctor._util.units import dotted
from doctor.checks.torch_build.rocm_code import gfx_in
from doctor.checks.torch_build.wheel_table import PYTHONS, WHEELS, Version, Wheel
from doctor.hardware import find
from doctor.hardware.product import Capability

DRIVER_CUDA: dict[int, Version] = {
    390: (9, 1), 396: (9, 2), 410: (10, 0), 418: (10, 1), 440: (10, 2),
    450: (11, 0), 455: (11, 1), 460: (11, 2), 465: (11, 3), 470: (11, 4), 495: (11, 5),
    510: (11, 6), 515: (11, 7), 520: (11, 8), 525: (12, 0), 530: (12, 1), 535: (12, 2),
    545: (12, 3), 550: (12, 4), 555: (12, 5), 560: (12, 6), 570: (12, 8), 575: (12, 9),
    580: (13, 0), 590: (13, 1), 595: (13, 2), 610: (13, 3), 615: (13, 4),
}  # fmt: skip
"""Branch of the Linux driver -> the CUDA that it came with; a branch between two rows has at least
the lower row's. Source cuda-release-notes; nvidia-smi on 450, 515, 535, 570, 580, 595, 610, 615
agrees."""

MINIMUM: dict[int, tuple[int, ...]] = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
"""CUDA -> first driver that runs all of that major version by minor-version compatibility: cubins,
not PTX that a newer toolkit wrote. Source cuda-minor-compatibility."""


@dataclass(frozen=True, slots=True)
class Driver:
    """What is known of the NVIDIA driver: its version, or the CUDA version it names, or both."""

    version: tuple[int, ...] | None = None
    cuda: Version | None = None

    @classmethod
    def read(cls, version: str | None, cuda_version: int | None = None) -> Driver:
        """From "535.104.05" and NVML's number for CUDA (12020); either may be None."""
        parts = re.match(r"\d+(?:\.\d+)+", version or "")
        number = (cuda_version // 1000, cuda_version % 1000 // 10) if cuda_version else None
        return cls(tuple(map(int, parts[0].split("."))) if parts else None, number)

    @property
    def newest_cuda(self) -> Version | None:
        """The CUDA version that it has in full, PTX and all."""
        if self.cuda or not self.version:
            return self.cuda
        rows = [cuda for branch, cuda in DRIVER_CUDA.items() if branch <= self.version[0]]
        return rows[-1] if rows else None

    def runs(self, wheel: Wheel) -> bool:
        """Whether that wheel's cubins run on it. False where nothing is known of the driver."""
        newest = self.newest_cuda
        if newest and newest >= wheel.cuda:
            return True
        if self.version:
            return self.version >= MINIMUM[wheel.cuda[0]]
        return newest is not None and newest[0] == wheel.cuda[0]


def capability_of(name: str) -> Capability | None:
    """Compute capability by a GPU's name, "NVIDIA H100 80GB HBM3"; None: not in the table.

    Of an AMD GPU the numbers in its gfx name, as torch reports them.
    """
    if gfx := gfx_in(name):
        return int(gfx[3:-2]), int(gfx[-2])
    return find.capability_of(name)


def candidates(
    capabilities: Sequence[Capability],
    python: Version | None = None,
    platform: str = "x86_64",
    minimum_torch: Version | None = None,
) -> tuple[Wheel, ...]:
    """Wheels with code for all of these GPUs, whatever the driver."""
    return tuple(
        wheel
        for wheel in WHEELS
        if wheel.platform == platform
        and (minimum_torch is None or wheel.torch >= minimum_torch)
        and (python is None or PYTHONS[wheel.torch][0] <= python <= PYTHONS[wheel.torch][1])
        and all(wheel.has_code_for(capability) for capability in capabilities)
    )


def choose(
    capabilities: Sequence[Capability],
    driver: Driver,
    *,
    python: Version | None = None,
    platform: str = "x86_64",
    minimum_torch: Version | None = None,
) -> Wheel | Unknown:
    """The newest torch with code for all of these GPUs that the driver runs.

    Among the builds of one release: the newest CUDA that the driver has in full, else the oldest.
    Unknown says why there is none, and which driver would do.
    """
    if not capabilities:
        return Unknown(reason="the compute capability of the GPUs is not known")
    if driver.version is None and driver.cuda is None:
        return Unknown(reason="the version of the NVIDIA driver is not known")
    fitting = candidates(capabilities, python, platform, minimum_torch)
    if not fitting:
        return Unknown(reason=no_code(capabilities, python, platform, minimum_torch))
    runnable = [wheel for wheel in fitting if driver.runs(wheel)]
    if not runnable:
        lowest = min(MINIMUM[wheel.cuda[0]] for wheel in fitting)
        needed = ".".join(f"{part:02}" for part in lowest)
        first = dotted(min(PYTHONS))
        return Unknown(reason=f"wheels of PyTorch {first} or newer need driver {needed} or newer")
    newest = driver.newest_cuda or (0, 0)

    def preference(wheel: Wheel) -> tuple[Version, bool, Version]:
        full = wheel.cuda <= newest
        return wheel.torch, full, wheel.cuda if full else (-wheel.cuda[0], -wheel.cuda[1])

    return max(runnable, key=preference)


def pip_command(wheel: Wheel, installed: str | None = None, *, vision: bool = False) -> str:
    """The command that installs it; `installed` is the version that it is to replace, `vision`:
    whether torchvision, which fits one release of torch alone, is to follow.

    Another build of the same release already satisfies the requirement, so pip must be forced.
    """
    same = re.match(rf"{re.escape(dotted(wheel.torch))}(?!\d)", installed or "")
    force = "--force-reinstall " if same else ""
    also = f' "torchvision=={dotted(torchvision_of(wheel.torch))}.*"' if vision else ""
    wanted = f'{force}"{wheel.requirement}"{also}'
    return f"python -m pip install {wanted} --index-url {wheel.index_url}"


def torchvision_of(torch: Version) -> Version:
    """The release of torchvision that belongs to this torch."""
    major, minor = torch
    return 0, minor + (15 if major == 2 else 1)


def no_code(
    capabilities: Sequence[Capability],
    python: Version | None,
    platform: str,
    minimum_torch: Version | None = None,
) -> str:
    """Why there is no wheel, whatever the driver."""
    wanted = " and ".join(dotted(capability) for capability in sorted(set(capabilities)))
    limits = f", Python {dotted(python)}" if python else ""
    limits += f", torch {dotted(minimum_torch)} or newer" if minimum_torch else ""
    first = dotted(min(PYTHONS))
    return f"no wheel of PyTorch {first} or newer has code for {wanted} (Linux {platform}{limits})"
