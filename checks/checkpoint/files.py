"""A checkpoint's files: whether they are whole, and whether their dtypes fit device and model."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath

from doctor._util.records import Unknown
from doctor._util.units import dotted, gb, shown
from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.records import Checkpoint, Role
from doctor.facts.views import JobGpus
from doctor.job.job import Target
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn

FAILS = ("damaged", "disguised", "missing", "twice", "over-limit")
WARNS = ("stale-index", "no-index", "stray")

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

STORED = {
    "bfloat16": "BF16",
    "float16": "F16",
    "half": "F16",
    "float32": "F32",
    "float": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
"""config.json's word -> safetensors' name."""

KEPT_FP32 = re.compile(r"e_score_correction_bias|\bwo\b|time_decay|query_tokens|\bsinks\b")
"""Roles that models keep in fp32 on purpose (_keep_in_fp32_modules), whole or in part."""

FIXES = {
    "disguised": "Fetch the real file: this one stands in its place.",
    "missing": "Fetch what is missing; hf download takes up a broken download where it ended.",
    "stale-index": "Save the model again with save_pretrained, or put the index that belongs to "
    "these shards beside them.",
    "no-index": "Save the model again with save_pretrained, which writes the index, or fetch "
    "model.safetensors.index.json from where the shards came.",
    "stray": "Move the file that does not belong to this checkpoint out of the folder.",
    "twice": "Move the shards of the other save out of the folder, or save the model again.",
    "over-limit": "Store fewer tensors in one file: save the model in more shards.",
}


def files_are_complete(checkpoint: Checkpoint) -> Verdict:
    wrong = [problem for problem in checkpoint.problems if problem.kind in FAILS]
    doubtful = [problem for problem in checkpoint.problems if problem.kind in WARNS]
    found = wrong or doubtful
    if not wrong and (reason := checkpoint.not_inspectable):
        return unknown(reason)
    if not found and not checkpoint.tensors:
        return unknown(f"no tensors are in {shown(checkpoint.path, 300)}")
    if not found:
        return ok(_whole(checkpoint), seconds=checkpoint.seconds)
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    said = f"{found[0].said}{more}; every header valid and every shard present required"
    pointer = "git-LFS" in found[0].text and "://" not in checkpoint.path
    commands = (_fetch(checkpoint),) if pointer else ()
    complain = fail if wrong else warn
    return complain(said, *commands, fix=FIXES.get(found[0].kind), seconds=checkpoint.seconds)


def _whole(checkpoint: Checkpoint) -> str:
    notes = "".join(f"; {problem.said}" for problem in checkpoint.problems)
    files = "1 file" if checkpoint.files == 1 else f"{checkpoint.files} files"
    count = f"{files}, {checkpoint.tensors:,} tensors, {gb(checkpoint.bytes)}"
    return f"{count}: every header valid, nothing missing, no tensor twice{notes}"


def _fetch(checkpoint: Checkpoint) -> str:
    path = PurePath(checkpoint.path)
    folder = path.parent if path.suffix else path
    return f"git -C {shlex.quote(str(folder))} lfs pull"


def dtypes_run_here(checkpoint: Checkpoint, target: Target, job_gpus: JobGpus | Unknown) -> Verdict:
    if reason := _unread(checkpoint):
        return unknown(reason)
    strange = [shown(dtype, 20) for dtype in checkpoint.dtypes if dtype not in BITS]
    if strange:
        return unknown(f"stored in {', '.join(strange)}, which the doctor does not know")
    said = f"stored in {', '.join(sorted(checkpoint.dtypes))}"
    if target.kind != "nvidia":
        return _without_nvidia(checkpoint, target, said)
    needed = {dtype: NEEDS[dtype] for dtype in checkpoint.dtypes if dtype in NEEDS}
    foreign = [dtype for dtype in checkpoint.dtypes if dtype in AMD_ONLY]
    if foreign:
        return warn(f"{said}; no NVIDIA GPU computes in {', '.join(foreign)}")
    if not needed:
        return ok(f"{said}, which every GPU computes in")
    if isinstance(job_gpus, Unknown):
        return unknown(f"{said}; the GPUs could not be read: {job_gpus.reason}")
    lowest = job_gpus.lowest_capability
    if lowest is None:
        return unknown(f"{said}; the compute capability could not be read")
    lacking = [
        f"{dtype} needs {dotted(least)}" for dtype, least in needed.items() if lowest < least
    ]
    said = f"{said}; the GPUs of the job have compute capability {dotted(lowest)}"
    return warn(f"{said}, {', '.join(lacking)}") if lacking else ok(said)


def _without_nvidia(checkpoint: Checkpoint, target: Target, said: str) -> Verdict:
    if target.kind == "mps" and "F64" in checkpoint.dtypes:
        return warn(f"{said}; Apple's GPUs have no F64")
    low = [dtype for dtype in checkpoint.dtypes if BITS[dtype] < 16 and dtype[0] == "F"]
    if not low:
        return ok(f"{said}, which {target.kind} computes in")
    if target.kind == "cpu":
        return warn(
            f"{said}; torch on the CPU lacks most operations in {', '.join(low)}, even adding"
        )
    return unknown(f"{said}; whether this device computes in {', '.join(low)} is not known")


def dtypes_agree(checkpoint: Checkpoint) -> Verdict:
    if reason := _unread(checkpoint):
        return unknown(reason)
    if checkpoint.quantized:
        return skip("a quantised model mixes dtypes by design")
    mixed = [role for role in checkpoint.roles if _mixed(role)]
    if mixed:
        more = f" (and {len(mixed) - 1} more)" if len(mixed) > 1 else ""
        count = ", ".join(f"{number} in {dtype}" for dtype, number in mixed[0].dtypes.items())
        return warn(f"{shown(mixed[0].name)}: {count}{more}; one dtype for a role required")
    floats = {dtype: size for dtype, size in checkpoint.dtypes.items() if "F" in dtype}
    most = max(floats, key=lambda dtype: floats[dtype], default=None)
    configured = STORED.get(checkpoint.config_dtype or "")
    if configured and most and configured != most:
        said = f"most weights are {most}, config.json says {checkpoint.config_dtype}"
        return warn(said, fix=CONFIG_FIX)
    agreed = f", as config.json says ({checkpoint.config_dtype})" if configured else ""
    return ok(f"{len(checkpoint.roles)} roles, each in one dtype; most weights: {most}{agreed}")


CONFIG_FIX = (
    "Name the dtype when the model is loaded: dtype=torch.float32 for training with autocast. "
    'transformers 5 loads dtype="auto" by default, which follows config.json where it names a '
    "dtype. Or correct config.json."
)


def _mixed(role: Role) -> bool:
    return len(role.dtypes) > 1 and not KEPT_FP32.search(role.name)


def _unread(checkpoint: Checkpoint) -> str | None:
    if reason := checkpoint.not_inspectable:
        return reason
    return None if checkpoint.tensors else "no header could be read"


CHECKS = (
    Check(
        code="CKP001",
        slug="checkpoint-complete",
        title="The checkpoint's files are complete",
        why="A short download, a pointer in place of the weights or a missing shard shows only "
        "when the model is loaded, and weights that no file holds may stay uninitialised without "
        "a word. The header of a safetensors file says where every byte belongs, so all of this "
        "shows without reading the weights.",
        passes=(
            "every header is valid and accounts for every byte of its file, every shard of "
            "the index is there and holds the tensors it should, no tensor is in two shards",
        ),
        warns=(
            "the index is stale (it names none of a complete set of files, other shards "
            "than hold the tensors, or fewer tensors than are there) or there is none "
            "beside shards",
            "a model.safetensors or shards of another save lie beside the shards",
        ),
        fails=(
            "a file is cut short, has trailing bytes, holes, overlaps or an invalid "
            "header, or is something else (a git-LFS pointer, a web page, a pickle, a zip, "
            "GGUF)",
            "a shard or a tensor of the index is missing",
            "a tensor is in two shards",
            "a header is longer than the safetensors library reads",
        ),
        fix="Fetch the named file again and compare its size with the source's, or save the "
        "checkpoint again.",
        limits="that the values are right: headers and sizes are compared, not the data.",
        owner=Owner.JOB,
        judge=files_are_complete,
        required="checkpoint",
        sources=("safetensors-format", "safetensors-668", "huggingface_hub-4728"),
    ),
    Check(
        code="CKP002",
        slug="dtypes-run-here",
        title="The device computes in the dtypes that the checkpoint stores",
        why="Weights in a dtype that the device lacks are converted or emulated: bf16 needs "
        "compute capability 8.0, fp8 needs 8.9, fp4 and fp6 need 10.0. torch says that Turing "
        "and Volta support bf16, since it emulates it there.",
        passes=("every stored dtype is native to the device of the job, or needs no support",),
        warns=(
            "fp8, fp6 or fp4 on a GPU without them or on the CPU, bf16 on a GPU below 8.0, "
            "or AMD's own fp8 formats on an NVIDIA GPU, or fp64 on MPS",
        ),
        fix="Load the weights in a dtype that the device has: dtype=torch.float32 for training "
        "with autocast, and fp16 autocast with a GradScaler below 8.0. fp8 and fp4 weights have "
        "scales and must be dequantised with them. Or take a GPU that has the dtype.",
        limits="that training in these dtypes is stable.",
        owner=Owner.JOB,
        judge=dtypes_run_here,
        required="checkpoint",
        sources=("titan-matrix", "titan-why", "ps-P3", "cuda-gpus", "low-precision-matrix"),
        after=("CKP001",),
    ),
    Check(
        code="CKP003",
        slug="dtypes-consistent",
        title="Tensors of one role have one dtype",
        why="When the same projection is bf16 in thirty layers and fp32 in two, a part of the "
        "model was cast or saved by another path than the rest. A config.json that names another "
        "dtype than the weights have changes what loading gives, and with it the memory and the "
        "precision of the training.",
        passes=(
            "every role (a name without its layer and expert numbers) has one dtype, or is "
            "one that models keep in fp32 on purpose, and config.json names the dtype of "
            "most weights or none",
        ),
        warns=(
            "dtypes are mixed within one role, or config.json names another dtype than "
            "most of the weights have",
        ),
        fix="Load the model in one dtype, dtype=torch.float32 with autocast for training, and "
        "save it again; cast no single layers.",
        limits="that the dtype of each role is the one that was meant.",
        owner=Owner.JOB,
        judge=dtypes_agree,
        required="checkpoint",
        sources=("bts-fix2", "bts-fix7"),
        after=("CKP001",),
    ),
)
