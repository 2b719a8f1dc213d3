"""Machines that the tests examine, as facts.

All of them are made from documented values (vendors' data sheets, torch's own tables, the texts
that drivers and libraries print) unless `origin` says that they were recorded on hardware.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import checkpoints
import msgspec
import recorded_attention
import recorded_diagnosis
import recorded_expect
import recorded_load
import recorded_own
from recorded_load import loaded, quiet

from doctor._util.records import Ended, Unknown
from doctor.checkpoint.records import (
    Checkpoint,
    History,
    Movement,
    NonFinite,
    Norm,
    NormEvidence,
    Optimizer,
    Problem,
    Role,
    Tokenizer,
    UnchangedRole,
    Values,
)
from doctor.facts.facts import Facts, encode
from doctor.facts.load import Watched
from doctor.facts.machine import (
    Cuda,
    Driver,
    Gpu,
    Host,
    Interpreter,
    Libraries,
    Place,
    Slice,
    Torch,
    TorchGpu,
)
from doctor.facts.training import Parameter, Smoke, Stage, Step
from doctor.job.job import Job
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
    }
    return Host(**known | fields)


def driver(version: str = "580.95.05", cuda: int = 13000) -> Driver:
    return Driver(nvml=OK, cuda=OK, version=version, cuda_version=cuda)


def gpu(name: str, capability: tuple[int, int], memory: int, **fields: Any) -> Gpu:
    index = fields.pop("index", 0)
    known: dict[str, Any] = {
        "index": index,
        "uuid": f"GPU-00000000-0000-4000-8000-00000000000{index}",
        "name": name,
        "bus_id": f"00000000:0{index + 1}:00.0",
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
        "tf32_api": "fp32_precision",
        "sdp_enabled": {"flash": True, "mem_efficient": True, "cudnn": True, "math": True},
    }
    return Torch(**known | fields)


TORCH_2_6 = torch("2.6.0+cu124", "12.4", WHEEL_ARCHS["2.6"], cudnn=90100, tf32_api="allow_tf32")
TORCH_2_9 = torch("2.9.1+cu128", "12.8", WHEEL_ARCHS["2.9"], cudnn=91002)
TORCH_2_11 = torch("2.11.0+cu130", "13.0", WHEEL_ARCHS["2.11"], cudnn=91900)
TORCH_2_15 = torch("2.15.0+cu132", "13.2", WHEEL_ARCHS["2.11"], cudnn=92600)


def seen(gpus: tuple[Gpu, ...], kernel: Ended = OK, **fields: Any) -> Cuda:
    """torch's view of the same GPUs, matched by UUID."""
    integrated = fields.pop("integrated", False)
    views = tuple(
        TorchGpu(
            index=gpu.index,
            uuid=gpu.slices[0].uuid if gpu.slices else gpu.uuid,
            name=gpu.name,
            capability=gpu.capability or (0, 0),
            memory_total=gpu.memory_total or 119 * GIB,
            integrated=integrated,
            kernel=kernel,
        )
        for gpu in gpus
    )
    first = (gpus[0].capability or (0, 0))[0] if gpus else 0
    cudnn_first = fields.pop("cudnn_first", False) and first in (9, 10)
    order = (3, 1, 2, 0, 4) if cudnn_first else (1, 2, 0, 3, 4)
    return Cuda(**{"started": OK, "gpus": views, "sdp_priority": order} | fields)


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


def box(*gpus: Gpu, torch: Torch, job: Job | None = None, **sections: Any) -> Facts:
    """A machine whose every section is well, but for what is given."""
    cudnn_first = bool(torch.cudnn and torch.cudnn > 91500 and torch.version >= "2.1")
    known: dict[str, Any] = {
        "origin": MADE,
        "job": job or Job(working_dir="/data/runs"),
        "host": host(nvidia_devices=len(gpus)),
        "driver": driver(),
        "gpus": gpus,
        "interpreter": interpreter(),
        "torch": torch,
        "cuda": seen(gpus, cudnn_first=cudnn_first),
        "libraries": libraries(cublas=(torch.cuda or "13").split(".")[0]),
        "watched": tuple(quiet(gpu) for gpu in gpus),
        "places": PLACES,
        "smoke": smoke(),
        "seconds": 7.5,
    }
    return Facts(**known | sections)


def job(**fields: Any) -> Job:
    return Job(**{"working_dir": "/data/runs"} | fields)


def norms(value: str, dtype: str = "BF16", count: int = 49) -> tuple[Norm, ...]:
    return tuple(
        Norm(
            name=f"model.layers.{layer}.input_layernorm.weight",
            dtype=dtype,
            size=2048,
            value=value,  # type: ignore[arg-type]
        )
        for layer in range(count)
    )


def checkpoint(**fields: Any) -> Checkpoint:
    known: dict[str, Any] = {
        "path": "/data/runs/checkpoint-754",
        "layout": "Hugging Face model, safetensors",
        "count": 2,
        "tensors": 810,
        "parameters": 3_000_000_000,
        "bytes": 6_000_000_000,
        "largest": 4_000_000_000,
        "dtypes": {"BF16": 6_000_000_000},
        "roles": (
            Role(name="model.layers.*.self_attn.q_proj.weight", dtypes={"BF16": 48}),
            Role(name="model.layers.*.input_layernorm.weight", dtypes={"BF16": 49}),
        ),
        "norms": norms("other"),
        "model_type": "llama",
        "dtype": "bfloat16",
        "history": History(steps=754, lr_sum=0.2262, lr_squares=6.786e-5, covered=754),
        "seconds": 0.02,
    }
    return checkpoints.checkpoint(**known | fields)


def frozen_norms() -> Facts:
    said = checkpoint(norms=norms("ones"))
    return box(H100, torch=TORCH_2_15, job=job(checkpoint=said.path), checkpoint=said)


def swallowed() -> Facts:
    """The run of the report with its optimizer's state, a baseline and a deep scan."""
    said = checkpoint(
        norms=norms("ones"),
        optimizer=Optimizer(
            file="optimizer.pt",
            kind="Adam",
            entries=64,
            parameters=64,
            moments={"BF16": 64},
            moments_follow_weights=True,
            nonzero_moments=64,
            step_min=188.0,
            step_max=188.0,
            lr=(3e-4,),
            norms=NormEvidence(
                norms=49,
                matched_by="shapes",
                nonzero_moments=49,
                dtypes={"BF16": 49},
                step_min=188.0,
                step_max=188.0,
                lr_max=3e-4,
            ),
        ),
        tokenizer=Tokenizer(files=("tokenizer_config.json", "tokenizer.json"), first="!"),
        imports=("torch._utils._rebuild_tensor_v2", "collections.OrderedDict", "__main__.Trainer"),
        refused=("__main__.Trainer",),
        pickles=1,
        values=Values(
            tensors=810,
            bytes=6_000_000_000,
            nonfinite=(
                NonFinite(
                    name="lm_head.weight",
                    file="model-00002-of-00002.safetensors",
                    dtype="BF16",
                    values=262_144_000,
                    nan=3,
                    plus_inf=0,
                    minus_inf=0,
                    first=17,
                ),
            ),
            nonfinite_tensors=1,
            seconds=0.4,
        ),
        movement=Movement(
            baseline="/data/runs/checkpoint-0",
            changed=761,
            unchanged=49,
            kinds={"norm": (0, 49), "attention": (384, 384), "MLP": (375, 375), "head": (2, 2)},
            unchanged_roles=(
                UnchangedRole(
                    role="model.layers.*.input_layernorm.weight",
                    kind="norm",
                    dtype="BF16",
                    count=49,
                    compared=49,
                ),
            ),
            seconds=0.1,
        ),
    )
    return box(H100, torch=TORCH_2_15, job=job(checkpoint=said.path), checkpoint=said)


def fp32_run() -> Facts:
    """A checkpoint as it should be: fp32 weights, everything moved, all values finite."""
    said = checkpoint(
        dtypes={"F32": 12_000_000_000},
        dtype="float32",
        roles=(
            Role(name="model.layers.*.self_attn.q_proj.weight", dtypes={"F32": 48}),
            Role(name="model.layers.*.self_attn.q_proj.lora_A.weight", dtypes={"F32": 48}),
        ),
        norms=norms("other", dtype="F32"),
        optimizer=Optimizer(
            file="optimizer.pt",
            kind="Adam",
            entries=810,
            parameters=810,
            moments={"F32": 810},
            moments_follow_weights=True,
            nonzero_moments=810,
            step_min=754.0,
            step_max=754.0,
            lr=(3e-4, 3e-4),
        ),
        tokenizer=Tokenizer(
            files=("tokenizer_config.json", "tokenizer.json"),
            pad="<|finetune_right_pad_id|>",
            pad_id=128_004,
            first="!",
            vocabulary=128_256,
        ),
        values=Values(tensors=810, bytes=12_000_000_000, seconds=0.8),
        movement=Movement(
            baseline="/data/runs/checkpoint-0", changed=810, unchanged=0, seconds=0.1
        ),
    )
    return box(H100, torch=TORCH_2_15, job=job(checkpoint=said.path), checkpoint=said)


def adapter_without_gradients() -> Facts:
    """A bf16 adapter, half of whose parameters never got a gradient; the deep scan stopped."""
    said = checkpoint(
        layout="PEFT adapter",
        adapter="LORA",
        norms=(),
        roles=(
            Role(name="base_model.model.layers.*.self_attn.q_proj.lora_A.weight",
                 dtypes={"BF16": 48}),
            Role(name="base_model.model.layers.*.self_attn.q_proj.lora_B.weight",
                 dtypes={"BF16": 48}),
        ),
        optimizer=Optimizer(
            file="optimizer.pt",
            kind="Adam",
            entries=48,
            parameters=96,
            missing=48,
            moments={"F32": 48},
            nonzero_moments=48,
            step_min=754.0,
            step_max=754.0,
            lr=(3e-4,),
        ),
        values=Unknown(reason="adapter_model.safetensors was changed while it was read"),
        movement=Unknown(reason="the baseline: no header could be read"),
    )  # fmt: skip
    return box(H100, torch=TORCH_2_15, job=job(checkpoint=said.path), checkpoint=said)


def missing_shard() -> Facts:
    """One missing shard."""
    said = checkpoint(
        problems=(
            Problem(
                kind="missing",
                file="model-00002-of-00002.safetensors",
                text="named by the index, not in the folder",
            ),
        ),
    )
    return box(A100, torch=TORCH_2_9, job=job(checkpoint=said.path), checkpoint=said)


def mixed_checkpoint() -> Facts:
    """fp8 on an A100, two dtypes in a role, half of the norms at 1.0."""
    said = checkpoint(
        dtypes={"F8_E4M3": 3_000_000_000, "BF16": 3_000_000_000},
        roles=(Role(name="model.layers.*.self_attn.q_proj.weight", dtypes={"BF16": 46, "F32": 2}),),
        norms=norms("ones", count=24) + norms("other", count=25),
        history=None,
    )
    return box(A100, torch=TORCH_2_9, job=job(checkpoint=said.path), checkpoint=said)


def gb10() -> Facts:
    found = host(arch="aarch64", memory_total=128 * 10**9, memory_available=110 * GIB, cpus=20)
    view = seen((GB10,), integrated=True)
    said = torch(
        "2.15.0+cu130", "13.0", ("sm_80", "sm_90", "sm_100", "sm_110", "sm_120"), cudnn=92600
    )
    return box(GB10, torch=said, host=found, cuda=view, job=job(params=8_000_000_000))


def mig_slice() -> Facts:
    part = Slice(
        uuid="MIG-11111111-2222-5333-8444-555555555555",
        name="NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        memory_total=40448 * MIB,
        memory_used=12 * MIB,
    )
    unread = {"remap_pending": "Not Supported", "remap_failed": "Not Supported"}
    card = msgspec.structs.replace(
        H100, mig=True, slices=(part,), remap_pending=None, remap_failed=None, unread=unread
    )
    return box(card, torch=TORCH_2_15, job=job(gpus=2))


def no_driver() -> Facts:
    missing = Ended(how="error", detail="NVML Shared Library Not Found", code=12)
    no_cuda = Ended(
        how="error",
        detail="libcuda.so.1: cannot open shared object file: No such file or directory",
    )
    said = "RuntimeError: Found no NVIDIA driver on your system."
    return box(
        torch=TORCH_2_11,
        host=host(device_nodes=(), kernel_driver=None),
        driver=Driver(nvml=missing, cuda=no_cuda),
        gpus=Unknown(reason=missing.detail),
        cuda=Cuda(started=Ended(how="error", detail=said)),
        libraries=Unknown(reason=said),
        watched=None,
        smoke=Unknown(reason=f"torch sees no GPU to train on: {said}"),
    )


def old_driver() -> Facts:
    said = (
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please "
        "update your GPU driver"
    )
    return box(
        A100,
        torch=TORCH_2_11,
        host=host(kernel_driver="535.104.05"),
        driver=driver("535.104.05", 12020),
        cuda=Cuda(started=Ended(how="error", detail=said)),
        libraries=Unknown(reason=said),
        watched=None,
        smoke=Unknown(reason=f"torch sees no GPU to train on: {said}"),
    )


def hung_driver() -> Facts:
    nvml = Ended(how="timeout", detail="no answer in 30 s inside nvmlInit", seconds=30.0)
    cuda = Ended(how="timeout", detail="no answer in 30 s inside cuInit", seconds=30.0)
    left_out = Unknown(reason=f"left out, the driver hangs: {nvml.detail}")
    return box(
        torch=TORCH_2_11,
        host=host(),
        driver=Driver(nvml=nvml, cuda=cuda),
        gpus=Unknown(reason=nvml.detail),
        cuda=left_out,
        libraries=left_out,
        watched=None,
        smoke=left_out,
    )


def v100() -> Facts:
    said = "AcceleratorError: CUDA error: no kernel image is available for execution on the device"
    kernel = Ended(how="error", detail=said)
    return box(
        V100,
        torch=TORCH_2_11,
        cuda=seen((V100,), kernel),
        smoke=stopped("allocate", kernel, "fp16"),
    )


def rtx5090() -> Facts:
    said = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    kernel = Ended(how="error", detail=said)
    return box(
        RTX5090,
        torch=TORCH_2_6,
        cuda=seen((RTX5090,), kernel),
        smoke=stopped("allocate", kernel),
    )


def mi300() -> Facts:
    archs = ("gfx90a", "gfx942", "gfx1100", "gfx1201")
    view = TorchGpu(
        index=0,
        uuid=None,
        name="AMD Instinct MI300X",
        capability=(9, 4),
        memory_total=192 * GIB,
        kernel=OK,
    )
    return box(
        torch=torch("2.9.1+rocm6.4", None, archs, hip="6.4.43484"),
        host=host(nvidia_devices=0, amd_devices=1, device_nodes=("/dev/kfd",), kernel_driver=None),
        driver=None,
        gpus=None,
        cuda=Cuda(started=OK, gpus=(view,)),
        libraries=Libraries(),
        watched=None,
    )


def cpu_only() -> Facts:
    return box(
        torch=torch("2.13.0+cpu", None, ()),
        job=job(device="cpu"),
        host=host(nvidia_devices=0, device_nodes=(), kernel_driver=None, shm_total=32 * GIB),
        driver=None,
        gpus=None,
        cuda=None,
        libraries=None,
        watched=None,
        smoke=smoke(device="cpu"),
        attention=recorded_attention.attention("cpu", seconds=0.25),
    )


def cpu_torch() -> Facts:
    said = "AssertionError: Torch not compiled with CUDA enabled"
    return box(
        RTX4090,
        torch=torch("2.13.0", None, ()),
        cuda=Cuda(started=Ended(how="error", detail=said)),
        libraries=Unknown(reason=said),
        watched=None,
        smoke=Unknown(reason=f"torch sees no GPU to train on: {said}"),
    )


def two_gpus(**sections: Any) -> Facts:
    pair = (A100, msgspec.structs.replace(A100, index=1, uuid=A100.uuid[:-1] + "1"))
    return box(*pair, torch=TORCH_2_15, job=job(gpus=2), **sections)


def full_disk() -> Facts:
    full = (
        place(
            "output",
            "/workspace/out",
            named=True,
            filesystem="overlay",
            free=3 * GB,
            total=20 * GB,
            wrote=OK,
        ),
        place(
            "cache",
            "/root/.cache/huggingface",
            filesystem="overlay",
            free=0,
            total=20 * GB,
            inodes=1_000_000,
            inodes_free=10_000,
        ),
        PLACES[2],
    )
    asked = job(output_dir="/workspace/out", params=8_000_000_000, recipe="amp")
    return box(H100, torch=TORCH_2_15, job=asked, places=full)


def leftovers() -> Facts:
    env = {
        "CUDA_LAUNCH_BLOCKING": "1",
        "NVIDIA_TF32_OVERRIDE": "0",
        "LD_LIBRARY_PATH": "/usr/local/cuda-12.4/lib64",
    }
    offered = Libraries(
        loaded=libraries().loaded, offered=("/usr/local/cuda-12.4/lib64/libcublas.so.12",)
    )
    return box(
        A100,
        torch=TORCH_2_15,
        job=job(precision="fp32"),
        host=host(env=env),
        libraries=offered,
        smoke=smoke("fp32"),
    )


def torch_import_fails() -> Facts:
    said = (
        "ImportError: /opt/train/lib/python3.12/site-packages/torch/lib/../../nvidia/cusparse/lib/"
        "libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12"
    )
    nothing = Unknown(reason=f"torch was not imported: {said}")
    failed = Ended(how="error", detail=said, seconds=1.2)
    return box(A100, torch=TORCH_2_6).with_(
        interpreter=interpreter(failed, traceback=said),
        torch=nothing,
        cuda=None,
        libraries=None,
        watched=None,
        smoke=nothing,
    )


def unread() -> Facts:
    """Nothing could be read: no check may say that it is well."""
    nothing = Unknown(reason="permission denied")
    return Facts(
        origin=MADE,
        job=job(
            checkpoint="/data/ckpt", output_dir="/data/runs", params=8_000_000_000, precision="fp32"
        ),
        host=nothing,
        driver=nothing,
        gpus=nothing,
        interpreter=nothing,
        torch=nothing,
        cuda=nothing,
        libraries=nothing,
        watched=nothing,
        load=nothing,
        peers=nothing,
        places=nothing,
        checkpoint=nothing,
        smoke=nothing,
    )


def machines() -> dict[str, Facts]:
    """Name -> facts."""
    slow = (Watched(uuid=H100.uuid, samples=14, mask=0x4 | 0x40 | 0x8),)
    used = msgspec.structs.replace(H100, memory_used=40 * GIB)
    remap = msgspec.structs.replace(A100, remap_failed=True, uncorrected=3)
    nan = (Step(loss="nan", grad_norm="nan", lr=3e-4),) * 3
    poisoned = tuple(msgspec.structs.replace(each, finite=False) for each in map(parameter, NAMES))
    still = tuple(parameter(name, moved="norm" not in name, dtype="bfloat16") for name in NAMES)
    detached = tuple(
        msgspec.structs.replace(
            each, had_gradient=each.name != "head.weight", moved=each.name != "head.weight"
        )
        for each in map(parameter, NAMES)
    )
    two_cudnns = Libraries(
        loaded=(*libraries(cublas="12").loaded, "/usr/lib/x86_64-linux-gnu/libcudnn_ops.so.9")
    )
    crash = Ended(how="signal", detail="SIGSEGV inside backward", code=11)
    hang = Ended(how="timeout", detail="no answer in 120 s inside forward", seconds=120.0)
    refused = Ended(
        how="error",
        detail="RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling cublasGemmEx",
    )
    return {
        "h100_torch2.15": box(H100, torch=TORCH_2_15, load=(loaded(H100),)),
        "h200_torch2.11": box(
            H200,
            torch=TORCH_2_11,
            load=(loaded(H200),),
            attention=recorded_attention.nan_in_dq(),
        ),
        "a100": box(
            A100,
            torch=TORCH_2_9,
            job=job(params=1_000_000_000, recipe="amp"),
            load=(loaded(A100),),
        ),
        "rtx4090": box(RTX4090, torch=TORCH_2_15, load=(loaded(RTX4090),)),
        "rtx5090_torch2.6": rtx5090(),
        "gb10": gb10(),
        "titan_rtx_bf16": box(TITAN, torch=TORCH_2_9, job=job(precision="bf16")),
        "v100_torch2.11": v100(),
        "t4": box(T4, torch=TORCH_2_15, smoke=smoke("fp16")),
        "mi300_rocm": mi300(),
        "cpu_only": cpu_only(),
        "cpu_torch_beside_gpu": cpu_torch(),
        "no_driver": no_driver(),
        "old_driver": old_driver(),
        "hung_driver": hung_driver(),
        "mig_slice": mig_slice(),
        "busy_gpu": box(used, torch=TORCH_2_15),
        "row_remap_failed": box(remap, torch=TORCH_2_15),
        "throttled": box(H100, torch=TORCH_2_15, watched=slow),
        "shm_64mib": two_gpus(host=host(nvidia_devices=2, shm_total=64 * MIB)),
        "cgroup_limit": box(
            H100,
            torch=TORCH_2_15,
            job=job(checkpoint="/data/ckpt"),
            checkpoint=checkpoint(path="/data/ckpt"),
            host=host(cgroup_memory_limit=3 * GIB, cgroup_memory_used=1 * GIB, cgroup_cpus=1.5),
        ),
        "full_disk": full_disk(),
        "fp32_with_leftovers": leftovers(),
        "frozen_norms": frozen_norms(),
        "swallowed_updates": swallowed(),
        "fp32_checkpoint": fp32_run(),
        "bf16_adapter": adapter_without_gradients(),
        "missing_shard": missing_shard(),
        "mixed_checkpoint": mixed_checkpoint(),
        "smoke_segfault": box(H100, torch=TORCH_2_15, smoke=stopped("backward", crash)),
        "smoke_hang": box(H100, torch=TORCH_2_15, smoke=stopped("forward", hang)),
        "smoke_nan": box(H100, torch=TORCH_2_15, smoke=smoke(steps=nan, parameters=poisoned)),
        "smoke_norms_unmoved": box(
            H100,
            torch=TORCH_2_15,
            job=job(recipe="pure-bf16"),
            smoke=smoke(recipe="pure-bf16", parameters=still),
        ),
        "torch_import_fails": torch_import_fails(),
        "smoke_no_gradient": box(H100, torch=TORCH_2_15, smoke=smoke(parameters=detached)),
        "cublas_refuses": box(
            H100,
            torch=msgspec.structs.replace(TORCH_2_9, version="2.10.0+cu128", cuda="12.8"),
            smoke=stopped("forward", refused),
        ),
        "two_cudnns": box(A100, torch=TORCH_2_9, libraries=two_cudnns),
        "nothing_readable": unread(),
        **recorded_diagnosis.machines(),
        **recorded_attention.machines(),
        **recorded_expect.machines(),
        **recorded_load.machines(),
        **recorded_own.machines(),
    }


AREAS: dict[str, dict[str, Outcome]] = {
    "healthy": {
        "h100_torch2.15": Outcome.READY,
        "a100": Outcome.READY,
        "rtx4090": Outcome.READY,
        "t4": Outcome.READY,
        "two_a100": Outcome.READY,
        "mi300_rocm": Outcome.READY,
        "cpu_only": Outcome.READY,
    },
    "unreadable": {
        "nothing_readable": Outcome.UNKNOWN,
        "agreed_and_unread": Outcome.UNKNOWN,
        "no_driver": Outcome.FIX,
        "hung_driver": Outcome.RETURN,
        "torch_import_fails": Outcome.FIX,
    },
    "expected": {
        "as_agreed": Outcome.READY,
        "not_as_agreed": Outcome.RETURN,
    },
    "torch_build": {
        "old_driver": Outcome.FIX,
        "cpu_torch_beside_gpu": Outcome.FIX,
        "rtx5090_torch2.6": Outcome.FIX,
        "v100_torch2.11": Outcome.FIX,
        "two_cudnns": Outcome.FIX,
        "cublas_refuses": Outcome.FIX,
    },
    "gpu": {
        "gb10": Outcome.READY,
        "mig_slice": Outcome.FIX,
        "busy_gpu": Outcome.FIX,
        "row_remap_failed": Outcome.RETURN,
        "throttled": Outcome.READY,
        "slow_card": Outcome.READY,
        "wrong_product": Outcome.RETURN,
        "xid_during_run": Outcome.RETURN,
        "load_hangs": Outcome.RETURN,
        "broken_p2p": Outcome.RETURN,
    },
    "numerics": {
        "h200_torch2.11": Outcome.READY,
        "titan_rtx_bf16": Outcome.FIX,
        "fp32_with_leftovers": Outcome.READY,
        "attention_wrong": Outcome.FIX,
        "attention_crash": Outcome.FIX,
        "attention_own_shape": Outcome.FIX,
        "attention_switched_off": Outcome.READY,
        "attention_implementation": Outcome.READY,
        "attention_unfinished": Outcome.READY,
    },
    "host": {
        "shm_64mib": Outcome.FIX,
        "cgroup_limit": Outcome.FIX,
        "full_disk": Outcome.FIX,
    },
    "checkpoint": {
        "frozen_norms": Outcome.FIX,
        "swallowed_updates": Outcome.FIX,
        "fp32_checkpoint": Outcome.READY,
        "bf16_adapter": Outcome.UNKNOWN,
        "missing_shard": Outcome.FIX,
        "mixed_checkpoint": Outcome.READY,
    },
    "training": {
        "smoke_segfault": Outcome.FIX,
        "smoke_hang": Outcome.FIX,
        "smoke_nan": Outcome.FIX,
        "smoke_norms_unmoved": Outcome.FIX,
        "smoke_no_gradient": Outcome.FIX,
        "diagnosed_cudnn": Outcome.FIX,
        "diagnosed_nothing_mends": Outcome.FIX,
        "diagnosed_comes_and_goes": Outcome.FIX,
        "diagnosed_hang_with_flash": Outcome.FIX,
        "own_fp16": Outcome.READY,
        "own_lora": Outcome.READY,
        "own_lora_transformers4.57": Outcome.READY,
        "own_factory_raises": Outcome.FIX,
        "own_silent_adapters": Outcome.FIX,
        "own_nan": Outcome.FIX,
        "own_norms_in_bf16": Outcome.FIX,
        "own_scaler_bf16": Outcome.FIX,
        "own_images": Outcome.UNKNOWN,
    },
}
"""Area -> machine -> expected verdict. `healthy` machines have no warning, failure or unknown."""

OUTCOMES = {name: outcome for area in AREAS.values() for name, outcome in area.items()}


_FILES = tempfile.TemporaryDirectory(prefix="machines-")


@cache
def machine_file(name: str) -> Path:
    """A machine as a facts file, in a directory that lives as long as this process."""
    path = Path(_FILES.name) / f"{name}.json"
    path.write_bytes(encode(machines()[name]))
    return path
