"""The attention trial of a run: the cases are dealt over the job's GPUs of one model.

The first case is tried on every GPU; of the others each GPU tries a part. A trial that is not
correct elsewhere is repeated on the first GPU: what fails on both is the software's, what fails on
one of them the GPU's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import msgspec

from doctor._util.records import Unknown
from doctor.collect.attention_trial import BACKENDS, Records, try_attention, try_implementations
from doctor.collect.background import background
from doctor.collect.child import CUT_OFF, Child
from doctor.collect.children import Children, unless_cut_off
from doctor.collect.left_out import from_load
from doctor.collect.torch_child import ReportProgress, TorchChild
from doctor.collect.workers import Worker
from doctor.facts.facts import Facts
from doctor.facts.interpreter import Cuda
from doctor.facts.load import Attention, Trial
from doctor.job.job import Chosen

REPEATED_ABOVE = {"bf16": 5e-3, "fp16": 1e-3}
"""Relative errors above which a trial is repeated on the first GPU; a correct kernel stays below
4e-3 and 5e-4."""


def collect_attention(
    child: TorchChild,
    children: Children,
    facts: Facts,
    device: str,
    report_progress: ReportProgress,
    others: Sequence[Worker] = (),
    implementations: Child | None = None,
) -> Attention | Unknown | None:
    """The attention trial; None if the user or the budget omits it.

    `others`: the workers of the job's other GPUs. `implementations`: as in `Ahead`.
    """
    chosen = facts.chosen
    if not facts.options.smoke or "attention" in facts.options.omitted:
        return None
    if isinstance(chosen, Unknown):
        return chosen
    if reason := from_load(facts, device):
        return reason
    attention = try_on_gpus(child, facts, device, chosen, report_progress, others)
    if isinstance(attention, Unknown) or not facts.job.hf:
        return attention
    records = try_implementations(children, facts, device, chosen, report_progress, implementations)
    attention = msgspec.structs.replace(attention, implementations=records)
    return unless_cut_off(attention, *(each.ended for each in records))


def _try_on_worker(
    worker: Worker, facts: Facts, chosen: Chosen, share: tuple[int, int]
) -> Attention | None:
    """A share of the cases on another GPU, the first case for share 0; None if it was cut off."""
    result = try_attention(
        worker.child,
        facts,
        worker.device,
        chosen,
        lambda stage: None,
        first_case=not share[0],
        share=share,
    )
    if isinstance(result, Attention):
        return result
    if result.reason == CUT_OFF.detail:
        return None
    return Attention(device=worker.device, cases=(), trials=(), cut_short=result.reason)


def try_on_gpus(
    child: TorchChild,
    facts: Facts,
    device: str,
    chosen: Chosen,
    report_progress: ReportProgress,
    others: Sequence[Worker],
) -> Attention | Unknown:
    """All cases, and on every other GPU at least the first one."""
    started = time.monotonic()
    used = [worker for worker in others if not from_load(facts, worker.device)]
    equal = [worker for worker in used if worker.name == _name(facts, device)]
    count = 1 + len(equal)

    running = []
    for worker in used:
        number = 1 + equal.index(worker) if worker in equal else 0
        attempt = partial(_try_on_worker, worker, facts, chosen, (number, count))
        running.append(background(attempt))
    records = Records()
    attention = try_attention(
        child, facts, device, chosen, report_progress, records, share=(0, count)
    )
    on_others = tuple(filter(None, (each.result() for each in running)))
    if isinstance(attention, Unknown):
        return attention
    for other in on_others:
        adopt(records, other)
    if equal and not attention.cut_short:
        attention = try_attention(child, facts, device, chosen, lambda stage: None, records)
        if isinstance(attention, Unknown):
            return attention
    seconds = time.monotonic() - started
    return msgspec.structs.replace(
        attention, others=tuple(map(_of_first_case, on_others)), seconds=seconds
    )


def adopt(records: Records, other: Attention) -> None:
    """Take over the trials of another GPU that are correct, and need not be repeated."""
    known = {(each.case, each.dtype, each.backend) for each in records.trials}
    for trial in other.trials:
        if (trial.case, trial.dtype, trial.backend) not in known and _correct(trial):
            records.add_trial(trial)
    tried = {(each.case, each.dtype, each.backend) for each in records.trials}
    for group, default in other.defaults.items():
        case, _, dtype = group.rpartition("/")
        if all((case, dtype, backend) in tried for backend in BACKENDS):
            records.defaults.setdefault(group, default)
            records.done.add(f"{group}/choice")
    for group, lowest in other.lowest_lse.items():
        records.lowest_lse.setdefault(group, lowest)


def _correct(trial: Trial) -> bool:
    above = any(not float(e) <= REPEATED_ABOVE[trial.dtype] for e in trial.errors.values())
    return trial.ended.ok and not trial.nonfinite and not above


def _of_first_case(other: Attention) -> Attention:
    """The record of another GPU; what it missed of the other cases the first GPU has tried."""
    if not other.cases or not other.trials:
        return other
    of_first = {trial.backend for trial in other.trials if trial.case == other.cases[0].name}
    return msgspec.structs.replace(other, cut_short="") if of_first == set(BACKENDS) else other


def _name(facts: Facts, device: str) -> str:
    """The model of the GPU that a device is."""
    gpus = facts.cuda.gpus if isinstance(facts.cuda, Cuda) else ()
    return next((gpu.name for gpu in gpus if f"cuda:{gpu.index}" == device), "")
