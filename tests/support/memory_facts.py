"""GPUs and checkpoints whose memory is judged."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint
from doctor.checks import memory
from doctor.facts.host import Host
from doctor.facts.machine import Gpu
from doctor.facts.memory.training import Size, training_parts
from doctor.facts.own_model import OwnModel
from doctor.facts.training import ModelShape
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Chosen, Job, Precision, Target, TargetKind
from doctor.judge.check import Verdict

DARK = Unknown(reason="the driver hangs")

B = 10**9


def job_gpu(total: int | None, used: int | None = 0, index: int = 0) -> JobGpu:
    return JobGpu(
        nvml=Gpu(
            index=index, uuid=f"GPU-{index}", name="card", memory_total=total, memory_used=used
        )
    )


def gpus_of(*totals: int | None, used: int | None = 0) -> JobGpus:
    gpus = tuple(job_gpu(total, used, index) for index, total in enumerate(totals))
    return JobGpus(gpus=gpus, by="torch")


def vram(
    job: Job,
    job_gpus: JobGpus | Unknown,
    *,
    precision: Precision | None = "bf16",
    kind: TargetKind = "nvidia",
    model: Checkpoint | Unknown | None = None,
    host: Host | Unknown | None = None,
    shape: ModelShape | Unknown | None = None,
    own: OwnModel | Unknown | None = None,
) -> Verdict:
    return memory.VRAM.judge(
        job=job,
        target=Target(kind, "test"),
        chosen=Chosen(precision, "test") if precision else Unknown(reason="no capability"),
        job_gpus=job_gpus,
        checkpoint=model,
        host=host or Host(system="Linux"),
        shape=shape,
        own=own,
    )


def total(job: Job, precision: Precision, trainable: int | None = None) -> float:
    parts = training_parts(job, precision, Size(100, 100 if trainable is None else trainable, ""))
    return sum(part.bytes for part in parts)
