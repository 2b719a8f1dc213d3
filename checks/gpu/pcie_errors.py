"""Uncorrectable errors of the GPUs' PCIe links, as the kernel counts them."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import listed
from doctor.checks.gpu.remedies import RETURN
from doctor.facts.host import Host, PcieDevice
from doctor.facts.views import JobGpus
from doctor.judge.check import Check, Owner, Verdict, note, ok, skip, unknown, warn

SHOWN = 4


def no_errors(host: Host, job_gpus: JobGpus | Unknown) -> Verdict:
    if host.pcie is None:
        return unknown("the errors of the PCIe links were not recorded")
    devices = [each for each in host.pcie if each.gpu in _addresses(job_gpus, host)]
    if not devices:
        return skip("the kernel counts no errors of these GPUs' PCIe links")
    texts = (_text(each, each.new_fatal, each.new_nonfatal) for each in devices)
    if new := list(filter(None, texts)):
        return warn(f"during the run {listed(new, SHOWN)}; 0 expected")
    texts = (_text(each, each.fatal, each.nonfatal) for each in devices)
    if old := list(filter(None, texts)):
        return note(f"since boot {listed(old, SHOWN)}, none of them during the run", fix=OLD)
    return ok(f"no uncorrectable errors at {listed([each.address for each in devices], SHOWN)}")


def _addresses(job_gpus: JobGpus | Unknown, host: Host) -> set[str]:
    """Those of the job's GPUs; of all on the bus where they are not known."""
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    return {gpu.nvml.address for gpu in gpus if gpu.nvml} or set(host.gpu_drivers)


def _text(device: PcieDevice, fatal: int, nonfatal: int) -> str:
    """ "2 fatal errors at 0000:3b:00.0", "" if there are none."""
    counts = {"fatal": fatal, "nonfatal": nonfatal}
    kinds = " and ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    above = "" if device.address == device.gpu else f" above GPU {device.gpu}"
    return f"{kinds} errors at {device.address}{above}" if kinds else ""


OLD = (
    "A reset of the GPU, its removal and a former tenant's job leave such errors behind. If the "
    "number grows in later runs, treat them as new."
)

NO_ERRORS = Check(
    code="GPU012",
    slug="pcie-no-errors",
    title="The GPUs' PCIe links report no uncorrectable errors",
    why="A packet that is lost for good ends the process that waits for it, or takes the GPU off "
    "the bus (Xid 79). The kernel counts what the GPU and the port above it report; the faulty end "
    "often reports nothing, so both are read, at the start and at the end of the run.",
    passes=(
        "neither the GPU nor the port above it counted a fatal or nonfatal error",
        "requests that a device does not support and those that ACS refuses are not counted",
        "skipped where the kernel has no such counters, as in most virtual machines",
    ),
    notes=("there are errors since boot, and none of them during the run",),
    warns=("an error was counted during the run",),
    fix="Reseat the card and its riser or cable, then try another slot. "
    f"{RETURN}The kernel log names the packet.",
    limits="that the link keeps its speed: see GPU005.",
    owner=Owner.MACHINE,
    judge=no_errors,
    commands=("sudo dmesg -T | grep -iE 'aer|pcie bus error'",),
    sources=("linux-aer-stats",),
    targets=("nvidia",),
)

CHECKS = (NO_ERRORS,)
