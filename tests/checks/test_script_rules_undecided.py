"""Code that is unknown without another file or the machine."""

from __future__ import annotations

import pytest
from script_code import ARGS, LOAD, codes, hf, plain

from doctor.facts.script_machine import ScriptMachine

UNKNOWN = [
    (
        "fp16-autocast-no-scaler",
        plain('with torch.autocast("cuda", dtype=args.dtype):', "    loss = model(x)"),
    ),
    (
        "scaler-with-bf16-autocast",
        """
        import torch
        scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x)
        scaler.scale(loss).backward()
        """,
    ),
    (
        "low-precision-weights",
        hf(
            "dtype = torch.float16 if half else torch.float32",
            LOAD.format(", dtype=dtype"),
            ARGS.format(""),
        ),
    ),
    (
        "checkpointing-after-peft",
        hf(
            LOAD.format(""),
            "model = get_peft_model(model, LoraConfig())",
            ARGS.format(", gradient_checkpointing=flags.checkpointing"),
        ),
    ),
    (
        "device-map-auto-training",
        hf(
            "places = 'auto'",
            "if ddp:",
            "    places = {'': rank}",
            LOAD.format(", device_map=places"),
            ARGS.format(""),
        ),
    ),
    (
        "pad-token-zero",
        hf(
            "tokenizer = tokenizer_of(flags.model)",
            LOAD.format("").replace('"x"', "flags.model"),
            "tokenizer.pad_token_id = 0",
            ARGS.format(""),
        ),
    ),
    (
        "tokens-added-without-resize",
        hf(LOAD.format(""), 'tokenizer.add_tokens(["<|user|>"])', ARGS.format("")),
    ),
]


@pytest.mark.parametrize(("slug", "code"), UNKNOWN)
def test_what_another_file_decides_is_unknown(slug: str, code: str) -> None:
    assert codes(code).get(slug) == "unknown"


TITAN = ScriptMachine(capability=(7, 5), transformers="4.57.1", flash_attention=False)

H200 = ScriptMachine(capability=(9, 0), transformers="5.2.0", flash_attention=True)


@pytest.mark.parametrize(
    ("slug", "code", "titan", "h200"),
    [
        (
            "bf16-without-capability-check",
            hf(LOAD.format(""), ARGS.format(", bf16=True")),
            "fail",
            None,
        ),
        (
            "flash-attention-unguarded",
            hf(LOAD.format(', attn_implementation="flash_attention_2"'), ARGS.format("")),
            "fail",
            None,
        ),
        (
            "checkpointing-after-peft",
            hf(
                LOAD.format(""),
                "model = get_peft_model(model, LoraConfig())",
                "model.gradient_checkpointing_enable()",
                ARGS.format(""),
            ),
            "fail",
            "note",
        ),
        ("checkpoint-dtype-full-finetune", hf(LOAD.format(""), ARGS.format("")), None, "warn"),
    ],
)
def test_the_machine_decides(slug: str, code: str, titan: str | None, h200: str | None) -> None:
    assert codes(code, TITAN).get(slug) == titan
    assert codes(code, H200).get(slug) == h200
