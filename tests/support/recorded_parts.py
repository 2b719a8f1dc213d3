"""Sections of machines as facts: GPUs, drivers, torch, directories, a training step.

All are made from documented values (vendors' data sheets, torch's own tables, the texts that
drivers and libraries print) unless `origin` says that they were recorded on hardware.
"""

from __future__ import annotations

from typing import Any

import msgspec
from recorded_load import quiet

from doctor._util.records import Ended
from doctor.facts.facts import Facts
from doctor.facts.host import Host, KernelEvent, PcieDevice, Reported
from doctor.facts.interpreter import Cuda, Interpreter, Libraries, Torch, TorchGpu
from doctor.facts.load import MemoryTest, Watched
from doctor.facts.machine import Driver, Gpu, Place
from doctor.facts.training import Parameter, Smoke, Stage, Step
from doctor.hardware.find import find
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.report.report import Outcome

GIB, MIB, GB = 2**30, 2**20, 10**9

MADE = "made from documented values"

OK = Ended(how="ok", seconds=0.1)

WHEEL_ARCHS = {
    "2.6": ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"),
    "2.9": ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"),
    "2.11": ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"),
}

STAGES = ("allocate", "forward", "loss", "backward", "optimizer")

NAMES = (
    "embedding.weight",
    "blocks.0.attention_norm.weight",
    "blocks.0.qkv.weight",
    "blocks.0.out.weight",
    "blocks.0.mlp_norm.weight",
    "blocks.0.up.weight",
    "blocks.0.down.weight",
    "norm.weight",
    "head.weight",
)


def host(**fields: Any) -> Host:
    known: dict[str, Any] = {
        "system": "Linux",
        "release": "6.8.0-60-generic",
        "arch": "x86_64",
        "nvidia_devices": 1,
        "device_nodes": ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"),
        "kernel_driver": "580.95.05",
        "memory_total": 256 * GIB,
        "memory_available": 240 * GIB,
        "cpus": 26,
        "shm_total": 64 * GIB,
        "iommu_groups": 31,
        "steal": 0.0,
        "core_speed": (1_210_000.0, 1_214_000.0),
        "busy": 0.1,
        "clock_service": "chronyc",
        "clock_offset": 0.0002,
        "mps": False,
        "pcie": (),
    }
    return Host(**known | fields)


def driver(version: str = "580.95.05", cuda: int = 13000) -> Driver:
    return Driver(nvml=OK, cuda=OK, version=version, cuda_version=cuda)


def gpu(name: str, capability: tuple[int, int], memory: int, **fields: Any) -> Gpu:
    index, table = fields.pop("index", 0), find(name)
    watts = table and table.product.watts
    known: dict[str, Any] = {
        "index": index,
        "uuid": f"GPU-00000000-0000-4000-8000-00000000000{index}",
        "name": name,
        "bus_id": f"00000000:0{index + 1}:00.0",
        "pci_id": table.product.pci[0] if table and table.product.pci else None,
        "cores": table and table.product.units[0] * (64 if capability <= (8, 0) else 128),
        "power_limit": watts and watts * 1000,
        "power_limit_default": watts and watts * 1000,
        "capability": capability,
        "memory_total": memory,
        "memory_used": 4 * MIB,
        "compute_mode": 0,
        "processes": 0,
        "mig": False,
        "ecc": True,
        "uncorrected": 0,
        "corrected": 0,
        "remap_pending": False,
        "remap_failed": False,
        "remap_banks": (2560, 0, 0, 0, 0),
        "sram_threshold": False,
        "fabric": 3,
        "retired_pages_pending": False,
        "recovery_action": 0,
    }
    return Gpu(**known | fields)


CONSUMER = {
    "ecc": None,
    "uncorrected": None,
    "corrected": None,
    "remap_pending": None,
    "remap_failed": None,
    "retired_pages_pending": None,
    "mig": None,
    "unread": {
        name: "Not Supported"
        for name in (
            "ecc",
            "uncorrected",
            "corrected",
            "remap_pending",
            "remap_failed",
            "retired_pages_pending",
            "mig",
        )
    },
}

H100 = gpu("NVIDIA H100 80GB HBM3", (9, 0), 81559 * MIB)

H200 = gpu("NVIDIA H200", (9, 0), 143771 * MIB)

A100 = gpu("NVIDIA A100-SXM4-80GB", (8, 0), 81920 * MIB)

RTX4090 = gpu("NVIDIA GeForce RTX 4090", (8, 9), 24564 * MIB, **CONSUMER)

RTX5090 = gpu("NVIDIA GeForce RTX 5090", (12, 0), 32607 * MIB, **CONSUMER)

TITAN = gpu("NVIDIA TITAN RTX", (7, 5), 24576 * MIB, **CONSUMER)

V100 = gpu("Tesla V100-SXM2-16GB", (7, 0), 16384 * MIB, remap_pending=None, remap_failed=None)

T4 = gpu("Tesla T4", (7, 5), 15360 * MIB, remap_pending=None, remap_failed=None)

GB10 = gpu(
    "NVIDIA GB10",
    (12, 1),
    0,
    **CONSUMER
    | {
        "memory_total": None,
        "memory_used": None,
        "unread": CONSUMER["unread"]  # type: ignore[dict-item]
        | {"memory_total": "Not Supported", "memory_used": "Not Supported"},
    },
)


def torch(version: str, cuda: str | None, archs: tuple[str, ...], **fields: Any) -> Torch:
    known: dict[str, Any] = {
        "version": version,
        "cuda": cuda,
        "archs": archs,
        "tf32_matmul": False,
        "sdp_enabled": {"flash": True, "mem_efficient": True, "cudnn": True, "math": True},
    }
    return Torch(**known | fields)


TORCH_2_6 = torch("2.6.0+cu124", "12.4", WHEEL_ARCHS["2.6"], cudnn=90100)

TORCH_2_9 = torch("2.9.1+cu128", "12.8", WHEEL_ARCHS["2.9"], cudnn=91002)

TORCH_2_11 = torch("2.11.0+cu130", "13.0", WHEEL_ARCHS["2.11"], cudnn=91900)

TORCH_2_15 = torch("2.15.0+cu132", "13.2", WHEEL_ARCHS["2.11"], cudnn=92600)


def cuda_view(gpus: tuple[Gpu, ...], kernel: Ended = OK, **fields: Any) -> Cuda:
    """torch's view of the same GPUs, matched by UUID."""
    integrated = fields.pop("integrated", False)
    views = tuple(
        TorchGpu(
            index=gpu.index,
            uuid=gpu.slices[0].uuid if gpu.slices else gpu.uuid,
            name=gpu.name,
            capability=gpu.capability or (0, 0),
            memory_total=gpu.memory_total or 119 * GIB,
            units=units_of(gpu),
            integrated=integrated,
            kernel=kernel,
        )
        for gpu in gpus
    )
    first = (gpus[0].capability or (0, 0))[0] if gpus else 0
    cudnn_first = fields.pop("cudnn_first", False) and first in (9, 10)
    order = (3, 1, 2, 0, 4) if cudnn_first else (1, 2, 0, 3, 4)
    return Cuda(**{"started": OK, "gpus": views, "sdp_priority": order} | fields)


def units_of(gpu: Gpu) -> int | None:
    known = find(gpu.name)
    return known.product.units[0] if known and known.product.units and not gpu.mig else None


def libraries(cudnn: str = "9", cublas: str = "13") -> Libraries:
    site = "/opt/train/lib/python3.12/site-packages/nvidia"
    return Libraries(
        loaded=(
            f"{site}/cudnn/lib/libcudnn.so.{cudnn}",
            f"{site}/cudnn/lib/libcudnn_graph.so.{cudnn}",
            f"{site}/cu{cublas}/lib/libcublas.so.{cublas}",
            f"{site}/cu{cublas}/lib/libcublasLt.so.{cublas}",
            f"{site}/nccl/lib/libnccl.so.2",
            f"{site}/cu{cublas}/lib/libnvJitLink.so.{cublas}",
        )
    )


def interpreter(importing: Ended | None = None, **fields: Any) -> Interpreter:
    return Interpreter(
        path="/opt/train/bin/python",
        chosen="the active environment, VIRTUAL_ENV",
        version="3.12.3",
        importing=importing or Ended(how="ok", seconds=2.4),
        **fields,
    )


def place(role: str, path: str, **fields: Any) -> Place:
    known: dict[str, Any] = {
        "role": role,
        "path": path,
        "looked": OK,
        "filesystem": "ext4",
        "total": 2000 * GB,
        "free": 1500 * GB,
        "inodes": 120_000_000,
        "inodes_free": 110_000_000,
        "writable": True,
    }
    return Place(**known | fields)


PLACES = (
    place("output", "/data/runs"),
    place("cache", "/home/user/.cache/huggingface"),
    place("temporary", "/tmp"),
)


def smoke(precision: str = "bf16", device: str = "cuda:0", **fields: Any) -> Smoke:
    losses = ((6.31, 2.41), (5.74, 2.22), (5.23, 2.07))
    known: dict[str, Any] = {
        "device": device,
        "precision": precision,
        "recipe": "amp",
        "lr": 3e-4,
        "stages": tuple(Stage(name=name, ended=OK) for name in STAGES),
        "steps": tuple(Step(loss=loss, grad_norm=norm, lr=3e-4) for loss, norm in losses),
        "parameters": tuple(parameter(name) for name in NAMES),
        "peak_bytes": None if device == "cpu" else 96 * MIB,
        "seconds": 0.8,
    }
    return Smoke(**known | fields)


def parameter(name: str, *, moved: bool = True, dtype: str = "float32") -> Parameter:
    size = 256 if "norm" in name else 65536
    return Parameter(name=name, dtype=dtype, size=size, had_gradient=True, finite=True, moved=moved)


def stopped(at: str, ended: Ended, precision: str = "bf16") -> Smoke:
    """A smoke step that did not get past a stage."""
    passed = STAGES[: STAGES.index(at)]
    stages = (*(Stage(name=name, ended=OK) for name in passed), Stage(name=at, ended=ended))
    return smoke(precision, stages=stages, steps=(), parameters=(), peak_bytes=None)


def links(*gpus: Gpu, **fields: Any) -> tuple[PcieDevice, ...]:
    """Each GPU and the port above it, without errors."""
    pairs = ((gpu.address, f"0000:0{gpu.index}:01.1") for gpu in gpus)
    return tuple(
        PcieDevice(**{"address": each, "gpu": address, "fatal": 0, "nonfatal": 0} | fields)
        for address, port in pairs
        for each in (address, port)
    )


def with_host(**fields: Any) -> Facts:
    """An H100 whose host differs in these fields."""
    facts = machine(H100, torch=TORCH_2_15)
    assert isinstance(facts.host, Host)
    return facts.with_(host=msgspec.structs.replace(facts.host, **fields))


def memory_tested(**fields: Any) -> Facts:
    """An H100 whose memory was written and read back."""
    free = 80 * GIB
    test = {"free": free, "tried": int(0.9 * free), "patterns": 4, "wrong": 0, "seconds": 3.1}
    known = {"device": "cuda:0", "uuid": H100.uuid, "name": H100.name, "ended": OK}
    return machine(
        H100,
        torch=TORCH_2_15,
        options=RunOptions(memory_test=True),
        memory_tests=(MemoryTest(**known | test | fields),),
    )


def machine(*gpus: Gpu, torch: Torch, job: Job | None = None, **sections: Any) -> Facts:
    """A machine whose every section is well, but for what is given."""
    cudnn_first = bool(torch.cudnn and torch.cudnn > 91500 and torch.version >= "2.1")
    known: dict[str, Any] = {
        "origin": MADE,
        "job": job or Job(working_dir="/data/runs"),
        "host": host(
            nvidia_devices=len(gpus),
            gpu_drivers={gpu.address: "nvidia" for gpu in gpus},
            gpu_ids={gpu.address: gpu.pci_id or 0 for gpu in gpus},
            pcie=links(*gpus),
        ),
        "driver": driver(),
        "gpus": gpus,
        "interpreter": interpreter(),
        "torch": torch,
        "cuda": cuda_view(gpus, cudnn_first=cudnn_first),
        "libraries": libraries(cublas=(torch.cuda or "13").split(".")[0]),
        "watched": tuple(quiet(gpu) for gpu in gpus),
        "places": PLACES,
        "smoke": smoke(),
        "seconds": 7.5,
    }
    return Facts(**known | sections)


def job(**fields: Any) -> Job:
    return Job(**{"working_dir": "/data/runs"} | fields)


def unstarted() -> Facts:
    """Eight GPUs on the bus, seven in NVML: the driver failed to start one."""
    lost = "0000:08:00.0"
    seven = tuple(
        msgspec.structs.replace(
            H100, index=i, uuid=f"GPU-0000000{i}", bus_id=f"00000000:0{i + 1}:00.0"
        )
        for i in range(7)
    )
    addresses = [*(gpu.address for gpu in seven), lost]
    facts = machine(*seven, torch=TORCH_2_15)
    assert isinstance(facts.host, Host)
    assert isinstance(facts.driver, Driver)
    return facts.with_(
        host=msgspec.structs.replace(
            facts.host,
            container=None,
            gpu_drivers=dict.fromkeys(addresses, "nvidia"),
            gpu_ids=dict.fromkeys(addresses, H100.pci_id or 0),
            kernel_events=(KernelEvent(address=lost, text="RmInitAdapter failed! (0x24:0x72:1)"),),
        ),
        driver=msgspec.structs.replace(facts.driver, unlisted_gpus={lost: ""}),
    )


def with_log(*reported: Reported, **parts: Any) -> Facts:
    """An H100 whose kernel log has these lines of known faults."""
    return with_host(reported=reported).with_(**parts)


def noisy_link() -> Facts:
    """A GPU that works over a link with corrected errors."""
    line = "pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0"
    return with_log(Reported(cause="pcie-link-errors", line=line))


def variants() -> dict[str, tuple[str, Outcome, Facts]]:
    """Machines that differ from a healthy one in a field: name -> area, expected verdict, facts."""
    full = msgspec.structs.replace(H100, memory_used=40 * GIB)
    remap = msgspec.structs.replace(A100, remap_failed=True, uncorrected=3)
    slow = (Watched(uuid=H100.uuid, samples=14, mask=0x4 | 0x40 | 0x8),)
    fake = msgspec.structs.replace(RTX4090, capability=(8, 6), cores=10752)
    without_ecc = msgspec.structs.replace(A100, ecc=False)
    example = (
        "byte 4096 of the memory under test: 0x0000000000000000 written, 0x0000000000000040 read"
    )
    forgets = memory_tested(patterns=0, wrong=3, wrong_again=3, example=example)
    return {
        "memory_tested": ("gpu", Outcome.READY, memory_tested()),
        "memory_forgets": ("gpu", Outcome.RETURN, forgets),
        "link_errors": ("gpu", Outcome.READY, with_host(pcie=links(H100, new_nonfatal=2))),
        "clock_wrong": ("host", Outcome.READY, with_host(clock_offset=412.7)),
        "slow_cores": ("host", Outcome.READY, with_host(core_speed=(190e3, 193e3))),
        "gpu_not_started": ("gpu", Outcome.RETURN, unstarted()),
        "renamed_card": ("gpu", Outcome.RETURN, machine(fake, torch=TORCH_2_15)),
        "ecc_off": ("gpu", Outcome.READY, machine(without_ecc, torch=TORCH_2_15)),
        "busy_gpu": ("gpu", Outcome.FIX, machine(full, torch=TORCH_2_15)),
        "noisy_link": ("gpu", Outcome.READY, noisy_link()),
        "log_without_faults": ("gpu", Outcome.READY, with_log()),
        "row_remap_failed": ("gpu", Outcome.RETURN, machine(remap, torch=TORCH_2_15)),
        "throttled": ("gpu", Outcome.READY, machine(H100, torch=TORCH_2_15, watched=slow)),
    }
