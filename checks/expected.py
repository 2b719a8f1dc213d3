"""Whether the GPUs and their driver are what was paid for or agreed: [expect] of the job file."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import gb, gib
from doctor.facts.machine import Driver, Gpu, Host
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.expect import Expect, matches_name, matches_version, parse_size
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown

KEPT = 0.08
"""What a card may keep of a nominal size: ECC on GDDR memory takes 6.25 %, and firmware some; a
T4 of 16 GiB tells 15,079 MiB."""
NOT_EXPECTED = "[expect] of the job file does not say it"


def expected_gpu(expect: Expect, job_gpus: JobGpus | Unknown) -> Verdict:
    wanted = expect.gpu
    if not wanted:
        return skip(NOT_EXPECTED)
    if isinstance(job_gpus, Unknown):
        return unknown(f"{wanted} expected: {job_gpus.reason}")
    if not job_gpus.gpus:
        return fail(f"no GPU is visible, {wanted} expected")
    nameless = [gpu for gpu in job_gpus.gpus if not _name(gpu)]
    others = [gpu for gpu in job_gpus.gpus if _name(gpu) and not matches_name(wanted, _name(gpu))]
    if others:
        return fail(f"{', '.join(gpu.label for gpu in others)}; {wanted} expected")
    if nameless:
        return unknown(f"the name of {nameless[0].label} could not be read; {wanted} expected")
    kinds = ", ".join(dict.fromkeys(_name(gpu) for gpu in job_gpus.gpus))
    return ok(f"{len(job_gpus.gpus)} × {kinds}; {wanted} expected")


def _name(gpu: JobGpu) -> str:
    return (gpu.torch.name if gpu.torch else "") or (gpu.nvml.name if gpu.nvml else "")


def expected_count(
    expect: Expect,
    host: Host | Unknown,
    gpus: tuple[Gpu, ...] | Unknown | None,
    job_gpus: JobGpus | Unknown,
) -> Verdict:
    wanted = expect.count
    if not wanted:
        return skip(NOT_EXPECTED)
    if isinstance(job_gpus, Unknown):
        if _none_on_the_bus(host):
            return fail(f"no GPU is on the PCI bus, {wanted} expected")
        return unknown(f"{wanted} expected: {job_gpus.reason}")
    seen = len(job_gpus.gpus)
    said = f"{seen} visible, {wanted} expected"
    if seen >= wanted:
        return ok(said)
    there = len(gpus) if isinstance(gpus, tuple) else 0
    hidden = host.visible_devices if isinstance(host, Host) else None
    if there >= wanted and hidden is not None:
        return fail(
            f"{said}: the driver lists {there}, CUDA_VISIBLE_DEVICES={hidden} hides the others",
            fix="Name all GPUs of the job in CUDA_VISIBLE_DEVICES, or unset it.",
            owner=Owner.ENVIRONMENT,
        )
    return fail(said)


def _none_on_the_bus(host: Host | Unknown) -> bool:
    """Whether the bus was read and shows no GPU, nor a device node of one."""
    if not isinstance(host, Host) or not host.pci_listed:
        return False
    return not (host.has_nvidia or host.amd_devices)


def expected_memory(expect: Expect, job_gpus: JobGpus | Unknown) -> Verdict:
    wanted = expect.memory
    if not wanted:
        return skip(NOT_EXPECTED)
    if isinstance(job_gpus, Unknown):
        return unknown(f"{wanted} each expected: {job_gpus.reason}")
    if not job_gpus.gpus:
        return unknown(f"no GPU is visible; {wanted} each expected")
    sizes = [(gpu.memory_total, gpu.label) for gpu in job_gpus.gpus if gpu.memory_total is not None]
    unread = [gpu.label for gpu in job_gpus.gpus if gpu.memory_total is None]
    least, label = min(sizes, default=(None, ""))
    others = f", the least of {len(sizes)}," if len(sizes) > 1 else ""
    found = enough(f"{label}{others} has", least, wanted, spared=KEPT) if least else None
    if unread and (found is None or found.status is Status.PASS):
        return unknown(f"the memory of {unread[0]} could not be read; {wanted} expected")
    return found or fail(f"{label} has no memory; {wanted} expected")


def enough(what: str, size: int, wanted: str, *, spared: float = 0.0) -> Verdict:
    """At least the size, or what a nominal one leaves of it, in the unit that was written."""
    show = gib if "i" in wanted else gb
    less = f" (down to {spared:.0%} less counts as that)" if spared else ""
    said = f"{what} {show(size)}, {wanted} expected"
    return ok(said) if size >= parse_size(wanted) * (1 - spared) else fail(f"{said}{less}")


def expected_driver(expect: Expect, driver: Driver | Unknown | None) -> Verdict:
    version = driver.version if isinstance(driver, Driver) else None
    return version_verdict("driver", expect.driver, version)


def version_verdict(what: str, wanted: str | None, version: str | None) -> Verdict:
    if not wanted:
        return skip(NOT_EXPECTED)
    if not version:
        return unknown(f"the version of {what} could not be read; {wanted} expected")
    said = f"{what} {version}, {wanted} expected"
    try:
        return ok(said) if matches_version(wanted, version) else fail(said)
    except ValueError as error:
        return unknown(f"{said}: {error}")


GPU = Check(
    code="JOB001",
    slug="expected-gpu",
    title="Every GPU is of the model that was agreed",
    why="Cards of one family differ in speed and memory (H100 PCIe and SXM, A100 of 40 and 80 GB), "
    "and what was delivered is seen on the machine alone. Nothing fails with another one: the "
    "training is slower, or runs out of memory hours later.",
    passes=("the name of every visible GPU fits the pattern",),
    fails=("a visible GPU has another name, or none is visible",),
    fix="Give the machine back and keep this report: it names what was delivered. If another GPU "
    "was agreed, change gpu in [expect] of the job file.",
    limits="that the card is a genuine one: its name is what the driver says.",
    owner=Owner.MACHINE,
    judge=expected_gpu,
    returns=True,
    required="always",
    targets=("nvidia", "rocm"),
    sources=("vast-contract",),
)

COUNT = Check(
    code="JOB002",
    slug="expected-gpu-count",
    title="As many GPUs are visible as were agreed",
    why="A GPU that fell off the bus or was never passed into the container is missing without a "
    "word; a launcher that counts the visible ones then trains on fewer, with another global "
    "batch size.",
    passes=("at least so many GPUs are visible to the job",),
    fails=("fewer are visible",),
    fix="Give the machine back and keep this report. In a container of your own, pass all GPUs "
    "into it (docker run --gpus all).",
    limits="that the GPUs can talk to each other: GPU007 and GPU008 look at that.",
    owner=Owner.MACHINE,
    judge=expected_count,
    returns=True,
    required="always",
    targets=("nvidia", "rocm"),
    sources=("vast-contract",),
)

MEMORY = Check(
    code="JOB003",
    slug="expected-gpu-memory",
    title="Every GPU has the memory that was agreed",
    why="One model name is sold with different memories, and a MIG slice shows the name of the "
    "whole card with a part of its memory.",
    passes=(
        "every visible GPU has the size, or at most 8 % less: ECC and the card's "
        "firmware keep some of a nominal size. GB counts in thousands, GiB in 1024s",
    ),
    fails=("a visible GPU has less",),
    fix="Give the machine back and keep this report. If MIG is on and the machine is yours, use "
    "the whole card. If another size was agreed, change memory in [expect].",
    owner=Owner.MACHINE,
    judge=expected_memory,
    returns=True,
    required="always",
    targets=("nvidia", "rocm"),
    sources=("t4-ecc",),
)

DRIVER = Check(
    code="JOB004",
    slug="expected-driver",
    title="The driver is of the version that was agreed",
    why="A container cannot bring its own kernel driver. Hosts of one provider run different "
    "ones, so that an image which worked yesterday finds an older driver today.",
    passes=("the driver's version is among those that driver in [expect] admits",),
    fails=("it is another",),
    fix="Take another host, or upgrade its driver where it is yours. If this driver is meant, "
    "change driver in [expect].",
    limits="that the driver is free of known bugs.",
    owner=Owner.MACHINE,
    judge=expected_driver,
    returns=True,
    required="always",
    targets=("nvidia",),
    sources=("vast-docker",),
)

CHECKS = (GPU, COUNT, MEMORY, DRIVER)
