"""Rules on configuration files of DeepSpeed, accelerate, transformers, axolotl, LLaMA-Factory."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.distributed.batch import settings
from doctor.checks.script.rule import CONFIGURATION, Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Setting


def _on(setting: Setting | None) -> bool:
    return setting is not None and str(setting.value).casefold() in ("true", "1", "yes")


def _both(reading: Training) -> Iterator[Match]:
    results = settings(reading)
    suffix = ".enabled" if reading.script.kind == "deepspeed" else ""
    fp16, bf16 = results.get(f"fp16{suffix}"), results.get(f"bf16{suffix}")
    if fp16 is not None and _on(fp16) and _on(bf16):
        yield Match(fp16.span, "fp16 and bf16 are both on")


def _fixed_scale(reading: Training) -> Iterator[Match]:
    results = settings(reading)
    scale = results.get("fp16.loss_scale")
    if scale is None or not _on(results.get("fp16.enabled")):
        return
    if isinstance(scale.value, int | float) and scale.value > 0:
        yield Match(scale.span, f"loss_scale is fixed at {scale.value:g}")


def _zero3_device_map(reading: Training) -> Iterator[Match]:
    results = settings(reading)
    device_map = results.get("device_map")
    deepspeed = str(results["deepspeed"].value) if "deepspeed" in results else ""
    if device_map is not None and device_map.value and "3" in deepspeed:
        yield Match(device_map.span, "device_map beside ZeRO-3")


def _reentrant_lora(reading: Training) -> Iterator[Match]:
    results = settings(reading)
    reentrant = results.get("gradient_checkpointing_kwargs.use_reentrant")
    adapter = results.get("adapter") or results.get("finetuning_type")
    enabled = results.get("gradient_checkpointing")
    if reading.machine.transformers and not reading.machine.transformers.startswith(("4.", "3.")):
        return
    lora = adapter is not None and str(adapter.value).casefold() in ("lora", "qlora", "dora")
    if lora and reentrant is not None and _on(reentrant) and _on(enabled):
        yield Match(reentrant.span, "reentrant checkpointing beside LoRA")


def _half_weights(reading: Training) -> Iterator[Match]:
    """Weights in bf16 under DeepSpeed's fp16, or trained whole in half precision."""
    results = settings(reading)
    dtype = results.get("torch_dtype") or results.get("dtype") or results.get("model_dtype")
    if dtype is None or str(dtype.value).casefold().removeprefix("torch.") not in (
        "bfloat16",
        "bf16",
    ):
        return
    adapter = results.get("adapter") or results.get("finetuning_type") or results.get("use_peft")
    lora = adapter is not None and str(adapter.value).casefold() not in ("full", "none", "false")
    if not lora and (_on(results.get("fp16")) or _on(results.get("fp16.enabled"))):
        yield Match(dtype.span, "bf16 weights train under a GradScaler (fp16)")


RULES = (
    Rule(
        code="SCR181",
        slug="config-fp16-and-bf16",
        title="One half precision is on",
        severity="fail",
        find=_both,
        why="fp16 and bf16 exclude each other; the library refuses both or takes the first.",
        fires=("fp16 and bf16 are both on in one file",),
        fix="Keep bf16 on GPUs of compute capability 8.0 and later, else fp16.",
        sources=("ps-P1",),
        kinds=CONFIGURATION,
    ),
    Rule(
        code="SCR182",
        slug="config-fixed-loss-scale",
        title="The loss scale is dynamic",
        severity="warn",
        find=_fixed_scale,
        why="DeepSpeed's loss_scale of 0 is dynamic. A fixed number never falls after an overflow: "
        "every later step may be skipped.",
        fires=("fp16.loss_scale above 0 while fp16 is on",),
        fix="Set loss_scale to 0.",
        sources=("ps-P5", "deepspeed-fp16"),
        kinds=("deepspeed",),
    ),
    Rule(
        code="SCR183",
        slug="config-zero3-device-map",
        title="ZeRO-3 places the weights itself",
        severity="fail",
        find=_zero3_device_map,
        why="ZeRO-3 partitions the weights while they load; transformers refuses device_map beside "
        "it.",
        fires=("device_map in a file that names a ZeRO-3 configuration",),
        fix="Remove device_map.",
        sources=("bts-fix5",),
        kinds=("axolotl", "factory", "trainer"),
    ),
    Rule(
        code="SCR184",
        slug="config-reentrant-lora",
        title="Checkpointing beside LoRA is not reentrant",
        severity="warn",
        find=_reentrant_lora,
        why="With transformers below 5, reentrant checkpointing after PEFT needs input gradients, "
        "or the first step raises.",
        fires=("gradient checkpointing with use_reentrant: true and LoRA",),
        fix="Set gradient_checkpointing_kwargs.use_reentrant to false.",
        sources=("cbl-root",),
        kinds=("trainer",),
    ),
    Rule(
        code="SCR185",
        slug="config-bf16-weights-fp16",
        title="Weights under fp16 are loaded in fp32",
        severity="fail",
        find=_half_weights,
        why="A GradScaler cannot unscale bf16 gradients on CUDA.",
        fires=("bf16 weights, trained whole, while fp16 is on",),
        fix="Set the dtype to float32, or bf16 instead of fp16.",
        sources=("titan-why", "pytorch-127176"),
        kinds=CONFIGURATION,
    ),
)
