"""Machines that the tests examine, as facts.

All of them are made from documented values (vendors' data sheets, torch's own tables, the texts
that drivers and libraries print) unless `origin` says that they were recorded on hardware.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import recorded_attention
import recorded_diagnosis
import recorded_expect
import recorded_load
import recorded_own
from recorded_checkpoints import (
    adapter_without_gradients,
    checkpoint,
    files_of_two_models,
    fp32_run,
    frozen_norms,
    lost_updates,
    merged_twice,
    missing_shard,
    mixed_checkpoint,
)
from recorded_load import loaded
from recorded_parts import (
    A100,
    GB,
    GB10,
    GIB,
    H100,
    H200,
    MADE,
    MIB,
    NAMES,
    OK,
    PLACES,
    RTX4090,
    RTX5090,
    T4,
    TITAN,
    TORCH_2_6,
    TORCH_2_9,
    TORCH_2_11,
    TORCH_2_15,
    V100,
    cuda_view,
    driver,
    host,
    interpreter,
    job,
    libraries,
    machine,
    parameter,
    place,
    smoke,
    stopped,
    torch,
    variants,
)

from doctor._util.records import Ended, Unknown
from doctor.facts.facts import Facts, encode
from doctor.facts.interpreter import Cuda, Libraries, TorchGpu
from doctor.facts.machine import Driver, Slice
from doctor.facts.training import Step


def gb10() -> Facts:
    arm = host(arch="aarch64", memory_total=128 * 10**9, memory_available=110 * GIB, cpus=20)
    view = cuda_view((GB10,), integrated=True)
    build = torch(
        "2.15.0+cu130", "13.0", ("sm_80", "sm_90", "sm_100", "sm_110", "sm_120"), cudnn=92600
    )
    return machine(GB10, torch=build, host=arm, cuda=view, job=job(params=8_000_000_000))


def mig_slice() -> Facts:
    part = Slice(
        uuid="MIG-11111111-2222-5333-8444-555555555555",
        name="NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        memory_total=40448 * MIB,
        memory_used=12 * MIB,
    )
    unread = {"remap_pending": "Not Supported", "remap_failed": "Not Supported"}
    split_gpu = msgspec.structs.replace(
        H100, mig=True, slices=(part,), remap_pending=None, remap_failed=None, unread=unread
    )
    return machine(split_gpu, torch=TORCH_2_15, job=job(gpus=2))


def no_driver() -> Facts:
    missing = Ended(how="error", detail="NVML Shared Library Not Found", code=12)
    no_cuda = Ended(
        how="error",
        detail="libcuda.so.1: cannot open shared object file: No such file or directory",
    )
    error = "RuntimeError: Found no NVIDIA driver on your system."
    return machine(
        torch=TORCH_2_11,
        host=host(device_nodes=(), kernel_driver=None),
        driver=Driver(nvml=missing, cuda=no_cuda),
        gpus=Unknown(reason=missing.detail),
        cuda=Cuda(started=Ended(how="error", detail=error)),
        libraries=Unknown(reason=error),
        watched=None,
        smoke=Unknown(reason=f"torch sees no GPU to train on: {error}"),
    )


def old_driver() -> Facts:
    error = (
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please "
        "update your GPU driver"
    )
    return machine(
        A100,
        torch=TORCH_2_11,
        host=host(kernel_driver="535.104.05"),
        driver=driver("535.104.05", 12020),
        cuda=Cuda(started=Ended(how="error", detail=error)),
        libraries=Unknown(reason=error),
        watched=None,
        smoke=Unknown(reason=f"torch sees no GPU to train on: {error}"),
    )


def hung_driver() -> Facts:
    nvml = Ended(how="timeout", detail="no answer in 30 s inside nvmlInit", seconds=30.0)
    cuda = Ended(how="timeout", detail="no answer in 30 s inside cuInit", seconds=30.0)
    left_out = Unknown(reason=f"left out, the driver hangs: {nvml.detail}")
    return machine(
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
    error = "AcceleratorError: CUDA error: no kernel image is available for execution on the device"
    kernel = Ended(how="error", detail=error)
    return machine(
        V100,
        torch=TORCH_2_11,
        cuda=cuda_view((V100,), kernel),
        smoke=stopped("allocate", kernel, "fp16"),
    )


def rtx5090() -> Facts:
    error = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    kernel = Ended(how="error", detail=error)
    return machine(
        RTX5090,
        torch=TORCH_2_6,
        cuda=cuda_view((RTX5090,), kernel),
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
    return machine(
        torch=torch("2.9.1+rocm6.4", None, archs, hip="6.4.43484"),
        host=host(nvidia_devices=0, amd_devices=1, device_nodes=("/dev/kfd",), kernel_driver=None),
        driver=None,
        gpus=None,
        cuda=Cuda(started=OK, gpus=(view,)),
        libraries=Libraries(),
        watched=None,
    )


def cpu_only() -> Facts:
    return machine(
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
    error = "AssertionError: Torch not compiled with CUDA enabled"
    return machine(
        RTX4090,
        torch=torch("2.13.0", None, ()),
        cuda=Cuda(started=Ended(how="error", detail=error)),
        libraries=Unknown(reason=error),
        watched=None,
        smoke=Unknown(reason=f"torch sees no GPU to train on: {error}"),
    )


def two_gpus(**sections: Any) -> Facts:
    pair = (A100, msgspec.structs.replace(A100, index=1, uuid=A100.uuid[:-1] + "1"))
    return machine(*pair, torch=TORCH_2_15, job=job(gpus=2), **sections)


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
    large = job(output_dir="/workspace/out", params=8_000_000_000, recipe="amp")
    return machine(H100, torch=TORCH_2_15, job=large, places=full)


def leftovers() -> Facts:
    env = {
        "CUDA_LAUNCH_BLOCKING": "1",
        "NVIDIA_TF32_OVERRIDE": "0",
        "LD_LIBRARY_PATH": "/usr/local/cuda-12.4/lib64",
    }
    offered = Libraries(
        loaded=libraries().loaded, offered=("/usr/local/cuda-12.4/lib64/libcublas.so.12",)
    )
    return machine(
        A100,
        torch=TORCH_2_15,
        job=job(precision="fp32"),
        host=host(env=env),
        libraries=offered,
        smoke=smoke("fp32"),
    )


def torch_import_fails() -> Facts:
    error = (
        "ImportError: /opt/train/lib/python3.12/site-packages/torch/lib/../../nvidia/cusparse/lib/"
        "libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12"
    )
    nothing = Unknown(reason=f"torch was not imported: {error}")
    failed = Ended(how="error", detail=error, seconds=1.2)
    return machine(A100, torch=TORCH_2_6).with_(
        interpreter=interpreter(failed, traceback=error),
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
        memory_tests=nothing,
        peers=nothing,
        places=nothing,
        checkpoint=nothing,
        smoke=nothing,
    )


def machines() -> dict[str, Facts]:
    """Name -> facts."""
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
        "h100_torch2.15": machine(H100, torch=TORCH_2_15, load=(loaded(H100),)),
        "h200_torch2.11": machine(
            H200,
            torch=TORCH_2_11,
            load=(loaded(H200),),
            attention=recorded_attention.nan_in_dq(),
        ),
        "a100": machine(
            A100,
            torch=TORCH_2_9,
            job=job(params=1_000_000_000, recipe="amp"),
            load=(loaded(A100),),
        ),
        "rtx4090": machine(RTX4090, torch=TORCH_2_15, load=(loaded(RTX4090),)),
        "rtx5090_torch2.6": rtx5090(),
        "gb10": gb10(),
        "titan_rtx_bf16": machine(TITAN, torch=TORCH_2_9, job=job(precision="bf16")),
        "v100_torch2.11": v100(),
        "t4": machine(T4, torch=TORCH_2_15, smoke=smoke("fp16")),
        "mi300_rocm": mi300(),
        "cpu_only": cpu_only(),
        "cpu_torch_beside_gpu": cpu_torch(),
        "no_driver": no_driver(),
        "old_driver": old_driver(),
        "hung_driver": hung_driver(),
        "mig_slice": mig_slice(),
        "shm_64mib": two_gpus(host=host(nvidia_devices=2, shm_total=64 * MIB)),
        "cgroup_limit": machine(
            H100,
            torch=TORCH_2_15,
            job=job(checkpoint="/data/ckpt"),
            checkpoint=checkpoint(path="/data/ckpt"),
            host=host(cgroup_memory_limit=3 * GIB, cgroup_memory_used=1 * GIB, cgroup_cpus=1.5),
        ),
        "full_disk": full_disk(),
        "fp32_with_leftovers": leftovers(),
        "frozen_norms": frozen_norms(),
        "swallowed_updates": lost_updates(),
        "fp32_checkpoint": fp32_run(),
        "bf16_adapter": adapter_without_gradients(),
        "missing_shard": missing_shard(),
        "files_of_two_models": files_of_two_models(),
        "merged_twice": merged_twice(),
        "mixed_checkpoint": mixed_checkpoint(),
        "smoke_segfault": machine(H100, torch=TORCH_2_15, smoke=stopped("backward", crash)),
        "smoke_hang": machine(H100, torch=TORCH_2_15, smoke=stopped("forward", hang)),
        "smoke_nan": machine(H100, torch=TORCH_2_15, smoke=smoke(steps=nan, parameters=poisoned)),
        "smoke_norms_unmoved": machine(
            H100,
            torch=TORCH_2_15,
            job=job(recipe="pure-bf16"),
            smoke=smoke(recipe="pure-bf16", parameters=still),
        ),
        "torch_import_fails": torch_import_fails(),
        "smoke_no_gradient": machine(H100, torch=TORCH_2_15, smoke=smoke(parameters=detached)),
        "cublas_refuses": machine(
            H100,
            torch=msgspec.structs.replace(TORCH_2_9, version="2.10.0+cu128", cuda="12.8"),
            smoke=stopped("forward", refused),
        ),
        "two_cudnns": machine(A100, torch=TORCH_2_9, libraries=two_cudnns),
        "nothing_readable": unread(),
        **{name: facts for name, (_, _, facts) in variants().items()},
        **recorded_diagnosis.machines(),
        **recorded_attention.machines(),
        **recorded_expect.machines(),
        **recorded_load.machines(),
        **recorded_own.machines(),
    }


_FILES = tempfile.TemporaryDirectory(prefix="machines-")


@cache
def machine_file(name: str) -> Path:
    """A machine as a facts file, in a directory that lives as long as this process."""
    path = Path(_FILES.name) / f"{name}.json"
    path.write_bytes(encode(machines()[name]))
    return path
