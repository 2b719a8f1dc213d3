"""The NVIDIA driver: whether it responds."""

from __future__ import annotations

from dataclasses import replace
from errno import EACCES

from doctor._util.records import Ended, Unknown
from doctor.checks.driver.cuda_version import version_of
from doctor.checks.driver.errors import (
    BLOCKED,
    CRASHES,
    CUDA_REMEDIES,
    DENIED_NODES,
    FABRIC_VERSION,
    HANGS,
    MISMATCH,
    MISMATCHED_HOST,
    MISMATCHED_IMAGE,
    NO_DEVICE,
    NO_HARDWARE,
    NO_LIBRARY,
    NODES,
    NOT_READY,
    NVML_REMEDIES,
    OTHER,
    OTHER_VERSION,
    PERSISTENCE,
    STALE_UVM,
    UNKNOWN_ERROR,
)
from doctor.errors.cause import Cause
from doctor.errors.fitted import worded
from doctor.facts.host import Host
from doctor.facts.machine import Driver, Gpu
from doctor.facts.views import is_undivided
from doctor.judge.check import Check, Owner, Verdict, ok, unknown, warn
from doctor.judge.known_errors import (
    CONFIDENTIAL,
    IN_CONTAINER,
    KILLED,
    LIBRARY,
    MISMATCHED,
    NO_INSTANCES,
    NOT_LOADED,
    PARTS_DIFFER,
    WSL_DRIVER,
    fail_by,
    find_cause,
)

REQUIRED = "NVML and cuInit must respond"
SLOW_SECONDS = 8.0
"""The driver's start should take less: 1 to 3 s per GPU without persistence mode."""
NODE_ERRORS = (NO_DEVICE, 304, UNKNOWN_ERROR)
"""Codes of cuInit where a device node is missing or cannot be opened."""
OF_LINUX = (9, NO_LIBRARY, MISMATCH)
"""NVML's codes for a driver of Linux without its kernel module; WSL has no such module."""
SYSTEM_DIRECTORIES = ("/usr/lib", "/lib")
"""Where the host's own driver libraries are."""


def responds(
    host: Host | Unknown, driver: Driver | Unknown, gpus: tuple[Gpu, ...] | Unknown | None
) -> Verdict:
    if isinstance(driver, Unknown):
        return _no_hardware(host, driver.reason) or unknown(driver.reason)
    elapsed = max(driver.nvml.seconds, driver.cuda.seconds)
    return replace(_responds(host, driver, gpus), seconds=elapsed)


def _responds(
    host: Host | Unknown, driver: Driver, gpus: tuple[Gpu, ...] | Unknown | None
) -> Verdict:
    if driver.nvml.ok and driver.cuda.ok:
        warning = _late(driver) or _slow(driver, gpus)
        return warning or ok(f"{version_of(driver)}: NVML and cuInit respond")
    selection = host.visible_devices if isinstance(host, Host) else None
    if driver.nvml.ok and driver.cuda.code == NO_DEVICE and selection is not None:
        note = f"cuInit finds no device with CUDA_VISIBLE_DEVICES={selection!r}, see GPU001"
        return ok(f"{version_of(driver)}: NVML responds; {note}")
    errors = _errors(driver)
    if blocked := _blocked(driver, errors):
        return blocked
    if driver.nvml.code == NO_LIBRARY and driver.cuda.ok:
        note = "cuInit responds; without NVML the GPUs' health cannot be read, and NCCL needs it"
        return warn(
            f"{errors}; {note}",
            *LIBRARY.commands,
            fix=LIBRARY.fix,
            owner=LIBRARY.owner,
            sources=LIBRARY.sources,
        )
    if driver.nvml.ok or driver.cuda.ok:  # one of them found a GPU: a Jetson is on no PCI bus
        return _undivided(driver, gpus, errors) or _broken(host, driver, errors)
    return _no_hardware(host, errors) or _broken(host, driver, errors)


def _undivided(
    driver: Driver, gpus: tuple[Gpu, ...] | Unknown | None, errors: str
) -> Verdict | None:
    """A failure if CUDA has no device, because MIG mode is on and no instance exists."""
    listed = gpus if isinstance(gpus, tuple) else ()
    if driver.cuda.code != NO_DEVICE or not listed or not all(map(is_undivided, listed)):
        return None
    return fail_by(NO_INSTANCES, f"{errors}; MIG mode is on, and no instance exists; {REQUIRED}")


def _blocked(driver: Driver, errors: str) -> Verdict | None:
    """A call that did not return: a failure where it is sure that it hangs, else a warning."""
    ends = (driver.nvml, driver.cuda)
    hung = [e for e in ends if _inside(e, "timeout") or _inside(e, "budget")]
    if not hung:
        return None
    limit = max(each.seconds for each in hung)
    if driver.blocked == "once":
        return warn(
            f"{errors}; {REQUIRED}, and a second start was not made",
            fix=BLOCKED,
            sources=HANGS.sources,
        )
    sign = {"in the kernel": " (it waits in the kernel, in state D without CPU time)"}
    sign["twice"] = ", in two starts"
    text = f"{errors}{sign.get(driver.blocked or '', '')}; {REQUIRED} within {limit:.0f} s"
    return fail_by(HANGS, text)


def _late(driver: Driver) -> Verdict | None:
    """A warning if the first of two starts did not answer."""
    if driver.blocked is None:
        return None
    summary = f"{version_of(driver)}: the first start did not answer ({driver.first_start}), a"
    return warn(f"{summary} second one did; one start required", fix=BLOCKED, sources=HANGS.sources)


def _slow(driver: Driver, gpus: tuple[Gpu, ...] | Unknown | None) -> Verdict | None:
    """A warning if the driver started slowly and persistence mode is off."""
    elapsed = max(driver.nvml.seconds, driver.cuda.seconds)
    off = isinstance(gpus, tuple) and any(gpu.persistence is False for gpu in gpus)
    if elapsed <= SLOW_SECONDS or not off:
        return None
    return warn(
        f"{version_of(driver)}: the driver took {elapsed:.0f} s to start, with persistence mode "
        f"off; at most {SLOW_SECONDS:.0f} s required",
        "sudo nvidia-smi -pm 1",
        fix=PERSISTENCE,
        sources=("driver-persistence", "nvtrust-113"),
    )


def _broken(host: Host | Unknown, driver: Driver, errors: str) -> Verdict:
    """There is hardware, and a call returned an error."""
    both = (driver.nvml, driver.cuda)
    if any(find_cause(ended) is KILLED for ended in both):
        return fail_by(KILLED, errors)
    if any(_inside(ended, "signal") for ended in both):
        return fail_by(CRASHES, f"{errors}; {REQUIRED}")
    if driver.nvml.ok and driver.cuda.code in NODE_ERRORS and driver.unusable_nodes:
        nodes = ", ".join(f"{node}: {why}" for node, why in driver.unusable_nodes.items())
        denied = all(why.endswith(f"({EACCES})") for why in driver.unusable_nodes.values())
        return fail_by(DENIED_NODES if denied else NODES, f"{errors}; {nodes}; {REQUIRED}")
    remedy = _nvml_remedy(host, driver) or _cuda_remedy(host, driver)
    if remedy is None:
        return unknown(f"whether the driver responds is unknown: {errors}")
    described = (NOT_LOADED, LIBRARY, MISMATCHED, MISMATCHED_HOST, MISMATCHED_IMAGE)
    hardware = _hardware(host) if remedy in described else ""
    return fail_by(remedy, f"{errors}{hardware}; {REQUIRED}")


def _nvml_remedy(host: Host | Unknown, driver: Driver) -> Cause | None:
    ended = driver.nvml
    if ended.code is None:
        return find_cause(ended) if ended.how == "error" else None
    if ended.code == UNKNOWN_ERROR and isinstance(host, Host) and host.container:
        return IN_CONTAINER
    if ended.code in OF_LINUX and isinstance(host, Host) and host.sandbox == "WSL2":
        return WSL_DRIVER
    remedy = NVML_REMEDIES.get(ended.code, OTHER)
    return _whose_library(host, driver) if remedy is MISMATCHED else remedy


def _whose_library(host: Host | Unknown, driver: Driver) -> Cause:
    """Whether the libnvidia-ml that does not match the kernel module is the host's."""
    reported = (host.reported or ()) if isinstance(host, Host) else ()
    if differ := next((e for e in reported if e.cause == PARTS_DIFFER.id), None):
        return worded(PARTS_DIFFER, differ.line)
    if not isinstance(host, Host) or driver.nvml_library is None:
        return MISMATCHED
    if host.container:
        return MISMATCHED_HOST if driver.nvml_mounted else MISMATCHED_IMAGE
    system = driver.nvml_library.startswith(SYSTEM_DIRECTORIES)
    return MISMATCHED_HOST if system else MISMATCHED_IMAGE


def _cuda_remedy(host: Host | Unknown, driver: Driver) -> Cause | None:
    ended = driver.cuda
    if ended.code is None:
        return find_cause(ended) if ended.how == "error" else None
    if ended.code == UNKNOWN_ERROR and isinstance(host, Host) and host.sandbox == "WSL2":
        return WSL_DRIVER  # WSL has no module nvidia_uvm
    if ended.code == UNKNOWN_ERROR and driver.unusable_nodes == {}:
        return STALE_UVM
    if ended.code == NOT_READY and driver.confidential:
        return CONFIDENTIAL
    if ended.code == NOT_READY and isinstance(host, Host) and _states(host, OTHER_VERSION):
        return FABRIC_VERSION
    return CUDA_REMEDIES.get(ended.code, OTHER)


def _states(host: Host, words: str) -> bool:
    """Whether a known line of a log or a report has these words."""
    return any(words in each.line for each in host.reported or ())


def _no_hardware(host: Host | Unknown, errors: str) -> Verdict | None:
    if not isinstance(host, Host) or host.has_nvidia or not host.pci_listed:
        return None
    summary = "no NVIDIA GPU on the PCI bus and no /dev/nvidia*; the job requires one"
    return fail_by(NO_HARDWARE, f"{summary} ({errors})" if errors else summary)


def _inside(ended: Ended, how: str) -> bool:
    """Whether it ended this way inside a call of the driver, not before the first call."""
    return ended.how == how and " inside " in ended.detail


def _errors(driver: Driver) -> str:
    pairs = (("NVML", driver.nvml), ("CUDA", driver.cuda))
    return "; ".join(
        f"{name}: {ended.detail or ended.how}" for name, ended in pairs if not ended.ok
    )


def _hardware(host: Host | Unknown) -> str:
    if not isinstance(host, Host):
        return ""
    nodes = host.device_nodes[:3]
    if host.cpus is None and not (host.pci_listed or nodes or host.kernel_driver):
        return ""  # a text that somebody pasted, which names none of them
    listed = f"device nodes {', '.join(nodes)}" if nodes else "no device nodes"
    module = f"kernel module {host.kernel_driver}" if host.kernel_driver else "no kernel module"
    count = host.nvidia_devices if host.pci_listed else "not listed"
    return f" (NVIDIA GPUs on the bus: {count}, {listed}, {module})"


RESPONDS = Check(
    code="DRV001",
    slug="driver-answers",
    title="The NVIDIA driver responds",
    why="NVML reports the GPUs' identity and health; cuInit is the first CUDA call of torch. Each "
    "runs in a process of its own with a deadline (30 s, and 5 s for each further GPU): a driver "
    "that hangs blocks nvidia-smi and torch. A reset or the fabric manager may hold it: such a "
    "call is tried twice.",
    passes=(
        "NVML and cuInit both respond",
        "cuInit finds no device because CUDA_VISIBLE_DEVICES hides all of them: see GPU001",
    ),
    warns=(
        "cuInit responds, and only libnvidia-ml.so.1 is missing",
        f"the driver takes more than {SLOW_SECONDS:.0f} s to start, and persistence mode is off",
        "a call did not return within the deadline, and a second start did, or was not made for "
        "want of --budget",
    ),
    fails=(
        "a call waits in the kernel (state D) without CPU time when its deadline is over, or does "
        "not return within the deadline in two starts, or crashes",
        "NVIDIA hardware or device nodes exist, and a library is missing or the driver is not "
        "loaded",
        "NVML or cuInit returns an error",
        "the job requires a GPU, and there is no NVIDIA hardware",
    ),
    fix=OTHER.fix,
    limits="that a kernel runs: only the driver was called; TOR003 and SMK001 run kernels.",
    owner=Owner.ENVIRONMENT,
    judge=responds,
    returns=True,
    required="always",
    commands=OTHER.commands,
    sources=("ps-U28", "toolkit-48", "pytorch-35710", "driver-mismatch", "driver-persistence"),
    targets=("nvidia",),
    also=("read",),
)


CHECKS = (RESPONDS,)
