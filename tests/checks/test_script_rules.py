"""Each rule on scripts: it fires, it stays silent on its traps, it says when it cannot decide."""

from __future__ import annotations

import textwrap

import pytest

from doctor.checks.script.lint import lint
from doctor.checks.script.table import BY_CODE
from doctor.facts.script_machine import ScriptMachine
from doctor.script.python import read_python

NO_MACHINE = ScriptMachine()


def codes(
    code: str, machine: ScriptMachine = NO_MACHINE, *, path: str = "train.py"
) -> dict[str, str]:
    """slug -> severity of what fires, "unknown" for what is undecided; absences are left out."""
    script = read_python(path, textwrap.dedent(code).encode())
    assert not script.unreadable, script.unreadable
    return {
        BY_CODE[hit.code].slug: "unknown" if hit.undecided else hit.severity
        for hit in lint(script, machine)
        if not BY_CODE[hit.code].once
    }


SCALED = """
    import torch
    def train(model, loader, optimizer, scaler, args):
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            {}
            scaler.step(optimizer)
            scaler.update()
"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
PLAIN = """
    import torch
    from torch import nn
    import torch.nn.functional as F
    model = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    for x in loader:
        {}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
HF = """
    import torch
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training, PeftModel
    {}
    trainer = Trainer(model=model, args=args)
    trainer.train()
"""
ARGS = 'args = TrainingArguments("out", logging_nan_inf_filter=False{})'
LOAD = 'model = AutoModelForCausalLM.from_pretrained("x"{})'


def hf(*lines: str) -> str:
    return HF.format("\n    ".join(lines))


def scaled(*lines: str) -> str:
    return SCALED.format("\n            ".join(lines))


def plain(*lines: str) -> str:
    return PLAIN.format("\n        ".join(lines))


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
        "warn",
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
        "warn",
        hf(LOAD.format(', device_map="auto"'), ARGS.format("")),
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
        "warn",
        """
        import torch
        optimizer = torch.optim.SGD(model.parameters())
        for x in loader:
            model(x).backward()
            optimizer.step()
        """,
    ),
    ("loss-detached", "fail", plain("loss = model(x).mean().item()")),
    (
        "eval-left-on",
        "warn",
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


SILENT = [
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
            "tokenizer = AutoTokenizer.from_pretrained(flags.model)",
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


def test_files_that_do_not_train_get_the_rules_on_deprecation_and_versions_only() -> None:
    code = """
        import torch, transformers
        from torch.cuda.amp import autocast
        model.half()
        p = torch.log(torch.softmax(x, -1))
        if transformers.__version__ > "4.9": pass
    """
    assert codes(code) == {"deprecated-amp": "note", "version-string-compare": "warn"}


def test_every_rule_on_code_is_seen_to_fire() -> None:
    seen = {slug for slug, *_ in FIRES} | {"checkpoint-dtype-full-finetune"}
    rules = {rule.slug for rule in BY_CODE.values() if "python" in rule.kinds and not rule.once}
    assert rules <= seen
