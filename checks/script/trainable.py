"""What of an object trains: all of it, or only adapters that are added to it."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.lineage import Lineage
from doctor.checks.script.training import Trained, Training

PEFT = {
    "get_peft_model", "add_adapter", "inject_adapter_in_model", "prepare_model_for_int8_training",
    "prepare_model_for_kbit_training", "LoraModel", "get_peft_model_state_dict", "inject_lora",
    "inject_trainable_lora", "PeftModel",
}  # fmt: skip


def is_peft(reading: Training, trained: Trained) -> bool:
    """Only adapters of it train, or that is possible."""
    lineage = trained.lineage
    if reading.passed(lineage, *PEFT) or reading.on_object(lineage, *PEFT):
        return True
    sink = reading.calls[trained.sink]
    if any(key in sink.keywords for key in ("peft_config", "peft_cfg")):
        return True
    return any(
        reading.calls[n].method in PEFT
        or "PeftModel" in reading.calls[n].name
        or "peft" in reading.calls[n].method.casefold()
        for n in lineage.calls
    )


def is_frozen(reading: Training, lineage: Lineage) -> bool:
    """It is frozen as a whole: what trains was added to it."""
    if any(
        evaluate.truth(
            reading,
            evaluate.argument(reading, reading.calls[n], "requires_grad", 0),
            reading.calls[n],
        )
        is not True
        for n in reading.on_object(lineage, "requires_grad_")
    ):
        return True
    return reading.freezes


def has_adapters(reading: Training) -> bool:
    """The file makes adapters, perhaps for another object or under a condition."""
    return bool(reading.methods(*PEFT, "LoraConfig", "LoRA"))


def trained_whole(reading: Training) -> Iterator[Trained]:
    """Objects that train whole, without adapters and without other owners of fp32 copies."""
    for trained in reading.trained:
        if not is_peft(reading, trained) and not is_frozen(reading, trained.lineage):
            yield trained
