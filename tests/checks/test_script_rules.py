"""Code on which each rule on scripts fires."""

from __future__ import annotations

import pytest
from script_code import ARGS, CLIP, LOAD, codes, hf, plain, scaled

from doctor.checks.script.table import BY_CODE

FIRES = [
    ("clip-without-unscale", "fail", scaled(CLIP)),
    ("clip-without-unscale", "fail", scaled(f"if args.clip: {CLIP}")),
    ("clip-without-unscale", "fail", scaled(CLIP, "scaler.unscale_(optimizer)")),
    (
        "fp16-autocast-no-scaler",
        "fail",
        plain('with torch.autocast("cuda"):', "    loss = model(x)"),
    ),
    (
        "fp16-autocast-no-scaler",
        "fail",
        plain("with torch.cuda.amp.autocast(dtype=torch.float16):", "    loss = model(x)"),
    ),
    (
        "fp16-autocast-no-scaler",
        "fail",
        "from sklearn.preprocessing import StandardScaler\nscaler = StandardScaler()\n"
        "import torch\nwith torch.autocast('cuda'):\n    loss = model(x)\nloss.backward()",
    ),
    (
        "scaler-with-bf16-autocast",
        "warn",
        """
        import torch
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(x)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
    ),
    (
        "backward-in-autocast",
        "warn",
        scaled("with torch.cuda.amp.autocast():", "    loss.backward()"),
    ),
    (
        "backward-in-autocast",
        "warn",
        """
        import contextlib, torch
        context = torch.autocast("cuda") if args.amp else contextlib.nullcontext()
        for x in loader:
            with context:
                model(x).backward()
        """,
    ),
    (
        "scaler-update-missing",
        "fail",
        """
        for x in loader:
            scaler.scale(model(x)).backward()
            scaler.step(optimizer)
        """,
    ),
    (
        "optimizer-step-bypasses-scaler",
        "fail",
        """
        for x in loader:
            scaler.scale(model(x)).backward()
            optimizer.step()
            scaler.update()
        """,
    ),
    (
        "backward-unscaled",
        "fail",
        """
        for x in loader:
            loss = model(x)
            loss.backward()
            scaler.step(optimizer)
            scaler.update()
        """,
    ),
    ("backward-unscaled", "fail", scaled("loss_adv = model(x)", "loss_adv.backward()")),
    (
        "unscale-twice",
        "fail",
        scaled("scaler.unscale_(optimizer)", "scaler.unscale_(optimizer)"),
    ),
    (
        "clip-after-step",
        "warn",
        f"""
        import torch
        for x in loader:
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
            {CLIP}
        """,
    ),
    (
        "bf16-weights-with-scaler",
        "fail",
        hf(LOAD.format(", torch_dtype=torch.bfloat16"), ARGS.format(", fp16=True")),
    ),
    (
        "low-precision-weights",
        "fail",
        hf(LOAD.format(", dtype=torch.float16"), ARGS.format(", fp16=True")),
    ),
    (
        "low-precision-weights",
        "note",
        hf("kwargs = dict(dtype=torch.bfloat16)", LOAD.format(", **kwargs"), ARGS.format("")),
    ),
    (
        "low-precision-weights",
        "fail",
        hf(
            "def load():",
            "    return AutoModelForCausalLM.from_pretrained('x', dtype='float16')",
            "model = load()",
            ARGS.format(""),
        ),
    ),
    ("trainable-low-precision-cast", "fail", plain("model.half()", "loss = model(x)")),
    ("trainable-low-precision-cast", "warn", plain("model.to(torch.bfloat16)", "loss = model(x)")),
    (
        "bf16-without-capability-check",
        "note",
        hf(LOAD.format(""), ARGS.format(", bf16=True")),
    ),
    (
        "emulated-bf16-check",
        "warn",
        hf(LOAD.format(""), ARGS.format(", bf16=torch.cuda.is_bf16_supported()")),
    ),
    (
        "model-loaded-before-dtype-branch",
        "warn",
        hf(
            LOAD.format(", dtype=torch.bfloat16"),
            "dtype = torch.bfloat16",
            "if torch.cuda.get_device_capability()[0] < 8:",
            "    dtype = torch.float16",
            ARGS.format(""),
        ),
    ),
    ("fp16-and-bf16", "fail", hf(LOAD.format(""), ARGS.format(", fp16=True, bf16=True"))),
    (
        "checkpointing-after-peft",
        "fail",
        hf(
            LOAD.format(""),
            "model = get_peft_model(model, LoraConfig())",
            "model.gradient_checkpointing_enable()",
            ARGS.format(""),
        ),
    ),
    (
        "checkpointing-after-peft",
        "fail",
        hf(
            LOAD.format(""),
            "model = get_peft_model(model, LoraConfig())",
            ARGS.format(", gradient_checkpointing=True"),
        ),
    ),
    (
        "peft-fresh-adapter-over-saved",
        "warn",
        hf(
            LOAD.format(""),
            "model = get_peft_model(model, LoraConfig())",
            'model = PeftModel.from_pretrained(model, "adapter")',
            ARGS.format(""),
        ),
    ),
    (
        "cast-after-peft",
        "warn",
        hf(
            LOAD.format(""),
            "model = get_peft_model(model, LoraConfig())",
            "model.to(torch.bfloat16)",
            ARGS.format(""),
        ),
    ),
    (
        "device-map-auto-training",
        "note",
        hf(LOAD.format(', device_map="auto"'), ARGS.format("")),
    ),
    (
        "device-map-auto-training",
        "warn",
        hf("local_rank = 0", LOAD.format(', device_map="auto"'), ARGS.format("")),
    ),
    (
        "flash-attention-unguarded",
        "note",
        hf(LOAD.format(', attn_implementation="flash_attention_2"'), ARGS.format("")),
    ),
    (
        "pad-token-zero",
        "fail",
        hf(
            'tokenizer = AutoTokenizer.from_pretrained("meta-llama/Meta-Llama-3-8B")',
            LOAD.format(""),
            "tokenizer.pad_token_id = 0",
            ARGS.format(""),
        ),
    ),
    (
        "pad-zero-as-missing",
        "warn",
        hf(
            LOAD.format(""),
            "if tokenizer.pad_token_id is None or tokenizer.pad_token_id == 0:",
            "    tokenizer.pad_token = '[PAD]'",
            ARGS.format(""),
        ),
    ),
    (
        "tokens-added-without-resize",
        "warn",
        hf(
            LOAD.format(""),
            'tokenizer.add_special_tokens({"pad_token": "[PAD]"})',
            ARGS.format(""),
        ),
    ),
    (
        "resize-after-peft",
        "warn",
        hf(
            LOAD.format(""),
            "model = get_peft_model(model, LoraConfig())",
            "model.resize_token_embeddings(len(tokenizer))",
            ARGS.format(""),
        ),
    ),
    ("nan-filter-hides-loss", "note", hf(LOAD.format(""), 'args = TrainingArguments("o", tf32=0)')),
    ("compile-unconditional", "note", plain("model = torch.compile(model)", "loss = model(x)")),
    ("log-of-softmax", "warn", plain("loss = torch.log(F.softmax(model(x), -1)).mean()")),
    ("log-of-softmax", "warn", plain("loss = model(x).softmax(-1).log().mean()")),
    (
        "log-of-softmax",
        "warn",
        plain("p = F.softmax(model(x), -1)", "loss = -torch.log(p[:, 0].gather(0, y)).mean()"),
    ),
    ("log-of-sigmoid", "warn", plain("loss = torch.sigmoid(model(x)).log().mean()")),
    ("epsilon-vanishes", "note", plain("model.half()", "loss = model(x)")),
    (
        "anomaly-detection-left-on",
        "warn",
        plain("torch.autograd.set_detect_anomaly(True)", "loss = model(x)"),
    ),
    (
        "tf32-mixed-api",
        "warn",
        plain(
            'torch.backends.cuda.matmul.fp32_precision = "tf32"',
            "torch.backends.cuda.matmul.allow_tf32 = True",
            "loss = model(x)",
        ),
    ),
    (
        "no-op-switch",
        "note",
        plain("torch.backends.cuda.enable_mem_efficient_sdp(True)", "loss = model(x)"),
    ),
    (
        "clip-norm-absurd",
        "warn",
        plain("torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-8)", "loss = model(x)"),
    ),
    (
        "benchmark-beside-deterministic",
        "warn",
        plain(
            "torch.backends.cudnn.deterministic = True",
            "torch.backends.cudnn.benchmark = True",
            "loss = model(x)",
        ),
    ),
    (
        "dataparallel-autocast",
        "warn",
        plain(
            "model = torch.nn.DataParallel(model)",
            'with torch.autocast("cuda", dtype=torch.bfloat16):',
            "    loss = model(x)",
        ),
    ),
    (
        "scheduler-before-step",
        "warn",
        """
        import torch
        optimizer = torch.optim.SGD(model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for x in loader:
            optimizer.zero_grad()
            model(x).backward()
            scheduler.step()
            optimizer.step()
        """,
    ),
    (
        "zero-grad-missing",
        "fail",
        """
        import torch
        optimizer = torch.optim.SGD(model.parameters())
        for x in loader:
            model(x).backward()
            optimizer.step()
        """,
    ),
    (
        "collator-labels",
        "fail",
        """
        from transformers import BertForMaskedLM, DataCollatorForLanguageModeling, Trainer
        def main(tokenizer, config):
            collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
            Trainer(BertForMaskedLM(config), data_collator=collator).train()
        main()
        """,
    ),
    ("loss-detached", "fail", plain("loss = model(x).mean().item()")),
    (
        "eval-left-on",
        "fail",
        """
        import torch
        optimizer = torch.optim.SGD(model.parameters())
        def evaluate(model):
            model.eval()
        model.train()
        for epoch in range(9):
            for x in loader:
                optimizer.zero_grad()
                model(x).backward()
                optimizer.step()
            evaluate(model)
        """,
    ),
    ("deprecated-amp", "note", "from torch.cuda.amp import autocast"),
    ("deprecated-amp", "note", "import torch\nctx = torch.cpu.amp.autocast()"),
    ("version-string-compare", "warn", "import peft\nnew = peft.__version__ >= '0.10.0'"),
    (
        "version-string-compare",
        "warn",
        "import torch\nversion = torch.__version__.split('+')[0]\nif version >= '1.10': pass",
    ),
    (
        "version-string-compare",
        "warn",
        "import torch\nif float(torch.__version__[:3]) >= 1.7: pass",
    ),
]


@pytest.mark.parametrize(("slug", "severity", "code"), FIRES)
def test_a_rule_fires(slug: str, severity: str, code: str) -> None:
    assert codes(code).get(slug) == severity


def test_every_rule_on_code_is_seen_to_fire() -> None:
    seen = {slug for slug, *_ in FIRES} | {"checkpoint-dtype-full-finetune"}
    rules = {rule.slug for rule in BY_CODE.values() if "python" in rule.kinds and not rule.once}
    newer = {rule.slug for rule in BY_CODE.values() if rule.code >= "SCR163"}
    assert rules <= seen | newer  # the examples of the pages show those
