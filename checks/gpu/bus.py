"""Every NVIDIA GPU on the PCI bus is one that NVML lists."""

from __future__ import annotations

from doctor.checks.gpu.remedies import RETURN
from doctor.facts.host import Host
from doctor.facts.machine import Driver, Gpu
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip
from doctor.judge.known_errors import KERNEL_LOG

REFUSED = ("EPERM", "EACCES", "ENOENT")
"""What opening the node of another job's GPU gives: control groups refuse it, or it is absent."""
KERNEL_DRIVER, PROBE = "nvidia", "probe routine failed"


def all_listed(host: Host, gpus: tuple[Gpu, ...], driver: Driver) -> Verdict:
    if not host.gpu_drivers:
        return skip("no NVIDIA GPU is on the PCI bus, or its devices are not recorded")
    count = f"{len(host.gpu_drivers)} on the bus, {len(gpus)} in NVML"
    missing = sorted(host.gpu_drivers.keys() - {gpu.address for gpu in gpus})
    if not missing or len(gpus) >= len(host.gpu_drivers):
        return ok(f"GPUs: {count}")
    states = {address: _state(address, host, gpus, driver) for address in missing}
    if broken := {address: text for address, (is_broken, text) in states.items() if is_broken}:
        return fail(f"GPUs: {count}; {_named(broken)}", *KERNEL_LOG)
    texts = {address: text for address, (_, text) in states.items()}
    summary = f"GPUs: {count}; not this job's: {_named(texts)}"
    return ok(summary) if host.container else note(summary)


def _named(texts: dict[str, str]) -> str:
    """The addresses of each state together."""
    groups: dict[str, list[str]] = {}
    for address, text in texts.items():
        groups.setdefault(text, []).append(address)
    return "; ".join(f"{', '.join(addresses)} {text}" for text, addresses in groups.items())


def _state(address: str, host: Host, gpus: tuple[Gpu, ...], driver: Driver) -> tuple[bool, str]:
    """Whether a GPU that NVML does not list is broken, and what is known of it."""
    bound = host.gpu_drivers[address]
    events = host.kernel_events or ()
    reasons = [each.text or f"Xid {each.xid}" for each in events if each.address == address]
    reason = f": {reasons[-1]}" if reasons else ""
    if bound == KERNEL_DRIVER:
        error = (driver.unlisted_gpus or {}).get(address)
        if error is not None and error not in REFUSED:
            how = f"its device node gives {error}" if error else "its device node opens"
            return True, f"is bound to the driver and {how}, but it did not start{reason}"
        return False, "is hidden from this process" if error else "is not listed"
    if bound:
        return False, f"is bound to {bound}"
    probe = next((each.text for each in events if PROBE in each.text and not each.address), "")
    if (reasons or probe) and _is_driven(address, host, gpus, reasons):
        return True, f"is bound to no driver{reason or f': {probe}'}"
    return False, "is bound to no driver"


def _is_driven(address: str, host: Host, gpus: tuple[Gpu, ...], reasons: list[str]) -> bool:
    """Whether this driver is one for that GPU: it is not for an old display adapter, of which it
    says in the kernel log that its probe failed, too."""
    same = host.gpu_ids.get(address) in {gpu.pci_id for gpu in gpus if gpu.pci_id}
    return same or any(reason.startswith("RmInitAdapter") for reason in reasons)


ALL_LISTED = Check(
    code="GPU010",
    slug="gpus-on-bus",
    title="NVML lists every NVIDIA GPU that is on the PCI bus",
    why="A GPU that did not start is in no list, and a job that counts GPUs trains on fewer. The "
    "bus, the kernel driver of each device, its device node and the kernel log of this boot show "
    "it. Schedulers hide GPUs of other jobs, which is no fault: their nodes refuse to open.",
    passes=(
        "NVML lists as many GPUs as are on the bus",
        "in a container the others belong to other jobs; outside one that is a note, as are GPUs "
        "bound to vfio-pci or to no driver without an error in the kernel log",
    ),
    fails=(
        "a GPU is bound to the NVIDIA driver, its device node is not refused, and NVML does not "
        "list it",
        "a GPU is bound to no driver, the kernel log of this boot has an error of it, and NVML "
        "lists another GPU with its PCI id or the driver tried to start it",
    ),
    fix=f"Reboot, and read the kernel log. {RETURN}Your own: check its seat, its power cables and "
    "the slot, then replace it.",
    limits="that a GPU which is not on the bus either is there: state the count in [expect].",
    owner=Owner.MACHINE,
    judge=all_listed,
    returns=True,
    commands=("nvidia-smi -L", *KERNEL_LOG),
    sources=("aicr-1858", "open-gpu-kernel-modules-862"),
    after=("DRV001",),
    targets=("nvidia",),
)

CHECKS = (ALL_LISTED,)
