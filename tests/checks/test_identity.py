"""Whether a GPU is what its name says: every pair of products, and what only looks like a fault."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hardware_page import REPORTED, differ, indistinguishable

from doctor._util.units import GIB
from doctor.checks.gpu.identity import AS_NAMED
from doctor.facts.host import Host
from doctor.facts.interpreter import TorchGpu
from doctor.facts.machine import Gpu, Slice
from doctor.facts.views import JobGpu, JobGpus
from doctor.hardware.find import all_products
from doctor.hardware.product import Known
from doctor.judge.check import Status, Verdict

HOST = Host(system="Linux")
NVIDIA = [known for known in all_products() if known.family.capability]
SILICON = [known for known in NVIDIA if known.product.memory]


def nvml_of(known: Known, name: str | None = None, **fields: Any) -> Gpu:
    """NVML's record of a product's silicon, under its own name or another."""
    product, family = known
    units = product.units[0] if product.units else None
    values: dict[str, Any] = {
        "capability": family.capability,
        "memory_total": int(product.memory[0] * GIB * REPORTED) if product.memory else None,
        "pci_id": product.pci[0] if product.pci else None,
        "cores": units and family.fp32 and units * family.fp32 // 2,
        "ecc": known.ecc,
    }
    return Gpu(index=0, uuid="GPU-0", name=name or f"NVIDIA {product.name}", **values | fields)


def torch_of(nvml: Gpu, units: int | None, **fields: Any) -> TorchGpu:
    values: dict[str, Any] = {
        "capability": nvml.capability or (0, 0),
        "memory_total": nvml.memory_total or 0,
        "units": units,
    }
    return TorchGpu(index=0, uuid="GPU-0", name=nvml.name, **values | fields)


def judged(gpu: JobGpu, host: Host = HOST) -> Verdict:
    return AS_NAMED.judge(job_gpus=JobGpus(gpus=(gpu,), by="torch"), host=host)


def as_sold(known: Known, name: str | None = None, **fields: Any) -> Verdict:
    nvml = nvml_of(known, name, **fields)
    units = known.product.units[0] if known.product.units else None
    return judged(JobGpu(nvml=nvml, torch=torch_of(nvml, units)))


@pytest.mark.parametrize("known", NVIDIA, ids=lambda known: str(known.product.name))
def test_every_product_passes_as_itself(known: Known) -> None:
    """In each of its memory sizes, and with what ECC and firmware keep."""
    assert as_sold(known).status is Status.PASS
    for size in known.product.memory:
        for share in (0.87, 0.93, 1.0):
            assert as_sold(known, memory_total=int(size * GIB * share)).status is Status.PASS


@pytest.mark.slow
def test_every_pair_of_a_name_and_another_silicon_that_differ_is_named() -> None:
    """Capability fails, units, PCI id and memory are a note; the rest is listed in the docs."""
    statuses: Counter[Status] = Counter()
    passed = set()
    for named in NVIDIA:
        for silicon in SILICON:
            if named is silicon:
                continue
            name = f"NVIDIA {named.product.name}"
            status = as_sold(silicon, name, ecc=None).status
            statuses[status] += 1
            same = named.family.capability == silicon.family.capability
            assert (status is Status.FAIL) is not same
            assert (status is Status.PASS) is not differ(named, silicon), (named, silicon)
            if status is Status.PASS:
                passed.add((named.product.name, silicon.product.name))
    assert sum(statuses.values()) > 40_000
    assert statuses[Status.FAIL] > 30_000
    assert len(passed) < 200
    assert passed == set(indistinguishable())


H100 = next(known for known in NVIDIA if known.product.name == "H100 80GB HBM3")
A100 = next(known for known in NVIDIA if known.product.name == "A100-SXM4-80GB")
RTX4090 = next(known for known in NVIDIA if known.product.name == "GeForce RTX 4090")


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"memory_total": 48 * GIB}, Status.NOTE, "48.0 GiB of memory; 24 GB expected"),
        ({"pci_id": 0x2204}, Status.NOTE, "PCI id 2204, that of a GeForce RTX 3090"),
        ({"pci_id": 0xFFFF}, Status.PASS, "RTX 4090"),
        ({"capability": (8, 6)}, Status.FAIL, "compute capability 8.6; 8.9 required"),
        ({"ecc": True}, Status.PASS, "RTX 4090"),
        ({"power_limit": 250000, "power_limit_default": 450000}, Status.NOTE, "250 W, 450 W"),
        ({"power_limit": 600000, "power_limit_default": 450000}, Status.PASS, "RTX 4090"),
    ],
)
def test_one_changed_value(fields: dict[str, Any], status: Status, text: str) -> None:
    verdict = as_sold(RTX4090, **fields)
    assert verdict.status is status
    assert text in verdict.summary


def test_ecc_that_was_turned_off_is_a_warning_where_it_is_delivered_on() -> None:
    assert as_sold(A100, ecc=False).status is Status.WARN
    assert as_sold(A100, ecc=None).status is Status.PASS
    for known in NVIDIA:
        if known.ecc is not True:
            assert as_sold(known, ecc=False).status is Status.PASS


def both(nvml: dict[str, Any], units: int, **torch: Any) -> Verdict:
    record = nvml_of(H100, **nvml)
    return judged(JobGpu(nvml=record, torch=torch_of(record, units, **torch)))


def test_nvml_and_cuda_that_contradict_each_other() -> None:
    assert both({}, 132).status is Status.PASS
    assert both({}, 132, capability=(8, 0)).status is Status.FAIL
    more = both({"cores": 100 * 128}, 132)
    assert more.status is Status.FAIL
    assert "NVML reports 100 multiprocessors, CUDA 132" in more.summary


def test_fewer_units_than_the_product_has_are_a_note() -> None:
    """MPS, special editions and virtual machines look like that."""
    assert both({}, 66).status is Status.NOTE
    custom = both({"cores": 124 * 128}, 124)
    assert custom.status is Status.NOTE
    assert "124 units; 132 expected" in custom.summary


def test_a_slice_and_a_virtual_gpu_are_parts_of_what_they_are_named_after() -> None:
    whole = nvml_of(H100, mig=True)
    part = Slice(uuid="MIG-0", memory_total=10 * GIB)
    sliced = JobGpu(nvml=whole, slice=part, torch=torch_of(whole, 16, memory_total=10 * GIB))
    assert judged(sliced).status is Status.PASS
    virtual = nvml_of(A100, "GRID A100D-20C", memory_total=20 * GIB, ecc=False)
    assert judged(JobGpu(nvml=virtual)).status is Status.SKIP


def test_a_name_that_the_table_lacks_is_in_the_way_of_nothing() -> None:
    verdict = as_sold(H100, "NVIDIA H300 NVL")
    assert verdict.status is Status.NOTE
    assert "--save-facts" in (verdict.fix or "")
    words = as_sold(H100, "NVIDIA A100 special")
    assert words.status is Status.NOTE
    assert "8.0 required by name" in words.summary


def test_what_cannot_be_read_is_unknown() -> None:
    nothing = Gpu(index=0, uuid="GPU-0", name="NVIDIA A100-SXM4-80GB")
    assert judged(JobGpu(nvml=nothing)).status is Status.UNKNOWN
    assert AS_NAMED.judge(job_gpus=JobGpus(gpus=(), by="torch"), host=HOST).status is (
        Status.UNKNOWN
    )


@pytest.mark.parametrize(
    ("gfx", "env", "status"),
    [
        ("gfx942", {}, Status.PASS),
        ("gfx90a", {}, Status.NOTE),
        ("gfx90a", {"HSA_OVERRIDE_GFX_VERSION": "9.0.10"}, Status.PASS),
        (None, {}, Status.PASS),
    ],
)
def test_amd_gpus_by_their_architecture(
    gfx: str | None, env: dict[str, str], status: Status
) -> None:
    gpu = TorchGpu(
        index=0, uuid=None, name="AMD Instinct MI300X", capability=(9, 4), gfx=gfx,
        memory_total=191 * GIB, units=304,
    )  # fmt: skip
    assert judged(JobGpu(torch=gpu), Host(system="Linux", env=env)).status is status
