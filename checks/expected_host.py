"""Whether torch, the host and its disks are what was paid for or agreed: [expect], continued."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import gb
from doctor.checks.expected import NOT_EXPECTED, enough, version_verdict
from doctor.facts.machine import Host, Place, Torch
from doctor.job.expect import Expect, parse_size
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown
from doctor.judge.combine import worst

KERNEL = 0.05
"""What a kernel may keep of the host's memory. Our own number."""
FORMATTED = 0.05
"""What a file system may keep of a disk. Our own number."""


def expected_torch(expect: Expect, torch: Torch | Unknown) -> Verdict:
    version = torch.version if isinstance(torch, Torch) else None
    return version_verdict("torch", expect.torch, version)


def expected_cuda(expect: Expect, torch: Torch | Unknown) -> Verdict:
    if isinstance(torch, Torch) and torch.cuda is None and expect.cuda:
        return fail(f"torch {torch.version} is built without CUDA, {expect.cuda} expected")
    version = torch.cuda if isinstance(torch, Torch) else None
    return version_verdict("CUDA of the torch build", expect.cuda, version)


def expected_shm(expect: Expect, host: Host | Unknown) -> Verdict:
    wanted = expect.shm
    if not wanted:
        return skip(NOT_EXPECTED)
    if isinstance(host, Unknown):
        return unknown(f"{wanted} expected: {host.reason}")
    if host.shm_total is None:
        return fail(f"this system has no shared memory file system, {wanted} expected")
    return enough("shared memory has", host.shm_total, wanted)


def expected_host_memory(expect: Expect, host: Host | Unknown) -> Verdict:
    wanted = expect.host_memory
    if not wanted:
        return skip(NOT_EXPECTED)
    if isinstance(host, Unknown) or host.memory_total is None:
        return unknown(f"the host's memory could not be read; {wanted} expected")
    limit = host.cgroup_memory_limit
    if limit is not None and limit < host.memory_total:
        found = enough("the cgroup limit is", limit, wanted)
        whole = enough("the host has", host.memory_total, wanted, spared=KERNEL)
        owner = Owner.ENVIRONMENT if whole.status == "pass" else Owner.MACHINE
        return found if found.status == "pass" else fail(found.summary, owner=owner)
    return enough("the host has", host.memory_total, wanted, spared=KERNEL)


def expected_cpus(expect: Expect, host: Host | Unknown) -> Verdict:
    wanted = expect.cpus
    if not wanted:
        return skip(NOT_EXPECTED)
    if isinstance(host, Unknown) or host.cpus is None:
        return unknown(f"the usable processors could not be counted; {wanted} expected")
    usable = min(host.cpus, host.cgroup_cpus or host.cpus)
    quota = " under the cgroup's quota" if usable < host.cpus else ""
    said = f"{usable:g} usable{quota}, {wanted} expected"
    owner = Owner.ENVIRONMENT if quota and host.cpus >= wanted else Owner.MACHINE
    return ok(said) if usable >= wanted else fail(said, owner=owner)


def expected_disk(expect: Expect, places: tuple[Place, ...] | Unknown) -> Verdict:
    if not expect.disk:
        return skip(NOT_EXPECTED)
    looked = {} if isinstance(places, Unknown) else {place.path: place for place in places}
    return worst(*(_disk(path, wanted, looked.get(path)) for path, wanted in expect.disk.items()))


def _disk(path: str, wanted: str, place: Place | None) -> Verdict:
    if place is None or place.free is None:
        why = f": {place.looked.detail}" if place and place.looked.detail else ""
        return unknown(f"the free space of {path} could not be read{why}; {wanted} expected")
    if place.exists is False:
        return fail(f"{path} does not exist, {wanted} free expected")
    size = parse_size(wanted)
    small = place.total is not None and place.total < size * (1 - FORMATTED)
    whole = f" of {gb(place.total or 0)}" if small else ""
    said = f"{path} has {gb(place.free)}{whole} free, {wanted} expected"
    owner = Owner.MACHINE if small else Owner.ENVIRONMENT
    return ok(said) if place.free >= size else fail(said, owner=owner)


TORCH = Check(
    code="JOB005",
    slug="expected-torch",
    title="torch is of the version that was agreed",
    why="An image that was rebuilt, or a requirement that moved torch, changes kernels and "
    "defaults under a training that worked.",
    passes=(
        "torch's version, without its local part such as +cu130, is among those that "
        "torch in [expect] admits",
    ),
    fails=("it is another",),
    fix="Install the torch that the job was made for into the training environment, or change "
    "torch in [expect].",
    owner=Owner.ENVIRONMENT,
    judge=expected_torch,
    returns=True,
    required="always",
    sources=("ps-U28",),
)

CUDA = Check(
    code="JOB006",
    slug="expected-cuda",
    title="torch is built for the CUDA that was agreed",
    why="Extensions that were compiled for one CUDA fail to load beside a torch of another, and "
    "the wheel that pip takes by default changes its CUDA with torch's version.",
    passes=(
        "the CUDA of the torch build is among those that cuda in [expect] admits",
        "it is not the driver's, which nvidia-smi shows",
    ),
    fails=("it is another, or torch is built without CUDA",),
    fix="Install the torch wheel of that CUDA (the index /whl/cuXYZ of download.pytorch.org), or "
    "change cuda in [expect].",
    owner=Owner.ENVIRONMENT,
    judge=expected_cuda,
    returns=True,
    required="always",
    targets=("nvidia",),
    sources=("ps-U28",),
)

SHM = Check(
    code="JOB007",
    slug="expected-shm",
    title="Shared memory is as large as agreed",
    why="Data loader workers and NCCL use it; its size is chosen when a container is started and "
    "cannot be changed from inside.",
    passes=("shared memory has at least the size",),
    fails=("it is smaller, or there is none",),
    fix="Start the container with --shm-size, or an emptyDir with medium: Memory in Kubernetes.",
    owner=Owner.ENVIRONMENT,
    judge=expected_shm,
    returns=True,
    required="always",
    sources=("ps-U9", "vast-contract"),
)

HOST_MEMORY = Check(
    code="JOB008",
    slug="expected-host-memory",
    title="The host has the memory that was agreed",
    why="Loading and saving a checkpoint takes host memory; under a container's limit the process "
    "is killed with nothing but 'Killed'.",
    passes=(
        "the host's memory has the size, or at most 5 % less, which the kernel keeps",
        "a cgroup limit below it has the size",
    ),
    fails=("it has less",),
    fix="Take another machine, unless the host has the memory and the container's limit is yours "
    "to raise.",
    owner=Owner.MACHINE,
    judge=expected_host_memory,
    returns=True,
    required="always",
    sources=("ps-U9",),
)

CPUS = Check(
    code="JOB009",
    slug="expected-cpus",
    title="As many processors can be used as were agreed",
    why="os.cpu_count shows the host's processors; a container's quota and affinity leave fewer, "
    "and a data loader that starves leaves the GPU idle.",
    passes=("affinity and quota leave at least so many",),
    fails=("they leave fewer",),
    fix="Take another machine, unless the host has the processors and the container's quota is "
    "yours to raise.",
    limits="that the processors are yours alone: on a shared host others use them too.",
    owner=Owner.MACHINE,
    judge=expected_cpus,
    returns=True,
    required="always",
    sources=("vast-contract",),
)

DISK = Check(
    code="JOB010",
    slug="expected-disk",
    title="The disks have the free space that was agreed",
    why="A rented disk has a size of its own, which is easily forgotten in the form and cannot "
    "always be changed afterwards.",
    passes=("every folder of [expect.disk] has at least so much that this user may write",),
    fails=("one has less, or does not exist",),
    fix="Mount the volume at that path, make room on it, or rent a larger one.",
    commands=("df -h",),
    limits="that the space will still be free when the job writes.",
    owner=Owner.ENVIRONMENT,
    judge=expected_disk,
    returns=True,
    required="always",
    sources=("runpod-disk", "vast-contract"),
)

CHECKS = (TORCH, CUDA, SHM, HOST_MEMORY, CPUS, DISK)
