"""The job's GPUs at the same time: one torch process each, trained on, put under load, watched."""

from __future__ import annotations

import sys
from functools import partial

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.collect.child import Child
from doctor.collect.children import Children, NotStartedError, background, fit, read, unless_cut_off
from doctor.collect.peers import try_peers
from doctor.collect.torch_child import Told, run_smoke
from doctor.collect.workers import Worker
from doctor.facts.facts import Facts
from doctor.facts.load import Load, Watched
from doctor.facts.training import Smoke
from doctor.job.job import Chosen, Job

LOAD_SECONDS = 60.0
"""The load takes two; loading a GPU library from a slow disk comes on top."""
WATCH_SECONDS = 8.0


class Siblings:
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


def put_to_work(children: Children, workers: tuple[Worker, ...], facts: Facts, told: Told) -> Facts:
    """The tests under load, unless the user left them out. A GPU that hung is asked no more."""
    if facts.options.quick or not workers:
        return facts
    several = len(workers) > 1 and facts.target.kind == "nvidia"
    if stuck := _stuck(facts):
        return facts.with_(load=stuck, peers=stuck if several else None)
    told("putting the GPU under load" if len(workers) == 1 else "putting the GPUs under load")
    loads = put_under_load(workers)
    facts = facts.with_(load=unless_cut_off(loads, *(load.ended for load in loads)))
    if not several:
        return facts
    told("copying between the GPUs")
    return facts.with_(peers=_stuck(facts) or try_peers(children, workers))


def _stuck(facts: Facts) -> Unknown | None:
    """Why nothing more is asked of the GPUs: one gave no answer, and a try costs its deadline."""
    smokes = (*((facts.smoke,) if isinstance(facts.smoke, Smoke) else ()), *facts.siblings)
    ends = [(smoke.device, stage.ended) for smoke in smokes for stage in smoke.stages]
    loads = facts.load if isinstance(facts.load, tuple) else ()
    ends += [(load.device, load.ended) for load in loads]
    for device, ended in ends:
        if ended.how == "timeout":
            return Unknown(reason=f"left out, {device} hung before: {ended.detail}")
    return None


def left_out(facts: Facts, why: Unknown) -> Facts:
    """The facts where no GPU could be put under load though the job asks for it."""
    wanted = facts.target.kind in ("nvidia", "rocm") and not facts.options.quick
    return facts.with_(load=why) if wanted else facts


def put_under_load(workers: tuple[Worker, ...]) -> tuple[Load, ...]:
    """All devices at once, as a job loads them: they share power and cooling.

    The way to the host is measured one device after the other: some share it.
    """
    running = [background(partial(_load, worker)) for worker in workers]
    loads = [each.result() for each in running]
    return tuple(map(_host_copies, workers, loads))


def _load(worker: Worker) -> Load:
    known = Load(device=worker.device, uuid=worker.uuid, name=worker.name, ended=Ended(how="ok"))
    return _asked(worker, "load", known)


def _host_copies(worker: Worker, load: Load) -> Load:
    return _asked(worker, "host copies", load) if load.ended.ok else load


def _asked(worker: Worker, stage: str, known: Load) -> Load:
    """What is known of the device and what a stage of the load adds to it."""
    answer = worker.child.ask(LOAD_SECONDS, stage=stage, device=worker.device)
    told = (answer.answer or {}).get("load")
    if not isinstance(told, dict):
        return msgspec.structs.replace(known, ended=answer.placed)
    told["seconds"] = known.seconds + answer.ended.seconds
    full = fit(msgspec.to_builtins(known) | told, Load)
    if isinstance(full, Load):
        return full
    return msgspec.structs.replace(known, ended=Ended(how="error", detail=full.reason))


class Watch:
    """NVML's counters before and after, and samples between; nothing where there is no NVML."""

    def __init__(self, children: Children, facts: Facts) -> None:
        self._child: Child | None = None
        self._refused: Unknown | None = None
        busy = facts.options.smoke or not facts.options.quick
        if busy and facts.target.kind == "nvidia" and isinstance(facts.gpus, tuple):
            uuids = (gpu.uuid for gpu in facts.gpus)
            try:
                self._child = child = children.start(sys.executable, "doctor_side/watch", *uuids)
            except NotStartedError as error:
                self._refused = Unknown(reason=error.ended.detail)
                return
            self._begun = background(lambda: child.wait(WATCH_SECONDS).ended)

    def ready(self) -> None:
        """Wait until the counters are read for the first time, or will not be."""
        if self._child:
            self._begun.result()

    def stop(self) -> tuple[Watched, ...] | Unknown | None:
        """What was seen of every GPU; None where nothing was watched."""
        if self._child is None:
            return self._refused
        begun = self._begun.result()
        if not begun.ok:
            self._child.kill()
            return Unknown(reason=begun.detail)
        self._child.send({"stop": True})
        try:
            return read(self._child.wait(WATCH_SECONDS), "watched", tuple[Watched, ...])
        finally:
            self._child.kill()
