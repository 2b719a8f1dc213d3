"""Healthy runs: transformers, Lightning, accelerate."""

from __future__ import annotations

import tempfile
from typing import Any

from .models import STEPS, adamw, batches, cross_entropy, lm


def tiny_llama(**options: Any) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, **options,
        )
    )  # fmt: skip


def hf(
    model: Any = None,
    labels: int | None = None,
    rows: Any = None,
    callbacks: Any = (),
    **options: Any,
) -> Any:
    import torch
    from transformers import Trainer, TrainingArguments

    generator = torch.Generator().manual_seed(0)
    if rows is None:
        rows = []
        for _ in range(256):
            x = torch.randint(0, 64, (16,), generator=generator)
            y = x.clone() if labels is None else torch.full_like(x, labels)
            rows.append({"input_ids": x, "labels": y})
    arguments = TrainingArguments(
        tempfile.mkdtemp(), max_steps=options.pop("max_steps", STEPS),
        per_device_train_batch_size=4, use_cpu=True, report_to=[], save_strategy="no",
        disable_tqdm=True, logging_steps=options.pop("logging_steps", 100),
        learning_rate=options.pop("learning_rate", 1e-3), **options,
    )  # fmt: skip
    trainer = Trainer(
        model or tiny_llama(), arguments, train_dataset=rows, callbacks=list(callbacks)
    )
    trainer.train()
    return trainer


def trainer_fp32() -> None:
    hf()


def trainer_bf16_autocast() -> None:
    hf(bf16=True)


def trainer_accumulation() -> None:
    hf(gradient_accumulation_steps=4)


def trainer_warmup() -> None:
    hf(warmup_steps=30)


def trainer_label_smoothing() -> None:
    hf(label_smoothing_factor=0.1)


def trainer_checkpointing() -> None:
    hf(gradient_checkpointing=True)


def trainer_lora() -> None:
    from peft import LoraConfig, get_peft_model

    hf(get_peft_model(tiny_llama(), LoraConfig(r=4, target_modules=["q_proj", "v_proj"])))


def trainer_adafactor() -> None:
    hf(optim="adafactor", learning_rate=1e-3)


def trainer_packed() -> None:
    import torch

    generator = torch.Generator().manual_seed(0)
    rows = []
    for _ in range(256):
        x = torch.randint(0, 64, (16,), generator=generator)
        y = x.clone()
        y[:8] = -100  # the prompt
        rows.append({"input_ids": x, "labels": y, "position_ids": torch.arange(16) % 8})
    hf(rows=rows)


def trainer_classification() -> None:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=64, num_labels=2,
        )
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    rows = []
    for _ in range(256):
        x = torch.randint(0, 64, (16,), generator=generator)
        rows.append({"input_ids": x, "labels": int(x[0]) % 2})
    hf(model, rows=rows)


def lightning_module(automatic: bool = True) -> Any:
    import pytorch_lightning as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = lm()
            self.automatic_optimization = automatic

        def training_step(self, batch: Any, index: int) -> Any:
            loss = cross_entropy(self.model, *batch)
            if not automatic:
                optimizer = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()
            return loss

        def configure_optimizers(self) -> Any:
            return adamw(self.model)

    return Module()


def lightning_fit(automatic: bool = True, **options: Any) -> None:
    import pytorch_lightning as pl
    import torch

    loader = torch.utils.data.DataLoader(list(batches(STEPS)), batch_size=None)
    pl.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, **options,
    ).fit(lightning_module(automatic), loader)  # fmt: skip


def lightning() -> None:
    lightning_fit()


def lightning_accumulation_clip() -> None:
    lightning_fit(accumulate_grad_batches=2, gradient_clip_val=1.0)


def lightning_manual() -> None:
    lightning_fit(automatic=False)


def accelerate_accumulation() -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = lm()
    model, optimizer = accelerator.prepare(model, adamw(model))
    for x, y in batches(2 * STEPS):
        with accelerator.accumulate(model):
            accelerator.backward(cross_entropy(model, x, y))
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


CLEAN = (
    trainer_fp32,
    trainer_bf16_autocast,
    trainer_accumulation,
    trainer_warmup,
    trainer_label_smoothing,
    trainer_checkpointing,
    trainer_lora,
    trainer_adafactor,
    trainer_packed,
    trainer_classification,
    lightning,
    lightning_accumulation_clip,
    lightning_manual,
    accelerate_accumulation,
)
