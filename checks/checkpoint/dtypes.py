"""Whether the dtypes of a checkpoint suit the device and the model."""

from __future__ import annotations

import re

from doctor._util.records import Unknown
from doctor._util.units import dotted, shown
from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.records import Checkpoint, Role
from doctor.facts.views import JobGpus
from doctor.job.job import Target
from doctor.judge.check import Check, Owner, Verdict, ok, skip, unknown, warn

NEEDS = {
    "BF16": (8, 0),
    "F8_E4M3": (8, 9),
    "F8_E5M2": (8, 9),
    "F6_E2M3": (10, 0),
    "F6_E3M2": (10, 0),
    "F4": (10, 0),
    "F8_E8M0": (10, 0),
}
"""dtype -> compute capability that computes in it (low-precision-matrix, titan-matrix)."""

AMD_ONLY = ("F8_E4M3FNUZ", "F8_E5M2FNUZ")
"""fp8 as AMD's MI300 has it; no NVIDIA GPU computes in it."""

FEW_OPERATIONS = ("complex32", "bcomplex32")
"""Dtypes of torch for which it has few operations on any device, and warns so."""
EVERYWHERE = ("complex128", *FEW_OPERATIONS)
"""Dtypes that safetensors does not have and every GPU of NVIDIA computes in."""

STORED = {
    "bfloat16": "BF16", "float16": "F16", "half": "F16", "float32": "F32", "float": "F32",
    "float64": "F64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
}  # fmt: skip
"""config.json's word -> safetensors' name."""

KEEP_IN_FP32 = re.compile(r"e_score_correction_bias|\bwo\b|time_decay|query_tokens|\bsinks\b")
"""Roles that models keep in fp32 on purpose (_keep_in_fp32_modules), all or in part."""


def dtypes_supported(
    checkpoint: Checkpoint, target: Target, job_gpus: JobGpus | Unknown
) -> Verdict:
    if reason := _unread(checkpoint):
        return unknown(reason)
    dtypes = checkpoint.contents.dtypes
    familiar = (*BITS, *EVERYWHERE)
    if unfamiliar := [shown(dtype, 20) for dtype in dtypes if dtype not in familiar]:
        return unknown(f"stored in {', '.join(unfamiliar)}, whose hardware support is unknown")
    stored = f"stored in {', '.join(sorted(dtypes))}"
    if few := [dtype for dtype in FEW_OPERATIONS if dtype in dtypes]:
        return warn(f"{stored}; torch has few operations in {', '.join(few)}", fix=FEW_FIX)
    if target.kind != "nvidia":
        return _without_nvidia(dtypes, target, stored)
    return _on_nvidia(dtypes, job_gpus, stored)


def _on_nvidia(dtypes: dict[str, int], job_gpus: JobGpus | Unknown, stored: str) -> Verdict:
    if foreign := [dtype for dtype in dtypes if dtype in AMD_ONLY]:
        return warn(f"{stored}; no NVIDIA GPU computes in {', '.join(foreign)}")
    required = {dtype: NEEDS[dtype] for dtype in dtypes if dtype in NEEDS}
    if not required:
        return ok(f"{stored}; every GPU computes in it")
    if isinstance(job_gpus, Unknown):
        return unknown(f"{stored}; the GPUs could not be read: {job_gpus.reason}")
    lowest = job_gpus.lowest_capability
    if lowest is None:
        return unknown(f"{stored}; the compute capability could not be read")
    unsupported = [
        f"{dtype} requires {dotted(least)}" for dtype, least in required.items() if lowest < least
    ]
    summary = f"{stored}; the job's GPUs have compute capability {dotted(lowest)}"
    return warn(f"{summary}, {', '.join(unsupported)}") if unsupported else ok(summary)


FEW_FIX = "Load such tensors as complex64 before computing with them."


def _without_nvidia(dtypes: dict[str, int], target: Target, stored: str) -> Verdict:
    if target.kind == "mps" and (wide := {"F64", "complex128"} & dtypes.keys()):
        return warn(f"{stored}; Apple's GPUs do not support {', '.join(sorted(wide))}")
    low = [dtype for dtype in dtypes if dtype[0] == "F" and BITS[dtype] < 16]
    if not low:
        return ok(f"{stored}; {target.kind} computes in it")
    if target.kind == "cpu":
        return warn(f"{stored}; torch on the CPU lacks most operations in {', '.join(low)}")
    return unknown(f"{stored}; support for {', '.join(low)} on this device is unknown")


def dtypes_consistent(checkpoint: Checkpoint) -> Verdict:
    if reason := _unread(checkpoint):
        return unknown(reason)
    if checkpoint.model.quantized:
        return skip("quantized models mix dtypes by design")
    roles = checkpoint.contents.roles
    if mixed := [role for role in roles if _mixed(role)]:
        more = f" (and {len(mixed) - 1} more)" if len(mixed) > 1 else ""
        count = ", ".join(f"{number} in {dtype}" for dtype, number in mixed[0].dtypes.items())
        text = f"{shown(mixed[0].name)}: {count}{more}"
        if by_dtype := checkpoint.files.by_dtype:
            files = ", ".join(f"{file} is {dtype}" for dtype, file in by_dtype.items())
            return warn(f"{text}; {files}, each file in one dtype", fix=FILES_FIX)
        return warn(f"{text}; one dtype per role required")
    floats = {dtype: size for dtype, size in checkpoint.contents.dtypes.items() if "F" in dtype}
    most = max(floats, key=lambda dtype: floats[dtype], default=None)
    configured = STORED.get(checkpoint.model.dtype or "")
    if configured and most and configured != most:
        summary = f"most weights are {most}, config.json names {checkpoint.model.dtype}"
        return warn(f"{summary}; the same dtype required", fix=CONFIG_FIX)
    match = f", as in config.json ({checkpoint.model.dtype})" if configured else ""
    return ok(f"{len(roles)} roles, each in one dtype; most weights are {most}{match}")


FILES_FIX = (
    "Take all files from one save: copy or download them again, and compare their checksums and "
    "times. A cast makes their dtypes equal and leaves weights of two models in one. Where one "
    "program wrote single files in another dtype on purpose, save the model again in one dtype."
)
CONFIG_FIX = (
    "Name the dtype when loading the model: dtype=torch.float32 for training with autocast. "
    'transformers 5 loads dtype="auto" by default, which follows config.json where it names a '
    "dtype. Or correct config.json."
)


def _mixed(role: Role) -> bool:
    return len(role.dtypes) > 1 and not KEEP_IN_FP32.search(role.name)


def _unread(checkpoint: Checkpoint) -> str | None:
    if reason := checkpoint.not_inspectable:
        return reason
    return None if checkpoint.contents.tensors else "no header could be read"


SUPPORTED = Check(
    code="CKP002",
    slug="dtypes-supported",
    aliases=("dtypes-run-here",),
    title="The device supports the dtypes that the checkpoint stores",
    why="Weights in a dtype that the device lacks are converted or emulated: bf16 requires compute "
    "capability 8.0, fp8 8.9, fp4 and fp6 10.0. torch reports bf16 support on Turing and Volta, "
    "since it emulates it there.",
    passes=("the device supports every stored dtype",),
    warns=(
        "fp8, fp6 or fp4 on a GPU without support for it, or on the CPU",
        "bf16 on a GPU with compute capability below 8.0",
        "AMD's fp8 formats on an NVIDIA GPU",
        "fp64 or complex128 on MPS",
        "complex32, for which torch has few operations",
    ),
    fix="Load the weights in a dtype that the device supports: dtype=torch.float32 for training "
    "with autocast; below compute capability 8.0 use fp16 autocast with a GradScaler. Dequantize "
    "fp8 and fp4 weights with their scales. Or use a GPU that supports the dtype.",
    limits="that training in these dtypes is stable.",
    owner=Owner.JOB,
    judge=dtypes_supported,
    required="checkpoint",
    sources=("titan-matrix", "titan-why", "ps-P3", "cuda-gpus", "low-precision-matrix"),
    after=("CKP001",),
)

CONSISTENT = Check(
    code="CKP003",
    slug="dtypes-consistent",
    title="Tensors of one role have one dtype",
    why="When the same projection is bf16 in thirty layers and fp32 in two, part of the model was "
    "cast or saved separately. A config.json that names another dtype than that of the weights "
    "changes what loading returns, and with it the memory and the precision of training.",
    passes=(
        "every role (a name without its layer and expert numbers) has one dtype, or is one that "
        "models keep in fp32 on purpose",
        "config.json names the dtype of most weights, or none",
    ),
    warns=(
        "dtypes are mixed within one role",
        "config.json names another dtype than that of most weights",
    ),
    fix="Load the model in one dtype (dtype=torch.float32 with autocast for training) and save it "
    "again. Do not cast single layers.",
    limits="that the dtype of each role is the intended one.",
    owner=Owner.JOB,
    judge=dtypes_consistent,
    required="checkpoint",
    sources=("bts-fix2", "transformers-36567"),
    after=("CKP001",),
)

CHECKS = (SUPPORTED, CONSISTENT)
