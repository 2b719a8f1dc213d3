"""Which probe fills which section, at the same time where it can; the only caller of probes."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Literal

import msgspec

from doctor._util.records import Ended, Unknown
from doctor._util.units import printable
from doctor.checkpoint.io.urls import redact_url
from doctor.checkpoint.records import Checkpoint
from doctor.collect import host
from doctor.collect.attention_trial import collect_attention
from doctor.collect.children import Children, background, fit, read, read_checkpoint
from doctor.collect.diagnosis import diagnose
from doctor.collect.gpus import Siblings, Watch, left_out, put_to_work
from doctor.collect.interpreter import choose
from doctor.collect.own_training import collect_own
from doctor.collect.torch_child import (
    Told,
    TorchChild,
    read_devices,
    read_import,
    read_libraries,
    run_kernels,
    run_smoke,
)
from doctor.collect.workers import Worker, end, team
from doctor.facts.facts import Facts
from doctor.facts.machine import Cuda, Driver, Gpu, Host, Interpreter, Place, Torch
from doctor.facts.training import ModelShape, OwnModel
from doctor.facts.views import find_target
from doctor.job.budget import without_cut
from doctor.job.job import Chosen, Job

OWN_SECONDS = 0.5
"""Of a budget for the doctor's own start and report."""
DRIVER_SECONDS, GPU_SECONDS = 8.0, 2.0
"""For the driver to answer, and for each GPU beyond the first: where nothing keeps the driver
awake (no persistence mode), it starts one GPU after the other first."""
MOST_GPUS = 8
PLACE_SECONDS = 8.0
CHECKPOINT_SECONDS = 120.0

Gpus = tuple[Gpu, ...] | Unknown | None


def collect(job: Job, told: Told) -> Facts:
    """Examine this machine; `told` hears what takes long. No child outlives the call."""
    children = Children(None if job.budget is None else max(OWN_SECONDS, job.budget - OWN_SECONDS))
    try:
        return without_cut(_collect(job, children, told))
    finally:
        children.interrupt()


def _collect(job: Job, children: Children, told: Told) -> Facts:
    began = time.monotonic()
    path, why = choose(job.python, os.environ)
    child = TorchChild(children, path)
    seen = host.look()
    nvidia = find_target(job, seen, Unknown(reason="not asked yet")).kind == "nvidia"
    patience = driver_seconds(seen)
    driver = background(lambda: _driver(children, patience) if nvidia else (None, None))
    places = [_look_at(children, *role) for role in roles(job, os.environ)]
    checkpoint = background(lambda: _checkpoint(children, job.checkpoint))
    shape = background(lambda: _shape(children, job.hf or job.checkpoint))

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
    else:
        facts = left_out(facts.with_(smoke=torch) if job.smoke else facts, torch)
    child.end()
    facts = facts.with_(own=_own(facts, children, told))
    told("waiting for disks")
    return facts.with_(
        places=tuple(place.result() for place in places),
        checkpoint=checkpoint.result(),
        shape=shape.result(),
        seconds=time.monotonic() - began,
    )


def without_secrets(job: Job) -> Job:
    """The job as it may be told: an address of a checkpoint can hold a password or a token."""
    if job.checkpoint is None:
        return job
    return msgspec.structs.replace(job, checkpoint=redact_url(job.checkpoint))


def _examine_torch(
    facts: Facts, torch: Torch, child: TorchChild, children: Children, told: Told
) -> Facts:
    """The torch stages. CUDA's are left out when the driver gave no answer."""
    if facts.target.kind in ("nvidia", "rocm"):
        facts = facts.with_(cuda=_silent(facts.driver) or read_devices(child, told))
    device = _device(facts)
    if isinstance(device, Unknown):
        facts = left_out(_examine_cuda(facts, torch, child, (), told), device)
        return facts.with_(smoke=device, attention=device) if facts.job.smoke else facts
    workers = team(children, child, facts)
    watch = Watch(children, facts)
    try:
        facts = _examine_cuda(facts, torch, child, workers, told)
        watch.ready()
        facts = _train(facts, device, child, workers, told)
        attention = collect_attention(child, children, facts, device, told)
        facts = facts.with_(attention=attention)
        facts = put_to_work(children, workers, facts, told)
    finally:
        end(workers[1:])
    return facts.with_(watched=watch.stop())


def _train(
    facts: Facts, device: str, child: TorchChild, workers: tuple[Worker, ...], told: Told
) -> Facts:
    """The smoke step, on all GPUs of the job at the same time."""
    chosen = facts.chosen
    if not facts.job.smoke:
        return facts
    if isinstance(chosen, Unknown):
        return facts.with_(smoke=chosen)
    others = Siblings(workers, facts.job, chosen)
    smoke = run_smoke(child, facts.job, device, chosen, told)
    siblings = others.smokes()
    found = diagnose(child, {"kind": "small"}, smoke, told)
    if found:
        smoke = msgspec.structs.replace(smoke, diagnosis=found)
    return facts.with_(smoke=smoke, siblings=siblings)


def _own(facts: Facts, children: Children, told: Told) -> OwnModel | Unknown | None:
    """The user's own training, in a process of its own: its code may set and break anything."""
    if not facts.job.smoke or not (facts.job.model or facts.job.hf):
        return None
    device, chosen, interpreter = _device(facts), facts.chosen, facts.interpreter
    for needed in (facts.torch, interpreter, device, chosen):
        if isinstance(needed, Unknown):
            return needed
    assert isinstance(interpreter, Interpreter)
    assert isinstance(device, str)
    assert isinstance(chosen, Chosen)
    return collect_own(children, interpreter.path, facts.job, device, chosen, told)


def _examine_cuda(
    facts: Facts, torch: Torch, child: TorchChild, workers: tuple[Worker, ...], told: Told
) -> Facts:
    """A kernel on every GPU of the workers, and the libraries that are mapped then."""
    cuda = facts.cuda
    if not isinstance(cuda, Cuda):
        return facts.with_(libraries=cuda)
    if workers:
        cuda = run_kernels(cuda, [worker.child for worker in workers], told)
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


def driver_seconds(seen: Host) -> float:
    """How long the driver of these GPUs may take to answer."""
    return DRIVER_SECONDS + GPU_SECONDS * max(0, min(seen.nvidia_devices, MOST_GPUS) - 1)


def _driver(children: Children, seconds: float) -> tuple[Driver, Gpus]:
    """NVML and CUDA, each started in a process of its own."""
    started = background(lambda: children.ask("cuda_init", seconds=seconds))
    nvml = children.ask("nvml", seconds=seconds)
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


Role = Literal["output", "cache", "temporary", "expected"]


def roles(job: Job, environ: Mapping[str, str]) -> list[tuple[Role, str, bool]]:
    """The folders to look at: role, path, and whether the user named it to be written to."""
    caches = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    cache = job.cache_dir or environ.get("HF_HOME") or f"{caches}/huggingface"
    expected = job.expect.disk if job.expect else {}
    return [
        ("output", job.output_dir or job.working_dir, job.output_dir is not None),
        ("cache", printable(cache), False),
        ("temporary", environ.get("TMPDIR") or "/tmp", False),  # noqa: S108 - only looked at
        *(("expected", path, False) for path in expected),
    ]


def _look_at(children: Children, role: Role, path: str, named: bool) -> Future[Place]:
    return background(lambda: _place(children, role, path, named))


def _place(children: Children, role: Role, path: str, named: bool) -> Place:
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


def _shape(children: Children, path: str | None) -> ModelShape | Unknown | None:
    if path is None or "://" in path:
        return None
    answer = children.ask("shape", path, seconds=PLACE_SECONDS)
    told = answer.answer or {}
    found = fit(told, Unknown) if "reason" in told else read(answer, "shape", ModelShape)
    return None if isinstance(found, Unknown) and told.get("absent") is True else found


def _checkpoint(children: Children, path: str | None) -> Checkpoint | Unknown | None:
    if path is None:
        return None
    return read_checkpoint(children.ask("checkpoint", path, seconds=CHECKPOINT_SECONDS))
