"""Adapters that are merged into weights which were rounded before."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.lineage import lineage_of, lineage_of_value
from doctor.checks.script.model.adapters import is_quantized
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

SAVES = ("save_pretrained", "push_to_hub")


def merged_into_rounded(reading: Training) -> Iterator[Match]:
    """PeftModel.from_pretrained(model in 4 bits).merge_and_unload().save_pretrained()."""
    for number, call in reading.numbered(reading.methods("merge_and_unload")):
        wraps = [
            made
            for made in objects.makers_at(reading, objects.receiver_of(call), call)
            if made is not None and made.name.startswith("peft.") and made.first is not None
        ]
        bases = wraps + [
            reading.calls[n]
            for made in wraps
            for n in lineage_of_value(reading, made.args[0], made.scope, reading.number(made)).calls
        ]
        saved = any(
            save.receiver and number in lineage_of(reading, save.receiver, save.scope, n).calls
            for n, save in reading.numbered(reading.methods(*SAVES))
        )
        if saved and any(is_quantized(reading, base) for base in bases):
            message = "the adapter is merged into rounded weights, and they are saved"
            fix = "Load the base without quantization_config, in bfloat16, for the merge."
            yield Match(call.span, message, fix=fix)
