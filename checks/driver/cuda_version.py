"""Whether the NVIDIA driver runs the CUDA that torch was built for."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor._util.records import Unknown
from doctor._util.units import dotted
from doctor._util.versions import unreadable_versions
from doctor.checks.torch_build import wheels
from doctor.checks.torch_build.gpu_code import cubins, may_hide_ptx, ptx
from doctor.checks.torch_build.replacement import JETSON, UPGRADE, replace_torch
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Interpreter, Torch
from doctor.facts.machine import Driver
from doctor.facts.views import JobGpu, JobGpus
from doctor.judge.check import Check, Owner, Status, Verdict, fail, note, ok, skip, unknown, warn
from doctor.judge.combine import worst
from doctor.judge.known_errors import COMPAT, fail_by

SINCE_MINOR = 11
"""The first CUDA with minor-version compatibility."""
LARGE_PARAMETERS, LARGE_PARAMETERS_SINCE = (530,), (12, 1)
"""Kernels of this CUDA and newer may have parameters that drivers before this one refuse: issues
135126 and 161046 of pytorch."""


def version_of(driver: Driver) -> str:
    """ "driver 580.95.05, CUDA 13.0"."""
    version = f"driver {driver.version or 'of unknown version'}"
    cuda = driver.cuda_version
    if cuda:
        version += f", CUDA {dotted(_cuda(cuda))}"
    return f"{version}, confidential computing on" if driver.confidential else version


def _cuda(number: int) -> tuple[int, int]:
    return number // 1000, number % 1000 // 10


def runs_torch_cuda(
    driver: Driver | Unknown,
    torch: Torch | Unknown,
    cuda: Cuda | Unknown | None,
    job_gpus: JobGpus | Unknown,
    host: Host | Unknown,
    interpreter: Interpreter | Unknown,
) -> Verdict:
    if not _context_was_created(cuda) and (compat := _of_image(driver, job_gpus)):
        return compat
    verdict = _judged(driver, torch, cuda, job_gpus)
    if verdict.status is not Status.FAIL:
        return verdict
    reported = re.search(r"found version (\d+)", verdict.summary)
    number = int(reported[1]) if reported else None
    wheel = replace_torch(torch, driver, job_gpus, host, interpreter, number)
    fix, is_help = wheel.fix, not wheel.commands or _has_code(torch, job_gpus)
    if wheel.commands and is_help:
        fix = f"{fix} Or upgrade the driver on the host."
    of_the_image = wheel.fix == JETSON  # its driver comes with JetPack
    if is_help and not wheel.commands and not of_the_image:
        fix = f"{_upgrade(torch, number)} {fix.removesuffix(UPGRADE)}".rstrip()
    return replace(verdict, fix=fix, commands=wheel.commands)


def is_too_old(
    driver: Driver | Unknown | None,
    torch: Torch | Unknown,
    cuda: Cuda | Unknown | None,
    job_gpus: JobGpus | Unknown,
) -> bool:
    """Whether CUDA does not start because the driver is too old, which DRV002 reports."""
    return driver is not None and _judged(driver, torch, cuda, job_gpus).status is Status.FAIL


def _judged(
    driver: Driver | Unknown,
    torch: Torch | Unknown,
    cuda: Cuda | Unknown | None,
    job_gpus: JobGpus | Unknown,
) -> Verdict:
    started = cuda.started if isinstance(cuda, Cuda) else None
    if started and not started.ok and "too old" in started.detail:
        return fail(f"torch reports: {started.detail}")
    if isinstance(driver, Unknown):
        return unknown(driver.reason)
    if isinstance(torch, Unknown):
        return unknown(f"could not be read: {torch.reason}")
    return _by_version(driver, torch, cuda, job_gpus)


def _of_image(driver: Driver | Unknown, job_gpus: JobGpus | Unknown) -> Verdict | None:
    """A failure where the CUDA version is not the driver's own but that of a cuda-compat package,
    which GeForce GPUs do not take."""
    if isinstance(driver, Unknown):
        return None
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    version = wheels.Driver.read(driver.version).version
    own = wheels.DRIVER_CUDA.get(version[0]) if version else None
    if not own or not driver.cuda_version or not any("GeForce" in each.name for each in gpus):
        return None
    if _cuda(driver.cuda_version) <= own:
        return None
    summary = f"{version_of(driver)}, while this driver's own is CUDA {dotted(own)}"
    summary = f"{summary}; a GeForce GPU requires the driver's own libcuda.so.1"
    if _cuda(driver.cuda_version)[0] == own[0]:
        return fail_by(COMPAT, summary)
    fix = f"Upgrade the driver on the host, or use an image and a torch for CUDA {own[0]}."
    return fail(summary, "nvidia-smi", fix=fix, sources=COMPAT.sources)


def _upgrade(torch: Torch | Unknown, number: int | None) -> str:
    """The driver that this build needs, or the builds that run on the one that is there."""
    needs = torch.cuda if isinstance(torch, Torch) else None
    least = f" to {_least_driver(needs)} or newer" if needs else ""
    if number is None:
        return f"Upgrade the driver on the host{least}."
    major, minor = _cuda(number)
    runs = str(major) if major >= SINCE_MINOR else f"{major}.{minor} or older"
    return f"Upgrade the driver on the host{least}, or install a build of torch for CUDA {runs}."


def _by_version(
    driver: Driver, torch: Torch, cuda: Cuda | Unknown | None, job_gpus: JobGpus | Unknown
) -> Verdict:
    if not torch.cuda:
        return skip("this torch is not built for CUDA, see TOR002")
    versions = {"torch": torch.version, "torch's CUDA": torch.cuda, "the driver": driver.version}
    if unreadable := unreadable_versions(versions):
        return unknown(unreadable)
    match = re.match(r"(\d+)\.(\d+)", torch.cuda)
    if match is None:
        return unknown(f"the version of torch's CUDA has no minor part: {torch.cuda}")
    needs = int(match[1]), int(match[2])
    created = _context_was_created(cuda)
    if driver.cuda_version is None:
        summary = f"the driver's CUDA version could not be read; {torch.cuda} required by torch"
        return ok(f"{summary}; a CUDA context was created") if created else unknown(summary)
    supported = _cuda(driver.cuda_version)
    least = wheels.MINIMUM.get(needs[0])
    version = wheels.Driver.read(driver.version).version
    summary = f"{version_of(driver)}; torch {torch.version} requires CUDA {dotted(needs)}"
    if supported >= needs:
        return ok(summary)
    if supported[0] == needs[0] >= SINCE_MINOR and not (version and least and version < least):
        verdict = _within_major(summary, torch, job_gpus)
        is_525 = needs >= LARGE_PARAMETERS_SINCE and version and version < LARGE_PARAMETERS
        return _noted(verdict) if is_525 else verdict
    if created:
        return ok(f"{summary}; a CUDA context was created nevertheless")
    return fail(f"{summary}, which requires driver {_least_driver(torch.cuda)} or newer")


def _has_code(torch: Torch | Unknown, job_gpus: JobGpus | Unknown) -> bool:
    """Whether this build would run on the GPUs with a newer driver, as far as it is known."""
    if isinstance(torch, Unknown) or isinstance(job_gpus, Unknown) or not torch.archs:
        return True
    on = [each.capability for each in job_gpus.gpus if each.capability]
    return all(cubins(torch.archs, each) or ptx(torch.archs, each) for each in on)


def _least_driver(cuda: str) -> str:
    """The first branch that runs a build for this CUDA; a later one where no row has it."""
    major, minor = (int(part) for part in cuda.split(".")[:2])
    if major in wheels.MINIMUM:
        return str(wheels.MINIMUM[major][0])
    branches = [branch for branch, has in wheels.DRIVER_CUDA.items() if has >= (major, minor)]
    return str(min(branches, default=max(wheels.DRIVER_CUDA)))


def _within_major(summary: str, torch: Torch, job_gpus: JobGpus | Unknown) -> Verdict:
    """The driver's CUDA is older, of the same major version."""
    if isinstance(job_gpus, Unknown):
        return unknown(f"{summary}; which GPU code it uses is unknown: {job_gpus.reason}")
    if not job_gpus.gpus or not torch.archs:
        return unknown(f"{summary}; the GPUs or the build's GPU code could not be read")
    alike: dict[object, list[JobGpu]] = {}
    for gpu in job_gpus.gpus:
        ran = gpu.torch is not None and gpu.torch.ran
        alike.setdefault((gpu.name, gpu.capability, ran), []).append(gpu)
    return worst(*(_runs_code(summary, torch, gpus) for gpus in alike.values()))


def _noted(verdict: Verdict) -> Verdict:
    """A pass becomes a note: some kernels of this build need a newer driver."""
    if verdict.status is not Status.PASS:
        return verdict
    return note(
        f"{verdict.summary}; kernels with large parameters require driver 530",
        fix="If a kernel raises 'operation not supported', upgrade the driver to 530 or newer, or "
        "install a build for CUDA 11.8.",
    )


def _runs_code(summary: str, torch: Torch, gpus: list[JobGpu]) -> Verdict:
    """Cubins run on every driver of the major version; PTX needs one as new as the toolkit."""
    gpu = gpus[0]
    label = gpu.label if len(gpus) == 1 else f"{len(gpus)} GPUs ({gpu.name})"
    if gpu.torch and gpu.torch.ran:
        return ok(f"{summary}, of the same major version; a kernel ran on {label}")
    capability = gpu.capability
    if capability is None:
        return unknown(f"{summary}; the compute capability of {label} could not be read")
    if native := cubins(torch.archs, capability):
        return ok(f"{summary}, of the same major version; {native[-1]} runs on {label}")
    if ptx(torch.archs, capability) or may_hide_ptx(torch.cuda, capability):
        note = f"for {label} the build has only PTX, which requires a driver as new"
        return warn(f"{summary}; {note}")
    return skip(f"the build has no code for {label}, see TOR003")


def _context_was_created(cuda: Cuda | Unknown | None) -> bool:
    return isinstance(cuda, Cuda) and (cuda.started.ok or any(gpu.ran for gpu in cuda.gpus))


RUNS_TORCH_CUDA = Check(
    code="DRV002",
    slug="driver-runs-torch-cuda",
    title="The driver runs the CUDA that torch was built for",
    why="A driver runs its own CUDA version and older ones. Within a major version it also runs "
    "cubins of newer minor versions, but not PTX of a newer toolkit. A newer major version needs a "
    "newer driver, or the forward-compatibility package for data-center GPUs. Inside a container "
    "the driver is the host's and cannot be changed.",
    passes=(
        "the driver's CUDA is as new as torch's",
        "the driver's CUDA is older, of the same major version; the driver's branch supports that "
        "version (12.x: 525, 13.x: 580), and the build has a cubin for every GPU of the job",
        "a CUDA context was created, whatever the versions",
    ),
    notes=("the driver is older than 530, and torch's CUDA is 12.1 or newer",),
    warns=(
        "the driver's CUDA is older, of the same major version, and the build has only PTX for a "
        "GPU of the job on which no kernel ran",
    ),
    fails=(
        "the GPU is a GeForce, no CUDA context was created, and the CUDA version is newer than the "
        "driver's branch has: a cuda-compat package's",
        "the driver's CUDA is a major version behind or its branch too old, and no CUDA context "
        "was created",
        "torch itself reports that the driver is too old",
    ),
    fix="Install a torch that is built for a CUDA version that the driver runs, or upgrade the "
    "driver on the host.",
    limits="that every feature of torch's CUDA works with an older driver.",
    owner=Owner.ENVIRONMENT,
    judge=runs_torch_cuda,
    returns=True,
    sources=("ps-U28", "cuda-minor-compatibility", "cuda-forward-compatibility", "pytorch-install"),
    after=("TOR001",),
    targets=("nvidia",),
    also=("read",),
)

CHECKS = (RUNS_TORCH_CUDA,)
