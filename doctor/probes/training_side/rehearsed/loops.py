"""A training loop around a factory's module: ranks, saves, evaluations, and going on."""

from __future__ import annotations

import inspect
import json
import os
from typing import Any, ContextManager, Dict, Iterator

import torch
import torch.distributed as dist

from ..foreign import Foreign
from ..subject import subjects
from ..subject.training_step import (
    DTYPES,
    LR,
    Subject,
    advance,
    autocast,
    backpropagate,
    scaler_of,
)
from . import batches
from .places import EVERY, STEPS, record

EVALUATED = 2
"""Batches of an evaluation."""
STATE = "doctor_state.json"


class Loop:
    """The training of one rank. State is saved by the factory's functions, else as state dicts."""

    def __init__(
        self,
        request: Dict[str, Any],
        subject: Subject,
        device: torch.device,
        output: str,
        loader: Foreign = None,
    ) -> None:
        self.device, self.output, self.loader = device, output, loader
        self.loss, self.batch, self.raw = subject.loss, subject.batch, subject.module
        cast = request["recipe"] != "pure-bf16" and request["precision"] != "fp32"
        self.cast = DTYPES[request["precision"]] if cast else None
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.sharded = request["shards"] > 1 and self.world > 1
        self.own_save: Foreign = None
        self.own_load: Foreign = None
        self.step = 0
        self.module = self.distributed()
        update = subject.update
        self.optimizer: Any = self.optimizer_over(update.optimizer if update else None)
        self.scheduler = update.scheduler if update and not self.sharded else None
        self.limit = update.max_norm if update else None
        self.scaler = scaler_of(device) if request["precision"] == "fp16" else None
        self.batches = self.all_batches()

    @property
    def how(self) -> str:
        """What the report says of the saves."""
        if self.own_save is not None:
            return "in a loop of the doctor, saved by the factory's save"
        kept = "torch.distributed.checkpoint" if self.sharded else "plain state dicts"
        return "in a loop of the doctor, saved as %s: the factory returns no save and load" % kept

    def distributed(self) -> Foreign:
        """The module, wrapped where there are several ranks and the factory did not wrap it."""
        self.raw.train()
        if self.world == 1:
            return self.raw
        if not dist.is_initialized():
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")
        wrapped = any(hasattr(p, "device_mesh") for p in self.raw.parameters())
        if wrapped or type(self.raw).__name__ == "DistributedDataParallel":
            return self.raw
        if self.sharded:
            from torch.distributed.fsdp import fully_shard

            return fully_shard(self.raw)
        return torch.nn.parallel.DistributedDataParallel(self.raw)

    def optimizer_over(self, own: Foreign) -> Foreign:
        """The factory's optimizer, made again where sharding replaced the parameters."""
        trained = [p for p in self.raw.parameters() if p.requires_grad]
        if own is None:
            return torch.optim.AdamW(trained, lr=LR, weight_decay=0.0)
        if not self.sharded:
            return own
        known = inspect.signature(type(own)).parameters
        return type(own)(trained, **{n: v for n, v in own.defaults.items() if n in known})

    def all_batches(self) -> Iterator[Foreign]:
        """Endless; each rank takes its own of the loader's."""
        rank = int(os.environ.get("RANK", "0"))
        while self.loader is not None:
            count = 0
            for count, batch in enumerate(self.loader, 1):
                if count % self.world == rank:
                    yield subjects.on_device(batch, self.device)
            if count < self.world:
                break  # an iterator that is used up, or a rank without a batch
        while True:
            yield self.batch

    def train(self) -> None:
        """To the last step."""
        record("how", text=self.how, own=False)
        self.load()
        while self.step < STEPS:
            self.train_step(next(self.batches))
            self.step += 1
            if self.step % EVERY == 0:
                self.evaluate()
                self.save()
        if self.loader is not None:
            batches.try_worst(self.loader, self.loss, self.raw, self.device, self.autocast)
        if dist.is_initialized():
            dist.destroy_process_group()

    def autocast(self) -> ContextManager[None]:
        return autocast(self.device, self.cast)

    def train_step(self, batch: Foreign) -> None:
        with self.autocast():
            loss = self.loss(self.module, batch)
        backpropagate(self.scaler.scale(loss) if self.scaler else loss)
        if self.limit is not None:
            if self.scaler:
                self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.raw.parameters(), self.limit)
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        if self.scheduler is not None:
            advance(self.scheduler, float(loss.detach()))
        self.optimizer.zero_grad(set_to_none=True)

    def evaluate(self) -> None:
        """The loss of some batches, as an evaluation computes it."""
        self.raw.eval()
        with torch.no_grad(), self.autocast():
            for _ in range(EVALUATED):
                self.loss(self.module, next(self.batches))
        self.raw.train()

    # Saving and going on

    def save(self) -> None:
        place = os.path.join(self.output, "step-%05d" % self.step)
        first = not dist.is_initialized() or dist.get_rank() == 0
        os.makedirs(place, exist_ok=True)
        if self.own_save is not None:
            self.own_save(place)
        elif self.sharded:
            from torch.distributed import checkpoint

            dcp: Foreign = checkpoint
            dcp.save(self.shards(), checkpoint_id=place)
        elif first:
            torch.save(self.state(), os.path.join(place, "training.pt"))
        if dist.is_initialized():
            dist.barrier()
        if first:
            path = os.path.join(self.output, STATE)
            with open(path + ".new", "w") as file:
                json.dump({"step": self.step, "place": os.path.basename(place)}, file)
            os.replace(path + ".new", path)

    def load(self) -> None:
        path = os.path.join(self.output, STATE)
        if not os.path.exists(path):
            return
        with open(path) as file:
            held = json.load(file)
        place = os.path.join(self.output, held["place"])
        self.step = held["step"]
        if self.own_save is not None:
            if self.own_load is not None:
                self.own_load(place)
        elif self.sharded:
            self.load_shards(place)
        else:
            path = os.path.join(place, "training.pt")  # this loop wrote it
            state = torch.load(path, map_location="cpu", weights_only=False)
            self.raw.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            for name, each in self.others().items():
                each.load_state_dict(state[name])

    def others(self) -> Dict[str, Any]:
        """What has a state beside the model and the optimizer."""
        pairs = (("scheduler", self.scheduler), ("scaler", self.scaler))
        return {name: each for name, each in pairs if hasattr(each, "state_dict")}

    def state(self) -> Dict[str, Any]:
        held = {name: each.state_dict() for name, each in self.others().items()}
        return {"model": self.raw.state_dict(), "optimizer": self.optimizer.state_dict(), **held}

    def shards(self) -> Dict[str, Any]:
        from torch.distributed.checkpoint.state_dict import get_state_dict

        weights, moments = get_state_dict(self.raw, self.optimizer)
        return {"model": weights, "optimizer": moments}

    def load_shards(self, place: str) -> None:
        from torch.distributed import checkpoint
        from torch.distributed.checkpoint.state_dict import set_state_dict

        dcp: Foreign = checkpoint
        held = self.shards()
        dcp.load(held, checkpoint_id=place)
        set_state_dict(self.raw, self.optimizer, model_state_dict=held["model"],
                       optim_state_dict=held["optimizer"])  # fmt: skip
