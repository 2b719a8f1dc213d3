"""docs/hardware.md: the table of hardware, and the products that nothing distinguishes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from doctor.hardware.find import FAMILIES, all_products
from doctor.hardware.product import TERA, Family, Known
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
COLUMNS = (
    "name", "memory GiB", "units", "GB/s", "TFLOP/s", "PCIe", "NVLink", "W", "MIG", "ECC", "PCI id",
)  # fmt: skip


def page() -> str:
    """The whole page in Markdown."""
    parts = [HEAD, *(_family(family) for family in FAMILIES), _alike()]
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


def indistinguishable() -> Iterator[tuple[str, ...]]:
    """Groups of names whose chips have the same capability, units, memory sizes and PCI id."""
    groups: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for known in all_products():
        product, family = known
        if family.capability and product.units and product.memory:
            key = (family.capability, product.units, product.memory, product.pci)
            groups[key].append(product.name)
    yield from (tuple(names) for names in groups.values() if len(names) > 1)


def _alike() -> str:
    groups = [f"- {', '.join(names)}" for names in indistinguishable()]
    text = (
        "## What the doctor cannot distinguish\n\n"
        "A driver that is made to print another name of the same group is not noticed: capability, "
        "units, memory and PCI id are equal, or not known. A changed PCI id alone is a note."
    )
    return "\n".join((text, "", *groups, ""))
