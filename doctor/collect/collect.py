"""Runs the probes, concurrently where possible, and fills the sections of the facts."""

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
from doctor.collect.attention_trial import collect_attention
from doctor.collect.children import (
    Children,
    background,
    fit,
    read,
    read_checkpoint,
    unless_cut_off,
)
from doctor.collect.diagnosis import diagnose
from doctor.collect.gpus import PerGpuSmoke, Watch, run_load_tests, without_load
from doctor.collect.host import read_host
from doctor.collect.interpreter import choose
from doctor.collect.left_out import after_smoke, without_kernel
from doctor.collect.own_training import collect_own
from doctor.collect.torch_child import (
    ReportProgress,
    TorchChild,
    read_devices,
    read_import,
    read_libraries,
    run_kernels,
    run_smoke,
)
from doctor.collect.workers import (
    Gpus,
    Siblings,
    Worker,
    count_siblings,
    end,
    start_workers,
)
from doctor.facts.facts import Facts
from doctor.facts.machine import (
    Cuda,
    Driver,
    Gpu,
    Host,
    Interpreter,
    Libraries,
    Place,
    Torch,
)
from doctor.facts.training import ModelShape, OwnModel, Smoke
from doctor.facts.views import find_target
from doctor.job.expect import Expect
from doctor.job.job import Chosen, Job
from doctor.job.run_options import RunOptions

OWN_SECONDS = 0.5
"""The part of a budget for the doctor's own start and report."""
PATIENCE_SECONDS = 8.0
"""After which a slow driver is reported."""
DRIVER_SECONDS, GPU_SECONDS = 30.0, 5.0
"""For the driver to respond, and for each GPU beyond the first: without persistence mode the driver
first initializes one GPU after the other, which takes 1 to 3 s each, and 7 s in
confidential-computing mode (driver-persistence, nvtrust-113)."""
FROM_NVML = ("confidential", "nvml_library", "nvml_mounted")
"""Fields of Driver that its probe reports as they are."""
MOST_GPUS = 8
PLACE_SECONDS = 8.0
CHECKPOINT_SECONDS = 120.0


def collect(
    job: Job, options: RunOptions, expect: Expect, report_progress: ReportProgress
) -> Facts:
    """Examine this machine. Long steps are reported; no child process outlives the call."""
    budget = options.budget
    children = Children(None if budget is None else max(OWN_SECONDS, budget - OWN_SECONDS))
    try:
        return _collect(job, options, expect, children, report_progress)
    finally:
        children.interrupt()


def _collect(
    job: Job,
    options: RunOptions,
    expect: Expect,
    children: Children,
    report_progress: ReportProgress,
) -> Facts:
    started = time.monotonic()
    path, why = choose(job.python, os.environ)
    child = TorchChild(children, path)
    host = read_host()
    nvidia = find_target(job, host, Unknown(reason="not imported yet")).kind == "nvidia"
    seconds = driver_seconds(host)
    driver = background(lambda: _driver(children, seconds) if nvidia else (None, None))
    siblings = background(
        lambda: Siblings(children, path, count_siblings(job, options, host, driver.result()[1]))
    )
    places = [_start_place(children, *role) for role in roles(job, expect, os.environ)]
    checkpoint = background(lambda: _checkpoint(children, job.checkpoint))
    shape = background(lambda: _shape(children, job.hf or job.checkpoint))

    report_progress("importing torch")
    interpreter, torch = read_import(path, why, child)
    driver_section, gpus = _wait_for(driver, seconds, started, report_progress)
    facts = Facts(
        job=without_secrets(job),
        options=options,
        expect=expect,
        host=host,
        driver=driver_section,
        gpus=gpus,
        interpreter=interpreter,
        torch=torch,
        places=(),
    )
    if isinstance(torch, Torch):
        facts = _examine_torch(facts, torch, child, siblings.result(), children, report_progress)
    else:
        facts = without_load(facts.with_(smoke=torch) if options.smoke else facts, torch)
    siblings.result().end()
    child.end()
    facts = facts.with_(own=_own(facts, children, report_progress))
    report_progress("waiting for disks")
    return facts.with_(
        places=tuple(place.result() for place in places),
        checkpoint=checkpoint.result(),
        shape=shape.result(),
        seconds=time.monotonic() - started,
    )


def without_secrets(job: Job) -> Job:
    """The job without the password or token that the URL of a checkpoint can hold."""
    if job.checkpoint is None:
        return job
    return msgspec.structs.replace(job, checkpoint=redact_url(job.checkpoint))


def _examine_torch(
    facts: Facts,
    torch: Torch,
    child: TorchChild,
    siblings: Siblings,
    children: Children,
    report_progress: ReportProgress,
) -> Facts:
    """The torch stages. CUDA's are omitted if the driver hangs."""
    if facts.target.kind in ("nvidia", "rocm"):
        facts = facts.with_(cuda=_hung_driver(facts.driver) or read_devices(child, report_progress))
    device = _device(facts)
    if isinstance(device, Unknown):
        facts = without_load(_examine_cuda(facts, torch, child, (), report_progress), device)
        return facts.with_(smoke=device, attention=device) if facts.options.smoke else facts
    workers = start_workers(children, child, facts, siblings)
    siblings.end()
    watch = Watch(children, facts)
    try:
        facts = _examine_cuda(facts, torch, child, workers, report_progress)
        watch.wait_until_ready()
        facts = _train(facts, device, child, workers, report_progress)
        attention = collect_attention(child, children, facts, device, report_progress)
        facts = facts.with_(attention=attention)
        facts = run_load_tests(children, workers, facts, report_progress)
    finally:
        end(workers[1:])
    return facts.with_(watched=watch.stop())


def _train(
    facts: Facts,
    device: str,
    child: TorchChild,
    workers: tuple[Worker, ...],
    report_progress: ReportProgress,
) -> Facts:
    """The smoke step, on all GPUs of the job at the same time."""
    chosen = facts.chosen
    if not facts.options.smoke:
        return facts
    if isinstance(chosen, Unknown):
        return facts.with_(smoke=chosen)
    if reason := without_kernel(facts, device):
        return facts.with_(smoke=reason)
    others = PerGpuSmoke(workers, facts, chosen)
    smoke = run_smoke(child, facts.job, device, chosen, report_progress)
    siblings = others.smokes()
    if isinstance(smoke, Smoke):
        diagnosis = diagnose(child, {"kind": "small"}, smoke, report_progress)
        smoke = msgspec.structs.replace(smoke, diagnosis=diagnosis)
    return facts.with_(smoke=smoke, siblings=siblings)


def _own(
    facts: Facts, children: Children, report_progress: ReportProgress
) -> OwnModel | Unknown | None:
    """The user's own training, in a process of its own: its code may change any setting."""
    if not facts.options.smoke or not (facts.job.model or facts.job.hf):
        return None
    device, chosen, interpreter = _device(facts), facts.chosen, facts.interpreter
    reason = device if isinstance(device, Unknown) else after_smoke(facts, device)
    for section in (facts.torch, interpreter, reason, chosen):
        if isinstance(section, Unknown):
            return section
    assert isinstance(interpreter, Interpreter)
    assert isinstance(device, str)
    assert isinstance(chosen, Chosen)
    return collect_own(children, interpreter.path, facts.job, device, chosen, report_progress)


def _examine_cuda(
    facts: Facts,
    torch: Torch,
    child: TorchChild,
    workers: tuple[Worker, ...],
    report_progress: ReportProgress,
) -> Facts:
    """A kernel on every GPU of the workers, and the libraries that are mapped afterwards."""
    cuda = facts.cuda
    if not isinstance(cuda, Cuda):
        return facts.with_(libraries=cuda)
    if workers:
        processes = [worker.child for worker in workers]
        cuda = run_kernels(cuda, processes, report_progress, facts.job.gpus)
    device = _device(facts)
    facts = facts.with_(cuda=cuda)
    libraries: Libraries | Unknown | None
    libraries = device if isinstance(device, Unknown) else without_kernel(facts, device)
    if libraries is None:
        libraries, torch, cuda = read_libraries(child, torch, cuda)
    kernels = (gpu.kernel for gpu in cuda.gpus)
    return facts.with_(torch=torch, cuda=unless_cut_off(cuda, *kernels), libraries=libraries)


def _hung_driver(driver: Driver | Unknown | None) -> Unknown | None:
    """Why CUDA must not be used: a hung driver would hang torch too."""
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


def _wait_for(
    driver: Future[tuple[Driver | Unknown, Gpus] | tuple[None, None]],
    seconds: float,
    started: float,
    report_progress: ReportProgress,
) -> tuple[Driver | Unknown | None, Gpus]:
    """The driver's sections; a slow start is reported while it lasts."""
    report_progress("waiting for the driver")
    try:
        return driver.result(max(0.0, started + PATIENCE_SECONDS - time.monotonic()))
    except TimeoutError:
        report_progress(f"waiting for the driver, which is slow; at most {seconds:.0f} s")
    return driver.result()


def driver_seconds(host: Host) -> float:
    """How long the driver of this host's GPUs may take to respond."""
    return DRIVER_SECONDS + GPU_SECONDS * max(0, min(host.nvidia_devices, MOST_GPUS) - 1)


def _driver(children: Children, seconds: float) -> tuple[Driver | Unknown, Gpus]:
    """NVML and CUDA, each started in a process of its own."""
    cuda_answer = background(lambda: children.run_probe("cuda_init", seconds=seconds))
    nvml = children.run_probe("nvml", seconds=seconds)
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
            **{name: versions.get(name) for name in FROM_NVML},
        },
        Driver,
    )
    if isinstance(driver, Unknown):
        driver = Driver(nvml=Ended(how="error", detail=driver.reason), cuda=cuda.ended)
    section = unless_cut_off(driver, nvml.ended, cuda.ended)
    if nvml.ended.ok:
        return section, read(nvml, "gpus", tuple[Gpu, ...])
    read_before = fit([note["gpu"] for note in nvml.notes if "gpu" in note], tuple[Gpu, ...])
    return section, read_before or Unknown(reason=nvml.ended.detail)


Role = Literal["output", "cache", "temporary", "expected"]


def roles(job: Job, expect: Expect, environ: Mapping[str, str]) -> list[tuple[Role, str, bool]]:
    """The directories to examine: role, path, and whether the user named it for output."""
    caches = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    cache = job.cache_dir or environ.get("HF_HOME") or f"{caches}/huggingface"
    return [
        ("output", job.output_dir or job.working_dir, job.output_dir is not None),
        ("cache", printable(cache), False),
        ("temporary", environ.get("TMPDIR") or "/tmp", False),  # noqa: S108 - not written to
        *(("expected", path, False) for path in expect.disk),
    ]


def _start_place(children: Children, role: Role, path: str, named: bool) -> Future[Place]:
    return background(lambda: _place(children, role, path, named))


def _place(children: Children, role: Role, path: str, named: bool) -> Place:
    arguments = (role, path, "named" if named else "assumed")
    answer = children.run_probe("place", *arguments, seconds=PLACE_SECONDS)
    content = {key: value for note in answer.notes for key, value in note.get("place", {}).items()}
    content |= (answer.answer or {}).get("place", {})
    fixed = {"type": "Place", "role": role, "path": path, "named": named, "looked": answer.ended}
    place = fit(content | fixed, Place)
    if isinstance(place, Unknown):
        ended = Ended(how="error", detail=place.reason)
        return Place(role=role, path=path, named=named, looked=ended)
    return place


def _shape(children: Children, path: str | None) -> ModelShape | Unknown | None:
    if path is None or "://" in path:
        return None
    answer = children.run_probe("shape", path, seconds=PLACE_SECONDS)
    content = answer.answer or {}
    if content.get("absent") is True:
        return None
    return fit(content, Unknown) if "reason" in content else read(answer, "shape", ModelShape)


def _checkpoint(children: Children, path: str | None) -> Checkpoint | Unknown | None:
    if path is None:
        return None
    return read_checkpoint(children.run_probe("checkpoint", path, seconds=CHECKPOINT_SECONDS))
