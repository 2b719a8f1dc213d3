"""Which probe fills which section, at the same time where it can; the only caller of probes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Literal

import msgspec

from doctor import host
from doctor.card_sections import Watched
from doctor.checkpoint.remote import redacted
from doctor.checkpoint_sections import Checkpoint
from doctor.child import Child
from doctor.children import Children, background, fit, read, read_checkpoint
from doctor.facts import Facts
from doctor.interpreter import choose
from doctor.job import Job
from doctor.sections import Cuda, Driver, Ended, Gpu, Place, Torch, Unknown
from doctor.torch_child import Told, TorchChild, read_cuda, read_import, read_libraries, run_smoke
from doctor.units import printable
from doctor.views import find_target

DRIVER_SECONDS = 8.0
PLACE_SECONDS = 8.0
CHECKPOINT_SECONDS = 120.0
CLOCKS_SECONDS = 5.0

Gpus = tuple[Gpu, ...] | Unknown | None


def collect(job: Job, told: Told) -> Facts:
    """Examine this machine; `told` hears what takes long. No child outlives the call."""
    children = Children()
    try:
        return _collect(job, children, told)
    finally:
        children.interrupt()


def _collect(job: Job, children: Children, told: Told) -> Facts:
    began = time.monotonic()
    path, why = choose(job.python, os.environ)
    child = TorchChild(children, path)
    seen = host.look()
    nvidia = find_target(job, seen, Unknown(reason="not asked yet")).kind == "nvidia"
    driver = background(lambda: _driver(children) if nvidia else (None, None))
    places = [_look_at(children, *role) for role in roles(job, os.environ)]
    checkpoint = background(lambda: _checkpoint(children, job.checkpoint))

    told("importing torch")
    interpreter, torch = read_import(path, why, child)
    told("asking the driver")
    driver_section, gpus = driver.result()
    facts = Facts(
        job=without_secrets(job),
        host=seen,
        driver=driver_section,
        gpus=gpus,
        interpreter=interpreter,
        torch=torch,
        places=(),
    )
    if isinstance(torch, Torch):
        facts = _examine_torch(facts, torch, child, children, told)
    elif job.smoke:
        facts = facts.with_(smoke=torch)
    child.end()
    told("waiting for disks")
    return facts.with_(
        places=tuple(place.result() for place in places),
        checkpoint=checkpoint.result(),
        seconds=time.monotonic() - began,
    )


def without_secrets(job: Job) -> Job:
    """The job as it may be told: an address of a checkpoint can hold a password or a token."""
    if job.checkpoint is None:
        return job
    return msgspec.structs.replace(job, checkpoint=redacted(job.checkpoint))


def _examine_torch(
    facts: Facts, torch: Torch, child: TorchChild, children: Children, told: Told
) -> Facts:
    """The torch stages. CUDA's are left out when the driver gave no answer."""
    if facts.target.kind in ("nvidia", "rocm"):
        facts = _examine_cuda(facts, torch, child, told)
    if not facts.job.smoke:
        return facts
    device, chosen = _device(facts), facts.chosen
    if isinstance(device, Unknown):
        return facts.with_(smoke=device)
    if isinstance(chosen, Unknown):
        return facts.with_(smoke=chosen)
    clocks = _watch_clocks(facts, children)
    smoke = run_smoke(child, facts.job, device, chosen, told)
    return facts.with_(smoke=smoke, watched=_read_clocks(clocks))


def _examine_cuda(facts: Facts, torch: Torch, child: TorchChild, told: Told) -> Facts:
    cuda = _silent(facts.driver) or read_cuda(child, told)
    if isinstance(cuda, Unknown):
        return facts.with_(cuda=cuda, libraries=cuda)
    libraries, torch, cuda = read_libraries(child, torch, cuda)
    return facts.with_(torch=torch, cuda=cuda, libraries=libraries)


def _silent(driver: Driver | Unknown | None) -> Unknown | None:
    """Why CUDA must not be touched: a driver that does not answer hangs torch too."""
    if isinstance(driver, Driver):
        for ended in (driver.nvml, driver.cuda):
            if ended.how == "timeout":
                return Unknown(reason=f"left out, the driver hangs: {ended.detail}")
    return None


def _device(facts: Facts) -> str | Unknown:
    """The torch device of the smoke step."""
    target = facts.target.kind
    if target in ("cpu", "mps"):
        return target
    if isinstance(facts.cuda, Cuda) and facts.cuda.started.ok and facts.cuda.gpus:
        return "cuda:0"
    if isinstance(facts.cuda, Unknown):
        return facts.cuda
    detail = facts.cuda.started.detail if facts.cuda else ""
    return Unknown(reason=f"torch sees no GPU to train on: {detail}".rstrip(": "))


def _driver(children: Children) -> tuple[Driver, Gpus]:
    """NVML and CUDA, each started in a process of its own."""
    started = background(lambda: children.ask("cuda_init", seconds=DRIVER_SECONDS))
    nvml = children.ask("nvml", seconds=DRIVER_SECONDS)
    cuda = started.result()
    told = {key: value for note in nvml.notes for key, value in note.items() if key != "gpu"}
    told |= nvml.answer or {}
    version = (cuda.answer or {}).get("driver_version") or told.get("cuda_version")
    driver = fit(
        {
            "type": "Driver",
            "nvml": nvml.ended,
            "cuda": cuda.ended,
            "version": told.get("version"),
            "cuda_version": version,
        },
        Driver,
    )
    if isinstance(driver, Unknown):
        driver = Driver(nvml=Ended(how="error", detail=driver.reason), cuda=cuda.ended)
    if nvml.ended.ok:
        return driver, read(nvml, "gpus", tuple[Gpu, ...])
    kept = fit([note["gpu"] for note in nvml.notes if "gpu" in note], tuple[Gpu, ...])
    return driver, kept or Unknown(reason=nvml.ended.detail)


def roles(
    job: Job, environ: Mapping[str, str]
) -> list[tuple[Literal["output", "cache", "temporary"], str, bool]]:
    """The folders that a training writes to: role, path, named by the user."""
    caches = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    cache = environ.get("HF_HOME") or f"{caches}/huggingface"
    return [
        ("output", job.output_dir or job.working_dir, job.output_dir is not None),
        ("cache", printable(cache), False),
        ("temporary", environ.get("TMPDIR") or "/tmp", False),  # noqa: S108 - only looked at
    ]


def _look_at(
    children: Children, role: Literal["output", "cache", "temporary"], path: str, named: bool
) -> Future[Place]:
    return background(lambda: _place(children, role, path, named))


def _place(
    children: Children, role: Literal["output", "cache", "temporary"], path: str, named: bool
) -> Place:
    arguments = (role, path, "named" if named else "assumed")
    answer = children.ask("place", *arguments, seconds=PLACE_SECONDS)
    known = {key: value for note in answer.notes for key, value in note.get("place", {}).items()}
    known |= (answer.answer or {}).get("place", {})
    said = {"type": "Place", "role": role, "path": path, "named": named, "looked": answer.ended}
    place = fit(known | said, Place)
    if isinstance(place, Unknown):
        ended = Ended(how="error", detail=place.reason)
        return Place(role=role, path=path, named=named, looked=ended)
    return place


def _checkpoint(children: Children, path: str | None) -> Checkpoint | Unknown | None:
    if path is None:
        return None
    return read_checkpoint(children.ask("checkpoint", path, seconds=CHECKPOINT_SECONDS))


def _watch_clocks(facts: Facts, children: Children) -> Child | None:
    if facts.target.kind != "nvidia" or not isinstance(facts.gpus, tuple):
        return None
    child = children.start(sys.executable, "clocks", *(gpu.uuid for gpu in facts.gpus))
    child.wait(CLOCKS_SECONDS)  # until it samples
    return child


def _read_clocks(child: Child | None) -> tuple[Watched, ...] | Unknown | None:
    if child is None:
        return None
    child.send({"stop": True})
    try:
        return read(child.wait(CLOCKS_SECONDS), "watched", tuple[Watched, ...])
    finally:
        child.kill()
