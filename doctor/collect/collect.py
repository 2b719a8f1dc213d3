"""Runs the probes, concurrently where possible, and fills the sections of the facts."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import Future

import msgspec

from doctor._util.records import Unknown
from doctor.checkpoint.io.urls import redact_url
from doctor.collect.ahead import Ahead, start_ahead
from doctor.collect.attention import collect_attention
from doctor.collect.before_torch import BeforeTorch, run_before_torch
from doctor.collect.children import (
    Children,
    background,
    unless_cut_off,
)
from doctor.collect.diagnosis import diagnose
from doctor.collect.driver import driver_seconds, hung_driver, read_driver, wait_for
from doctor.collect.gpus import PerGpuSmoke, run_load_tests, without_load
from doctor.collect.host import read_host
from doctor.collect.interpreter import choose
from doctor.collect.left_out import after_smoke, without_kernel
from doctor.collect.own_training import collect_own
from doctor.collect.peers import without_reductions
from doctor.collect.places import read_job_checkpoint, read_shape, roles, start_place
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
    Siblings,
    Worker,
    count_siblings,
    end,
    start_workers,
)
from doctor.facts.facts import Facts
from doctor.facts.machine import (
    Cuda,
    Interpreter,
    Torch,
)
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Smoke
from doctor.facts.views import find_target
from doctor.job.expect import Expect
from doctor.job.job import Chosen, Job
from doctor.job.run_options import RunOptions

OWN_SECONDS = 0.5
"""The part of a budget for the doctor's own start and report."""


def collect(
    job: Job,
    options: RunOptions,
    expect: Expect,
    report_progress: ReportProgress,
    held: Mapping[str, int] | None = None,
) -> Facts:
    """Examine this machine. Long steps are reported; no child process outlives the call.

    `held`: bytes that the calling process holds, by the UUID of the GPU.
    """
    budget = options.budget
    children = Children(None if budget is None else max(OWN_SECONDS, budget - OWN_SECONDS))
    try:
        return _collect(job, options, expect, children, report_progress, held or {})
    finally:
        children.interrupt()


def _collect(
    job: Job,
    options: RunOptions,
    expect: Expect,
    children: Children,
    report_progress: ReportProgress,
    held: Mapping[str, int],
) -> Facts:
    started = time.monotonic()
    path, why = choose(job.python, os.environ)
    child = TorchChild(children, path)
    host = read_host()
    nvidia = find_target(job, host, Unknown(reason="not imported yet")).kind == "nvidia"
    seconds = driver_seconds(host)
    driver = background(lambda: read_driver(children, seconds, held) if nvidia else (None, None))
    siblings = background(
        lambda: Siblings(children, path, count_siblings(job, options, host, driver.result()[1]))
    )
    ahead = background(lambda: start_ahead(children, path, job, options, driver=driver.result()[0]))
    early = background(lambda: run_before_torch(children, job, options, host, *driver.result()))
    places = [start_place(children, *role) for role in roles(job, expect, os.environ)]
    checkpoint = background(lambda: read_job_checkpoint(children, job.checkpoint))
    shape = background(lambda: read_shape(children, job.hf or job.checkpoint))

    report_progress("importing torch")
    interpreter, torch = read_import(path, why, child)
    driver_section, gpus = wait_for(driver, seconds, started, report_progress)
    if not early.done():
        report_progress("copying between the GPUs")
    before = early.result()
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
    facts = _with_torch(facts, child, siblings, ahead, before, children, report_progress)
    siblings.result().end()
    child.end()
    facts = facts.with_(own=_own(facts, children, ahead.result(), report_progress))
    ahead.result().end()
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


def _with_torch(
    facts: Facts,
    child: TorchChild,
    siblings: Future[Siblings],
    ahead: Future[Ahead],
    before: BeforeTorch,
    children: Children,
    report_progress: ReportProgress,
) -> Facts:
    """The torch stages if torch was imported, and copies between GPUs without them."""
    torch = facts.torch
    if isinstance(torch, Torch):
        begun = siblings.result(), ahead.result()
        facts = _examine_torch(facts, torch, child, *begun, before, children, report_progress)
    else:
        facts = without_load(facts.with_(smoke=torch) if facts.options.smoke else facts, torch)
    before.watch.cancel()
    if facts.peers is None and isinstance(facts.load, Unknown) and before.copies:
        facts = facts.with_(peers=without_reductions(before.copies, facts.load))
    return facts


def _examine_torch(
    facts: Facts,
    torch: Torch,
    child: TorchChild,
    siblings: Siblings,
    ahead: Ahead,
    before: BeforeTorch,
    children: Children,
    report_progress: ReportProgress,
) -> Facts:
    """The torch stages. CUDA's are omitted if the driver hangs."""
    if facts.target.kind in ("nvidia", "rocm"):
        facts = facts.with_(cuda=hung_driver(facts.driver) or read_devices(child, report_progress))
    device = _device(facts)
    if isinstance(device, Unknown):
        facts = without_load(_examine_libraries(facts, torch, child), device)
        return facts.with_(smoke=device, attention=device) if facts.options.smoke else facts
    workers = start_workers(children, child, facts, siblings)
    siblings.end()
    try:
        facts = _run_kernels(facts, workers, report_progress)
        before.watch.wait_until_ready()
        on_others = _start_training(facts, device, workers)
        facts = _examine_libraries(facts, torch, child)
        facts = _train(facts, device, child, on_others, report_progress)
        attention = collect_attention(
            child, children, facts, device, report_progress, workers[1:], ahead.implementations
        )
        facts = facts.with_(attention=attention)
        facts = run_load_tests(children, workers, facts, report_progress, before.copies)
    finally:
        end(workers[1:])
    return facts.with_(watched=before.watch.stop(facts.job_gpus))


def _start_training(
    facts: Facts, device: str, workers: tuple[Worker, ...]
) -> PerGpuSmoke | Unknown | None:
    """The smoke step on the job's other GPUs; None with --no-smoke, else why there is none.

    They load their libraries while the first GPU's are examined.
    """
    chosen = facts.chosen
    if not facts.options.smoke:
        return None
    if isinstance(chosen, Unknown):
        return chosen
    return without_kernel(facts, device) or PerGpuSmoke(workers, facts, chosen)


def _train(
    facts: Facts,
    device: str,
    child: TorchChild,
    on_others: PerGpuSmoke | Unknown | None,
    report_progress: ReportProgress,
) -> Facts:
    """The smoke step on the first GPU, while it runs on the others."""
    chosen = facts.chosen
    if on_others is None:
        return facts
    if isinstance(on_others, Unknown):
        return facts.with_(smoke=on_others)
    assert isinstance(chosen, Chosen)
    smoke = run_smoke(child, facts.job, device, chosen, report_progress)
    siblings = on_others.smokes()
    if isinstance(smoke, Smoke):
        diagnosis = diagnose(child, {"kind": "small"}, smoke, report_progress)
        smoke = msgspec.structs.replace(smoke, diagnosis=diagnosis)
    return facts.with_(smoke=smoke, siblings=siblings)


def _own(
    facts: Facts, children: Children, ahead: Ahead, report_progress: ReportProgress
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
    path, job = interpreter.path, facts.job
    return collect_own(children, path, job, device, chosen, report_progress, ahead.own)


def _run_kernels(
    facts: Facts, workers: tuple[Worker, ...], report_progress: ReportProgress
) -> Facts:
    """A kernel on every GPU of the job."""
    cuda = facts.cuda
    if not isinstance(cuda, Cuda) or not workers:
        return facts
    processes = [worker.child for worker in workers]
    cuda = run_kernels(cuda, processes, report_progress, facts.job.gpus)
    return facts.with_(cuda=unless_cut_off(cuda, *(gpu.kernel for gpu in cuda.gpus)))


def _examine_libraries(facts: Facts, torch: Torch, child: TorchChild) -> Facts:
    """The libraries that are mapped after a kernel ran."""
    cuda, device, chosen = facts.cuda, _device(facts), facts.chosen
    if not isinstance(cuda, Cuda):
        return facts.with_(libraries=cuda)
    if reason := device if isinstance(device, Unknown) else without_kernel(facts, device):
        return facts.with_(libraries=reason)
    precision = chosen.precision if isinstance(chosen, Chosen) else ""
    libraries, torch, cuda = read_libraries(child, torch, cuda, precision)
    return facts.with_(torch=torch, cuda=cuda, libraries=libraries)


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
