"""torch is built for the GPUs' vendor."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.versions import unreadable_versions
from doctor.checks.torch_build.replacement import replace_torch
from doctor.facts.host import Host
from doctor.facts.interpreter import Interpreter, Torch
from doctor.facts.machine import Driver
from doctor.facts.views import JobGpus
from doctor.hardware.vendors import ON_CUDA
from doctor.job.job import Target
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown


def built_for_this_gpu(
    torch: Torch,
    host: Host | Unknown,
    target: Target,
    driver: Driver | Unknown | None,
    job_gpus: JobGpus | Unknown,
    interpreter: Interpreter | Unknown,
) -> Verdict:
    built = f"torch {torch.version} is built for {_built_for(torch)}"
    vendor, platform = ("AMD", "ROCm") if target.kind == "rocm" else ("NVIDIA", "CUDA")
    versions = {"torch": torch.version, "torch's CUDA": torch.cuda, "torch's ROCm": torch.hip}
    is_built = torch.cuda or torch.hip  # a build for the CPU needs no version to be one
    if is_built and (unreadable := unreadable_versions(versions)):
        return unknown(unreadable)
    if torch.hip if target.kind == "rocm" else torch.cuda:
        return ok(f"{built}; {platform} required for {vendor} GPUs")
    if isinstance(host, Unknown):
        return unknown(f"{built}; whether the host has GPUs is unknown: {host.reason}")
    if not (host.has_nvidia or host.amd_devices):
        if not host.pci_listed:
            return unknown(f"{built}; whether the host has GPUs could not be read")
        return skip(f"{built}, and the host has no GPU")
    summary = f"{built}; a {platform} build required for {vendor} GPUs"
    if target.kind == "rocm":
        return fail(summary, "python -m pip uninstall torch", "rocminfo", fix=ROCM_BUILD)
    wheel = replace_torch(torch, driver, job_gpus, host, interpreter)
    return fail(summary, *wheel.commands, fix=wheel.fix)


ROCM_BUILD = (
    "Remove torch and install PyTorch's ROCm build for the ROCm version of this machine; "
    "pytorch.org/get-started names the index. The default wheels are CUDA builds."
)


def _built_for(torch: Torch) -> str:
    if torch.cuda:
        return f"CUDA {torch.cuda}"
    return f"ROCm {torch.hip}" if torch.hip else "the CPU only"


BUILT_FOR_THIS_GPU = Check(
    code="TOR002",
    slug="torch-built-for-this-gpu",
    title="torch is built for the GPUs' vendor",
    why="A build for the CPU only, or for the other vendor's GPUs, trains on the CPU or not at "
    "all. torch.version.cuda and torch.version.hip state what a build is for; the suffix of its "
    "version does not, because it depends on the index that the wheel came from.",
    passes=(
        "the host has NVIDIA GPUs and torch.version.cuda is set",
        "the host has AMD GPUs and torch.version.hip is set",
        "torch.version.hip is set and torch sees AMD GPUs, whatever else the host has",
    ),
    fails=("the host has a GPU, and torch is built for the CPU only or for the other vendor",),
    fix="Install a build for this vendor that the driver runs; pytorch.org/get-started names the "
    "index. On x86_64 Linux the default wheels are CUDA builds (for CUDA 13 from torch 2.11 on, "
    "which requires driver 580).",
    owner=Owner.ENVIRONMENT,
    judge=built_for_this_gpu,
    returns=True,
    required="always",
    sources=("ps-U28", "pytorch-install", "cuda-minor-compatibility"),
    after=("TOR001",),
    targets=ON_CUDA,
    also=("read",),
)

CHECKS = (BUILT_FOR_THIS_GPU,)
