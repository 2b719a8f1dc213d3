"""The judges of [expect]: each compares one expected value of the job file with the facts."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import gb, gib
from doctor.facts.host import Host
from doctor.facts.interpreter import Torch
from doctor.facts.machine import Driver, Gpu, Place
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.expect import Expect, matches_name, matches_version, parse_size
from doctor.judge.check import Owner, Status, Verdict, fail, ok, skip, unknown
from doctor.judge.combine import worst

GPU_RESERVE = 0.08
"""Share of a nominal GPU memory that may be missing: ECC on GDDR memory takes 6.25 %, firmware
some more; a T4 of 16 GiB reports 15,079 MiB."""
KERNEL_RESERVE = 0.05
"""Share of the host's memory that the kernel may keep. Our own number."""
FILESYSTEM_RESERVE = 0.05
"""Share of a disk that the file system may keep. Our own number."""
NOT_EXPECTED = skip("not set in [expect] of the job file")


REQUEST = (
    "Request all GPUs of the job from the scheduler (in Slurm --gpus or --gres): its control group "
    "keeps the others from this process. In a container, pass all GPUs into it."
)


def gpu_model(
    expect: Expect,
    host: Host | Unknown,
    gpus: tuple[Gpu, ...] | Unknown | None,
    job_gpus: JobGpus | Unknown,
) -> Verdict:
    pattern = expect.gpu
    if not pattern:
        return NOT_EXPECTED
    if isinstance(job_gpus, Unknown):
        return unknown(f"{job_gpus.reason}; {pattern} expected")
    if not job_gpus.gpus:
        summary = f"no GPU is visible; {pattern} expected"
        return _hidden(summary, 1, host, gpus) or fail(summary)
    unnamed = [gpu for gpu in job_gpus.gpus if not _name(gpu)]
    others = [gpu for gpu in job_gpus.gpus if _name(gpu) and not matches_name(pattern, _name(gpu))]
    if others:
        return fail(f"{', '.join(gpu.label for gpu in others)}; {pattern} expected")
    if unnamed:
        return unknown(f"the name of {unnamed[0].label} could not be read; {pattern} expected")
    models = ", ".join(dict.fromkeys(_name(gpu) for gpu in job_gpus.gpus))
    return ok(f"{len(job_gpus.gpus)} × {models}; {pattern} expected")


def _name(gpu: JobGpu) -> str:
    return (gpu.torch.name if gpu.torch else "") or (gpu.nvml.name if gpu.nvml else "")


def gpu_count(
    expect: Expect,
    host: Host | Unknown,
    gpus: tuple[Gpu, ...] | Unknown | None,
    job_gpus: JobGpus | Unknown,
) -> Verdict:
    count = expect.count
    if not count:
        return NOT_EXPECTED
    if isinstance(job_gpus, Unknown):
        if _bus_has_no_gpu(host):
            return fail(f"no GPU is on the PCI bus; {count} expected")
        return unknown(f"{job_gpus.reason}; {count} expected")
    summary = f"{len(job_gpus.gpus)} visible; {count} expected"
    if len(job_gpus.gpus) >= count:
        return ok(summary)
    return _hidden(summary, count, host, gpus) or fail(summary)


def _hidden(
    summary: str, count: int, host: Host | Unknown, gpus: tuple[Gpu, ...] | Unknown | None
) -> Verdict | None:
    """The failure where the machine has that many GPUs, and the environment hides them."""
    listed = len(gpus) if isinstance(gpus, tuple) else 0
    if listed < count:
        return None
    forbidden = sum(gpu.forbidden for gpu in gpus) if isinstance(gpus, tuple) else 0
    selection = host.visible_devices if isinstance(host, Host) else None
    if listed - forbidden < count:
        why = f"the driver lists {listed}, and this process may not open {forbidden} of them"
        return fail(f"{summary}: {why}", fix=REQUEST, owner=Owner.ENVIRONMENT)
    if selection is None:
        return None
    return fail(
        f"{summary}: the driver lists {listed}, CUDA_VISIBLE_DEVICES={selection} hides the others",
        fix="Name all GPUs of the job in CUDA_VISIBLE_DEVICES, or unset it.",
        owner=Owner.ENVIRONMENT,
    )


def _bus_has_no_gpu(host: Host | Unknown) -> bool:
    """Whether the bus was read and there is neither a GPU on it nor a device node of one."""
    if not isinstance(host, Host) or not host.pci_listed:
        return False
    return not (host.has_nvidia or host.amd_devices)


def gpu_memory(expect: Expect, job_gpus: JobGpus | Unknown) -> Verdict:
    size = expect.memory
    if not size:
        return NOT_EXPECTED
    if isinstance(job_gpus, Unknown):
        return unknown(f"{job_gpus.reason}; {size} per GPU expected")
    if not job_gpus.gpus:
        return unknown(f"no GPU is visible; {size} per GPU expected")
    sizes = [(gpu.memory_total, gpu.label) for gpu in job_gpus.gpus if gpu.memory_total is not None]
    unread = [gpu.label for gpu in job_gpus.gpus if gpu.memory_total is None]
    least, label = min(sizes, default=(None, ""))
    note = f" (the smallest of {len(sizes)})" if len(sizes) > 1 else ""
    verdict = _at_least(f"{label}{note} has", least, size, reserve=GPU_RESERVE) if least else None
    if unread and (verdict is None or verdict.status is Status.PASS):
        return unknown(f"the memory of {unread[0]} could not be read; {size} expected")
    return verdict or fail(f"{label} has no memory; {size} expected")


def _at_least(subject: str, size: int, expected: str, *, reserve: float = 0.0) -> Verdict:
    """Compare bytes with a size of the job file, in the unit used there.

    `reserve` is the share of a nominal size that may be missing.
    """
    show = gib if "i" in expected else gb
    summary = f"{subject} {show(size)}; {expected} expected"
    if size >= parse_size(expected) * (1 - reserve):
        return ok(summary)
    return fail(f"{summary} (up to {reserve:.0%} less is accepted)" if reserve else summary)


def driver_version(expect: Expect, driver: Driver | Unknown | None) -> Verdict:
    version = driver.version if isinstance(driver, Driver) else None
    return _version("driver", version, expect.driver)


def torch_version(expect: Expect, torch: Torch | Unknown) -> Verdict:
    version = torch.version if isinstance(torch, Torch) else None
    return _version("torch", version, expect.torch)


def cuda_version(expect: Expect, torch: Torch | Unknown) -> Verdict:
    expected = expect.cuda
    if expected and isinstance(torch, Torch) and torch.cuda is None:
        return fail(f"torch {torch.version} is built without CUDA; {expected} expected")
    version = torch.cuda if isinstance(torch, Torch) else None
    return _version("CUDA of the torch build", version, expected)


def _version(subject: str, version: str | None, expected: str | None) -> Verdict:
    if not expected:
        return NOT_EXPECTED
    if not version:
        return unknown(f"the version of {subject} could not be read; {expected} expected")
    summary = f"{subject} {version}; {expected} expected"
    try:
        return ok(summary) if matches_version(expected, version) else fail(summary)
    except ValueError as error:
        return unknown(f"{summary}: {error}")


def shared_memory(expect: Expect, host: Host | Unknown) -> Verdict:
    size = expect.shm
    if not size:
        return NOT_EXPECTED
    if isinstance(host, Unknown):
        return unknown(f"{host.reason}; {size} expected")
    if host.shm_total is None:
        return fail(f"this system has no shared memory file system; {size} expected")
    return _at_least("shared memory has", host.shm_total, size)


def host_memory(expect: Expect, host: Host | Unknown) -> Verdict:
    size = expect.host_memory
    if not size:
        return NOT_EXPECTED
    if isinstance(host, Unknown) or host.memory_total is None:
        return unknown(f"the host's memory could not be read; {size} expected")
    whole = _at_least("the host has", host.memory_total, size, reserve=KERNEL_RESERVE)
    limit = host.cgroup_memory_limit
    if limit is None or limit >= host.memory_total:
        return whole
    limited = _at_least("the cgroup limit is", limit, size)
    owner = Owner.ENVIRONMENT if whole.status is Status.PASS else Owner.MACHINE
    return limited if limited.status is Status.PASS else fail(limited.summary, owner=owner)


def cpu_count(expect: Expect, host: Host | Unknown) -> Verdict:
    count = expect.cpus
    if not count:
        return NOT_EXPECTED
    if isinstance(host, Unknown) or host.cpus is None:
        return unknown(f"the usable CPUs could not be counted; {count} expected")
    usable = min(host.cpus, host.cgroup_cpus or host.cpus)
    quota = " under the cgroup's quota" if usable < host.cpus else ""
    summary = f"{usable:g} usable{quota}; {count} expected"
    owner = Owner.ENVIRONMENT if quota and host.cpus >= count else Owner.MACHINE
    return ok(summary) if usable >= count else fail(summary, owner=owner)


def free_disk(expect: Expect, places: tuple[Place, ...] | Unknown) -> Verdict:
    disk = expect.disk
    if not disk:
        return NOT_EXPECTED
    by_path = {} if isinstance(places, Unknown) else {place.path: place for place in places}
    return worst(*(_free_space(path, size, by_path.get(path)) for path, size in disk.items()))


def _free_space(path: str, expected: str, place: Place | None) -> Verdict:
    if place is None or place.free is None:
        reason = f": {place.looked.detail}" if place and place.looked.detail else ""
        return unknown(f"the free space of {path} could not be read{reason}; {expected} expected")
    if place.exists is False:
        return fail(f"{path} does not exist; {expected} free expected")
    size = parse_size(expected)
    small = place.total is not None and place.total < size * (1 - FILESYSTEM_RESERVE)
    total = f" of {gb(place.total or 0)}" if small else ""
    summary = f"{path} has {gb(place.free)}{total} free; {expected} expected"
    owner = Owner.MACHINE if small else Owner.ENVIRONMENT
    return ok(summary) if place.free >= size else fail(summary, owner=owner)
