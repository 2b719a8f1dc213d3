"""The job's GPUs at the same time, one torch process each: training, load, NVML's counters."""

from __future__ import annotations

import sys
from functools import partial

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.collect.child import Child
from doctor.collect.children import Children, NotStartedError, background, fit, read, unless_cut_off
from doctor.collect.peers import try_peers
from doctor.collect.torch_child import ReportProgress, run_smoke
from doctor.collect.workers import Worker
from doctor.facts.facts import Facts
from doctor.facts.load import Load, Watched
from doctor.facts.machine import Cuda
from doctor.facts.training import Smoke
from doctor.job.job import Chosen, Job

LOAD_SECONDS = 60.0
"""The load itself takes two seconds; loading a GPU library from a slow disk may take long."""
WATCH_SECONDS = 8.0


class PerGpuSmoke:
    """The smoke step on all GPUs but the first, while the first does its own."""

    def __init__(self, workers: tuple[Worker, ...], job: Job, chosen: Chosen) -> None:
        def train(worker: Worker) -> Smoke | Unknown:
            return run_smoke(worker.child, job, worker.device, chosen, lambda stage: None)

        self._running = [background(partial(train, worker)) for worker in workers[1:]]

    def smokes(self) -> tuple[Smoke, ...]:
        """The results, in the order of the GPUs; none if --budget cut one off."""
        smokes = [running.result() for running in self._running]
        complete = tuple(smoke for smoke in smokes if isinstance(smoke, Smoke))
        return complete if len(complete) == len(smokes) else ()


def run_load_tests(
    children: Children, workers: tuple[Worker, ...], facts: Facts, report_progress: ReportProgress
) -> Facts:
    """The tests under load, unless the user omits them or a GPU has failed already.

    They end at the first GPU that hangs.
    """
    if facts.options.quick or not workers:
        return facts
    several = len(workers) > 1 and facts.target.kind == "nvidia"
    if reason := _hung(facts) or _kernel_failed(facts):
        return facts.with_(load=reason, peers=reason if several else None)
    report_progress(f"putting the GPU{'s' * (len(workers) > 1)} under load")
    loads = measure_load(workers)
    facts = facts.with_(load=unless_cut_off(loads, *(load.ended for load in loads)))
    if not several:
        return facts
    report_progress("copying between the GPUs")
    return facts.with_(peers=_hung(facts) or try_peers(children, workers))


def _kernel_failed(facts: Facts) -> Unknown | None:
    """Why the load would only repeat an error: the first kernel failed already."""
    for gpu in facts.cuda.gpus if isinstance(facts.cuda, Cuda) else ():
        if gpu.kernel is not None and not gpu.kernel.ok:
            return Unknown(reason=f"left out, the kernel on cuda:{gpu.index} failed, see TOR003")
    return None


def _hung(facts: Facts) -> Unknown | None:
    """Why no more tests run on the GPUs: one hung, and every further test would too."""
    smokes = (*((facts.smoke,) if isinstance(facts.smoke, Smoke) else ()), *facts.siblings)
    ends = [(smoke.device, stage.ended) for smoke in smokes for stage in smoke.stages]
    loads = facts.load if isinstance(facts.load, tuple) else ()
    ends += [(load.device, load.ended) for load in loads]
    for device, ended in ends:
        if ended.how == "timeout":
            return Unknown(reason=f"left out, {device} hung before: {ended.detail}")
    return None


def without_load(facts: Facts, reason: Unknown) -> Facts:
    """The facts if the tests under load were requested but no GPU can run them."""
    requested = facts.target.kind in ("nvidia", "rocm") and not facts.options.quick
    return facts.with_(load=reason) if requested else facts


def measure_load(workers: tuple[Worker, ...]) -> tuple[Load, ...]:
    """All devices at the same time, as in a job, because they share power and cooling.

    Copies to and from the host are measured one device after the other: some share the link.
    """
    running = [background(partial(_load, worker)) for worker in workers]
    loads = [each.result() for each in running]
    return tuple(map(_host_copies, workers, loads))


def _load(worker: Worker) -> Load:
    load = Load(device=worker.device, uuid=worker.uuid, name=worker.name, ended=Ended(how="ok"))
    return _run_stage(worker, "load", load)


def _host_copies(worker: Worker, load: Load) -> Load:
    return _run_stage(worker, "host copies", load) if load.ended.ok else load


def _run_stage(worker: Worker, stage: str, load: Load) -> Load:
    """The record with the results of one more stage."""
    answer = worker.child.request(LOAD_SECONDS, stage=stage, device=worker.device)
    measured = (answer.answer or {}).get("load")
    if not isinstance(measured, dict):
        return msgspec.structs.replace(load, ended=answer.ended_with_stage)
    measured["seconds"] = load.seconds + answer.ended.seconds
    section = fit(msgspec.to_builtins(load) | measured, Load)
    if isinstance(section, Load):
        return section
    return msgspec.structs.replace(load, ended=Ended(how="error", detail=section.reason))


class Watch:
    """NVML's counters before and after the tests, and samples in between, if NVML is there."""

    def __init__(self, children: Children, facts: Facts) -> None:
        self._child: Child | None = None
        self._refused: Unknown | None = None
        busy = facts.options.smoke or not facts.options.quick
        if busy and facts.target.kind == "nvidia" and isinstance(facts.gpus, tuple):
            uuids = (gpu.uuid for gpu in facts.gpus if not gpu.forbidden)
            try:
                self._child = child = children.start(sys.executable, "doctor_side/watch", *uuids)
            except NotStartedError as error:
                self._refused = Unknown(reason=error.ended.detail)
                return
            self._ready = background(lambda: child.wait(WATCH_SECONDS).ended)

    def wait_until_ready(self) -> None:
        """Wait until the counters have been read for the first time, or the attempt has failed."""
        if self._child:
            self._ready.result()

    def stop(self) -> tuple[Watched, ...] | Unknown | None:
        """The record of every GPU; None if nothing was watched."""
        if self._child is None:
            return self._refused
        ready = self._ready.result()
        if not ready.ok:
            self._child.kill()
            return Unknown(reason=ready.detail)
        self._child.send({"stop": True})
        try:
            return read(self._child.wait(WATCH_SECONDS), "watched", tuple[Watched, ...])
        finally:
            self._child.kill()
