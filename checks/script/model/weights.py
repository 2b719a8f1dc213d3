"""Rules on the dtype in which weights that train are loaded."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import amp, evaluate
from doctor.checks.script.casts import HALVES, cast_dtype, casts_of, load_dtypes, loads_of
from doctor.checks.script.installed import pinned, release
from doctor.checks.script.model.weight_casts import before_training, cast_back
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.trainable import has_adapters, is_frozen, is_peft, trained_whole
from doctor.checks.script.training import Trained, Training
from doctor.facts.script import Call
from doctor.script.fixes import makers
from doctor.script.fixes.makers import Fix


def half_weights(reading: Training) -> Iterator[Match]:
    if reading.has_master_weights:
        return
    fp16, _ = reading.setting("fp16")
    scaler = bool(amp.scaled_backwards(reading)) or fp16 is True
    for trained in trained_whole(reading):
        for number, call in reading.numbered(loads_of(reading, trained)):
            dtypes = load_dtypes(reading, call)
            if not dtypes & HALVES or cast_back(reading, trained.lineage, number):
                continue
            if dtypes == {"bf16"} and scaler:
                continue
            shown = " or ".join(sorted(dtypes & HALVES))
            message = f"the weights are loaded in {shown} and train in it"
            reason = _undecided(reading, trained, dtypes)
            if reason:
                yield Match(call.span, message, undecided=reason)
            else:
                yield Match(call.span, message, "fail" if "fp16" in dtypes else "note")


def _undecided(reading: Training, trained: Trained, dtypes: set[str]) -> str:
    if not dtypes <= HALVES:
        return "a flag decides the dtype"
    if reading.mentions("freeze"):
        return "a part of the model may be frozen"
    if "fp16" not in dtypes and reading.mentions("fsdp", "fullysharded"):
        return "FSDP may keep fp32 copies"
    if trained.trainer and reading.setting("deepspeed")[0] is None:
        return "DeepSpeed or FSDP of the given arguments may keep fp32 copies"
    if has_adapters(reading):
        return "the file can also train adapters"
    return ""


def bf16_with_scaler(reading: Training) -> Iterator[Match]:
    fp16, _ = reading.setting("fp16")
    scaled = any(
        amp.is_off(reading, scaler, reading.calls[n].scope) is not True
        for n, scaler in amp.scaled_backwards(reading)
    )
    if not scaled and fp16 is False:
        return
    for trained in reading.trained:
        if is_peft(reading, trained) or is_frozen(reading, trained.lineage):
            continue
        for number, dtypes in _bf16_sources(reading, trained):
            call = reading.calls[number]
            if cast_back(reading, trained.lineage, number) or "bf16" not in dtypes:
                continue
            message = "bf16 weights train under a GradScaler (fp16)"
            states = {
                amp.is_off(reading, s, reading.calls[n].scope)
                for n, s in amp.scaled_backwards(reading)
            }
            certain = fp16 is True or False in states or not amp.scalers(reading)
            if dtypes == {"bf16"} and certain and (scaled or fp16):
                yield Match(call.span, message)
            else:
                yield Match(call.span, message, undecided="a flag decides dtype or scaler")


def _bf16_sources(reading: Training, trained: Trained) -> Iterator[tuple[int, set[str]]]:
    for number in loads_of(reading, trained):
        yield number, load_dtypes(reading, reading.calls[number])
    for number in casts_of(reading, trained):
        if before_training(reading, number, trained):
            yield number, cast_dtype(reading, reading.calls[number])


def checkpoint_dtype(reading: Training) -> Iterator[Match]:
    version = reading.machine.transformers or pinned(reading, "transformers")
    if version is None or release(version) < (5,):
        return
    if reading.has_master_weights:
        return
    for trained in trained_whole(reading):
        for number in loads_of(reading, trained):
            call = reading.calls[number]
            if load_dtypes(reading, call) or evaluate.unpacks_unknown(reading, call):
                continue
            if not _is_transformers(call) or reading.on_object(trained.lineage, "float"):
                continue
            message = f"transformers {version} loads these weights in the checkpoint's dtype"
            own = reading.script.kind == "notebook" and reading.machine.transformers is None
            reason = "which one it is in is not known here" if own else ""
            yield Match(call.span, message, undecided=reason)


def _is_transformers(call: Call) -> bool:
    return call.name.startswith("transformers.")


def both_precisions(reading: Training) -> Iterator[Match]:
    for number in reading.arguments:
        call = reading.calls[number]
        values = [evaluate.argument(reading, call, key) for key in ("fp16", "bf16")]
        if all(v is not None and evaluate.truth(reading, v, call) is True for v in values):
            yield Match(call.span, "fp16=True and bf16=True exclude each other")


RULES = (
    Rule(
        code="SCR111",
        slug="bf16-weights-with-scaler",
        title="Weights under a GradScaler are fp32",
        severity="fail",
        find=bf16_with_scaler,
        training=True,
        why="A GradScaler cannot unscale bf16 gradients on CUDA: the first step raises "
        "_amp_foreach_non_finite_check_and_unscale_cuda not implemented for BFloat16, on every "
        "GPU.",
        fires=("trainable weights that are bf16 by a literal, and fp16=True or a GradScaler",),
        fix="Load the weights in torch.float32, or train in bf16 without a GradScaler.",
        sources=("titan-why", "ps-P6", "pytorch-127176"),
    ),
    Rule(
        code="SCR112",
        slug="low-precision-weights",
        title="Weights that train are loaded in fp32",
        severity="note",
        find=half_weights,
        training=True,
        why="fp16 weights raise 'Attempting to unscale FP16 gradients' under a GradScaler and "
        "underflow without one. bf16 weights lose updates below half a step of their 8 bits: "
        "norms and other weights may stay unchanged, which many accept for the memory.",
        fires=("from_pretrained in bf16 by a literal, trained whole without fp32 copies",),
        errors=("from_pretrained in fp16 by a literal, trained whole",),
        fix="Load with dtype=torch.float32 and compute in half precision with autocast "
        "(bf16=True or fp16=True).",
        needs=("from_pretrained", "from_config", "from_single_file"),
        sources=("bts-fix2", "fnr-root", "fnr-fix"),
    ),
    Rule(
        code="SCR116",
        slug="checkpoint-dtype-full-finetune",
        title="Weights that train whole are loaded with an explicit dtype",
        severity="warn",
        find=checkpoint_dtype,
        training=True,
        why="transformers 5 loads the checkpoint's dtype by default. A bf16 checkpoint becomes "
        "bf16 weights with no dtype in the script, and training them loses small updates.",
        fires=("transformers 5, from_pretrained without dtype, trained whole",),
        fix="Pass dtype=torch.float32 to from_pretrained.",
        needs=("from_pretrained", "from_config", "from_single_file"),
        sources=("bts-fix2", "fnr-root"),
        limits="that a checkpoint of other files is fp32.",
        fixes=Fix(makers.explicit_dtype, safe=False),
    ),
    Rule(
        code="SCR118",
        slug="fp16-and-bf16",
        title="fp16 and bf16 are not both on",
        severity="fail",
        find=both_precisions,
        why="transformers refuses TrainingArguments with both.",
        fires=("fp16=True and bf16=True in one call",),
        fix="Remove one: bf16 on GPUs of compute capability 8.0 and later, else fp16.",
        sources=("ps-P1",),
        words=("fp16",),
    ),
)
