"""Fills the sections of the facts, one stage after the other, over what a session has at work."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from doctor._util.records import Unknown
from doctor.checkpoint.io.urls import redact_url
from doctor.collect.attention import collect_attention
from doctor.collect.before_torch import BeforeTorch
from doctor.collect.children import Children, unless_cut_off
from doctor.collect.data import collect_data, of_own, request_of
from doctor.collect.diagnosis import diagnose
from doctor.collect.driver import driver_seconds, hung_driver, wait_for
from doctor.collect.gpus import PerGpuSmoke, run_load_tests, without_load
from doctor.collect.launcher import read_launcher
from doctor.collect.left_out import after_smoke, without_kernel
from doctor.collect.memory_tests import run_memory_tests
from doctor.collect.own_training import collect_own
from doctor.collect.pcie import read_pcie, since
from doctor.collect.peers import without_reductions
from doctor.collect.session import Session, begin
from doctor.collect.torch_child import (
    ReportProgress,
    TorchChild,
    read_devices,
    read_import,
    read_libraries,
    run_kernels,
    run_smoke,
)
from doctor.collect.workers import Worker, end, start_workers
from doctor.facts.facts import Facts
from doctor.facts.interpreter import Cuda, Interpreter, Torch
from doctor.facts.load import Attention
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Smoke
from doctor.job.expect import Expect
from doctor.job.job import Chosen, Job
from doctor.job.run_options import RunOptions

NOT_YET = Unknown(reason="not read yet")
TIMING_SECONDS = 0.1
"""In which the clock's service answers that was asked at the beginning."""
OWN_SECONDS = 0.5
"""The part of a budget for the doctor's own start and report."""


def collect(
    job: Job,
    options: RunOptions,
    expect: Expect,
    report_progress: ReportProgress,
    held: Mapping[str, int] | None = None,
    is_slow: Callable[[Facts], bool] = lambda facts: False,
) -> Facts:
    """Examine this machine. Long steps are reported; no child process outlives the call.

    `held`: bytes that the calling process holds, by the UUID of the GPU. `is_slow`: whether a rate
    of these facts would be reported, so that it is measured again.
    """
    budget = options.budget
    children = Children(None if budget is None else max(OWN_SECONDS, budget - OWN_SECONDS))
    started = time.monotonic()
    try:
        session = begin(job, options, expect, children, report_progress, held or {}, is_slow)
        facts = Facts(
            job=without_secrets(job),
            options=options,
            expect=expect,
            host=session.host,
            launched=read_launcher(),
            interpreter=NOT_YET,
            torch=NOT_YET,
            places=(),
        )
        for examine in STAGES:
            facts = examine(session, facts)
        return facts.with_(seconds=time.monotonic() - started)
    finally:
        children.interrupt()


def without_secrets(job: Job) -> Job:
    """The job without the password or token that the URL of a checkpoint can hold."""
    if job.checkpoint is None:
        return job
    return msgspec.structs.replace(job, checkpoint=redact_url(job.checkpoint))


def _import_torch(session: Session, facts: Facts) -> Facts:
    session.report_progress("importing torch")
    interpreter, torch = read_import(session.child.python, session.why, session.child)
    return facts.with_(interpreter=interpreter, torch=torch)


def _wait_for_driver(session: Session, facts: Facts) -> Facts:
    """The driver, and the copies between the GPUs, which wait for it."""
    seconds = driver_seconds(session.host)
    driver, gpus = wait_for(session.driver, seconds, session.started, session.report_progress)
    if not session.before.done():
        session.report_progress("copying between the GPUs")
    session.before.result()
    return facts.with_(driver=driver, gpus=gpus)


def _examine_torch(session: Session, facts: Facts) -> Facts:
    """The torch stages if torch was imported, and copies between GPUs without them."""
    torch, before = facts.torch, session.before.result()
    if isinstance(torch, Torch):
        facts = _examine_imported(session, facts, torch)
    else:
        assert isinstance(torch, Unknown)
        facts = without_load(facts.with_(smoke=torch) if facts.options.smoke else facts, torch)
    before.watch.cancel()
    if facts.peers is None and isinstance(facts.load, Unknown) and before.copies:
        facts = facts.with_(peers=without_reductions(before.copies, facts.load))
    session.siblings.result().end()
    session.child.end()
    return facts


def _examine_imported(session: Session, facts: Facts, torch: Torch) -> Facts:
    """The torch stages. CUDA's are omitted if the driver hangs."""
    child, report_progress = session.child, session.report_progress
    if facts.target.on_cuda:
        facts = facts.with_(cuda=hung_driver(facts.driver) or read_devices(child, report_progress))
    device = _device(facts)
    if isinstance(device, Unknown):
        facts = without_load(_examine_libraries(facts, torch, child), device)
        return facts.with_(smoke=device, attention=device) if facts.options.smoke else facts
    siblings, before = session.siblings.result(), session.before.result()
    workers = start_workers(session.children, child, facts, siblings)
    siblings.end()
    try:
        facts = _run_kernels(facts, workers, report_progress)
        before.watch.wait_until_ready()
        on_others = _start_training(facts, device, workers)
        facts = _examine_libraries(facts, torch, child)
        facts = _train(facts, device, child, on_others, report_progress)
        facts = facts.with_(attention=_try_attention(session, facts, device, workers[1:]))
        facts = _put_under_load(session, facts, workers, before)
        facts = run_memory_tests(workers, facts, report_progress)
    finally:
        end(workers[1:])
    return facts.with_(watched=before.watch.stop(facts.job_gpus))


def _put_under_load(
    session: Session, facts: Facts, workers: tuple[Worker, ...], before: BeforeTorch
) -> Facts:
    def is_slow(measured: Facts) -> bool:
        return session.is_slow(measured.with_(watched=before.watch.look(measured.job_gpus)))

    children, report_progress = session.children, session.report_progress
    return run_load_tests(children, workers, facts, report_progress, before.copies, is_slow)


def _try_attention(
    session: Session, facts: Facts, device: str, others: tuple[Worker, ...]
) -> Attention | Unknown | None:
    """Every attention kernel on the first GPU, the most important cases on the others."""
    own = session.ahead.result().implementations
    child, children = session.child, session.children
    return collect_attention(child, children, facts, device, session.report_progress, others, own)


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


def _examine_own(session: Session, facts: Facts) -> Facts:
    """The user's own training, in a process of its own: its code may change any setting."""
    ahead = session.ahead.result()
    facts = facts.with_(own=_own(session, facts, ahead.own))
    ahead.end()
    return facts


def _rehearse(session: Session, facts: Facts) -> Facts:
    """The user's own training in small, as a job that saves and continues."""
    if not facts.options.rehearse:
        return facts
    from doctor.collect.rehearsal.own import rehearse_own

    interpreter, device, chosen, own = facts.interpreter, _device(facts), facts.chosen, facts.own
    for section in (interpreter, device, chosen, own):
        if isinstance(section, Unknown):
            return facts.with_(rehearsal=section)
    assert isinstance(interpreter, Interpreter)
    assert isinstance(device, str)
    assert isinstance(chosen, Chosen)
    budget = facts.options.budget
    left = None if budget is None else max(1.0, budget - (time.monotonic() - session.started))
    return facts.with_(rehearsal=rehearse_own(
        interpreter.path, facts.job, device, chosen, facts.options.ranks, left,
        session.report_progress,
    ))  # fmt: skip


def _examine_data(session: Session, facts: Facts) -> Facts:
    """What the loader of the user's training delivers, read in a process of its own."""
    request, interpreter, own = request_of(facts), facts.interpreter, facts.own
    if request is None or isinstance(interpreter, Unknown):
        return facts
    if isinstance(request, Unknown):
        return facts.with_(data=request)
    path, report_progress = interpreter.path, session.report_progress
    data = collect_data(session.children, path, request, report_progress)
    if facts.job.data is None and isinstance(own, OwnModel):
        data = of_own(data, own)
    return facts.with_(data=data)


def _own(session: Session, facts: Facts, own: TorchChild | None) -> OwnModel | Unknown | None:
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
    children, report_progress = session.children, session.report_progress
    return collect_own(children, path, job, device, chosen, report_progress, own)


def _look_at_host_again(session: Session, facts: Facts) -> Facts:
    """What was measured meanwhile, and which errors of the links are new."""
    host, timing = session.host, {}
    with contextlib.suppress(TimeoutError):  # a time service that hangs is not waited for
        timing = session.timing.result(TIMING_SECONDS)
    new = since(host.pcie, read_pcie(Path("/"), host.gpu_drivers))
    return facts.with_(host=msgspec.structs.replace(host, pcie=new, **timing))


def _wait_for_disks(session: Session, facts: Facts) -> Facts:
    session.report_progress("waiting for disks")
    return facts.with_(
        places=tuple(place.result() for place in session.places),
        checkpoint=session.checkpoint.result(),
        shape=session.shape.result(),
    )


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


STAGES: tuple[Callable[[Session, Facts], Facts], ...] = (
    _import_torch,
    _wait_for_driver,
    _examine_torch,
    _examine_own,
    _examine_data,
    _rehearse,
    _look_at_host_again,
    _wait_for_disks,
)
"""In this order; what needs neither torch nor the driver has been at work since `begin`."""
