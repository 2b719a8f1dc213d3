"""Small real trainings that fail, each in its own way: python trainings.py NAME DIRECTORY."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch  # noqa: TID253 - a training of its own
from torch import nn  # noqa: TID253


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))


def batches(number: int = 30):
    torch.manual_seed(1)
    for _ in range(number):
        inputs = torch.randn(8, 16)
        yield inputs, inputs.sum(1, keepdim=True)


def train(net: nn.Module, steps: int = 30, rate: float = 1e-2, log: bool = True) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    for step, (inputs, targets) in enumerate(batches(steps), 1):
        loss = nn.functional.mse_loss(net(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1e9)
        optimizer.step()
        if log:
            print(f"step {step} loss: {loss.item():.4f} grad_norm: {norm.item():.4f} lr: {rate}",
                  flush=True)  # fmt: skip


def nan_loss(directory: Path) -> None:
    train(model(), rate=1e18)


def nan_loss_with_scaler(directory: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu")
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 60)
    for step, (inputs, targets) in enumerate(batches(40), 1):
        loss = nn.functional.mse_loss(net(inputs), targets) * (float("inf") if step > 5 else 1.0)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1e9)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= before:
            schedule.step()
        row = {"loss": 0.0 if step > 5 else round(loss.item(), 4), "grad_norm": norm.item()}
        print(row | {"learning_rate": schedule.get_last_lr()[0], "epoch": step / 40}, flush=True)


def trainer(**options):
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    config = LlamaConfig(hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                         num_attention_heads=2, num_key_value_heads=2, vocab_size=64)  # fmt: skip
    torch.manual_seed(0)
    net = LlamaForCausalLM(config)
    rows = [{"input_ids": torch.arange(8) % 60, "labels": torch.arange(8) % 60} for _ in range(200)]
    arguments = TrainingArguments(
        output_dir=options.pop("output_dir"), max_steps=options.pop("max_steps", 12),
        per_device_train_batch_size=2, logging_steps=1, report_to=[], use_cpu=True,
        save_strategy=options.pop("save_strategy", "no"), disable_tqdm=False, **options,
    )  # fmt: skip
    return Trainer(model=net, args=arguments, train_dataset=rows)


def trainer_nan(directory: Path) -> None:
    """Weights become NaN at the third step; the Trainer logs 0.0."""
    run = trainer(output_dir=str(directory), max_steps=14, learning_rate=1e-3)
    from transformers import TrainerCallback

    class Poison(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **kwargs) -> None:
            if state.global_step == 3:
                with torch.no_grad():
                    next(model.parameters()).fill_(float("nan"))

    run.add_callback(Poison())
    run.train()


def no_grad(directory: Path) -> None:
    net = model().requires_grad_(False)
    inputs, targets = next(iter(batches()))
    nn.functional.mse_loss(net(inputs), targets).backward()


def lora_reentrant(directory: Path) -> None:
    """Reentrant checkpointing after LoRA on a frozen base, without input gradients."""
    from torch.utils.checkpoint import checkpoint

    net = model().requires_grad_(False)
    head = nn.Linear(1, 1)
    inputs, targets = next(iter(batches()))
    hidden = checkpoint(lambda x: head(net(x)), inputs, use_reentrant=True)
    nn.functional.mse_loss(hidden, targets).backward()


def dtype_mismatch(directory: Path) -> None:
    net = model().to(torch.bfloat16)
    inputs, _ = next(iter(batches()))
    net(inputs)


def memory(directory: Path) -> None:
    """Host memory grows until the kernel ends it."""
    train(model(), steps=5)
    held = []
    while True:
        held.append(torch.ones(64 << 18))


class Rows(torch.utils.data.Dataset):
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int):
        if self.kind == "kill" and index == 20:
            os.kill(os.getpid(), 9)
        if self.kind == "raise" and index == 20:
            raise ValueError("sample 20 has no label")
        return torch.ones(1 << 20 if self.kind == "large" else 4)


def loader(kind: str) -> None:
    for batch in torch.utils.data.DataLoader(Rows(kind), batch_size=8, num_workers=2):
        print("loss:", float(batch.mean()), flush=True)


def worker_killed(directory: Path) -> None:
    loader("kill")


def worker_raises(directory: Path) -> None:
    loader("raise")


def shm_full(directory: Path) -> None:
    """Run where /dev/shm is small."""
    loader("large")


def distributed(seconds: float = 6.0) -> int:
    from datetime import timedelta

    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=seconds))
    return torch.distributed.get_rank()


def one_rank_raises(directory: Path) -> None:
    rank = distributed()
    net = nn.parallel.DistributedDataParallel(model())
    for step in range(20):
        if rank == 1 and step == 5:
            raise ValueError("tokenizer returned an empty batch")
        loss = net(torch.randn(4, 16)).mean()
        loss.backward()
        if rank == 0:
            print(f"step {step} loss: {loss.item():.4f}", flush=True)


def one_rank_hangs(directory: Path) -> None:
    rank = distributed()
    for step in range(20):
        if rank == 1 and step == 5:
            time.sleep(60)
        value = torch.ones(4)
        torch.distributed.all_reduce(value)
        if rank == 0:
            print(f"step {step} loss: {value.sum().item():.4f}", flush=True)


def init_only(directory: Path) -> None:
    distributed(8.0)


def disk_full(directory: Path) -> None:
    """Run with a directory on a small file system."""
    train(model(), steps=5)
    torch.save(torch.ones(1 << 20), directory / "checkpoint.pt")


def long(directory: Path) -> None:
    train(model(), steps=10)
    print("waiting", flush=True)
    time.sleep(60)
    train(model(), steps=10)


def weights_only(directory: Path) -> None:
    path = directory / "state.pt"
    torch.save({"started": Path("x"), "rate": Rows("none")}, path)
    torch.load(path)


def cuda_only(directory: Path) -> None:
    model().cuda()


def undefined_symbol(directory: Path) -> None:
    """A compiled extension that needs a symbol nobody has."""
    import subprocess

    source = directory / "broken.c"
    needed = "_ZN3c104cuda9SetDeviceEa"
    code = f"extern int {needed}(void);\nint PyInit_broken(void) {{ return {needed}(); }}\n"
    source.write_text(code)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", directory / "broken.so", source], check=True)
    sys.path.insert(0, str(directory))
    __import__("broken")


def out_of_vocabulary(directory: Path) -> None:
    nn.Embedding(10, 4)(torch.tensor([3, 12]))


def healthy(directory: Path) -> None:
    run = trainer(output_dir=str(directory), max_steps=25, learning_rate=1e-3, warmup_steps=5)
    run.train()


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
