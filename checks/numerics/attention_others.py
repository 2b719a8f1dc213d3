"""The attention trial on the job's other GPUs: a result that is wrong on one of them only."""

from __future__ import annotations

from dataclasses import replace

from packaging.version import Version

from doctor._util.records import Unknown
from doctor.facts.load import Attention, Trial
from doctor.facts.views import JobGpus
from doctor.job.job import Precision
from doctor.judge.attention_gates import GATES, defect
from doctor.judge.check import Owner, Status, Verdict, fail, unknown
from doctor.judge.known_errors import fail_by, find_cause

RETURN = (
    "Run the doctor again. If the same GPU is wrong again, return the machine and report the GPU's "
    "UUID (nvidia-smi -L): the same kernel of the same library is correct on another one. Until "
    "then leave that GPU out with CUDA_VISIBLE_DEVICES."
)
OTHER_MODEL = (
    "The GPUs are of different models, and a kernel of this torch is wrong on one of them: leave "
    "that model out with CUDA_VISIBLE_DEVICES, or try another torch release."
)


def with_others(
    verdict: Verdict,
    attention: Attention,
    version: Version,
    precision: Precision | None,
    job_gpus: JobGpus | Unknown,
) -> Verdict:
    """The verdict on the first GPU, and a failure if another one computes something else."""
    if precision not in GATES or not attention.others:
        return verdict
    correct = {
        (trial.case, trial.dtype, trial.backend)
        for trial in attention.trials
        if not _defect(attention, trial, version)
    }
    for other in attention.others:
        for trial in other.trials:
            detail = _defect(other, trial, version)
            if detail and (trial.case, trial.dtype, trial.backend) in correct:
                return _wrong(other, trial, detail, attention.device, job_gpus)
    if verdict.status not in (Status.PASS, Status.NOTE):
        return verdict
    for other in attention.others:
        if other.cut_short or not other.trials:
            reason = other.cut_short or "no trial"
            return unknown(f"{verdict.summary}; not completed on {other.device}: {reason}")
    devices = ", ".join(other.device for other in attention.others)
    dealt = any(len({trial.case for trial in other.trials}) > 1 for other in attention.others)
    rest = ", the other cases on one of the GPUs each" if dealt else ""
    return replace(verdict, summary=f"{verdict.summary}; causal attention also on {devices}{rest}")


def _defect(attention: Attention, trial: Trial, version: Version) -> str:
    """What is wrong with a trial, also if it only raised; "" for a case without a record."""
    cases = {case.name: case for case in attention.cases}
    case = cases.get(trial.case)
    return defect(trial, case, version, strict=True, device=attention.device) if case else ""


def _wrong(
    other: Attention, trial: Trial, detail: str, first: str, job_gpus: JobGpus | Unknown
) -> Verdict:
    summary = (
        f'{other.device}: {trial.backend} for "{trial.case}" in {trial.dtype}: {detail}; correct '
        f"on {first} with the same software"
    )
    if not trial.ended.ok:
        pattern = find_cause(trial.ended)
        return fail_by(pattern, summary) if pattern else fail(summary)
    if len({_name(device, job_gpus) for device in (first, other.device)}) > 1:
        return fail(summary, fix=OTHER_MODEL)
    return fail(summary, fix=RETURN, owner=Owner.MACHINE)


def _name(device: str, job_gpus: JobGpus | Unknown) -> str:
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    names = (gpu.torch.name for gpu in gpus if gpu.torch and f"cuda:{gpu.torch.index}" == device)
    return next(names, "")
