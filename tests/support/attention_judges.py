"""The attention checks on facts that a test names."""

from __future__ import annotations

from doctor._util.records import Ended, Unknown
from doctor.checks.numerics import attention
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Torch, TorchGpu
from doctor.facts.load import Attention
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Settings
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Chosen, Job, Precision, Target
from doctor.judge.check import Verdict
from doctor.judge.switches import CALLS, VARIABLES, Switch

CALL = CALLS[Switch.CUDNN_SDP]

VARIABLE = VARIABLES[Switch.CUDNN_SDP].removesuffix("=1")

H100, B200, B300, THOR, A100, T4 = (9, 0), (10, 0), (10, 3), (11, 0), (8, 0), (7, 5)

CUDNN_FIRST, FLASH_FIRST = (3, 1, 2, 0, 4), (1, 2, 0, 3, 4)


MASKED = Job(attention_mask="padding")


def gpus(*capabilities: tuple[int, int] | None) -> JobGpus:
    return JobGpus(
        gpus=tuple(
            JobGpu()
            if capability is None
            else JobGpu(
                torch=TorchGpu(
                    index=i, uuid=None, name="GPU", capability=capability, memory_total=1
                )
            )
            for i, capability in enumerate(capabilities)
        ),
        by="torch",
    )


def judge(
    version: str,
    cudnn: int | None,
    *capabilities: tuple[int, int] | None,
    order: tuple[int, ...] | None = None,
    enabled: dict[str, bool] | None = None,
    env: dict[str, str] | None = None,
    cuda: str | None = "13.0",
    host: Host | Unknown | None = None,
    trial: Attention | Unknown | None = None,
    precision: Precision = "bf16",
    job: Job = MASKED,
    own: OwnModel | None = None,
) -> Verdict:
    torch = Torch(version=version, cuda=cuda, cudnn=cudnn)
    order_of_torch = Cuda(started=Ended(how="ok"), sdp_priority=order)
    return attention.SDPA.judge(
        torch=torch,
        cuda=order_of_torch if order else None,
        job_gpus=gpus(*capabilities),
        host=host or Host(system="Linux", env=env or {}),
        settings=Settings(sdp_enabled=enabled or {}),
        attention=trial,
        chosen=Chosen(precision, "asked"),
        target=Target("nvidia", "asked"),
        job=job,
        own=own,
    )
