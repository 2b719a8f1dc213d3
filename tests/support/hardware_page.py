"""docs/hardware.md: the table of hardware, and the products that nothing distinguishes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from doctor.checks.gpu.identity import LEAST_MEMORY, MOST_MEMORY
from doctor.hardware.find import FAMILIES, all_products
from doctor.hardware.product import TERA, Family, Known
from doctor.hardware.xids import BROKEN, SOURCE, XIDS, Xid
from doctor.judge.sources import SOURCES

HEAD = """# Hardware

The GPUs that the doctor knows by name, in `doctor/hardware`. An empty cell is a value that is not
known for sure: nothing is judged by it. Rates are dense, in half precision with sums in fp32; bold
ones were measured by others and published. Units are NVIDIA's streaming multiprocessors and AMD's
compute units; several numbers stand for several chips that are sold under one name.

A GPU that is not listed is a note, and in the way of nothing. To add it, run
`doctor run --save-facts facts.json` on the machine and copy its name, memory, `units`, `pci_id` and
`power_limit_default` into a row of the right file, with the address of the data sheet among the
sources.
"""
REPORTED = 0.98
"""What a driver reports of the memory that a data sheet states."""
COLUMNS = (
    "name", "memory GiB", "units", "GB/s", "TFLOP/s", "PCIe", "NVLink", "W", "MIG", "ECC", "PCI id",
)  # fmt: skip


def page() -> str:
    """The whole page in Markdown."""
    parts = [HEAD, *(_family(family) for family in FAMILIES), _alike(), _xids()]
    return "\n".join(parts).rstrip("\n") + "\n"


def _family(family: Family) -> str:
    chip = ".".join(map(str, family.capability)) if family.capability else family.gfx
    title = f"## {family.name}, {family.segment}" + (f": {chip}" if chip else "")
    rows = [_row(Known(product, family)) for product in family.products]
    cited = [_source(id) for id in family.sources]
    measured = {p.measured[1] for p in family.products if p.measured} - set(family.sources)
    cited += [_source(id) for id in sorted(measured)]
    return "\n".join(
        (title, "", _cells(COLUMNS), _cells("-" for _ in COLUMNS), *rows, "",
         f"Sources: {'; '.join(cited)}.", "")
    )  # fmt: skip


def _source(id: str) -> str:
    source = SOURCES[id]
    return f"[{source.title}]({source.url}) ({source.checked})"


def _row(known: Known) -> str:
    product, family = known
    rate = f"{known.bf16 / TERA:.0f}" if known.bf16 else ""
    if product.measured:
        rate = f"{rate} (**{product.measured[0]:.0f}**)"
    lanes = f"x{product.lanes}" if product.lanes else ""
    pcie = f"{family.generation}.0 {lanes}".strip() if family.generation and lanes else lanes
    links = f"{product.links} x {family.nvlink}.0" if product.links else ""
    ecc = {True: "on", False: "off", None: ""}[known.ecc]
    return _cells(
        (
            product.name,
            _numbers(product.memory),
            _numbers(product.units),
            str(product.bandwidth or ""),
            rate,
            pcie,
            f"{links} {product.wiring}".strip(),
            str(product.watts or ""),
            str(product.mig or ""),
            ecc,
            " ".join(f"{each:04x}" for each in product.pci),
        )
    )


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _cells(values: Iterable[str]) -> str:
    return "| " + " | ".join(values) + " |"


def differ(named: Known, silicon: Known) -> bool:
    """Whether a value of this silicon contradicts a value that is known of the name."""
    ours, theirs = named.product, silicon.product
    memory = theirs.memory[0] * REPORTED
    return (
        named.family.capability != silicon.family.capability
        or bool(ours.units and theirs.units and theirs.units[0] not in ours.units)
        or bool(theirs.pci and theirs.pci[0] not in ours.pci)
        or (
            named.family.segment != "embedded"
            and bool(ours.memory)
            and not any(LEAST_MEMORY < memory / size < MOST_MEMORY for size in ours.memory)
        )
    )


def indistinguishable() -> Iterator[tuple[str, str]]:
    """Each name with another product's silicon that passes under it."""
    nvidia = [known for known in all_products() if known.family.capability]
    for named in nvidia:
        for silicon in nvidia:
            if named is not silicon and silicon.product.memory and not differ(named, silicon):
                yield named.product.name, silicon.product.name


def _alike() -> str:
    groups: dict[str, list[str]] = defaultdict(list)
    for named, silicon in indistinguishable():
        groups[named].append(silicon)
    lines = [f"- {named}: {', '.join(others)}" for named, others in groups.items()]
    text = (
        "## What the doctor cannot distinguish\n\n"
        "A driver that prints the first name for one of the others is not noticed (GPU009): "
        "capability, units, memory and PCI id are equal, or not known."
    )
    return "\n".join((text, "", *lines, ""))


GENERATIONS = {"A": "Ampere", "H": "Hopper", "B": "Blackwell", "G": "GB200"}


def _xids() -> str:
    """The Xids, with what the doctor makes of one that occurs while its own steps run."""
    text = (
        "## Xids\n\n"
        f"What the numbers in the kernel log and in NVML's events mean, after {_source(SOURCE)}. "
        "NVML's recovery action (driver 570 and newer) decides over this table. An error of an "
        "NVLink is a failure where a link is down or the driver requests an action. Numbers that "
        "are not listed are unused since Ampere."
    )
    columns = ("Xid", "meaning", "GPU003", "now", "later", "reported by")
    rows = [_xid(xid) for xid in XIDS]
    return "\n".join((text, "", _cells(columns), _cells("-" for _ in columns), *rows, ""))


def _xid(xid: Xid) -> str:
    verdicts = {"process": "passes: a process caused it", "silent": "passes", "warn": "warns"}
    verdict = "fails" if xid.grade in BROKEN else verdicts.get(xid.grade, "warns or fails")
    on = "all" if xid.on == "AHBG" else ", ".join(GENERATIONS[letter] for letter in xid.on)
    return _cells((str(xid.number), xid.meaning, verdict, xid.action, xid.later, on))
