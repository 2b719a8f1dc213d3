"""A forecaster fed by a stream; a checkpoint says how far the stream was read."""

from __future__ import annotations

import itertools
import json
import signal
import sys
import time
from pathlib import Path

import torch
from arguments import options
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

STEPS, EVERY, BATCH, LENGTH = 14, 4, 10, 24


class Waves(IterableDataset):
    """An endless stream of noisy waves, the same at every start. It knows its position."""

    def __init__(self, batches_before: int = 0, follows: bool = True):
        self.position = 0  # records given so far, with no workers
        self.batches_before = batches_before  # batches taken in earlier runs, with workers
        self.follows = follows

    @staticmethod
    def record(number: int) -> torch.Tensor:
        g = torch.Generator().manual_seed(31 * number + 7)
        phase, pace = 6.28 * torch.rand(1, generator=g), 0.2 + 0.5 * torch.rand(1, generator=g)
        wave = torch.sin(phase + pace * torch.arange(LENGTH + 1))
        return wave + 0.05 * torch.randn(LENGTH + 1, generator=g)

    def __iter__(self):
        worker = get_worker_info()
        if worker is None:
            for number in itertools.count(self.position):
                if self.follows:
                    self.position = number + 1
                yield self.record(number)
        else:  # batches come from the workers in turn
            taken = len(range(worker.id, self.batches_before, worker.num_workers)) * BATCH
            for number in itertools.count(taken):
                yield self.record(number * worker.num_workers + worker.id)

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.GRU(1, 32, batch_first=True)
        self.outer = nn.Linear(32, 1)

    def forward(self, past):
        return self.outer(self.inner(past.unsqueeze(-1))[0]).squeeze(-1)


class Job:
    def __init__(self, args):
        self.args, self.out = args, Path(args.out)
        self.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(17)
        self.step = 0
        self.network = Forecaster()
        self.optimizer = torch.optim.RMSprop(self.network.parameters(), lr=2e-3)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 5, 0.7)
        self.state_file = self.out / "stream.json"
        if args.fault == "outside":
            self.state_file = Path("stream_state.json")

    def save(self):
        content = {
            "network": self.network.state_dict(), "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(), "stream": self.stream.state_dict(),
            "step": self.step,
        }  # fmt: skip
        if self.args.fault == "outside":
            self.state_file.write_text(json.dumps(content.pop("stream")))
        part = self.out / "newest.part"
        torch.save(content, part)
        part.replace(self.out / "newest.ckpt")

    def load(self):
        path = self.out / "newest.ckpt"
        if not path.exists():
            return None
        content = torch.load(path, weights_only=True)
        self.network.load_state_dict(content["network"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.schedule.load_state_dict(content["schedule"])
        self.step = content["step"]
        print(f"continues after step {self.step}", flush=True)
        return content.get("stream") or json.loads(self.state_file.read_text())

    def batches(self):
        state = self.load()
        kind, fault = self.args.kind, self.args.fault
        if kind == "workers":
            self.stream = Waves(batches_before=self.step)
            yield from DataLoader(self.stream, BATCH, num_workers=2, prefetch_factor=2)
        self.stream = Waves(follows=fault != "first batch again")
        loader = DataLoader(self.stream, BATCH)
        if fault == "first batch again":
            while True:
                yield next(iter(loader))
        if kind == "skips ahead":
            yield from itertools.islice(loader, self.step, None)
        if state:
            self.stream.load_state_dict(state)
        if fault == "position lost":  # an epoch of its own for every start
            self.stream = Waves()
            loader = DataLoader(self.stream, BATCH)
        yield from loader

    def slow_end(self, *_):
        print("packing everything before the end", flush=True)
        for _shard in range(90):
            time.sleep(1)
        self.save()
        sys.exit(0)

    def run(self):
        if self.args.fault == "slow handler":
            signal.signal(signal.SIGTERM, self.slow_end)
        self.network.train()
        for batch in self.batches():
            if self.step >= STEPS:
                break
            forecast = self.network(batch[:, :-1])
            loss = nn.functional.smooth_l1_loss(forecast, batch[:, 1:])
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(self.network.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.step += 1
            time.sleep(0.1)
            print(f"step {self.step} loss {loss.item():.4f}", flush=True)
            if self.step % EVERY == 0 or self.step == STEPS:
                self.save()


if __name__ == "__main__":
    Job(options()).run()
