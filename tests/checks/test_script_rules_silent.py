"""Code on which rules on scripts stay silent."""

from __future__ import annotations

import pytest
from script_code import ARGS, CLIP, LOAD, codes, hf, plain, scaled

PAD = """def resize(added, tokenizer, model):
        tokenizer.add_special_tokens(added)
        model.resize_token_embeddings(len(tokenizer))
    resize(dict({}="[PAD]"), tokenizer, model)"""
TWICE = """
import torch
for x in loader:
    loss = model(x)
    loss.backward({})
    self.fabric.backward({})
"""

SILENT = [
    (
        "resize-after-peft",
        hf(
            LOAD.format(""),
            "model = get_peft_model(model, LoraConfig())",
            PAD.format("pad_token"),
            ARGS.format(""),
        ),
    ),
    ("backward-raises", TWICE.format("retain_graph=True", "loss")),
    ("backward-raises", TWICE.format("", "other")),
    ("argument-type", "import argparse\nargparse.ArgumentParser().add_argument('--a', type=bool)"),
    (
        "eval-left-on",
        """
        import torch, torchvision
        model = torchvision.models.resnet50()
        for name, parameter in model.named_parameters():
            if name not in ("fc.weight", "fc.bias"):
                parameter.requires_grad = False
        optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), 30.0)
        model.eval()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        """,
    ),
    (
        "loop-stands-still",
        """
        import torch
        for step, x in enumerate(loader):
            model(x).mean().backward()
            optimizer.step()
            if step % 1000:
                torch.save(history, "history.pt")
            else:
                torch.save(model.state_dict(), "last.pt")
        """,
    ),
    (
        "collator-labels",
        """
        import families
        from transformers import BertForMaskedLM, DataCollatorForLanguageModeling, Trainer
        def masked(tokenizer, config):
            collator = DataCollatorForLanguageModeling(tokenizer)
            return Trainer(BertForMaskedLM(config), data_collator=collator)
        def causal(tokenizer):
            collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
            return Trainer(families.model("llama"), data_collator=collator)
        masked().train()
        """,
    ),
    ("clip-without-unscale", scaled("scaler.unscale_(optimizer)", CLIP)),
    ("clip-without-unscale", scaled("if args.clip: scaler.unscale_(optimizer)", CLIP)),
    ("clip-without-unscale", scaled("accelerator.clip_grad_norm_(model.parameters(), 1.0)")),
    (
        "clip-without-unscale",
        f"""
        import torch
        for x in loader:
            loss = model(x)
            if use_amp:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
            else:
                loss.backward()
                {CLIP}
                optimizer.step()
        """,
    ),
    (
        "clip-without-unscale",
        f"""
        import torch
        scaler = torch.amp.GradScaler("cuda", enabled=False)
        for x in loader:
            scaler.scale(model(x)).backward()
            {CLIP}
            scaler.step(optimizer)
            scaler.update()
        """,
    ),
    (
        "fp16-autocast-no-scaler",
        plain('with torch.autocast("cuda", dtype=torch.bfloat16):', "    loss = model(x)"),
    ),
    ("fp16-autocast-no-scaler", plain('with torch.autocast("cpu"):', "    loss = model(x)")),
    ("fp16-autocast-no-scaler", scaled("pass")),
    (
        "fp16-autocast-no-scaler",
        """
        import torch
        def train(x):
            model(x).backward()
        @torch.no_grad()
        def evaluate(x):
            with torch.autocast("cuda"):
                model(x)
        """,
    ),
    (
        "scaler-with-bf16-autocast",
        """
        import torch
        scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
        with torch.autocast("cuda", dtype=dtype):
            loss = model(x)
        scaler.scale(loss).backward()
        """,
    ),
    ("backward-in-autocast", plain("with model.no_sync():", "    loss = model(x)")),
    (
        "backward-in-autocast",
        scaled('with torch.autocast("cuda", enabled=False):', "    loss.backward()"),
    ),
    (
        "backward-in-autocast",
        """
        import contextlib
        with contextlib.nullcontext():
            model(x).backward()
        """,
    ),
    (
        "scaler-update-missing",
        """
        def step():
            scaler.scale(model(x)).backward()
            scaler.step(optimizer)
        def finish():
            scaler.update()
        """,
    ),
    ("unscale-twice", scaled("scaler.unscale_(one)", "scaler.unscale_(two)")),
    ("low-precision-weights", hf(LOAD.format(", dtype=torch.float32"), ARGS.format(""))),
    (
        "low-precision-weights",
        hf(
            LOAD.format(", dtype=torch.bfloat16"),
            "model = get_peft_model(model, LoraConfig())",
            ARGS.format(""),
        ),
    ),
    (
        "low-precision-weights",
        hf(LOAD.format(", dtype=torch.bfloat16, load_in_4bit=True"), ARGS.format("")),
    ),
    (
        "bf16-weights-with-scaler",
        hf(
            LOAD.format(", dtype=torch.bfloat16"),
            "model = get_peft_model(model, LoraConfig())",
            ARGS.format(", fp16=True"),
        ),
    ),
    ("trainable-low-precision-cast", plain("x = x.half()", "loss = model(x)")),
    ("trainable-low-precision-cast", plain("model.half().float()", "loss = model(x)")),
    ("trainable-low-precision-cast", plain("teacher.half()", "loss = model(x) + teacher(x)")),
    (
        "trainable-low-precision-cast",
        plain("model.requires_grad_(False)", "model.half()", "loss = model(x)"),
    ),
    (
        "bf16-without-capability-check",
        hf(LOAD.format(""), ARGS.format(", bf16=torch.cuda.get_device_capability() >= (8, 0)")),
    ),
    ("bf16-without-capability-check", hf(LOAD.format(""), ARGS.format(", bf16=flags.bf16"))),
    (
        "emulated-bf16-check",
        hf(
            LOAD.format(""),
            ARGS.format(", bf16=torch.cuda.is_bf16_supported(including_emulation=False)"),
        ),
    ),
    ("emulated-bf16-check", plain("print(torch.cuda.is_bf16_supported())", "loss = model(x)")),
    (
        "checkpointing-after-peft",
        hf(
            LOAD.format(""),
            "model.gradient_checkpointing_enable()",
            "model = get_peft_model(model, LoraConfig())",
            ARGS.format(""),
        ),
    ),
    (
        "checkpointing-after-peft",
        hf(
            LOAD.format(""),
            "model = get_peft_model(model, LoraConfig())",
            "model.enable_input_require_grads()",
            "model.gradient_checkpointing_enable()",
            ARGS.format(""),
        ),
    ),
    (
        "checkpointing-after-peft",
        hf(
            LOAD.format(""),
            "model = get_peft_model(model, LoraConfig())",
            'kwargs = {"use_reentrant": False}',
            "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=kwargs)",
            ARGS.format(""),
        ),
    ),
    (
        "checkpointing-after-peft",
        hf(
            LOAD.format(""),
            "model = prepare_model_for_kbit_training(model)",
            "model = get_peft_model(model, LoraConfig())",
            ARGS.format(", gradient_checkpointing=True"),
        ),
    ),
    (
        "checkpointing-after-peft",
        hf(
            LOAD.format(""),
            "if lora:",
            "    model = get_peft_model(model, LoraConfig())",
            "else:",
            "    model.gradient_checkpointing_enable()",
            ARGS.format(""),
        ),
    ),
    (
        "cast-after-peft",
        hf(
            LOAD.format(""),
            "model.to(torch.bfloat16)",
            "model = get_peft_model(model, LoraConfig())",
            ARGS.format(""),
        ),
    ),
    (
        "device-map-auto-training",
        hf(
            LOAD.format(""),
            'reward_model = AutoModelForCausalLM.from_pretrained("y", device_map="auto")',
            ARGS.format(""),
        ),
    ),
    (
        "device-map-auto-training",
        hf(LOAD.format(', device_map={"": rank}'), ARGS.format("")),
    ),
    (
        "flash-attention-unguarded",
        hf(
            "attention = 'flash_attention_2' if args.flash else 'sdpa'",
            LOAD.format(", attn_implementation=attention"),
            ARGS.format(""),
        ),
    ),
    (
        "pad-token-zero",
        hf(
            'tokenizer = LlamaTokenizer.from_pretrained("meta-llama/Llama-2-7b")',
            LOAD.format(""),
            "tokenizer.pad_token_id = 0",
            ARGS.format(""),
        ),
    ),
    (
        "tokens-added-without-resize",
        hf(
            LOAD.format(""),
            'tokenizer.add_special_tokens({"pad_token": tokenizer.eos_token})',
            ARGS.format(""),
        ),
    ),
    ("compile-unconditional", plain("if args.compile: model = torch.compile(model)", "loss = 1")),
    ("log-of-softmax", plain("loss = torch.log(F.softmax(model(x), -1) + 1e-8).mean()")),
    ("log-of-softmax", plain("loss = torch.log(F.softmax(model(x), -1).clamp(1e-8)).mean()")),
    ("log-of-softmax", plain("loss = F.log_softmax(model(x), -1).mean()")),
    ("log-of-softmax", plain("p = F.softmax(model(x), -1)", "loss = (p * x.log()).mean()")),
    ("log-of-sigmoid", plain("loss = F.logsigmoid(model(x)).mean()")),
    (
        "anomaly-detection-left-on",
        plain("if args.debug: torch.autograd.set_detect_anomaly(True)", "loss = model(x)"),
    ),
    (
        "anomaly-detection-left-on",
        plain("torch.autograd.set_detect_anomaly(args.debug)", "loss = model(x)"),
    ),
    ("clip-norm-absurd", plain(CLIP, "loss = model(x)")),
    (
        "scheduler-before-step",
        """
        import torch
        optimizer = torch.optim.SGD(model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for x in loader:
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
            scheduler.step()
        """,
    ),
    ("zero-grad-missing", plain("loss = model(x)")),
    ("loss-detached", plain("loss = model(x)", "total = loss.item()")),
    ("loss-detached", plain("loss = model(x).detach().requires_grad_()")),
    (
        "eval-left-on",
        """
        import torch
        optimizer = torch.optim.SGD(model.parameters())
        def evaluate(model):
            model.eval()
        for epoch in range(9):
            model.train()
            for x in loader:
                optimizer.zero_grad()
                model(x).backward()
                optimizer.step()
            evaluate(model)
        """,
    ),
    ("deprecated-amp", "from torch.amp import autocast, GradScaler"),
    (
        "deprecated-amp",
        """
        try:
            from torch.amp import GradScaler
        except ImportError:
            from torch.cuda.amp import GradScaler
        """,
    ),
    ("version-string-compare", "import torch\nif torch.__version__ >= '2': pass"),
    (
        "version-string-compare",
        "from packaging.version import parse\nimport peft\nx = parse(peft.__version__) > y",
    ),
    ("version-string-compare", "import torch\nif int(torch.__version__.split('.')[0]) >= 2: pass"),
    ("version-string-compare", "import torch\nif float(torch.version.cuda.split('.')[0]) > 1: 1"),
]


@pytest.mark.parametrize(("slug", "code"), SILENT)
def test_a_rule_stays_silent(slug: str, code: str) -> None:
    assert slug not in codes(code)


def test_files_that_do_not_train_get_no_rules_on_the_settings_of_a_training() -> None:
    code = """
        import torch, transformers
        from torch.cuda.amp import autocast
        if torch.cuda.is_bf16_supported(): model.half()
        p = torch.log(torch.softmax(x, -1))
        if transformers.__version__ > "4.9": pass
    """
    assert codes(code) == {
        "deprecated-amp": "note",
        "version-string-compare": "warn",
        "log-of-softmax": "warn",
    }


def test_what_complains_beside_them() -> None:
    wrapped = "model = get_peft_model(model, LoraConfig())"
    other = hf(LOAD.format(""), wrapped, PAD.format("bos_token"), ARGS.format(""))
    assert "resize-after-peft" in codes(other)
    twice = TWICE.format("", "loss")
    assert "backward-raises" in codes(f"import lightning\n{twice}")
    assert "backward-raises" in codes(f"from lightning_fabric import Fabric\n{twice}")
    assert "backward-raises" not in codes(twice)  # layers of one's own, maybe
    network = "for g in x:\n    one.backward(delta)\n    other.backward(delta)\n"
    assert "backward-raises" not in codes(f"import torch\n{network}")
    flags = "argparse.ArgumentParser().add_argument('--a', type=bool)"
    assert "argument-type" in codes(f"import argparse, torch\n{flags}")
    assert "argument-type" in codes(f"import argparse\nfrom stable_baselines3 import SAC\n{flags}")
