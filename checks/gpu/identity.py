"""Whether a GPU is what its name says: capability, units, PCI id, memory, power limit, ECC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from doctor._util.records import Unknown
from doctor._util.units import GIB, dotted
from doctor.checks.gpu.each_gpu import named, of_each
from doctor.checks.gpu.remedies import RETURN
from doctor.facts.host import Host
from doctor.facts.machine import Gpu
from doctor.facts.views import UNNAMED, JobGpu, JobGpus
from doctor.hardware.find import family_of, find, is_vgpu, owners_of
from doctor.hardware.product import Known
from doctor.hardware.vendors import ON_CUDA
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn

LEAST_MEMORY, MOST_MEMORY = 0.86, 1.02
"""What a driver reports of the size that a GPU is sold with. GB of a data sheet may be decimal,
which is 7 % less, and ECC and firmware keep up to 7 % for themselves."""
OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
"""Makes ROCm report another architecture."""


class Difference(NamedTuple):
    """What does not fit the name, and how serious that is: fail, warn or note."""

    judge: str
    text: str
    fix: str = ""


def as_named(job_gpus: JobGpus, host: Host | Unknown) -> Verdict:
    if not job_gpus.gpus:
        return unknown("no GPU of the job is visible")
    env = host.env if isinstance(host, Host) else {}
    return of_each(
        (named(gpu), _as_named(gpu, overridden=OVERRIDE in env)) for gpu in job_gpus.gpus
    )


def _as_named(gpu: JobGpu, *, overridden: bool) -> Verdict:
    name = gpu.nvml.name if gpu.nvml and gpu.nvml.name else gpu.name
    if gpu.capability is None and gpu.memory_total is None:
        return unknown("neither its capability nor its memory could be read")
    if name == UNNAMED:
        return unknown("its name could not be read")
    if is_vgpu(name):
        return skip("a virtual GPU, a part of the one that it is named after")
    known = find(name)
    if known is None and (gpu.memory_total is None or not name or name.endswith("...")):
        return skip("of its name only a part is known")
    found = list(_differences(gpu, name, known, overridden))
    if not found:
        if known is None:
            return note("its name is not in the table of hardware", fix=ADD)
        return ok(_summary(gpu, known))
    return _verdict("; ".join(each.text for each in found), found)


def _verdict(summary: str, found: list[Difference]) -> Verdict:
    kinds = {each.judge for each in found}
    if "fail" in kinds:
        return fail(summary)
    fix = next((each.fix for each in found if each.fix), None)
    return warn(summary, fix=fix) if "warn" in kinds else note(summary, fix=fix)


def _differences(
    gpu: JobGpu, name: str, known: Known | None, overridden: bool
) -> Iterator[Difference]:
    yield from _capability(gpu, name, known)
    yield from _contradictions(gpu, known)
    if known and known.family.gfx and not overridden:
        yield from _gfx(gpu, known)
    if known and not gpu.slice:
        yield from _silicon(gpu, known)
        yield from _memory(gpu, known)
        yield from _settings(gpu.nvml, known)


def _capability(gpu: JobGpu, name: str, known: Known | None) -> Iterator[Difference]:
    """A capability that GPUs of this name cannot have; words of a name prove less than a row."""
    family = known.family if known else family_of(name)
    required = family.capability if family else None
    for capability in dict.fromkeys(filter(None, _capabilities(gpu))):
        if required and capability != required:
            text = f"compute capability {dotted(capability)}; {dotted(required)} required by name"
            yield Difference("fail" if known else "note", text)


def _capabilities(gpu: JobGpu) -> tuple[tuple[int, int] | None, ...]:
    of_torch = gpu.torch.capability if gpu.torch and gpu.torch.gfx is None else None
    return (gpu.nvml.capability if gpu.nvml else None, of_torch)


def _contradictions(gpu: JobGpu, known: Known | None) -> Iterator[Difference]:
    """CUDA and NVML about one whole GPU. CUDA may use fewer units under MPS, never more."""
    if gpu.slice or gpu.nvml is None or gpu.torch is None:
        return
    nvml, cuda = _capabilities(gpu)
    if nvml and cuda and nvml != cuda:
        yield Difference("fail", f"NVML reports capability {dotted(nvml)}, CUDA {dotted(cuda)}")
    per_unit = (known.family.fp32 or 0) // 2 if known else 0
    if per_unit and gpu.nvml.cores and gpu.torch.units:
        units = gpu.nvml.cores // per_unit
        if gpu.torch.units > units:
            yield Difference(
                "fail", f"NVML reports {units} multiprocessors, CUDA {gpu.torch.units}"
            )


def _gfx(gpu: JobGpu, known: Known) -> Iterator[Difference]:
    gfx = gpu.torch.gfx if gpu.torch else None
    if gfx and gfx != known.family.gfx:
        yield Difference("note", f"{gfx}; {known.family.gfx} expected by name")


def _silicon(gpu: JobGpu, known: Known) -> Iterator[Difference]:
    """Units and PCI id, which virtual machines, MPS and special editions change."""
    units = gpu.torch.units if gpu.torch else None
    expected = known.product.units
    if units and expected and units not in expected:
        some = " or ".join(map(str, expected))
        yield Difference("note", f"{units} units; {some} expected by name", OTHER_SILICON)
    pci = gpu.nvml.pci_id if gpu.nvml else None
    owners = [each.product.name for each in owners_of(pci or 0) if each.family.capability]
    if owners and known.product.name not in owners:
        yield Difference("note", f"PCI id {pci:04x}, that of a {owners[0]}", OTHER_SILICON)


def _memory(gpu: JobGpu, known: Known) -> Iterator[Difference]:
    sold = known.product.memory
    total = gpu.memory_total
    if not sold or not total or known.family.segment == "embedded":
        return
    if not any(LEAST_MEMORY < total / GIB / size < MOST_MEMORY for size in sold):
        sizes = " or ".join(f"{size:g}" for size in sold)
        text = f"{total / GIB:.1f} GiB of memory; {sizes} GB expected by name"
        yield Difference("note", text, OTHER_MEMORY)


def _settings(gpu: Gpu | None, known: Known) -> Iterator[Difference]:
    if gpu is None:
        return
    if gpu.ecc is False and known.ecc:
        yield Difference("warn", "ECC is off; it is on where this GPU is delivered", ECC)
    if gpu.power_lowered:
        limit, default = (gpu.power_limit or 0) / 1000, (gpu.power_limit_default or 0) / 1000
        text = f"power limit {limit:.0f} W, {default:.0f} W by default"
        is_deep = limit < DEEP * default
        yield Difference("warn" if is_deep else "note", text, POWER if is_deep else "")


def _summary(gpu: JobGpu, known: Known) -> str:
    parts = [f"capability {dotted(gpu.capability)}" if gpu.capability else ""]
    if gpu.torch and gpu.torch.units:
        parts.append(f"{gpu.torch.units} units")
    if gpu.memory_total and not gpu.slice:
        parts.append(f"{gpu.memory_total / GIB:.1f} GiB")
    return f"{', '.join(filter(None, parts))}: {known.product.name} by the table of hardware"


ADD = (
    "Nothing is wrong with that. To add it, save the facts with `doctor run --save-facts "
    "facts.json` and see docs/hardware.md."
)
OTHER_SILICON = (
    "Virtual machines, MPS and special editions show this, too. If the machine was rented or "
    "bought as this GPU, ask for its data sheet."
)
OTHER_MEMORY = (
    "A board whose memory was changed, or a part of one. Fill and compare all of its memory before "
    "a long run:\ndoctor run --memory-test"
)
DEEP = 0.45
"""Share of the default power limit below which a GPU loses much of its speed. Fleets lower it to
two thirds on purpose. Our own number."""
POWER = (
    "Restore the default, unless somebody chose this limit: nvidia-smi -q -d POWER prints it, "
    "sudo nvidia-smi -i N -pl WATTS sets it, until the next reboot. Look for a service that lowers "
    "it at the start."
)
ECC = "Turn ECC on, unless you need the memory that it takes, and reboot:\nsudo nvidia-smi -e 1"

AS_NAMED = Check(
    code="GPU009",
    slug="gpu-as-named",
    title="The GPU is what its name says",
    why="A driver or firmware can be made to print another name, and boards are sold with changed "
    "memory. Capability, units, PCI id and memory of the GPU are compared with docs/hardware.md, "
    "and what NVML reports with what CUDA does. ECC that was turned off lets errors pass unseen.",
    passes=(
        "capability, units, PCI id and memory are those of its name, as far as they are known",
        "a name that the table lacks, other units, another PCI id, memory of another size and a "
        "lowered power limit are notes",
    ),
    warns=(
        "ECC is off on a GPU that is delivered with ECC on",
        f"the power limit is below {DEEP:.0%} of the default",
    ),
    fails=(
        "no GPU of this name has its compute capability",
        "NVML and CUDA contradict each other on a whole GPU: another capability, or more "
        "multiprocessors in CUDA",
    ),
    fix=f"{RETURN}Your own: look at the chip, and flash the firmware of its maker.",
    limits="that the GPU is genuine: products that nothing distinguishes are listed in "
    "docs/hardware.md.",
    owner=Owner.MACHINE,
    judge=as_named,
    returns=True,
    commands=("nvidia-smi -L", "nvidia-smi -q -d ECC,POWER,MEMORY"),
    sources=("cuda-gpus", "pci-ids", "techpowerup"),
    after=("DRV001",),
    targets=ON_CUDA,
    also=("read",),
)

CHECKS = (AS_NAMED,)
