"""Verdicts on what the load measured: rates, links, products, slowdowns."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from loads import H200, L40S, NOBODY, T4, load, speed, watched

from doctor._util.records import Ended
from doctor.checks.gpu.load import REPEATABLE
from doctor.checks.gpu.rates import COPY_FLOOR, COPY_SHARE, FLOOR, POWER_FLOOR, POWER_LIMITED
from doctor.facts.interpreter import TorchGpu
from doctor.facts.load import Load, Watched
from doctor.facts.machine import Driver, Gpu, Slice
from doctor.facts.views import JobGpu, JobGpus
from doctor.hardware.find import all_products, find
from doctor.judge.check import Owner, Status


@pytest.mark.parametrize(
    ("loads", "status", "said"),
    [
        ((load(),), Status.PASS, "780 TFLOP/s in bf16"),
        ((load(rate=596),), Status.PASS, "596 TFLOP/s"),
        ((load(rate=595),), Status.WARN, "596 TFLOP/s"),
        ((load("NVIDIA H100 80GB HBM3", 560.0),), Status.PASS, "730"),
        ((load(rate=318),), Status.WARN, "596 TFLOP/s"),
        ((load(rate=317),), Status.FAIL, "596 TFLOP/s"),
        ((load(L40S, 200.0),), Status.PASS, "145 TFLOP/s"),
        ((load(L40S, 144.0),), Status.FAIL, "145 TFLOP/s"),
        ((load(T4, None, matmul={"fp16": 3e13}),), Status.PASS, "30 TFLOP/s in fp16"),
        ((load(), load(rate=620, index=1)), Status.WARN, "GPU 1 (NVIDIA H200): 620"),
        ((load(), load(rate=720, index=1)), Status.PASS, "720"),
        ((load(L40S, 300.0), load(L40S, 239.0, 1)), Status.WARN, "240 TFLOP/s"),
        ((load(L40S, 300.0), load(L40S, 241.0, 1)), Status.PASS, "241 TFLOP/s"),
        ((load(rate=None),), Status.UNKNOWN, "see GPU006"),
        ((load(ended=Ended(how="timeout")),), Status.UNKNOWN, "see GPU006"),
        ((), Status.UNKNOWN, "no GPU was put under load"),
    ],
)
def test_the_matmul_rate_is_judged_by_measured_figures(
    loads: tuple[Load, ...], status: Status, said: str
) -> None:
    verdict = speed(*loads)
    assert verdict.status is status
    assert said in verdict.summary


@pytest.mark.parametrize(
    ("name", "rate", "status"),
    [
        ("NVIDIA GeForce RTX 4080 Laptop GPU", 13.0, Status.SKIP),
        ("NVIDIA GeForce RTX 4080 Laptop GPU", 5.0, Status.WARN),
        ("NVIDIA GeForce RTX 4080", 13.0, Status.PASS),
        (T4, 13.0, Status.PASS),
        (T4, 6.0, Status.WARN),
    ],
)
def test_copies_are_judged_by_the_lanes_in_use(name: str, rate: float, status: Status) -> None:
    watches = Watched(uuid="GPU-0", samples=9, mask=0, link=(4, 8), link_max=(4, 16))
    one = load(name, None, matmul={"fp16": 4e13}, to_device=rate * 1e9)
    verdict = speed(one, watches=(watches,))
    assert verdict.status is status
    assert "x16" in verdict.summary


@pytest.mark.parametrize(
    ("name", "lanes", "most", "other", "status"),
    [
        (T4, 8, 16, None, Status.PASS),
        (T4, 4, 16, None, Status.WARN),
        (T4, 4, 4, None, Status.PASS),
        ("NVIDIA GeForce RTX 4080", 4, 16, None, Status.PASS),
        ("NVIDIA GeForce RTX 4080", 1, 16, None, Status.WARN),
        (T4, 8, 16, 8, Status.PASS),
        (T4, 8, 16, 16, Status.WARN),
    ],
)
def test_lanes_are_compared_with_what_healthy_boards_have(
    name: str, lanes: int, most: int, other: int | None, status: Status
) -> None:
    widths = (lanes,) if other is None else (lanes, other)
    loads = (
        load(name, None, i, matmul={"bf16": 9e13}, to_device=1.5e9 * width)
        for i, width in enumerate(widths)
    )
    watches = tuple(watched(i, link=(4, w), link_max=(4, most)) for i, w in enumerate(widths))
    assert speed(*loads, watches=watches).status is status


def test_a_link_that_stays_slow_under_load_is_a_warning_without_copies_too() -> None:
    unmeasured = load(to_device=None, unread={"to_device": "RuntimeError: cannot pin"})
    for generation, status in ((2, Status.WARN), (3, Status.PASS)):
        watches = (watched(link=(generation, 16)),)
        assert speed(unmeasured, watches=watches).status is status


def test_a_link_that_cannot_carry_what_was_measured_was_not_read() -> None:
    placeholder = (watched(link=(1, 1)),)
    assert speed(load(to_device=20e9), watches=placeholder).status is Status.PASS
    assert speed(load(to_device=0.2e9), watches=placeholder).status is Status.WARN


def on_gpu(**fields: Any) -> JobGpus:
    """The first GPU with these fields of NVML, or of torch for `integrated`."""
    integrated = fields.pop("integrated", False)
    view = TorchGpu(
        index=0, uuid="0", name=H200, capability=(9, 0), memory_total=1, integrated=integrated
    )
    record = Gpu(index=0, uuid="GPU-0", name=H200, **fields)
    return JobGpus(gpus=(JobGpu(nvml=record, torch=view),), by="torch")


def test_a_gpu_that_others_use_is_not_called_broken() -> None:
    for used in ({"processes": 1}, {"memory_used": 5 * 2**30}):
        assert speed(load(rate=100), gpus=on_gpu(**used)).status is Status.WARN
    assert speed(load(rate=100), gpus=on_gpu(processes=0, memory_used=0)).status is Status.FAIL


def test_the_link_of_an_integrated_gpu_is_not_judged() -> None:
    watches = (watched(link=(1, 1), link_max=(5, 16)),)
    one = load("NVIDIA GB10", 60, to_device=0.2e9)
    assert speed(one, watches=watches, gpus=on_gpu(integrated=True)).status is Status.SKIP
    assert speed(one, watches=watches, gpus=on_gpu()).status is Status.WARN


@pytest.mark.parametrize("confidential", [True, False])
def test_encrypted_copies_may_be_slow(confidential: bool) -> None:
    if "confidential" not in Driver.__struct_fields__:
        pytest.skip("the fact is not recorded yet")
    driver = msgspec.convert(
        {"nvml": {"how": "ok"}, "cuda": {"how": "ok"}, "confidential": confidential}, Driver
    )
    status = Status.PASS if confidential else Status.WARN
    assert speed(load(to_device=9e9), driver=driver).status is status


@pytest.mark.parametrize(
    ("rate", "around", "status", "said"),
    [
        (55.0, {}, Status.PASS, "55.0 GB/s from the host over PCIe 5.0 x16"),
        (26.0, {}, Status.PASS, "26.0 GB/s"),
        (25.0, {}, Status.WARN, "25.2 GB/s"),
        (13.0, {"link": (4, 16), "link_max": (4, 16)}, Status.PASS, "PCIe 4.0 x16"),
        (12.0, {"link": (4, 16), "link_max": (4, 16)}, Status.WARN, "at least 12.6 GB/s"),
        (25.0, {"link": (5, 8)}, Status.PASS, "PCIe 5.0 x8"),
        (12.0, {"link": (3, 16)}, Status.PASS, "PCIe 3.0 x16"),
        (3.0, {"link": (1, 16)}, Status.WARN, "over PCIe 1.0 x16"),
        (3.5, {"link": (3, 4), "link_max": (3, 4)}, Status.PASS, "PCIe 3.0 x4"),
        (0.9, {"link": (3, 1), "link_max": (3, 1)}, Status.WARN, "at least 2.9 GB/s"),
        (2.0, {"link": None, "unread": {"link": "refused (4)"}}, Status.WARN, "refused (4)"),
        (20.0, {"link": None}, Status.PASS, "PCIe link not read (not recorded)"),
        (55.0, {"pcie_replays": 8}, Status.PASS, "55.0"),
        (55.0, {"pcie_replays": 9}, Status.WARN, "9 PCIe packets"),
        (400.0, {"link": (7, 16), "link_max": (7, 16)}, Status.PASS, "PCIe 7.0 x16"),
    ],
)
def test_the_way_to_the_host_is_judged_by_what_the_slot_can_do(
    rate: float, around: dict[str, Any], status: Status, said: str
) -> None:
    verdict = speed(load(to_device=rate * 1e9), watches=(watched(**around),))
    assert verdict.status is status, verdict.summary
    assert said in verdict.summary


def test_a_slow_link_is_told_of_a_model_without_a_figure_too() -> None:
    verdict = speed(load(T4, 30.0, to_device=1e9))
    assert verdict.status is Status.WARN
    assert verdict.sources == ("pcie-link",)


@pytest.mark.parametrize("watches", [(), NOBODY, (watched(7),)])
def test_a_run_that_was_not_watched_is_said_to_be(watches: Any) -> None:
    verdict = speed(load(), watches=watches)
    assert verdict.status is Status.PASS
    assert "PCIe link not read (not watched)" in verdict.summary


def test_copies_that_were_not_measured_are_named() -> None:
    refused = load(to_device=None, unread={"to_device": "RuntimeError: cannot pin"})
    assert "RuntimeError: cannot pin" in speed(refused).summary


def test_a_slowdown_meanwhile_is_named_as_the_cause() -> None:
    slow = (watched(mask=0x4 | 0x40),)
    assert "see GPU004" in speed(load(rate=300), watches=slow).summary
    assert "see GPU004" not in speed(load(), watches=slow).summary


def test_a_slice_is_not_judged() -> None:
    part = Slice(uuid="MIG-1")
    whole = Gpu(index=0, uuid="GPU-0", name=H200, mig=True, slices=(part,))
    gpus = JobGpus(gpus=(JobGpu(nvml=whole, slice=part),), by="torch")
    verdict = speed(load(uuid="MIG-1", rate=90), gpus=gpus)
    assert verdict.status is Status.SKIP
    assert "MIG slice" in verdict.summary


FAST = {name: known for known in all_products() if (name := f"NVIDIA {known.product.name}")}
MEASURED = [name for name, known in FAST.items() if known.product.measured]
PEAKS = [name for name, known in FAST.items() if known.bf16 and not known.product.measured]


@pytest.mark.parametrize("name", MEASURED)
def test_every_figure_can_be_passed_and_missed(name: str) -> None:
    measured = FAST[name].product.measured
    assert measured
    rate, source = measured
    assert speed(load(name, rate)).status is Status.PASS
    missed = speed(load(name, rate * 0.7))
    assert missed.status is Status.WARN
    assert missed.sources == (source,)


@pytest.mark.parametrize("name", PEAKS)
def test_every_peak_gives_a_floor(name: str) -> None:
    known = FAST[name]
    watts = known.product.watts
    limited = known.family.gfx or (watts and watts < POWER_LIMITED)
    floor = (known.bf16 or 0) * (POWER_FLOOR if limited else FLOOR) / 1e12
    assert speed(load(name, floor * 1.01)).status is Status.PASS
    missed = speed(load(name, floor * 0.99))
    assert missed.status is Status.FAIL
    assert missed.sources == known.family.sources


@pytest.mark.parametrize("name", [name for name, known in FAST.items() if known.product.bandwidth])
def test_every_bandwidth_is_judged(name: str) -> None:
    known = FAST[name]
    bandwidth = (known.product.bandwidth or 0) * 1e9
    healthy = load(name, 1e6, copy=COPY_SHARE * bandwidth * 1.01)
    slow = load(name, 1e6, copy=COPY_SHARE * bandwidth * 0.99)
    broken = load(name, 1e6, copy=COPY_FLOOR * bandwidth * 0.99)
    if known.family.segment == "embedded":
        assert speed(broken).status is Status.SKIP
        return
    assert speed(healthy).status in (Status.PASS, Status.SKIP)
    assert speed(slow).status is Status.WARN
    assert speed(broken).status is Status.FAIL
    assert "by a copy within the memory" in speed(slow).summary


@pytest.mark.parametrize(
    ("rates", "status"),
    [
        ({"bf16": 7e14, "tf32": 3.5e14, "fp32": 5e13}, Status.PASS),
        ({"bf16": 7e14, "tf32": 3.5e13, "fp32": 5e13}, Status.FAIL),
        ({"bf16": 7e14, "tf32": 3.5e14, "fp32": 5e12}, Status.FAIL),
    ],
)
def test_tf32_and_fp32_are_judged(rates: dict[str, float], status: Status) -> None:
    assert speed(load("NVIDIA H100 80GB HBM3", None, matmul=rates)).status is status


def test_a_tenth_of_the_speed_is_never_a_skip() -> None:
    """The GPUs that had no figure: each at a tenth of its peak."""
    names = (
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "NVIDIA GB300", "NVIDIA L40",
        "NVIDIA L4", "NVIDIA RTX 6000 Ada Generation", "NVIDIA H20", "NVIDIA H800",
        "NVIDIA A800-SXM4-80GB", "NVIDIA GH200 144G HBM3e", "NVIDIA RTX A6000", "NVIDIA A30",
        "NVIDIA GeForce RTX 5080", "NVIDIA GeForce RTX 4090 D", "AMD Instinct MI300X",
        "AMD Instinct MI355X",
    )  # fmt: skip
    for name in names:
        known = find(name)
        assert known
        assert known.bf16, name
        assert speed(load(name, known.bf16 / 1e13)).status is Status.FAIL, name


def test_a_lowered_power_limit_or_clock_breaks_no_gpu() -> None:
    h100 = "NVIDIA H100 80GB HBM3"
    limited = Gpu(index=0, uuid="GPU-0", name=h100, power_limit=150000, power_limit_default=700000)
    gpus = JobGpus(gpus=(JobGpu(nvml=limited, torch=torch_gpu(h100)),), by="torch")
    assert speed(load(h100, 200.0)).status is Status.FAIL
    assert speed(load(h100, 200.0), gpus=gpus).status is Status.WARN
    locked = speed(load(h100, 200.0), watches=(watched(clock=600),))
    assert locked.status is Status.WARN
    assert speed(load(h100, 90.0), watches=(watched(clock=600),)).status is Status.FAIL


def test_a_virtual_gpu_has_no_figure() -> None:
    assert speed(load("GRID A100D-80C", 10.0, copy=1e9)).status is Status.SKIP


def torch_gpu(name: str) -> TorchGpu:
    return TorchGpu(index=0, uuid="GPU-0", name=name, capability=(9, 0), memory_total=1)


@pytest.mark.parametrize(
    ("fields", "status", "owner", "said"),
    [
        ({}, Status.PASS, Owner.MACHINE, "8192 x 8192"),
        ({"differing": 3}, Status.FAIL, Owner.MACHINE, "3 elements"),
        ({"differing": 3, "differing_again": 1}, Status.FAIL, Owner.MACHINE, "3 elements"),
        ({"differing": 3, "differing_again": 0}, Status.WARN, Owner.MACHINE, "second series"),
        ({"differing": None}, Status.UNKNOWN, Owner.MACHINE, "not compared"),
        (
            {"ended": Ended(how="error", detail="CUDA error: uncorrectable ECC error")},
            Status.FAIL,
            Owner.MACHINE,
            "raised: CUDA error: uncorrectable ECC",
        ),
        (
            {"ended": Ended(how="error", detail="CUDA out of memory. Tried to allocate")},
            Status.UNKNOWN,
            Owner.MACHINE,
            "see GPU002",
        ),
        (
            {"ended": Ended(how="error", detail="cuDNN version incompatibility")},
            Status.FAIL,
            Owner.ENVIRONMENT,
            "cuDNN",
        ),
        (
            {"ended": Ended(how="timeout", detail="no answer in 60 s inside bf16 matmul")},
            Status.FAIL,
            Owner.MACHINE,
            "hung: no answer in 60 s",
        ),
        (
            {"ended": Ended(how="signal", detail="SIGSEGV")},
            Status.FAIL,
            Owner.ENVIRONMENT,
            "crashed: SIGSEGV",
        ),
        (
            {"ended": Ended(how="signal", detail="SIGKILL inside bf16 matmul")},
            Status.UNKNOWN,
            Owner.MACHINE,
            "killed from outside",
        ),
        (
            {"ended": Ended(how="error", detail="RuntimeError: an error in no table")},
            Status.UNKNOWN,
            Owner.MACHINE,
            "in no table",
        ),
    ],
)
def test_the_same_product_is_judged(
    fields: dict[str, Any], status: Status, owner: Owner, said: str
) -> None:
    verdict = REPEATABLE.judge(load=(load(), load(index=1, **fields)))
    assert verdict.status is status
    assert (verdict.owner or REPEATABLE.owner) is owner
    assert said in verdict.summary
    if status is Status.FAIL:
        assert "GPU 1 (NVIDIA H200), GPU-1" in verdict.summary


def test_no_load_is_unknown() -> None:
    assert REPEATABLE.judge(load=()).status is Status.UNKNOWN


def test_a_load_survives_its_file() -> None:
    told = load(unread={"to_device": "why"})
    assert msgspec.json.decode(msgspec.json.encode(told), type=Load) == told
