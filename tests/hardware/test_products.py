"""The table of hardware: whole, without contradictions, and found by the names drivers print."""

from __future__ import annotations

import json
import re

import pytest
from paths import MACHINES

from doctor.hardware.find import FAMILIES, all_products, capability_of, family_of, find, is_vgpu
from doctor.hardware.product import Known
from doctor.judge.sources import SOURCES

PRODUCTS = all_products()


def test_the_table_is_whole() -> None:
    """Every vendor and generation from the K80 on is there, with a source and its date."""
    count = {family.name: len(family.products) for family in FAMILIES}
    assert all(count.values())
    assert len(PRODUCTS) > 250
    for family in FAMILIES:
        assert family.sources
        for id in family.sources:
            assert re.fullmatch(r"2026-\d\d-\d\d", SOURCES[id].checked)
            assert SOURCES[id].url.startswith("https://")
        for product in family.products:
            assert product.measured is None or product.measured[1] in SOURCES


def test_no_name_and_no_pci_id_stands_for_two_products() -> None:
    for known in PRODUCTS:
        for name in (known.product.name, *known.product.aliases):
            assert find(name) == known, name
            assert find(f"NVIDIA {name.upper()}") == known
    owners: dict[tuple[bool, int], str] = {}
    for product, family in PRODUCTS:
        for pci in product.pci:
            key = (family.capability is not None, pci)
            assert owners.setdefault(key, product.name) == product.name, hex(pci)


@pytest.mark.parametrize("known", PRODUCTS, ids=lambda known: str(known.product.name))
def test_the_words_of_a_family_agree_with_its_names(known: Known) -> None:
    """A report may have only words of a name, so words must never lead to another capability."""
    product, family = known
    for other in FAMILIES:
        if other.words and re.search(rf"\b(?:{other.words})\b", product.name, re.IGNORECASE):
            assert other.capability == family.capability, (product.name, other.name)


@pytest.mark.parametrize("known", PRODUCTS, ids=lambda known: str(known.product.name))
def test_values_are_plausible(known: Known) -> None:
    """Units, clock and peak of a data sheet agree; a wrong digit in any of them shows here."""
    product, family = known
    assert all(1 <= memory <= 300 for memory in product.memory)
    assert all(0 < pci < 0x10000 for pci in product.pci)
    assert product.lanes in (None, 4, 8, 16)
    assert product.watts is None or 10 <= product.watts <= 1500
    computed = known.at_clock(family.tensor, product.clock)
    if product.bf16 and computed:
        ratio = computed / (product.bf16 * 1e12)
        allowed = (0.9, 8) if product.name in ("H20", "H20-3e") else (0.85, 2.1)
        assert allowed[0] < ratio < allowed[1]
    if product.measured and known.bf16:
        assert 0.6 < product.measured[0] * 1e12 / known.bf16 < 1


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA RTX 5880 Ada Generation", (8, 9)),
        ("NVIDIA RTX 500 Ada Generation Laptop GPU", (8, 9)),
        ("NVIDIA RTX A500 Laptop GPU", (8, 6)),
        ("NVIDIA RTX PRO 500 Blackwell Generation Laptop GPU", (12, 0)),
        ("NVIDIA GeForce RTX 2050", (8, 6)),
        ("NVIDIA L2", (8, 9)),
        ("NVIDIA T500", (7, 5)),
        ("NVIDIA T1200 Laptop GPU", (7, 5)),
        ("Quadro T2000", (7, 5)),
        ("Quadro P520", (6, 1)),
        ("Quadro P620", (6, 1)),
        ("Tesla K80", (3, 7)),
        ("Tesla K40m", (3, 5)),
        ("NVIDIA TITAN X (Pascal)", (6, 1)),
        ("NVIDIA GeForce GTX TITAN X", (5, 2)),
        ("GRID A100D-80C", (8, 0)),
        ("GRID K520", (3, 0)),
        ("NVIDIA H100XM-80C", (9, 0)),
        ("NVIDIA CMP 170HX", (8, 0)),
        ("NVIDIA PG509-210", (8, 0)),
        ("NVIDIA B300 SXM6 AC", (10, 3)),
        ("NVIDIA GB10", (12, 1)),
        ("Xavier", (7, 2)),
        ("NVIDIA TITAN X", None),
        ("NVIDIA Graphics Device", None),
        ("AMD Radeon RX 7900 XTX", None),
    ],
)
def test_capabilities_by_name(name: str, capability: tuple[int, int] | None) -> None:
    assert capability_of(name) == capability


def test_names_of_other_vendors() -> None:
    mi300 = find("AMD Instinct MI300X")
    assert mi300
    assert (mi300.family.gfx, mi300.product.units) == ("gfx942", (304,))
    assert find("Intel(R) Arc(TM) A770 Graphics")
    assert find("Gaudi2")
    assert find("NVIDIA Graphics Device") is None
    assert family_of("") is None


def test_virtual_gpus_are_recognized() -> None:
    assert not any(map(is_vgpu, ("GRID K520", "GRID K1", "GRID K2")))  # boards of their own
    assert is_vgpu("GRID V100D-32C")
    assert is_vgpu("NVIDIA A40-48Q")
    assert not is_vgpu("NVIDIA A100-SXM4-80GB")
    assert not is_vgpu("NVIDIA H20-3e")


def test_every_recorded_machine_agrees_with_its_row() -> None:
    """Machines that others reported: a name in the table has one of its memory sizes."""
    checked = 0
    for file in ("reports.jsonl", "captures.jsonl"):
        for line in (MACHINES / "public" / file).read_text().splitlines():
            row = json.loads(line)
            memory = row.get("nvml", {}).get("memory_mib")
            known = find(row["gpus"][0][0]) if row.get("gpus") else None
            if known and memory and not row.get("mig"):
                checked += 1
                assert any(0.86 < memory / 1024 / size < 1.01 for size in known.product.memory)
    assert checked >= 3
