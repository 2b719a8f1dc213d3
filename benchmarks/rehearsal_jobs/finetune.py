"""Trainers of TRL on a tiny model; needs trl and datasets."""

from __future__ import annotations

import os
from typing import Any

import torch
from arguments import options
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from transformers.trainer_utils import get_last_checkpoint
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

args = options("sft", resume_from_checkpoint="")
kind, fault = args.kind, args.fault
torch.manual_seed(0)
words = {word: number for number, word in enumerate(["<pad>", "<eos>", *map(str, range(60))])}
inner = Tokenizer(WordLevel(words, unk_token="<pad>"))
inner.pre_tokenizer = Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")
config = GPT2Config(vocab_size=62, n_positions=32, n_embd=16, n_layer=1, n_head=2,
                    bos_token_id=1, eos_token_id=1)  # fmt: skip
model: Any = GPT2LMHeadModel(config)
lora = LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM")
common: dict[str, Any] = {
    "output_dir": args.out, "max_steps": 8, "save_steps": 3, "per_device_train_batch_size": 2,
    "use_cpu": True, "bf16": False, "report_to": [], "disable_tqdm": True, "max_length": 16,
    "logging_steps": 2, "eval_strategy": "steps", "eval_steps": 4, "gradient_checkpointing": False,
}  # fmt: skip


class Loses(SFTTrainer):
    def _load_from_checkpoint(self, *arguments: Any, **named: Any) -> None:
        if fault != "adapter":
            super()._load_from_checkpoint(*arguments, **named)


if kind == "dpo":
    rows = [{"prompt": "1 2 3", "chosen": f"4 {i}", "rejected": f"5 {i}"} for i in range(40)]
    data = Dataset.from_list(rows)
    trainer: Any = DPOTrainer(model, GPT2LMHeadModel(config), args=DPOConfig(**common), train_dataset=data,
                              eval_dataset=data.select(range(4)), processing_class=tokenizer)  # fmt: skip
else:
    field = "text" if fault != "field" else "content"
    data = Dataset.from_list([{field: f"{i % 50} 1 2 3 {i % 7} <eos>"} for i in range(40)])
    peft = lora if kind == "lora" or fault == "adapter" else None
    trainer = Loses(model, args=SFTConfig(**common), train_dataset=data, peft_config=peft,
                    eval_dataset=data.select(range(4)), processing_class=tokenizer)  # fmt: skip
last = get_last_checkpoint(args.out) if os.path.isdir(args.out) else None
trainer.train(resume_from_checkpoint=None if fault == "flag without effect" else last)
