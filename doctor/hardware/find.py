"""The product of a GPU by the name that a driver gives it."""

from __future__ import annotations

import re
from functools import cache

from doctor.hardware import amd, data_center, embedded, geforce, intel, laptops, workstation
from doctor.hardware.product import Capability, Family, Known

FAMILIES: tuple[Family, ...] = (
    *embedded.FAMILIES,
    *laptops.FAMILIES,
    *workstation.FAMILIES,
    *geforce.FAMILIES,
    *data_center.FAMILIES,
    *amd.FAMILIES,
    *intel.FAMILIES,
)
"""In the order in which their words are tried: L4 is in no other family's words, "RTX 4000" is."""

_VENDORS = re.compile(r"^(?:nvidia|tesla|amd|intel\(r\)|intel|habana) +", re.IGNORECASE)
_PROFILE = re.compile(r"-\d+[abcq]e?$", re.IGNORECASE)
"""The end of a vGPU's name: GRID A100D-80C, NVIDIA A40-48Q."""


def find(name: str) -> Known | None:
    """The row of exactly this name, whatever its case; None: the table lacks it. People leave
    "GeForce" out."""
    key = _key(name)
    return _rows().get(key) or _rows().get(f"geforce {key}")


def family_of(name: str) -> Family | None:
    """The family that a name, or words of one, stands for; None: no or several families."""
    known = find(name)
    if known:
        return known.family
    return next((f for f in FAMILIES if f.words and _word(f.words).search(name)), None)


def capability_of(name: str) -> Capability | None:
    """Compute capability by a GPU's name; None: the name is not known, or is not NVIDIA's."""
    family = family_of(name)
    return family.capability if family else None


def is_vgpu(name: str) -> bool:
    """Whether a name is that of a virtual GPU: a part of the product that it names."""
    return (name.startswith("GRID ") and not find(name)) or _PROFILE.search(name) is not None


def owners_of(pci: int) -> tuple[Known, ...]:
    """The products with this PCI device id."""
    return tuple(known for known in all_products() if pci in known.product.pci)


@cache
def all_products() -> tuple[Known, ...]:
    return tuple(Known(product, family) for family in FAMILIES for product in family.products)


@cache
def _rows() -> dict[str, Known]:
    return {
        _key(name): known
        for known in all_products()
        for name in (*known.product.aliases, known.product.name)
    }


@cache
def _word(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words})\b", re.IGNORECASE)


def _key(name: str) -> str:
    """A name without its vendor: "A100-SXM4-80GB" and "NVIDIA A100-SXM4-80GB" are one."""
    name = _VENDORS.sub("", _VENDORS.sub("", name.strip()))
    name = re.sub(r"\((?:tm|r)\)| with max-q design$", "", name, flags=re.IGNORECASE)
    return re.sub(r"[\s_-]+", " ", name).strip().casefold()
