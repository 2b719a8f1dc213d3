"""Which torch to install instead: the newest wheel for these GPUs, this driver and this Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from doctor._util.records import Unknown
from doctor._util.units import dotted
from doctor.checks.torch_build import wheels
from doctor.checks.torch_build.gpu_code import JETSONS
from doctor.checks.torch_build.wheel_table import PYTHONS, Wheel
from doctor.checks.torch_build.wheels import choose, pip_command
from doctor.facts.host import Host
from doctor.facts.interpreter import Interpreter, Torch
from doctor.facts.machine import Driver
from doctor.facts.views import JobGpus
from doctor.hardware.product import Capability

JETSON = (
    "Install the wheel that NVIDIA builds for this Jetson and its JetPack: PyTorch's own wheels "
    "have no code for it, although they have cubins of the same major version."
)
JETSON_LIBRARIES = (
    "On a Jetson torch uses CUDA and cuDNN of the system: reinstall the wheel that NVIDIA builds "
    "for this JetPack and its Python (or use its l4t container with --runtime nvidia), and install "
    "the libraries that are missing: sudo apt install nvidia-jetpack. cuSPARSELt, NVPL and cuDSS "
    "are packages of their own for aarch64. PyTorch's own wheels and the packages nvidia-...-cu12 "
    "of pip are made for other machines; JetPack 7 (Thor) alone takes the wheels for aarch64 with "
    "CUDA 13."
)
OTHER_SYSTEM = "Install the build that pytorch.org/get-started names for this system."
MAXWELL_TO_HOPPER: tuple[Capability, ...] = ((5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 9), (9, 0))
WITHOUT_KEPLER, WITH_BLACKWELL = (495,), (570,)
"""First drivers of these; those between drive the GPUs above alone."""
CUDA_WITHOUT_KEPLER, CUDA_WITH_BLACKWELL = (11, 5), (12, 8)
"""The CUDA versions of these drivers, where torch reports no other."""
LATER: dict[Capability, int] = {(10, 3): 580, (11, 0): 580, (12, 1): 580}
"""First drivers of later ones: B300, Thor, GB10 came with CUDA 13."""
UPGRADE = "Upgrade the driver on the host; rented, take a machine with a newer one."


Command = Callable[[Wheel], str]
"""The command that installs a wheel."""


class Replacement(NamedTuple):
    """A remedy: install another torch, or why there is none."""

    fix: str
    commands: tuple[str, ...] = ()


def replace_torch(
    torch: Torch | Unknown,
    driver: Driver | Unknown | None,
    job_gpus: JobGpus | Unknown,
    host: Host | Unknown,
    interpreter: Interpreter | Unknown,
    reported_cuda: int | None = None,
) -> Replacement:
    """The wheel to install on this machine.

    `reported_cuda` is the driver's CUDA as torch reports it, which outweighs what NVML reports.
    """
    capabilities = _capabilities(job_gpus)
    jetson = isinstance(host, Host) and host.jetson
    if any(capability in JETSONS for capability in capabilities) or (jetson and not capabilities):
        return Replacement(JETSON)
    if isinstance(host, Host) and not _has_wheels(host):
        return Replacement(OTHER_SYSTEM)
    known = _driver(driver, reported_cuda)
    python, platform = _python(interpreter), _platform(host)
    wheel = _on_any_gpu(capabilities, known, python, platform) or choose(
        capabilities, known, python=python, platform=platform
    )
    command = partial(
        pip_command,
        installed=torch.version if isinstance(torch, Torch) else None,
        vision=platform != "aarch64" and _has_torchvision(interpreter),
    )
    if isinstance(wheel, Wheel):
        codes = _codes(capabilities) or "every GPU that this driver drives"
        return _install(wheel, codes, known, command)
    if known == wheels.Driver() and capabilities:
        return _whatever_the_driver(capabilities, python, platform, command)
    if python:
        wheel = choose(capabilities, known, platform=platform)
    if python and isinstance(wheel, Wheel):
        return _another_python(wheel, python, capabilities)
    return _no_wheel(wheel, capabilities)


def _no_wheel(why: Wheel | Unknown, capabilities: list[Capability]) -> Replacement:
    assert isinstance(why, Unknown)
    if "driver" in why.reason and capabilities:
        return Replacement(f"{_sentence(why.reason)}. {UPGRADE}")
    if len(set(capabilities)) > 1:
        hide = "Hide some of these GPUs with CUDA_VISIBLE_DEVICES, then run the doctor again"
        return Replacement(f"{_sentence(why.reason)}. {hide}.")
    return Replacement(
        "Install a CUDA build of torch from pytorch.org/get-started: one with code for the GPU, "
        f"for a CUDA version that the driver runs. {_sentence(why.reason)}."
    )


def _on_any_gpu(
    capabilities: list[Capability], known: wheels.Driver, python: tuple[int, int] | None,
    platform: str,
) -> Wheel | None:  # fmt: skip
    """Where no GPU is known: the wheel with code for all that this driver drives."""
    by_driver = WITHOUT_KEPLER <= (known.version or (0,)) < WITH_BLACKWELL
    by_cuda = CUDA_WITHOUT_KEPLER <= (known.newest_cuda or (0,)) < CUDA_WITH_BLACKWELL
    if capabilities or not (by_cuda if known.version is None else by_driver):
        return None
    wheel = choose(MAXWELL_TO_HOPPER, known, python=python, platform=platform)
    return wheel if isinstance(wheel, Wheel) else None


def _install(wheel: Wheel, codes: str, known: wheels.Driver, command: Command) -> Replacement:
    version = ".".join(f"{part:02}" for part in known.version) if known.version else "this driver"
    driver = f"driver {version}" if known.version else version
    fix = (
        f"Install torch {dotted(wheel.torch)} for CUDA {dotted(wheel.cuda)}: {driver} runs it, and "
        f"it has code for {codes}."
    )
    return Replacement(fix, (command(wheel),))


def _whatever_the_driver(
    capabilities: list[Capability],
    python: tuple[int, int] | None,
    platform: str,
    command: Command,
) -> Replacement:
    """The driver is not known: the wheel that the oldest driver runs."""
    for major in (12, 13):
        oldest = wheels.Driver(wheels.MINIMUM[major])
        wheel = choose(capabilities, oldest, python=python, platform=platform)
        if isinstance(wheel, Wheel):
            needed = max(wheels.MINIMUM[wheel.cuda[0]][0], *map(_first_driver, capabilities))
            fix = (
                f"Install torch {dotted(wheel.torch)} for CUDA {dotted(wheel.cuda)}, which has "
                f"code for {_codes(capabilities)} and requires driver {needed} or newer; the "
                "driver's version could not be read."
            )
            return Replacement(fix, (command(wheel),))
    return Replacement(f"{_sentence(wheels.no_code(capabilities, python, platform))}.")


def _first_driver(capability: Capability) -> int:
    """The first driver that knows the GPU, where it came after those of CUDA 12."""
    return LATER.get(capability, WITH_BLACKWELL[0] if capability >= (10, 0) else 0)


def _another_python(
    wheel: Wheel, python: tuple[int, int], capabilities: list[Capability]
) -> Replacement:
    first, last = PYTHONS[wheel.torch]
    return Replacement(
        f"No wheel of PyTorch with code for {_codes(capabilities)} that this driver runs exists "
        f"for Python {dotted(python)}. Make an environment with Python {dotted(first)} to "
        f"{dotted(last)}, and run there: {pip_command(wheel)}"
    )


def _codes(capabilities: list[Capability]) -> str:
    return " and ".join(dotted(each) for each in sorted(set(capabilities)))


def _capabilities(job_gpus: JobGpus | Unknown) -> list[Capability]:
    """Of every GPU of the job; none if that of one is not known."""
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    each = [gpu.capability or wheels.capability_of(gpu.name) for gpu in gpus]
    known = [capability for capability in each if capability is not None]
    return known if len(known) == len(each) else []


def _driver(driver: Driver | Unknown | None, reported_cuda: int | None) -> wheels.Driver:
    """What is known of it. A libcuda that is older than the driver limits it."""
    if not isinstance(driver, Driver):
        return wheels.Driver.read(None, reported_cuda)
    number = reported_cuda or driver.cuda_version
    by_version = wheels.Driver.read(driver.version).newest_cuda
    if reported_cuda or (number and by_version and number // 1000 < by_version[0]):
        return wheels.Driver.read(None, number)
    return wheels.Driver.read(driver.version, number)


def _python(interpreter: Interpreter | Unknown) -> tuple[int, int] | None:
    version = interpreter.version if isinstance(interpreter, Interpreter) else ""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None


def _has_torchvision(interpreter: Interpreter | Unknown) -> bool:
    rows = (interpreter.installed or ()) if isinstance(interpreter, Interpreter) else ()
    return any(row.startswith("torchvision==") for row in rows)


def _platform(host: Host | Unknown) -> str:
    arm = isinstance(host, Host) and host.arch in ("aarch64", "arm64")
    return "aarch64" if arm else "x86_64"


def _has_wheels(host: Host) -> bool:
    """Whether PyTorch builds for CUDA there; the wheels of Windows are those of Linux on x86_64."""
    windows = host.system == "Windows" and host.arch in ("", "x86_64", "AMD64")
    return windows or host.system in ("", "Linux")


def _sentence(reason: str) -> str:
    return reason[:1].upper() + reason[1:]
