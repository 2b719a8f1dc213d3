"""A student learns the features of a frozen teacher; a runner with hooks does the rest."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
from arguments import options
from torch import nn

SIZE, WIDTH, ROWS, BATCH = 24, 32, 96, 12
CONFIG = {"max_iters": 14, "interval": 4, "lr": {"neck": 1e-3, "head": 5e-3}, "pause": 0.1}


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(SIZE, WIDTH), nn.Tanh()).requires_grad_(False)
        self.neck = nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU())
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH))

    def forward(self, x):
        return self.head(self.neck(self.backbone(x.to(self.backbone[0].weight.dtype))))


class Loader:
    """Batches in an order of their own for each epoch; its state is its place."""

    def __init__(self, seed):
        g = torch.Generator().manual_seed(seed)
        self.rows = torch.randn(ROWS, SIZE, generator=g) * 1.2 + 0.3
        self.seed, self.epoch, self.index = seed, 0, 0

    def __next__(self):
        if self.index + BATCH > ROWS:
            self.epoch, self.index = self.epoch + 1, 0
        g = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(ROWS, generator=g)[self.index : self.index + BATCH]
        self.index += BATCH
        return self.rows[order]

    def state_dict(self):
        return {"epoch": self.epoch, "index": self.index}

    def load_state_dict(self, state):
        self.epoch, self.index = state["epoch"], state["index"]


class Hook:
    def before_run(self, runner): ...
    def after_iter(self, runner): ...
    def after_run(self, runner): ...


class LogHook(Hook):
    def after_iter(self, runner):
        print(f"iter {runner.iter}: loss {runner.loss:.4f}", flush=True)


class CheckpointHook(Hook):
    def __init__(self, interval):
        self.interval = interval

    def after_iter(self, runner):
        if self.interval and runner.iter % self.interval == 0:
            runner.save()

    def after_run(self, runner):
        if not self.interval or runner.iter % self.interval:
            runner.save()


class StopHook(Hook):
    """Saves and leaves when asked to."""

    def before_run(self, runner):
        self.asked = False
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, *_):
        self.asked = True

    def after_iter(self, runner):
        if self.asked:
            runner.save()
            sys.exit(0)


class MonitorHook(Hook):
    """Starts a program that watches the machine, and ends it after the run."""

    def before_run(self, runner):
        program = "import time; time.sleep(60)"
        self.child = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)

    def after_run(self, runner):
        self.child.terminate()
        self.child.wait()


class Runner:
    def __init__(self, args, config):
        self.args, self.config, self.iter = args, config, 0
        self.out = Path(args.out)
        self.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(29)
        self.teacher = nn.Sequential(nn.Linear(SIZE, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        self.teacher.requires_grad_(False).eval()
        self.model, self.loader = Student(), Loader(900)
        saved = self.find()
        if saved and args.fault == "buffers lost":
            self.model.load_state_dict(saved["model"], strict=False)
        elif saved:
            self.model.load_state_dict(saved["model"], assign=args.fault == "dtype changed")
        self.optimizer = torch.optim.AdamW(self.groups(bool(saved)), weight_decay=0.01)
        self.schedule = torch.optim.lr_scheduler.PolynomialLR(self.optimizer, 20, power=0.9)
        if saved:
            self.optimizer.load_state_dict(saved["optimizer"])
            self.schedule.load_state_dict(saved["schedule"])
            self.loader.load_state_dict(saved["loader"])
            self.iter = saved["iter"]
            print(f"resumed from iter {self.iter}", flush=True)

    def groups(self, resumes):
        if self.args.kind != "parameter groups" and self.args.fault != "groups exchanged":
            wanted = [p for p in self.model.parameters() if p.requires_grad]
            return [{"params": wanted, "lr": 3e-3}]
        names = ["neck", "head"]
        if resumes and self.args.fault == "groups exchanged":
            names = sorted(names)  # the order of a merged configuration
        rates = self.config["lr"]
        return [{"params": getattr(self.model, n).parameters(), "lr": rates[n]} for n in names]

    def find(self):
        pointer = self.out / "last_checkpoint"
        if not pointer.exists():
            return None
        return torch.load(self.out / pointer.read_text(), map_location="cpu")

    def save(self):
        weights, fault = self.model.state_dict(), self.args.fault
        if fault == "buffers lost":
            weights = {name: p.detach() for name, p in self.model.named_parameters()}
        elif fault == "dtype changed":  # half the space
            weights = {n: w.bfloat16() if w.is_floating_point() else w for n, w in weights.items()}
        content = {
            "model": weights, "optimizer": self.optimizer.state_dict(), "iter": self.iter,
            "schedule": self.schedule.state_dict(), "loader": self.loader.state_dict(),
        }  # fmt: skip
        if fault == "lambda":
            content["config"] = {**self.config, "warmup": lambda done: min(1.0, done / 5)}
        elif fault == "classes refused":
            content["out"] = self.out
        if fault == "torn":
            return self.write_slowly(content)
        name = f"iter_{self.iter}.pth"
        torch.save(content, self.out / f".{name}")
        os.replace(self.out / f".{name}", self.out / name)
        (self.out / ".last").write_text(name)
        os.replace(self.out / ".last", self.out / "last_checkpoint")
        return None

    def write_slowly(self, content):
        """In place, as to a distant disk."""
        memory = io.BytesIO()
        torch.save(content, memory)
        whole = memory.getvalue()
        (self.out / "last_checkpoint").write_text("latest.pth")
        with open(self.out / "latest.pth", "wb") as file:
            for start in range(0, len(whole), len(whole) // 9):
                file.write(whole[start : start + len(whole) // 9])
                file.flush()
                time.sleep(0.03)

    def call(self, moment):
        for hook in self.hooks:
            getattr(hook, moment)(self)

    def run(self, hooks):
        self.hooks = hooks
        self.call("before_run")
        self.model.train()
        while self.iter < self.config["max_iters"]:
            batch = next(self.loader)
            features = self.model(batch)
            loss = nn.functional.mse_loss(features.float(), self.teacher(batch))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            self.iter, self.loss = self.iter + 1, loss.item()
            time.sleep(self.config["pause"])
            self.call("after_iter")
        self.call("after_run")


if __name__ == "__main__":
    arguments = options()
    every = CONFIG["interval"]
    if arguments.fault == "torn":
        every, CONFIG["pause"] = 1, 0.01
    chosen = [LogHook(), CheckpointHook(0 if arguments.kind == "at the end only" else every)]
    if arguments.kind == "exit 0 handler":
        chosen.append(StopHook())
    if arguments.fault == "child left":
        chosen.append(MonitorHook())
    Runner(arguments, CONFIG).run(chosen)
