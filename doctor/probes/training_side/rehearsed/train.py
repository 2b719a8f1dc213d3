"""Train what a factory returns, in small: launch.py 2 training_side.rehearsed.train REQUEST OUTPUT

REQUEST is JSON: {"subject": as for subject/build.py, "device": "cuda", "precision": "bf16",
"recipe": "amp", "shards": 1}. It takes `STEPS` steps, saves in OUTPUT after every `EVERY`, and goes
on from what it finds there. torch.distributed.run may start several ranks of it.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
from typing import Any, Dict, Iterator

import torch

from ... import wire
from ..foreign import Foreign, containers, observing
from ..subject import build, contract, frameworks, loaders, own_model, subjects
from ..subject.training_step import Subject
from . import batches, loops
from .places import EVERY, STEPS, record

DEVICES = {"cuda": "gpu"}
"""torch's name of a device -> Lightning's."""


def main(text: str, output: str) -> None:
    wire.report_to(os.open(os.devnull, os.O_WRONLY))  # nobody reads the stages of a rehearsal
    request: Dict[str, Any] = json.loads(text)
    torch.manual_seed(0)
    device = own_device(request["device"])
    spec = request["subject"]
    if spec["kind"] == "hf":
        loops.Loop(request, build.build(spec, device, request["recipe"]), device, output).train()
        return
    build.seed_generators(spec.get("seed", build.SEED))
    with directories_not_made():
        value = own_model._call_factory(spec)
    if frameworks.is_trainer(value):
        train_by_transformers(value, output)
    elif frameworks.is_lightning(module_of(value)):
        train_by_lightning(value, device, output)
    else:
        train_by_loop(value, request, device, output)


@contextlib.contextmanager
def directories_not_made() -> Iterator[None]:
    """A Trainer makes its directory when it is made itself, before it can be given another one:
    where only OUTPUT is writable, that directory is left out."""
    original = os.makedirs

    def makedirs(*arguments: Foreign, **options: Foreign) -> None:
        try:
            original(*arguments, **options)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise

    os.makedirs = makedirs
    try:
        yield
    finally:
        os.makedirs = original


def own_device(name: str) -> torch.device:
    """The device of this rank."""
    if name.startswith("cuda"):
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        return device
    return torch.device(name)


def module_of(value: Foreign) -> Foreign:
    if isinstance(value, (tuple, list)) and value:
        return value[0]
    return value.get("model") if containers.is_mapping(value) else value


def train_by_transformers(trainer: Foreign, output: str) -> None:
    """Its own train(), with few steps and other directories."""
    from transformers import trainer_utils

    record("how", text="by its Trainer, which saves and resumes", own=True)
    changed = {"output_dir": output, "max_steps": STEPS, "save_steps": EVERY, "push_to_hub": False,
               "save_strategy": "steps", "disable_tqdm": True}  # fmt: skip
    if observing.attribute(trainer, "eval_dataset") is not None:
        changed.update(eval_strategy="steps", eval_steps=EVERY)
    for name, each in changed.items():
        setattr(trainer.args, name, each)
    names: Foreign = trainer_utils
    trainer.train(resume_from_checkpoint=names.get_last_checkpoint(output))
    batches.try_worst(trainer.get_train_dataloader(), frameworks.of_trainer(trainer)["loss"],
                      trainer.model, trainer.args.device)  # fmt: skip


def train_by_lightning(value: Foreign, device: torch.device, output: str) -> None:
    """Lightning's Trainer, of the package that the module's class is from."""
    module = module_of(value)
    base = next(each for each in type(module).__mro__ if each.__name__ == "LightningModule")
    root = base.__module__.split(".")[0]
    package: Any = importlib.import_module("lightning.pytorch" if root == "lightning" else root)
    record("how", text="by Lightning's Trainer with a ModelCheckpoint", own=True)
    keeps = package.callbacks.ModelCheckpoint(
        dirpath=output, every_n_train_steps=EVERY, save_last=True, save_top_k=-1
    )
    trainer = package.Trainer(
        max_steps=STEPS, accelerator=DEVICES.get(device.type, device.type), logger=False,
        devices=int(os.environ.get("WORLD_SIZE", "1")), enable_progress_bar=False,
        callbacks=[keeps], default_root_dir=output, limit_val_batches=2, num_sanity_val_steps=1,
    )  # fmt: skip
    last = os.path.join(output, "last.ckpt")
    loader = None if value is module else contract.fields_of(value).get("batch")
    trainer.fit(module, train_dataloaders=loader, ckpt_path=last if os.path.exists(last) else None)
    loader = loader if loader is not None else module.train_dataloader()
    frameworks.logs_nothing(module)
    module.to(device)  # the Trainer moved it and the optimizers to the CPU at its end
    for optimizer in trainer.optimizers:
        optimizer.load_state_dict(optimizer.state_dict())  # to the device of the parameters
    batches.try_worst(loader, frameworks.lightning_loss, module, device)


def train_by_loop(
    value: Foreign, request: Dict[str, Any], device: torch.device, output: str
) -> None:
    """A loop of the doctor, over the factory's loader, with its `save` and `load`."""
    fields = contract.fields_of(value)
    loader = fields.get("batch")
    parts = contract.parts(value, request["subject"], None)
    module = parts.module
    if request["recipe"] == "pure-bf16":
        module = module.to(dtype=torch.bfloat16)
    module = own_model.placed(module, device)
    subject = Subject(module, subjects.on_device(parts.batch, device), parts.loss, parts.update)
    is_loader = loader is not None and loaders.is_loader(loader)
    loop = loops.Loop(request, subject, device, output, loader if is_loader else None)
    loop.own_save, loop.own_load = fields.get("save"), fields.get("load")
    loop.train()
