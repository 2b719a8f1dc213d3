"""The training in an object of Lightning or of transformers, as the fields that contract.py reads.

The objects are recognized by their methods, so that neither library is imported.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from typing import Any, Dict, List, Tuple

import torch

from ... import wire
from ..foreign import Foreign, observing
from . import manual_steps, subjects

# Lightning


def is_lightning(module: Foreign) -> bool:
    return all(observing.has(module, n) for n in ("training_step", "configure_optimizers"))


def logs_nothing(module: Foreign) -> None:
    """Without a running Trainer, which its log() needs."""
    for name in ("log", "log_dict"):
        setattr(module, name, lambda *arguments, **options: None)


def of_lightning(fields: Dict[str, Any]) -> Dict[str, Any]:
    """A LightningModule: its training_step, its loader and the optimizer it configures."""
    module = fields["model"]
    manual = not observing.attribute(module, "automatic_optimization", True)
    logs_nothing(module)
    complete = dict(fields)
    if manual and fields.get("loss") is None:
        complete.update(manual_optimizers(module))
    elif fields.get("loss") is None:
        complete["loss"] = lightning_loss
    if "batch" not in fields:
        try:
            complete["batch"] = iter(module.train_dataloader())  # a list of batches is a loader too
        except Exception as error:
            raise subjects.NotAFactory(
                "the LightningModule gives no batch (train_dataloader: %s); return (module, batch)"
                % wire.describe(error)
            ) from error
    if "optimizer" not in complete:
        complete.update(lightning_optimizer(module))
    return complete


def manual_optimizers(module: Foreign) -> Dict[str, Any]:
    """The optimizers that training_step steps itself, as one, and it as a loss."""
    parts, configured = configured_of(module.configure_optimizers())
    schedules = [each["scheduler"] if isinstance(each, dict) else each for each in configured]
    if not parts:
        raise subjects.NotAFactory(
            "configure_optimizers returned no optimizer, and automatic_optimization is False"
        )
    optimizer = manual_steps.named(parts, schedules)
    manual_steps.attach(module, optimizer)
    return {"optimizer": optimizer, "loss": manual_steps.loss_of(optimizer)}


def configured_of(value: Foreign) -> Tuple[List[Any], List[Any]]:
    """Optimizers, and schedules or dicts with one, in what configure_optimizers returned."""
    schedules: List[Any] = []
    if isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[1], (list, tuple)):
        value, schedules = value[0], list(value[1])
    optimizers: List[Any] = []
    for each in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(each, dict):
            schedules += [each["lr_scheduler"]] if "lr_scheduler" in each else []
            each = each.get("optimizer")
        optimizers += [each] if isinstance(each, torch.optim.Optimizer) else []
    return optimizers, schedules


def lightning_loss(module: Foreign, batch: Foreign) -> Foreign:
    names = list(inspect.signature(module.training_step).parameters)
    output = module.training_step(batch, 0) if len(names) > 1 else module.training_step(batch)
    if observing.has(output, "items") and "loss" not in output:
        raise TypeError("training_step returned no loss but %s; Lightning takes it from the key "
                        "'loss'" % subjects.described(output))  # fmt: skip
    return output


lightning_loss.doctor_source = "training_step"  # type: ignore[attr-defined]


FRAMEWORKS = ("lightning", "pytorch_lightning", "torch")
EARLIER_HOOKS = ("setup", "prepare_data", "configure_model", "on_fit_start")
"""What Lightning calls before configure_optimizers."""


def lightning_optimizer(module: Foreign) -> Dict[str, Any]:
    """The single optimizer that configure_optimizers returns, with its schedule."""
    try:
        configured = module.configure_optimizers()
    except Exception as error:
        if not needs_trainer(module, error):
            raise
        note = "configure_optimizers raised %s, so AdamW was used" % wire.describe(error)
        return {"notes": (note,)}
    optimizers, schedules = configured_of(configured)
    if len(optimizers) == 1:
        return {"optimizer": optimizers[0], "scheduler": _per_step(schedules)}
    if configured is None or (isinstance(configured, dict) and not optimizers):
        return {"notes": ("configure_optimizers returned None, so AdamW was used: Lightning trains "
                          "nothing then",)}  # fmt: skip
    require_one(module, len(optimizers))
    return {"notes": ("configure_optimizers returned several optimizers, so AdamW was used",)}


def require_one(module: Foreign, count: int) -> None:
    """Raise NotAFactory for several optimizers that Lightning is to step."""
    if count > 1 and is_of_lightning_2(module):
        raise subjects.NotAFactory(
            "configure_optimizers returned %d optimizers, and automatic_optimization is True; "
            "Lightning raises: Training with multiple optimizers is only supported with manual "
            "optimization" % count
        )


def is_of_lightning_2(module: Foreign) -> bool:
    """Whether the module is one of Lightning 2, which steps one optimizer."""
    for base in type(module).__mro__:
        root = sys.modules.get(base.__module__.split(".")[0])
        if base.__name__ == "LightningModule" and root is not None:
            version = str(observing.attribute(root, "__version__", ""))
            return version.partition(".")[0].isdigit() and int(version.partition(".")[0]) >= 2
    return False


def needs_trainer(module: Foreign, error: Exception) -> bool:
    """Whether the code reads the Trainer, or may read what its hooks prepare."""
    lines = [frame.line or "" for frame in traceback.extract_tb(error.__traceback__)]
    if any("trainer" in line for line in lines):
        return True
    own = (base for base in type(module).__mro__ if base.__module__.split(".")[0] not in FRAMEWORKS)
    return any(name in vars(base) for base in own for name in EARLIER_HOOKS)


def _per_step(schedulers: List[Any]) -> Foreign:
    """The schedule that steps with every batch; one of epochs does not step here."""
    for each in schedulers:
        if isinstance(each, dict) and each.get("interval", "epoch") == "step":
            return each.get("scheduler")
    return None


# transformers


def is_trainer(value: Foreign) -> bool:
    names = ("compute_loss", "get_train_dataloader", "model")
    return all(observing.has(value, name) for name in names)


def of_trainer(trainer: Foreign) -> Dict[str, Any]:
    """A transformers Trainer: its first batch, loss, optimizer, schedule and clipping."""
    steps = getattr(trainer.args, "max_steps", 0)
    trainer.create_optimizer_and_scheduler(num_training_steps=steps if steps > 0 else 1000)
    limit = getattr(trainer.args, "max_grad_norm", None)

    counts = _counts_items(trainer)

    def loss(module: Foreign, batch: Foreign) -> Foreign:
        inputs = dict(batch)
        if not counts:
            return trainer.compute_loss(module, inputs)
        device = next(module.parameters()).device
        items = observing.attempt(lambda: trainer._get_num_items_in_batch([inputs], device), None)
        return trainer.compute_loss(module, inputs, num_items_in_batch=items)

    loss.doctor_source = "compute_loss"  # type: ignore[attr-defined]
    loader = trainer.get_train_dataloader()
    wire.send(note={"own": {"removed_columns": _removed_columns(trainer)}})
    if any(observing.attribute(trainer.args, name, False) for name in ("bf16", "fp16")):
        wire.send(note={"own": {"half_asked": "the arguments of the Trainer"}})

    return {
        "model": trainer.model,
        "batch": loader,
        "loss": loss,
        "optimizer": trainer.optimizer,
        "scheduler": trainer.lr_scheduler,
        "max_grad_norm": limit if limit else None,  # the Trainer does not clip at 0
    }


def _counts_items(trainer: Foreign) -> bool:
    """Whether its training_step passes num_items_in_batch to compute_loss, since 4.46."""
    for base in type(trainer).__mro__:
        method = vars(base).get("compute_loss")
        if method is not None and base.__module__ == "transformers.trainer":
            return "num_items_in_batch" in inspect.signature(method).parameters
    return False


def _removed_columns(trainer: Foreign) -> List[str]:
    """Columns of the samples that the Trainer removed, as forward has no argument of that name."""
    kept = observing.attribute(trainer, "_signature_columns")
    if kept is None or not observing.attribute(trainer.args, "remove_unused_columns", False):
        return []
    sample = observing.attempt(lambda: trainer.train_dataset[0], None)
    names = [str(name) for name in sample] if isinstance(sample, dict) else []
    return [name for name in names if name not in kept]
