"""Texts that people posted: the right cause comes first, with the remedy that the thread found."""

from __future__ import annotations

import pytest
from pasted_errors import answer, posted_errors

NOT_HELPED = {
    1: {"bmaltais/kohya_ss/issues/1635"},
    4: {
        "NVIDIA/nccl/issues/1611",
        "rinongal/textual_inversion/issues/36",
        "TideDra/lmm-r1/issues/59",
    },
    5: {
        "lm-sys/FastChat/issues/2809",
        "unslothai/unsloth/issues/536",
        "bmaltais/kohya_ss/issues/2526",
        "OpenRLHF/OpenRLHF/issues/1193",
    },
    6: {"deepspeedai/DeepSpeed/issues/3377"},
    7: set(),
    8: set(),
    9: {
        "huggingface/lerobot/issues/2595",
        "Qihoo360/360-LLaMA-Factory/issues/61",
        "hiyouga/LlamaFactory/issues/8521",
        "hiyouga/LlamaFactory/issues/7159",
        "deepspeedai/DeepSpeed/issues/4901",
    },
    10: {"DLR-RM/stable-baselines3/issues/1070"},  # arrays of other programs say the same
    11: set(),
}
"""Threads by set whose texts get a general answer, or a remedy in other words than the label's.
What answers one has to take it off this list."""


@pytest.mark.parametrize("number", sorted(NOT_HELPED))
def test_the_first_cause_is_that_of_the_label_with_the_remedy_of_the_thread(number: int) -> None:
    posted = [each for each in posted_errors() if each["set"] == number]
    missed = {each["address"] for each in posted if not answer(each["text"]).helps(each)}
    assert {each.removeprefix("https://github.com/") for each in missed} == NOT_HELPED[number]


def test_every_text_has_an_address_of_its_own() -> None:
    addresses = [each["address"] for each in posted_errors()]
    assert len(set(addresses)) == len(addresses)
    assert all(each.startswith("https://") for each in addresses)
