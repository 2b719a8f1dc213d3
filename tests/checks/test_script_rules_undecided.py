"""Code that is unknown without another file or the machine."""

from __future__ import annotations

import textwrap

import msgspec
import pytest
from script_code import ARGS, LOAD, codes, hf, plain

from doctor.checks.script.lint import lint
from doctor.checks.script.table import RELEVANT
from doctor.facts.script_machine import ScriptMachine
from doctor.script.python import read_python

ENGINE = """
import deepspeed
engine, optimizer, _, _ = deepspeed.initialize(args=args, model=model)
for x, y in loader:
    loss = criterion(engine(x), y)
    loss.backward()
    engine.step()
"""
ATTEND = """
import torch
def attend(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
loss.backward()
"""

UNKNOWN = [
    ("accelerate-plain-backward", ENGINE),
    ("attention-formula", ATTEND),
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
    (  # the file that is parsed may name a DeepSpeed configuration, which keeps fp32 weights
        "low-precision-weights",
        hf(
            LOAD.format(", torch_dtype=torch.float16"),
            "args, = HfArgumentParser(TrainingArguments).parse_json_file(path)",
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


@pytest.mark.parametrize(
    ("pin", "severity"),
    [
        ("==0.18.2", "warn"),
        ("<0.18.3", "warn"),
        ("<=0.18.3", "unknown"),
        (">=0.16", "unknown"),
        (">=0.18.3", None),
        ("==0.19", None),
    ],
)
def test_the_version_of_deepspeed_decides(pin: str, severity: str | None) -> None:
    script = read_python("train.py", ENGINE.encode(), relevant=RELEVANT)
    hits = lint(msgspec.structs.replace(script, requirements={"deepspeed": pin}), ScriptMachine())
    found = {hit.code: "unknown" if hit.undecided else hit.severity for hit in hits}
    assert found.get("SCR258") == severity


def test_several_gpus_make_a_split_model_slow() -> None:
    code = hf(LOAD.format(', device_map="auto"'), ARGS.format(""))
    slug = "device-map-auto-training"
    assert codes(code, ScriptMachine(gpus=1)).get(slug) == "note"
    assert codes(code, ScriptMachine(gpus=2)).get(slug) == "warn"


def test_what_lightning_lacks_has_a_remedy_of_its_own() -> None:
    code = """
    import lightning as L
    class Lit(L.LightningModule):
        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), self.hparams.lr)
    L.Trainer().fit(Lit(), loader)
    """
    script = read_python("train.py", textwrap.dedent(code).encode(), relevant=RELEVANT)
    [hit] = [hit for hit in lint(script, ScriptMachine()) if hit.code == "SCR385"]
    assert "save_hyperparameters()" in hit.fix


@pytest.mark.parametrize(
    ("path", "first", "found"),
    [
        ("test_train.py", "import pytest", False),
        ("tests/train_test.py", "import unittest", False),
        ("test_train.py", "import os", True),
        ("train.py", "import pytest", True),
    ],
)
def test_a_training_in_a_test_is_no_training(path: str, first: str, found: bool) -> None:
    loop = "for x in loader:\n    loss = model(x)\n    loss.backward()\n    optimizer.step()\n"
    code = f"import torch\n{first}\noptimizer = torch.optim.Adam(model.parameters())\n{loop}"
    assert ("zero-grad-missing" in codes(code, path=path)) is found
