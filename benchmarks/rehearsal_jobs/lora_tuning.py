"""LoRA on a small language model: the adapter is saved and goes on, by Trainer or a loop."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from arguments import options
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from torch.utils.data import DataLoader
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
    get_cosine_schedule_with_warmup,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

WORDS, LENGTH, STEPS, EVERY = 50, 16, 16, 4
LOOP = ("loop", "adapter anew", "unreadable state")


def base_model(folder: Path) -> LlamaForCausalLM:
    """The pretrained model: made by the first start, read by all."""
    if not (folder / "config.json").exists():
        config = LlamaConfig(
            vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=2, max_position_embeddings=LENGTH, initializer_range=0.1,
            use_cache=False, tie_word_embeddings=False,
        )  # fmt: skip
        LlamaForCausalLM(config).save_pretrained(folder)
    return LlamaForCausalLM.from_pretrained(folder)


def answers(count: int) -> list[dict[str, list[int]]]:
    """A prompt of four words, which is no target, and words that count on from its last."""
    generator = torch.Generator().manual_seed(4)
    rows = []
    for prompt in torch.randint(0, WORDS, (count, 4), generator=generator).tolist():
        answer = [(prompt[-1] + 1 + i) % WORDS for i in range(LENGTH - 4)]
        rows.append({"input_ids": prompt + answer, "labels": [-100] * 4 + answer})
    return rows


class AtSignal(TrainerCallback):
    """Ends the training at SIGTERM, with a checkpoint."""

    def __init__(self, whole: bool) -> None:
        self.whole, self.asked = whole, False

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, *_: Any) -> None:
        self.asked = True

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self.asked:
            return
        if self.whole:
            control.should_save = control.should_training_stop = True
        else:
            folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
            kwargs["model"].save_pretrained(folder)
            sys.exit(143)


def by_trainer(model: PeftModel, args: Any) -> None:
    at_signal = AtSignal(whole=args.fault != "adapter alone at the signal")
    handles = args.kind == "whole at the signal" or not at_signal.whole
    arguments = TrainingArguments(
        output_dir=args.out, max_steps=STEPS, per_device_train_batch_size=8, learning_rate=1e-2,
        warmup_steps=2, save_steps=EVERY, save_total_limit=3, logging_steps=2, disable_tqdm=True,
        dataloader_pin_memory=False, label_names=["labels"],
    )  # fmt: skip
    trainer = Trainer(
        model=model, args=arguments, train_dataset=answers(128),
        data_collator=default_data_collator, callbacks=[at_signal] if handles else [],
    )  # fmt: skip
    last = get_last_checkpoint(args.out)
    result = trainer.train(resume_from_checkpoint=last)
    print(f"from {last}: ended at step {trainer.state.global_step}: {result.training_loss:.3f}")
    if at_signal.asked:
        sys.exit(143)
    model.save_pretrained(os.path.join(args.out, "adapter"))


def by_loop(base: LlamaForCausalLM, config: LoraConfig, args: Any) -> None:
    out = Path(args.out)
    saved = sorted(out.glob("step-*"), key=lambda path: int(path.name.split("-")[1]))
    if saved and args.fault != "adapter anew":
        model: Any = PeftModel.from_pretrained(base, saved[-1], is_trainable=True)
    else:
        model = get_peft_model(base, config)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, STEPS)
    step = 0
    if saved:
        state = torch.load(saved[-1] / "state.pt")
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        step = state["step"]
        print(f"goes on from {saved[-1].name}")
    rows = answers(128)
    order = torch.Generator().manual_seed(29 + step)
    model.train()
    while step < STEPS:
        for batch in DataLoader(
            rows, 8, shuffle=True, generator=order, collate_fn=default_data_collator
        ):
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            step += 1
            if step % EVERY == 0:
                partial = out / f"writing-{step}"
                model.save_pretrained(partial)
                state = {"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
                state |= {"step": step, "args": vars(args)}
                if args.fault == "unreadable state":
                    state["args"] = args
                torch.save(state, partial / "state.pt")
                partial.rename(out / f"step-{step}")
                print(f"{step}: {loss.item():.3f}")
            if step >= STEPS:
                break
    print(f"ended at step {step}")


def main() -> None:
    args = options("trainer")
    set_seed(29)
    base = base_model(Path(args.out, "base"))
    config = LoraConfig(
        task_type=TaskType.CAUSAL_LM, r=8, lora_alpha=16, lora_dropout=0.05,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "down_proj"],
        modules_to_save=["lm_head"] if args.kind == "modules to save" else None,
    )  # fmt: skip
    if args.kind in LOOP or args.fault in LOOP:
        by_loop(base, config, args)
        return
    model = get_peft_model(base, config)
    if args.fault == "norms and embedding not saved":
        for name, parameter in model.named_parameters():
            if "norm" in name or "embed" in name:
                parameter.requires_grad_(True)
    model.print_trainable_parameters()
    by_trainer(model, args)


if __name__ == "__main__":
    main()
