"""The job's GPUs at the same time, one torch process each: training, load, NVML's counters."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.collect.background import background
from doctor.collect.child import Child
from doctor.collect.children import Children, NotStartedError, fit, read, unless_cut_off
from doctor.collect.left_out import from_load, hung, without_kernel
from doctor.collect.peers import Copies, try_peers, without_reductions
from doctor.collect.torch_child import ReportProgress, run_smoke
from doctor.collect.workers import Worker
from doctor.facts.facts import Facts
from doctor.facts.load import Load, Watched
from doctor.facts.training import Smoke
from doctor.facts.views import JobGpus
from doctor.job.job import Chosen

PCI_DEVICES = Path("/sys/bus/pci/devices")

LOAD_SECONDS = 60.0
"""The load itself takes two seconds; loading a GPU library from a slow disk may take long."""
WATCH_SECONDS = 8.0
SAMPLE_SECONDS = 0.05
STAGGER = 0.02
"""Seconds between the starts of two GPUs: together they step from idle to full power at once."""
NOTHING: Mapping[str, None] = MappingProxyType({})
NOTHING_KNOWN: Mapping[str, int] = MappingProxyType({})


class PerGpuSmoke:
    """The smoke step on all GPUs but the first, while the first does its own."""

    def __init__(self, workers: tuple[Worker, ...], facts: Facts, chosen: Chosen) -> None:
        def train(worker: Worker) -> Smoke | Unknown:
            if without_kernel(facts, worker.device):  # a record without a stage is unknown
                return Smoke(
                    device=worker.device,
                    precision=chosen.precision,
                    recipe=facts.job.recipe or "amp",
                    lr=0.0,
                    stages=(),
                )
            return run_smoke(worker.child, facts.job, worker.device, chosen, lambda stage: None)

        self._running = [background(partial(train, worker)) for worker in workers[1:]]

    def smokes(self) -> tuple[Smoke, ...]:
        """The results, in the order of the GPUs; none if --budget cut one off."""
        smokes = [running.result() for running in self._running]
        complete = tuple(smoke for smoke in smokes if isinstance(smoke, Smoke))
        return complete if len(complete) == len(smokes) else ()


def run_load_tests(
    children: Children,
    workers: tuple[Worker, ...],
    facts: Facts,
    report_progress: ReportProgress,
    copies: Copies = None,
    is_slow: Callable[[Facts], bool] = lambda facts: False,
) -> Facts:
    """The tests under load, unless the user omits them or a GPU has failed already.

    They end at the first GPU that hangs. `copies`: those between the GPUs, if they have been made.
    `is_slow`: whether something of the facts' load would be reported.
    """
    if facts.options.quick or not workers:
        return facts
    several = len(workers) > 1 and facts.target.kind == "nvidia"
    if reason := hung(facts):
        peers = without_reductions(copies, reason) if several else None
        return facts.with_(load=reason, peers=peers)
    left_out = {worker.device: from_load(facts, worker.device) for worker in workers}
    if not all(left_out.values()):
        report_progress(f"putting the GPU{'s' * (len(workers) > 1)} under load")
    nodes = numa_nodes(facts.job_gpus)
    loads = measure_load(workers, left_out, nodes)
    if is_slow(facts.with_(load=loads)):
        report_progress("measuring again what was slow")
        loads = best_of(loads, measure_load(workers, left_out, nodes))
    facts = facts.with_(load=unless_cut_off(loads, *(load.ended for load in loads)))
    if not several:
        return facts
    reason = next(filter(None, left_out.values()), None) or hung(facts)
    if reason:
        return facts.with_(peers=without_reductions(copies, reason))
    report_progress("summing over the GPUs")
    return facts.with_(peers=try_peers(children, workers, copies=copies))


def without_load(facts: Facts, reason: Unknown) -> Facts:
    """The facts if the tests under load were requested but no GPU can run them."""
    requested = facts.target.on_cuda and not facts.options.quick
    return facts.with_(load=reason) if requested else facts


def measure_load(
    workers: tuple[Worker, ...],
    left_out: Mapping[str, Unknown | None] = NOTHING,
    nodes: Mapping[str, int] = NOTHING_KNOWN,
) -> tuple[Load, ...]:
    """All devices at the same time, as in a job, because they share power and cooling.

    `left_out`: device -> why it is not put under load. Copies to and from the host are measured one
    device after the other, as some share the link, but at the same time on each of the NUMA
    `nodes`, if that of every device is known.
    """
    running = [
        background(partial(_load, each, left_out.get(each.device), number * STAGGER))
        for number, each in enumerate(workers)
    ]
    loads = {worker: each.result() for worker, each in zip(workers, running, strict=True)}
    known = all(worker.device in nodes for worker in workers)
    lanes: dict[int, list[Worker]] = {}
    for worker in workers:
        lanes.setdefault(nodes[worker.device] if known else 0, []).append(worker)

    def copy(lane: list[Worker]) -> dict[Worker, Load]:
        return {worker: _host_copies(worker, loads[worker]) for worker in lane}

    for lane in [background(partial(copy, lane)) for lane in lanes.values()]:
        loads |= lane.result()
    return tuple(loads[worker] for worker in workers)


def _load(worker: Worker, left_out: Unknown | None, delay: float) -> Load:
    ended = Ended(how="error", detail=left_out.reason) if left_out else Ended(how="ok")
    load = Load(device=worker.device, uuid=worker.uuid, name=worker.name, ended=ended)
    if left_out:
        return load
    time.sleep(delay)
    return _run_stage(worker, "load", load)


def _host_copies(worker: Worker, load: Load) -> Load:
    return _run_stage(worker, "host copies", load) if load.ended.ok else load


def _run_stage(worker: Worker, stage: str, load: Load) -> Load:
    """The record with the results of one more stage."""
    answer = worker.child.request(LOAD_SECONDS, stage=stage, device=worker.device, uuid=worker.uuid)
    measured = (answer.answer or {}).get("load")
    if not isinstance(measured, dict):
        return msgspec.structs.replace(load, ended=answer.ended_with_stage)
    measured["seconds"] = load.seconds + answer.ended.seconds
    section = fit(msgspec.to_builtins(load) | measured, Load)
    if isinstance(section, Load):
        return section
    return msgspec.structs.replace(load, ended=Ended(how="error", detail=section.reason))


class Watch:
    """NVML's counters before and after the tests, and samples in between."""

    def __init__(
        self,
        children: Children,
        uuids: Sequence[str],
        every: float = SAMPLE_SECONDS,
        probe: str = "watch",
        arguments: Sequence[str] = (),
    ) -> None:
        """Start it, if there are GPUs to watch; `every`: seconds between two samples."""
        self._child: Child | None = None
        self._refused: Unknown | None = None
        if not uuids:
            return
        try:
            self._child = child = children.start(
                sys.executable, f"doctor_side.{probe}", str(every), *arguments, *uuids
            )
        except NotStartedError as error:
            self._refused = Unknown(reason=error.ended.detail)
            return
        self._ready = background(lambda: child.wait(WATCH_SECONDS).ended)

    def wait_until_ready(self) -> None:
        """Wait until the counters have been read for the first time, or the attempt has failed."""
        if self._child:
            self._ready.result()

    def look(self, job_gpus: JobGpus | Unknown) -> tuple[Watched, ...] | Unknown | None:
        """What was sampled so far, without the counters; it goes on."""
        if self._child is None or not self._ready.result().ok:
            return None
        self._child.send({"look": True})
        records = read(self._child.wait(WATCH_SECONDS), "watched", tuple[Watched, ...])
        if isinstance(records, Unknown):  # it hung or ended: there will be no other record
            self._child.kill()
            self._child, self._refused = None, records
        return self._of_job(records, job_gpus)

    def stop(self, job_gpus: JobGpus | Unknown) -> tuple[Watched, ...] | Unknown | None:
        """The records of the job's GPUs; None if nothing was watched."""
        if self._child is None:
            return self._refused
        ready = self._ready.result()
        if not ready.ok:
            self._child.kill()
            return Unknown(reason=ready.detail)
        self._child.send({"stop": True})
        try:
            records = read(self._child.wait(WATCH_SECONDS), "watched", tuple[Watched, ...])
        finally:
            self._child.kill()
        return self._of_job(records, job_gpus)

    def _of_job(
        self, records: tuple[Watched, ...] | Unknown, job_gpus: JobGpus | Unknown
    ) -> tuple[Watched, ...] | Unknown:
        uuids = _uuids(job_gpus)
        if isinstance(records, Unknown) or not uuids:
            return records
        return tuple(record for record in records if record.uuid in uuids)

    def cancel(self) -> None:
        """End it without a record."""
        if self._child:
            self._child.kill_group()
            self._ready.result()
            self._child.kill()


def _uuids(job_gpus: JobGpus | Unknown) -> set[str]:
    """NVML's UUIDs of the job's GPUs; MIG slices share one."""
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    return {gpu.nvml.uuid for gpu in gpus if gpu.nvml}


def numa_nodes(job_gpus: JobGpus | Unknown) -> dict[str, int]:
    """Device -> NUMA node of its PCI device, for those that the system names."""
    nodes = {}
    for gpu in job_gpus.gpus if isinstance(job_gpus, JobGpus) else ():
        address = gpu.nvml.address if gpu.nvml and not gpu.slice else ""
        with contextlib.suppress(OSError, ValueError):
            node = int((PCI_DEVICES / address / "numa_node").read_text("ascii"))
            if gpu.torch and node >= 0:
                nodes[f"cuda:{gpu.torch.index}"] = node
    return nodes


def best_of(first: tuple[Load, ...], again: tuple[Load, ...]) -> tuple[Load, ...]:
    """The records with the higher of two rates each: what others do beside it only slows it."""
    return tuple(_best_of(*pair) for pair in zip(first, again, strict=True))


def _best_of(first: Load, again: Load) -> Load:
    """A second load that failed is a fact of its own, and so is a product that differed."""
    if not (first.ended.ok and again.ended.ok):
        return again if first.ended.ok else first
    products = again if first.differing is None or again.differing else first
    rates = {
        name: max(first.matmul.get(name, 0.0), again.matmul.get(name, 0.0))
        for name in {**first.matmul, **again.matmul}
    }
    fastest = {
        field: max(filter(None, (getattr(first, field), getattr(again, field))), default=None)
        for field in ("copy", "to_device", "from_device")
    }
    return msgspec.structs.replace(
        products,
        matmul=rates,
        measured=2,
        unread={name: why for name, why in first.unread.items() if name in again.unread},
        seconds=first.seconds + again.seconds,
        **fastest,
    )
