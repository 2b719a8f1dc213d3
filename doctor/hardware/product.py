"""The record of a GPU product, and of the family whose chips, names and limits it shares."""

from __future__ import annotations

from typing import Literal, NamedTuple

Capability = tuple[int, int]
"""CUDA's compute capability."""

Segment = Literal["data center", "workstation", "consumer", "laptop", "embedded"]

TERA = 1e12


class Product(NamedTuple):
    """One name under which GPUs are sold. None and () mean that the value is not known for sure."""

    name: str
    """As the driver prints it, without the vendor's name and "Tesla"."""
    memory: tuple[float, ...] = ()
    """GiB, one per size that is sold under this name."""
    units: tuple[int, ...] = ()
    """Streaming multiprocessors of NVIDIA, compute units of AMD; several where chips differ."""
    bandwidth: int | None = None
    """Memory bandwidth in GB/s, of the slowest GPU of this name."""
    clock: int | None = None
    """Boost clock in MHz, of the slowest GPU of this name."""
    watts: int | None = None
    """Power limit of the board, the highest of this name."""
    lanes: int | None = None
    """Of PCIe."""
    pci: tuple[int, ...] = ()
    """Device ids of PCI, those that belong to no other product."""
    aliases: tuple[str, ...] = ()
    """Other spellings: older drivers, lspci, ROCm."""
    bf16: float | None = None
    """Dense TFLOP/s of the data sheet in bf16 (fp16 before Ampere) with sums in fp32."""
    fp8: float | None = None
    """Dense TFLOP/s of the data sheet."""
    measured: tuple[float, str] | None = None
    """TFLOP/s of a published bf16 measurement, and the id of its source."""
    links: int | None = None
    """NVLinks; 0: surely none."""
    wiring: Literal["", "bridge", "mesh", "switch"] = ""
    """How NVLinks connect the GPUs of a machine: bridges leave some unused, a mesh reaches only
    some GPUs directly, a switch all of them."""
    mig: int = 0
    """MIG slices at most; 0: no MIG."""
    ecc: bool | None = None
    """Whether the product is delivered with ECC on; None: as its family."""


class Family(NamedTuple):
    """Products of one generation and segment."""

    name: str
    segment: Segment
    words: str
    """A regular expression of the words in a driver's name that stand for this family alone."""
    sources: tuple[str, ...]
    """Ids of `doctor.judge.sources`, each with its address and date."""
    capability: Capability | None = None
    gfx: str = ""
    """ROCm's name of the architecture."""
    tensor: int | None = None
    """Half-precision operations per unit and clock with sums in fp32, by tensor cores, dense."""
    fp32: int | None = None
    """fp32 operations per unit and clock."""
    generation: int | None = None
    """Of PCIe."""
    nvlink: int | None = None
    """Generation of NVLink."""
    ecc: bool | None = None
    """Whether its products are delivered with ECC on; False also where they have none."""
    products: tuple[Product, ...] = ()


class Known(NamedTuple):
    """A product with its family."""

    product: Product
    family: Family

    @property
    def ecc(self) -> bool | None:
        """Whether the product is delivered with ECC on."""
        return self.family.ecc if self.product.ecc is None else self.product.ecc

    @property
    def bf16(self) -> float | None:
        """Dense half-precision peak in FLOP/s: the data sheet's, else units x clock."""
        if self.product.bf16:
            return self.product.bf16 * TERA
        return self.at_clock(self.family.tensor, self.product.clock)

    @property
    def fp32(self) -> float | None:
        """Peak of fp32 in FLOP/s."""
        return self.at_clock(self.family.fp32, self.product.clock)

    @property
    def tf32_gain(self) -> float | None:
        """TF32 relative to fp32 by the data sheet; None before Ampere."""
        capability, tensor, fp32 = self.family.capability, self.family.tensor, self.family.fp32
        if capability is None or capability < (8, 0) or not tensor or not fp32:
            return None
        return tensor / 2 / fp32

    def at_clock(self, operations: int | None, clock: int | None) -> float | None:
        """FLOP/s of the smallest GPU of this name at a clock in MHz."""
        if not (operations and clock and self.product.units):
            return None
        return min(self.product.units) * operations * clock * 1e6
