"""A checkpoint's files: whether they are complete, and their dtypes suit device and model."""

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

FAILS = (
    "unfinished",
    "damaged",
    "disguised",
    "missing",
    "empty",
    "foreign-index",
    "twice",
    "over-limit",
    "unloadable",
)
WARNS = ("stale-index", "no-index", "stray", "unknown-dtype")

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

KEEP_IN_FP32 = re.compile(r"e_score_correction_bias|\bwo\b|time_decay|query_tokens|\bsinks\b")
"""Roles that models keep in fp32 on purpose (_keep_in_fp32_modules), all or in part."""

FIXES = {
    "unfinished": "Resume from the checkpoint that is named as the last whole one, by its path: a "
    "trainer takes the latest by itself. If the latest is still being written, wait for its end.",
    "disguised": "Download the real file: this one is something else under its name.",
    "missing": "Download what is missing; hf download resumes an interrupted download.",
    "empty": "Save again with the parameters gathered from all ranks: "
    "stage3_gather_16bit_weights_on_model_save under DeepSpeed ZeRO-3, state_dict_type "
    "FULL_STATE_DICT under FSDP, or state_dict=accelerator.get_state_dict(model). Recover the "
    "weights from the engine's own checkpoint with its zero_to_fp32.py, if there is one; else "
    "train again.",
    "stale-index": "Save the model again with save_pretrained, or restore the index of these "
    "shards.",
    "foreign-index": "Save the model again with save_pretrained, or write the index from the "
    "headers of the shards that are here: from_pretrained reads the files that it names.",
    "no-index": "Save the model again with save_pretrained, which writes the index, or download "
    "model.safetensors.index.json from the source of the shards.",
    "stray": "Move the file that does not belong to this checkpoint out of the directory.",
    "twice": "Move the shards of the other save out of the directory, or save the model again.",
    "unknown-dtype": "Upgrade safetensors and see whether it loads the file: it refuses "
    "dtypes that it does not know.",
    "over-limit": "Store fewer tensors per file: save the model in more shards.",
    "unloadable": "Save it again in torch.save's default form, without "
    "_use_new_zipfile_serialization=False, or with safetensors.",
}


def _fix(checkpoint: Checkpoint, kind: str) -> str | None:
    """The remedy; what a run of the user's own wrote cannot be downloaded again."""
    distributed = "torch.distributed.checkpoint" in checkpoint.layout  # nobody downloads one
    saved = (
        distributed
        or checkpoint.training.steps is not None
        or checkpoint.training.optimizer is not None
    )
    if kind in ("damaged", "missing", "disguised") and (saved or checkpoint.siblings):
        return OWN_FIX
    return FIXES.get(kind)


OWN_FIX = (
    "Resume from an earlier checkpoint of the run, or copy the file again from where it was "
    "written. If this save is still under way, wait for its end."
)

DANGER_FIX = "Do not load these files: see CKP010 first."


def files_complete(checkpoint: Checkpoint) -> Verdict:
    failures = [problem for problem in checkpoint.problems if problem.kind in FAILS]
    problems = failures or [problem for problem in checkpoint.problems if problem.kind in WARNS]
    if not failures and (reason := checkpoint.not_inspectable):
        return unknown(reason)
    if not problems and not checkpoint.contents.tensors:
        return unknown(f"no tensors in {shown(checkpoint.path, 300)}")
    if not problems:
        return ok(_complete(checkpoint), seconds=checkpoint.seconds)
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    summary = f"{first.message}{more}; valid headers and all shards of the index required"
    pointer = "git-LFS" in first.text and "://" not in checkpoint.path
    commands = (_fetch(checkpoint),) if pointer else ()
    verdict = fail if failures else warn
    fix = DANGER_FIX if checkpoint.loading.runs_code else _fix(checkpoint, first.kind)
    return verdict(summary, *commands, fix=fix, seconds=checkpoint.seconds)


def _complete(checkpoint: Checkpoint) -> str:
    notes = "".join(f"; {problem.message}" for problem in checkpoint.problems)
    files = "1 file" if checkpoint.files.count == 1 else f"{checkpoint.files.count} files"
    tensors = f"{checkpoint.contents.tensors:,} tensors"
    return (
        f"{files}, {tensors}, {gb(checkpoint.files.bytes)}: headers valid, no shard missing{notes}"
    )


def _fetch(checkpoint: Checkpoint) -> str:
    path = PurePath(checkpoint.path)
    directory = path.parent if path.suffix else path
    return f"git -C {shlex.quote(str(directory))} lfs pull"


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
        return warn(f"{shown(mixed[0].name)}: {count}{more}; one dtype per role required")
    floats = {dtype: size for dtype, size in checkpoint.contents.dtypes.items() if "F" in dtype}
    most = max(floats, key=lambda dtype: floats[dtype], default=None)
    configured = STORED.get(checkpoint.model.dtype or "")
    if configured and most and configured != most:
        summary = f"most weights are {most}, config.json names {checkpoint.model.dtype}"
        return warn(f"{summary}; the same dtype required", fix=CONFIG_FIX)
    match = f", as in config.json ({checkpoint.model.dtype})" if configured else ""
    return ok(f"{len(roles)} roles, each in one dtype; most weights are {most}{match}")


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


COMPLETE = Check(
    code="CKP001",
    slug="checkpoint-complete",
    title="The checkpoint's files are complete",
    why="An interrupted download, a pointer in place of the weights or a missing shard shows only "
    "when the model is loaded, and weights that no file holds may silently stay uninitialized. The "
    "headers say where every byte belongs, so all of this shows without reading the weights.",
    passes=(
        "every header is valid and accounts for every byte of its file",
        "every shard of the index exists and holds the tensors that the index names",
        "no tensor is in two shards",
    ),
    warns=(
        "the index is stale: it names fewer tensors than exist, or others in a shard",
        "there are shards and no index",
        "model.safetensors or shards of another save lie beside the shards",
        "a safetensors header names a dtype that is unknown: the library refuses such a file",
    ),
    fails=(
        "a file is truncated or has trailing bytes, holes, overlaps or an invalid header",
        "a file is something else: a git-LFS pointer, a web page, a pickle, a zip, GGUF",
        "a shard or a tensor of the index is missing, or it names none of the shards",
        "a file of a model or an adapter holds no tensor, or only tensors without a value",
        "the latest checkpoint of a run holds no weights or is damaged",
        "a tensor is in two shards",
        "a header exceeds the limit of the safetensors library",
        "torch.save wrote a legacy file with dtypes that torch.load cannot read in that form",
    ),
    fix="Copy or download the named file again and compare its size with the source's, or save the "
    "checkpoint again.",
    limits="that the values are correct: headers and sizes are compared, not the data.",
    owner=Owner.JOB,
    judge=files_complete,
    required="checkpoint",
    sources=("safetensors-format", "safetensors-668", "huggingface_hub-4728"),
)

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

CHECKS = (COMPLETE, SUPPORTED, CONSISTENT)
