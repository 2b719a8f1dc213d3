"""Healthy runs of libraries that the tests do not need: run by name where they are installed.

trl, deepspeed, timm, diffusers, sentence-transformers, open_clip: models from a configuration, data
made here, no hub.
"""

from __future__ import annotations

import os
import random
import tempfile
from typing import Any

from .models import STEPS, batches
from .trainers import tiny_llama

WORDS = [f"w{number}" for number in range(56)]


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *WORDS])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )


def text(count: int = 6) -> str:
    return " ".join(random.choices(WORDS, k=count))


def arguments(kind: Any, **options: Any) -> Any:
    return kind(
        output_dir=tempfile.mkdtemp(), max_steps=STEPS, per_device_train_batch_size=4,
        use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=100,
        bf16=False, **options,
    )  # fmt: skip


def trl_sft() -> None:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    rows = Dataset.from_list([{"text": text(12)} for _ in range(200)])
    SFTTrainer(
        tiny_llama(), arguments(SFTConfig, max_length=32), train_dataset=rows,
        processing_class=tokenizer(),
    ).train()  # fmt: skip


def trl_sft_packed_completions() -> None:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    rows = Dataset.from_list([{"prompt": text(), "completion": text()} for _ in range(400)])
    options = arguments(SFTConfig, max_length=32, completion_only_loss=True, learning_rate=1e-4)
    SFTTrainer(tiny_llama(), options, train_dataset=rows, processing_class=tokenizer()).train()


def trl_dpo() -> None:
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    rows = Dataset.from_list(
        [{"prompt": text(), "chosen": text(), "rejected": text()} for _ in range(200)]
    )
    options = arguments(DPOConfig, max_length=32)
    DPOTrainer(
        tiny_llama(), tiny_llama(), options, train_dataset=rows, processing_class=tokenizer()
    ).train()


def trl_grpo() -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    def reward(completions: Any, **fields: Any) -> list[float]:
        return [float(completion.count("w1")) for completion in completions]

    rows = Dataset.from_list([{"prompt": text()} for _ in range(200)])
    options = arguments(GRPOConfig, num_generations=4, max_completion_length=8)
    GRPOTrainer(
        tiny_llama(), reward, options, train_dataset=rows, processing_class=tokenizer()
    ).train()


def deepspeed_zero(stage: int) -> None:
    import deepspeed
    import torch

    environ = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    os.environ.update(environ, MASTER_PORT=str(29600 + stage + os.getpid() % 1000))
    deepspeed.init_distributed("gloo")
    settings = {
        "train_micro_batch_size_per_gpu": 4,
        "bf16": {"enabled": stage > 0},
        "zero_optimization": {"stage": stage},
        "gradient_clipping": 1.0,
    }
    model = tiny_llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    for x, _ in batches():
        engine.backward(engine(input_ids=x, labels=x).loss)
        engine.step()


def deepspeed_0() -> None:
    deepspeed_zero(0)


def deepspeed_1() -> None:
    deepspeed_zero(1)


def deepspeed_2() -> None:
    deepspeed_zero(2)


def timm_vit_lamb_ema() -> None:
    import timm
    import torch
    from timm.optim import create_optimizer_v2
    from timm.scheduler import CosineLRScheduler
    from timm.utils import ModelEmaV3, NativeScaler

    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=16, depth=2, num_classes=4
    )
    optimizer = create_optimizer_v2(model, opt="lamb", lr=1e-3, weight_decay=0.01)
    schedule = CosineLRScheduler(optimizer, STEPS, warmup_t=10, warmup_lr_init=1e-6)
    average, scaler = ModelEmaV3(model), NativeScaler("cpu")
    for step in range(STEPS):
        x = torch.randn(4, 3, 32, 32)
        loss = torch.nn.functional.cross_entropy(model(x), x.mean((1, 2, 3)).gt(0).long())
        optimizer.zero_grad()
        scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        average.update(model, step=step)
        schedule.step(step)


def timm_resnet_sgd() -> None:
    import timm
    import torch

    model = timm.create_model("resnet10t", num_classes=4)
    optimizer = timm.optim.create_optimizer_v2(model, opt="sgd", lr=0.05, momentum=0.9)
    for _ in range(STEPS):
        x = torch.randn(4, 3, 32, 32)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), x.mean((1, 2, 3)).gt(0).long()).backward()
        optimizer.step()


def diffusers_unet() -> None:
    import torch
    from accelerate import Accelerator
    from diffusers import DDPMScheduler, UNet2DModel
    from diffusers.optimization import get_cosine_schedule_with_warmup
    from diffusers.training_utils import EMAModel

    model = UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1,
        block_out_channels=(8, 8), norm_num_groups=4, attention_head_dim=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    accelerator, noise_schedule = Accelerator(cpu=True), DDPMScheduler(100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    schedule = get_cosine_schedule_with_warmup(optimizer, 20, STEPS)
    average = EMAModel(model.parameters())
    model, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
    for _ in range(STEPS):
        clean, noise = torch.randn(4, 1, 8, 8), torch.randn(4, 1, 8, 8)
        when = torch.randint(0, 100, (4,))
        with accelerator.accumulate(model):
            predicted = model(noise_schedule.add_noise(clean, noise, when), when).sample
            accelerator.backward(torch.nn.functional.mse_loss(predicted, noise))
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        average.step(model.parameters())


def sentence_transformers_pairs() -> None:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
        losses,
    )
    from sentence_transformers import models as modules
    from transformers import BertConfig, BertModel

    path = tempfile.mkdtemp()
    tokenizer().save_pretrained(path)
    BertModel(
        BertConfig(
            vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=64,
        )
    ).save_pretrained(path)  # fmt: skip
    words = modules.Transformer(path)
    model = SentenceTransformer(modules=[words, modules.Pooling(32)], device="cpu")
    rows = Dataset.from_list([{"anchor": text(), "positive": text()} for _ in range(400)])
    SentenceTransformerTrainer(
        model, arguments(SentenceTransformerTrainingArguments), train_dataset=rows,
        loss=losses.MultipleNegativesRankingLoss(model),
    ).train()  # fmt: skip


def open_clip_tiny() -> None:
    import torch
    from open_clip import ClipLoss
    from open_clip.model import CLIP

    vision = {"layers": 2, "width": 64, "patch_size": 16, "image_size": 32}
    words = {"context_length": 8, "vocab_size": 64, "width": 32, "heads": 4, "layers": 2}
    model, loss = CLIP(32, vision, words), ClipLoss()
    gains = [p for p in model.parameters() if p.ndim < 2]
    others = [p for p in model.parameters() if p.ndim >= 2]
    optimizer = torch.optim.AdamW(
        [{"params": gains, "weight_decay": 0.0}, {"params": others, "weight_decay": 0.2}],
        lr=5e-4, betas=(0.9, 0.98), eps=1e-6,
    )  # fmt: skip
    for _ in range(STEPS):
        image, tokens = torch.randn(8, 3, 32, 32), torch.randint(0, 64, (8, 8))
        optimizer.zero_grad()
        out = model(image, tokens)
        loss(out[0], out[1], out[2]).backward()
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, 4.6052)


CLEAN = (
    trl_sft, trl_sft_packed_completions, trl_dpo, trl_grpo, deepspeed_0, deepspeed_1, deepspeed_2,
    timm_vit_lamb_ema, timm_resnet_sgd, diffusers_unet, sentence_transformers_pairs, open_clip_tiny,
)  # fmt: skip
