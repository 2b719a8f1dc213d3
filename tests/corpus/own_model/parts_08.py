"""Parts that the factories of set 8 share."""

from __future__ import annotations

import io
import tempfile

import torch
from blocks import CLASSES, MLP, points
from blocks import classify as classify_points
from torch import nn


def row(index):
    return {"x": torch.randn(8), "y": index % CLASSES}


def classify(model, batch):
    return nn.functional.cross_entropy(model(batch["x"]), batch["y"])


def trained(model, optimizer=None, **others):
    return {
        "model": model,
        "batch": points(),
        "loss": classify_points,
        "optimizer": optimizer,
        **others,
    }


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


SMALL = {"vocab_size": 61, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 2, "num_key_value_heads": 2}  # fmt: skip


def causal(**changes):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**SMALL, **changes))


def classifier(**changes):
    from transformers import LlamaConfig, LlamaForSequenceClassification

    return LlamaForSequenceClassification(LlamaConfig(**SMALL, **changes))


def words(samples=2, length=7):
    return torch.randint(61, (samples, length))


def trainer(model, rows, **others):
    from transformers import Trainer, TrainingArguments

    directory = tempfile.mkdtemp(prefix="doctor-corpus-")
    arguments = TrainingArguments(directory, per_device_train_batch_size=2, report_to=[],
                                  use_cpu=True, **others)  # fmt: skip
    return Trainer(model=model, args=arguments, train_dataset=rows)


def lightning(**methods):
    import pytorch_lightning

    def init(self):
        pytorch_lightning.LightningModule.__init__(self)
        self.net = MLP()

    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    defaults = {
        "__init__": init,
        "training_step": training_step,
        "train_dataloader": lambda self: [points()],
        "configure_optimizers": lambda self: torch.optim.AdamW(self.parameters(), lr=1e-3),
    }
    return type("Lit", (pytorch_lightning.LightningModule,), defaults | methods)()
