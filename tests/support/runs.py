"""Small real trainings and the checkpoints they write."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any


def llama(dtype: str = "float32", **changes: Any) -> Any:
    """A Llama of two layers with five norms."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    fields = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "vocab_size": 64,
        "max_position_embeddings": 16,
    }
    return LlamaForCausalLM(LlamaConfig(**{**fields, **changes})).to(getattr(torch, dtype))


def train(
    model: Any,
    folder: Path,
    steps: int = 100,
    rate: float = 3e-4,
    optimizer: Callable[[Any], Any] | None = None,
    **changes: Any,
) -> Path:
    """Train with transformers' Trainer; return the checkpoint's directory."""
    import torch
    from transformers import Trainer, TrainingArguments

    tokens = torch.randint(0, 64, (32, 8), generator=torch.Generator().manual_seed(1))
    logging.getLogger("transformers").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of transformers and accelerate
        arguments = TrainingArguments(
            **{
                "output_dir": str(folder),
                "max_steps": steps,
                "learning_rate": rate,
                "per_device_train_batch_size": 8,
                "logging_steps": 10,
                "save_steps": steps,
                "report_to": [],
                "use_cpu": True,
                "disable_tqdm": True,
                "dataloader_pin_memory": False,
                **changes,
            }
        )
        rows = [{"input_ids": row, "labels": row} for row in tokens]
        custom = optimizer(model.parameters()) if optimizer else None
        Trainer(model, arguments, train_dataset=rows, optimizers=(custom, None)).train()
    return folder / f"checkpoint-{steps}"


def norms_of(model: Any) -> list[Any]:
    """The modules that are norms."""
    return [module for name, module in model.named_modules() if name.endswith("norm")]


def detach_norms(model: Any) -> Any:
    """Imitate a fused kernel that returns no gradient for the weight, as in the real bug."""
    import types

    for norm in norms_of(model):

        def forward(self: Any, x: Any) -> Any:
            scale = x.float().pow(2).mean(-1, keepdim=True).add(1e-6).rsqrt()
            return (x.float() * scale).to(x.dtype) * self.weight.detach()

        norm.forward = types.MethodType(forward, norm)
    return model


def zero_norm_gradients(model: Any) -> Any:
    """Imitate a kernel that returns a zero gradient for the weight."""
    for norm in norms_of(model):
        norm.weight.register_hook(lambda gradient: gradient * 0)
    return model


def freeze_norms(model: Any) -> Any:
    for norm in norms_of(model):
        norm.weight.requires_grad_(False)
    return model
