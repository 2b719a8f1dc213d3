"""The driver: NVML and CUDA, each started in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.collect.children import Children, background, fit, read, unless_cut_off
from doctor.collect.torch_child import ReportProgress
from doctor.collect.workers import Gpus
from doctor.facts.machine import Driver, Gpu, Host

PATIENCE_SECONDS = 8.0
"""After which a slow driver is reported."""
DRIVER_SECONDS, GPU_SECONDS = 30.0, 5.0
"""For the driver to respond, and for each GPU beyond the first: without persistence mode the driver
first initializes one GPU after the other, which takes 1 to 3 s each, and 7 s in
confidential-computing mode (driver-persistence, nvtrust-113)."""
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
    cuda_answer = background(lambda: children.run_probe("cuda_init", seconds=seconds))
    nvml = children.run_probe("nvml", seconds=seconds, keep=True)
    cuda = cuda_answer.result()
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
            "unusable_nodes": next(
                (note["unusable_nodes"] for note in cuda.notes if "unusable_nodes" in note), None
            ),
            **{name: versions.get(name) for name in FROM_NVML},
        },
        Driver,
    )
    if isinstance(driver, Unknown):
        driver = Driver(nvml=Ended(how="error", detail=driver.reason), cuda=cuda.ended)
    section = unless_cut_off(driver, nvml.ended, cuda.ended)
    if nvml.ended.ok:
        return section, _with_held(read(nvml, "gpus", tuple[Gpu, ...]), held)
    read_before = fit([note["gpu"] for note in nvml.notes if "gpu" in note], tuple[Gpu, ...])
    return section, read_before or Unknown(reason=nvml.ended.detail)


def _with_held(gpus: Gpus, held: Mapping[str, int]) -> Gpus:
    if not isinstance(gpus, tuple):
        return gpus
    return tuple(msgspec.structs.replace(gpu, held=held.get(gpu.uuid)) for gpu in gpus)


def wait_for(
    driver: Future[Sections],
    seconds: float,
    started: float,
    report_progress: ReportProgress,
) -> Sections:
    """The driver's sections; a slow start is reported while it lasts."""
    report_progress("waiting for the driver")
    try:
        return driver.result(max(0.0, started + PATIENCE_SECONDS - time.monotonic()))
    except TimeoutError:
        report_progress(f"waiting for the driver, which is slow; at most {seconds:.0f} s")
    return driver.result()


def responds(driver: Driver | Unknown | None) -> bool:
    """Whether NVML and CUDA started."""
    return isinstance(driver, Driver) and driver.nvml.ok and driver.cuda.ok


def hung_driver(driver: Driver | Unknown | None) -> Unknown | None:
    """Why CUDA must not be used: a hung driver would hang torch too."""
    if isinstance(driver, Driver):
        for ended in (driver.nvml, driver.cuda):
            if ended.how == "timeout":
                return Unknown(reason=f"left out, the driver hangs: {ended.detail}")
    return None
