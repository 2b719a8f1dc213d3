"""The driver: NVML and CUDA, each started in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.collect.background import background
from doctor.collect.child_messages import Answer
from doctor.collect.children import Children, fit, read, unless_cut_off
from doctor.collect.torch_child import ReportProgress
from doctor.collect.workers import Gpus
from doctor.facts.host import Host
from doctor.facts.machine import Driver, Gpu

PATIENCE_SECONDS = 8.0
"""After which a slow driver is reported."""
DRIVER_SECONDS, GPU_SECONDS = 30.0, 5.0
"""The deadline of a start: for the driver to respond, and for each GPU beyond the first: without
persistence mode the driver first initializes one GPU after the other, which takes 1 to 3 s each,
and 7 s in confidential-computing mode (driver-persistence, nvtrust-113)."""
FROM_NVML = ("confidential", "unlisted_gpus", "nvml_library", "nvml_mounted")
"""Fields of Driver that its probe reports as they are."""
MOST_GPUS = 8

Sections = tuple[Driver | Unknown | None, Gpus]


def driver_seconds(host: Host) -> float:
    """How long the driver of this host's GPUs may take to respond."""
    return DRIVER_SECONDS + GPU_SECONDS * max(0, min(host.nvidia_devices, MOST_GPUS) - 1)


def read_driver(children: Children, seconds: float, held: Mapping[str, int]) -> Sections:
    """NVML and CUDA, each started in a process of its own; NVML stays open until the run ends.

    `held`: bytes that the calling process holds, by the UUID of the GPU.
    """
    cuda_start = background(lambda: _start(children, "cuda_init", seconds))
    nvml, first_of_nvml = _start(children, "nvml", seconds, keep=True)
    cuda, first_of_cuda = cuda_start.result()
    versions = {key: value for note in nvml.notes for key, value in note.items() if key != "gpu"}
    versions |= nvml.answer or {}
    version = (cuda.answer or {}).get("driver_version") or versions.get("cuda_version")
    driver = fit(
        {
            "type": "Driver",
            "nvml": nvml.ended,
            "cuda": cuda.ended,
            "version": versions.get("version"),
            "cuda_version": version,
            "blocked": _blocked((nvml, first_of_nvml), (cuda, first_of_cuda)),
            "first_start": first_of_nvml or first_of_cuda,
            "unusable_nodes": next(
                (note["unusable_nodes"] for note in cuda.notes if "unusable_nodes" in note), None
            ),
            **{name: versions.get(name) for name in FROM_NVML},
        },
        Driver,
    )
    if isinstance(driver, Unknown):
        driver = Driver(nvml=Ended(how="error", detail=driver.reason), cuda=cuda.ended)
    # A call that was cut off inside the driver is a fact about the driver.
    inside = [each.ended for each in (nvml, cuda) if not is_inside(each.ended)]
    section = unless_cut_off(driver, *inside)
    if nvml.ended.ok:
        return section, _with_held(read(nvml, "gpus", tuple[Gpu, ...]), held)
    read_before = fit([note["gpu"] for note in nvml.notes if "gpu" in note], tuple[Gpu, ...])
    return section, read_before or Unknown(reason=nvml.ended.detail)


def _start(
    children: Children, probe: str, seconds: float, *, keep: bool = False
) -> tuple[Answer, str]:
    """The answer, and how the first start ended where a second one was needed.

    A reset, the fabric manager or DCGM may hold the driver for a while. A call that waits in the
    kernel without CPU time gets no second start: it would wait for the same lock.
    """
    first = children.run_probe(probe, seconds=seconds, keep=keep)
    if first.ended.how != "timeout" or first.uninterruptible:
        return first, ""
    second = children.run_probe(probe, seconds=seconds, keep=keep)
    if second.ended.how == "budget" and not is_inside(second.ended):
        return first, ""
    return second, first.ended.detail


def _blocked(*starts: tuple[Answer, str]) -> str | None:
    """The field of `Driver`: the surest sign of the calls counts."""
    if any(answer.uninterruptible for answer, _ in starts):
        return "in the kernel"
    if any(first and answer.ended.how == "timeout" for answer, first in starts):
        return "twice"
    cut = any(is_inside(answer.ended) and answer.ended.how == "budget" for answer, _ in starts)
    late = any(first or answer.ended.how == "timeout" for answer, first in starts)
    return "once" if cut or late else None


def is_inside(ended: Ended) -> bool:
    """Whether it ended inside a call of the driver."""
    return " inside " in ended.detail


def _with_held(gpus: Gpus, held: Mapping[str, int]) -> Gpus:
    if not isinstance(gpus, tuple):
        return gpus
    return tuple(msgspec.structs.replace(gpu, held=held.get(gpu.uuid)) for gpu in gpus)


def wait_for(
    driver: Future[Sections], seconds: float, started: float, report_progress: ReportProgress
) -> Sections:
    """The driver's sections; a slow start is reported while it lasts."""
    report_progress("waiting for the driver")
    try:
        return driver.result(max(0.0, started + PATIENCE_SECONDS - time.monotonic()))
    except TimeoutError:
        report_progress(f"waiting for the driver, which is slow; at most twice {seconds:.0f} s")
    return driver.result()


def responds(driver: Driver | Unknown | None) -> bool:
    """Whether NVML and CUDA started."""
    return isinstance(driver, Driver) and driver.nvml.ok and driver.cuda.ok


def hung_driver(driver: Driver | Unknown | None) -> Unknown | None:
    """Why CUDA must not be used: a hung driver would hang torch too."""
    if isinstance(driver, Driver):
        for ended in (driver.nvml, driver.cuda):
            if ended.how == "timeout" or (ended.how == "budget" and is_inside(ended)):
                return Unknown(reason=f"left out, the driver hangs: {ended.detail}")
    return None
