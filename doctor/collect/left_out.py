"""GPUs on which some tests are left out, and why: they would fail again, or disturb others."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor.facts.error_texts import is_final
from doctor.facts.facts import Facts
from doctor.facts.interpreter import Cuda
from doctor.facts.load import LEFT_OUT
from doctor.facts.views import JobGpu, JobGpus


def without_kernel(facts: Facts, device: str) -> Unknown | None:
    """The reason if the kernel stage failed on a device: nothing else can run there."""
    for gpu in facts.cuda.gpus if isinstance(facts.cuda, Cuda) else ():
        if f"cuda:{gpu.index}" == device and gpu.kernel is not None and not gpu.kernel.ok:
            return _reason(f"no kernel runs on {device}: {gpu.kernel.detail or gpu.kernel.how}")
    return None


def after_smoke(facts: Facts, device: str) -> Unknown | None:
    """The same, or the reason if the smoke step ended there with an error that would recur."""
    if reason := hung(facts, device):
        return reason
    for smoke in facts.smokes:
        for stage in smoke.stages if smoke.device == device else ():
            if is_final(stage.ended):
                return _reason(f"{stage.name} failed on {device}: {stage.ended.detail}")
    return without_kernel(facts, device)


def hung(facts: Facts, device: str | None = None) -> Unknown | None:
    """The reason if a smoke step or a load hung on a device (None: on any): others would too."""
    ends = [(smoke.device, stage.ended) for smoke in facts.smokes for stage in smoke.stages]
    loads = facts.load if isinstance(facts.load, tuple) else ()
    ends += [(load.device, load.ended) for load in loads]
    for where, ended in ends:
        if ended.how == "timeout" and device in (None, where):
            return _reason(f"{where} hung before: {ended.detail}")
    return None


def from_load(facts: Facts, device: str) -> Unknown | None:
    """The same, or the reason if somebody else uses the device."""
    return after_smoke(facts, device) or in_use(facts, device)


def in_use(facts: Facts, device: str) -> Unknown | None:
    """The reason if other processes used the device before torch did."""
    for number, gpu in enumerate(
        facts.job_gpus.gpus if isinstance(facts.job_gpus, JobGpus) else ()
    ):
        index = gpu.torch.index if gpu.torch else number
        if f"cuda:{index}" == device and gpu.use_by_others:
            return reason_in_use(device, gpu)
    return None


def reason_in_use(device: str, gpu: JobGpu) -> Unknown:
    """Why a device that other processes use gets no load."""
    return _reason(f"{device} is in use: {gpu.use_by_others}")


def _reason(text: str) -> Unknown:
    return Unknown(reason=f"{LEFT_OUT}: {text}")
