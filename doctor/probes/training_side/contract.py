"""What a factory may return: the module, its batch, its loss and its optimizer.

Imported by own_model.py; standard library and torch only, Python 3.9. `doctor explain model` lists
the forms. Objects of Lightning and of transformers are recognized by their methods, so that neither
library is imported.
"""

from __future__ import annotations

import inspect
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
import wire

subjects = wire.sibling("subjects")
training_step = wire.sibling("training_step")

SEED = 21
KEYS = ("model", "batch", "loss", "optimizer", "scheduler", "max_grad_norm")
"""Keys of a dict that a factory returns; only "model" is required."""
MODEL_NAMES = ("model", "module", "net", "network")
"""First parameter of a loss of the form loss(module, batch), where that is ambiguous."""


class NotAFactory(Exception):
    """The value of the factory breaks the contract; the message states the contract."""


class Parts(NamedTuple):
    """A training, as its factory returned it."""

    module: torch.nn.Module
    batch: Any
    loss: Callable[[Any, Any], torch.Tensor]
    update: Optional[Any] = None
    """A training_step.Update."""
    notes: Tuple[str, ...] = ()
    """What the doctor does otherwise than the user's script."""


def parts(value: Any, spec: Dict[str, Any], seed: Optional[int]) -> Parts:
    """The training in the value of a factory. Raises NotAFactory, NotPossible, Unsupported."""
    fields = fields_of(value)
    module = fields["model"]
    if not any(weight.requires_grad for weight in module.parameters()):
        raise NotAFactory("no parameter of the model requires a gradient: nothing would train")
    batch, loss = fields.get("batch"), fields.get("loss")
    if "batch" not in fields and loss is not None:
        loss = subjects.with_loss(loss, without_batch=True)
    elif "batch" not in fields:
        loss = subjects.model_loss
        batch = batch_for(module, spec, SEED if seed is None else seed)
    elif seed is not None:
        raise subjects.NotPossible("the factory makes the batch")
    else:
        batch, loss = batch_and_loss(batch, loss)
    update, notes = update_of(fields)
    return Parts(module, batch, loss, update, notes)


def fields_of(value: Any) -> Dict[str, Any]:
    """The value of a factory as a dict with some of `KEYS`. Raises NotAFactory."""
    if inspect.isawaitable(value) or inspect.isgenerator(value):
        raise NotAFactory("the factory returned a %s; %s" % (type(value).__name__, CONTRACT))
    if is_trainer(value):
        return of_trainer(value)
    if hasattr(value, "items") and not isinstance(value, torch.nn.Module):
        unknown = sorted(str(key) for key in value if key not in KEYS)
        if unknown or not isinstance(value.get("model"), torch.nn.Module):
            message = (
                "the factory returned a dict with the keys %s; allowed are %s, and model is a "
            )
            message += "torch.nn.Module"
            raise NotAFactory(message % (", ".join(map(str, value)) or "(none)", ", ".join(KEYS)))
        present = {key: each for key, each in value.items() if each is not None}
        return of_lightning(present) if is_lightning(present["model"]) else present
    items = list(value) if isinstance(value, (tuple, list)) else [value]
    if not items or not isinstance(items[0], torch.nn.Module) or len(items) > 3:
        raise NotAFactory("the factory returned %s; %s" % (type_names(value), CONTRACT))
    fields: Dict[str, Any] = dict(zip(KEYS, items))
    if is_optimizer(fields.get("batch")) or is_optimizer(fields.get("loss")):
        raise NotAFactory("the factory returned %s; name an optimizer in a dict: {'model': ..., "
                          "'batch': ..., 'optimizer': ...}" % type_names(value))  # fmt: skip
    if is_lightning(fields["model"]):
        return of_lightning(fields)
    return fields


CONTRACT = subjects.CONTRACT


def type_names(value: Any) -> str:
    if not isinstance(value, (tuple, list)):
        return type(value).__name__
    return "(%s)" % ", ".join(type(each).__name__ for each in value)


def is_optimizer(value: Any) -> bool:
    return isinstance(value, torch.optim.Optimizer)


# The batch and the loss


def batch_and_loss(batch: Any, loss: Any = None) -> Tuple[Any, Callable[[Any, Any], torch.Tensor]]:
    """The first batch of a loader, and the loss of a criterion or a function."""
    if loss is not None and not callable(loss):
        raise NotAFactory("the third value that the factory returned is not a loss function")
    if loss is None and is_function(batch):
        return None, subjects.with_loss(batch, without_batch=True)
    batch = first_of(batch)
    if loss is not None:
        form = subjects.criterion_loss if is_criterion(loss) else subjects.user_loss
        return batch, subjects.bound(form, loss)
    if not isinstance(batch, (torch.Tensor, list, tuple)) and not hasattr(batch, "items"):
        message = "the factory's batch is %s; " % type(batch).__name__
        raise NotAFactory(message + CONTRACT)
    return batch, subjects.model_loss


def is_function(value: Any) -> bool:
    """Whether it is a loss in the place of a batch: tensors and some batches are callable too."""
    a_batch = isinstance(value, torch.Tensor) or hasattr(value, "items") or is_loader(value)
    return callable(value) and not a_batch


def is_loader(value: Any) -> bool:
    """Whether it gives batches: a DataLoader, an iterator; a tensor and a dict are batches."""
    if isinstance(value, (torch.Tensor, list, tuple, str, bytes)) or hasattr(value, "items"):
        return False
    return hasattr(value, "__iter__") or hasattr(value, "__next__")


def first_of(batch: Any) -> Any:
    """The first batch of a loader; anything else unchanged."""
    if isinstance(batch, torch.utils.data.Dataset):
        raise NotAFactory("the factory's batch is a Dataset; return a DataLoader of it, or "
                          "next(iter(loader))")  # fmt: skip
    if not is_loader(batch):
        return batch
    with wire.stage("take the first batch of the loader"):
        try:
            for first in batch:
                if first is None:
                    raise NotAFactory("the first batch of the %s is None; its collate_fn returned "
                                      "nothing" % type(batch).__name__)  # fmt: skip
                return first
        except NotAFactory:
            raise
        except Exception as error:
            if "in DataLoader worker" in str(error):
                repeat_here(batch, error)
            error.doctor_place = " (in the first batch of the loader)"  # type: ignore[attr-defined]
            raise
    raise NotAFactory("the factory's %s has no batch%s" % (type(batch).__name__, _size(batch)))


def repeat_here(loader: Any, error: Exception) -> None:
    """Make the batch of a failed worker in this process: an error of the same type shows more."""
    try:
        numbers = next(iter(loader.batch_sampler))
        loader.collate_fn([loader.dataset[number] for number in numbers])
    except Exception as again:
        if type(again) is type(error):
            again.doctor_place = " (in the first batch of the loader)"  # type: ignore[attr-defined]
            raise again from None


def _size(loader: Any) -> str:
    """The numbers that leave a DataLoader without a batch."""
    try:
        size = "; %d samples, batch_size=%s" % (len(loader.dataset), loader.batch_size)
        return size + ", drop_last=True" * bool(loader.drop_last)
    except (AttributeError, TypeError):  # a stream has no length, an iterator no dataset
        return ""


def is_criterion(loss: Any) -> bool:
    """Whether it is called as criterion(output, target), not as loss(module, batch)."""
    if getattr(loss, "__module__", "") == "torch.nn.functional":
        return True
    if not isinstance(loss, torch.nn.Module):
        return False
    names = list(inspect.signature(loss.forward).parameters)
    return not names or names[0] not in MODEL_NAMES


def batch_for(module: Any, spec: Dict[str, Any], seed: int) -> Any:
    """A batch for a module that came without one, from its config or example input."""
    config: Any = getattr(subjects.transformers_like(module) or module, "config", None)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    vocabulary = getattr(text, "vocab_size", None)
    if isinstance(vocabulary, int) and vocabulary > 0:
        length = spec["length"] or min(64, getattr(text, "max_position_embeddings", 64) or 64)
        tokens = subjects.random_tokens(vocabulary, spec["batch"], length, seed)
        return {"input_ids": tokens, "labels": tokens.clone()}
    example = getattr(module, "example_input_array", None)
    if example is None:
        message = "the factory returned a module alone, which has neither config.vocab_size nor "
        raise NotAFactory(message + "example_input_array; " + CONTRACT)
    if seed != SEED:
        raise subjects.NotPossible("the model has only its one example_input_array")
    return example


# The optimizer


def update_of(fields: Dict[str, Any]) -> Tuple[Optional[Any], Tuple[str, ...]]:
    """The user's training_step.Update, and a note if the doctor cannot use it."""
    optimizer, scheduler = fields.get("optimizer"), fields.get("scheduler")
    notes = tuple(fields.get("notes", ()))
    if isinstance(scheduler, dict):  # as Lightning takes it
        scheduler = scheduler.get("scheduler")
    if optimizer is None:
        return None, notes
    if not hasattr(optimizer, "param_groups") or not hasattr(optimizer, "step"):
        raise NotAFactory("the factory's optimizer is %s, not a torch.optim.Optimizer"
                          % type_names(optimizer))  # fmt: skip
    if type(optimizer).__name__ == "LBFGS":
        return None, (*notes, "LBFGS needs a closure, so AdamW was used")
    limit = fields.get("max_grad_norm")
    return training_step.Update(
        optimizer, scheduler, None if limit is None else float(limit)
    ), notes


# Lightning


def is_lightning(module: Any) -> bool:
    return hasattr(module, "training_step") and hasattr(module, "configure_optimizers")


def of_lightning(fields: Dict[str, Any]) -> Dict[str, Any]:
    """A LightningModule: its training_step, its loader and the optimizer it configures."""
    module = fields["model"]
    if not getattr(module, "automatic_optimization", True):
        raise subjects.Unsupported(
            "the LightningModule optimizes manually, which its own training_step does: return "
            "(module, batch, loss) with a loss for one of its steps"
        )
    for name in ("log", "log_dict"):  # they need a running Trainer
        setattr(module, name, lambda *arguments, **options: None)
    complete = dict(fields)
    if fields.get("loss") is None:
        complete["loss"] = lightning_loss
    if "batch" not in fields:
        try:
            complete["batch"] = iter(module.train_dataloader())  # a list of batches is a loader too
        except Exception as error:
            raise NotAFactory(
                "the LightningModule gives no batch (train_dataloader: %s); return (module, batch)"
                % wire.describe(error)
            ) from error
    if "optimizer" not in fields:
        complete.update(lightning_optimizer(module))
    return complete


def lightning_loss(module: Any, batch: Any) -> Any:
    names = list(inspect.signature(module.training_step).parameters)
    return module.training_step(batch, 0) if len(names) > 1 else module.training_step(batch)


lightning_loss.doctor_source = "training_step"  # type: ignore[attr-defined]


FRAMEWORKS = ("lightning", "pytorch_lightning", "torch")
EARLIER_HOOKS = ("setup", "prepare_data", "configure_model", "on_fit_start")
"""What Lightning calls before configure_optimizers."""


def lightning_optimizer(module: Any) -> Dict[str, Any]:
    """The single optimizer that configure_optimizers returns, with its schedule."""
    try:
        configured = module.configure_optimizers()
    except Exception as error:
        if not needs_trainer(module, error):
            raise
        note = "configure_optimizers raised %s, so AdamW was used" % wire.describe(error)
        return {"notes": (note,)}
    schedulers: List[Any] = []
    if isinstance(configured, tuple) and len(configured) == 2:
        configured, schedulers = configured[0], list(configured[1])
    if isinstance(configured, (list, tuple)) and len(configured) == 1:
        configured = configured[0]
    if isinstance(configured, dict):
        schedulers = [configured[name] for name in ("lr_scheduler",) if name in configured]
        configured = configured.get("optimizer")
    if configured is None:
        return {"notes": ("configure_optimizers returned None, so AdamW was used: Lightning trains "
                          "nothing then",)}  # fmt: skip
    if not is_optimizer(configured):
        return {"notes": ("configure_optimizers returned several optimizers, so AdamW was used",)}
    return {"optimizer": configured, "scheduler": _per_step(schedulers)}


def needs_trainer(module: Any, error: Exception) -> bool:
    """Whether the code reads the Trainer, or may read what its hooks prepare."""
    lines = [frame.line or "" for frame in traceback.extract_tb(error.__traceback__)]
    if any("trainer" in line for line in lines):
        return True
    own = (base for base in type(module).__mro__ if base.__module__.split(".")[0] not in FRAMEWORKS)
    return any(name in vars(base) for base in own for name in EARLIER_HOOKS)


def _per_step(schedulers: List[Any]) -> Any:
    """The schedule that steps with every batch; one of epochs does not step here."""
    for each in schedulers:
        if isinstance(each, dict) and each.get("interval", "epoch") == "step":
            return each.get("scheduler")
    return None


# transformers


def is_trainer(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("compute_loss", "get_train_dataloader", "model"))


def of_trainer(trainer: Any) -> Dict[str, Any]:
    """A transformers Trainer: its first batch, loss, optimizer, schedule and clipping."""
    steps = getattr(trainer.args, "max_steps", 0)
    trainer.create_optimizer_and_scheduler(num_training_steps=steps if steps > 0 else 1000)
    limit = getattr(trainer.args, "max_grad_norm", None)

    def loss(module: Any, batch: Any) -> Any:
        return trainer.compute_loss(module, dict(batch))

    loss.doctor_source = "compute_loss"  # type: ignore[attr-defined]

    return {
        "model": trainer.model,
        "batch": trainer.get_train_dataloader(),
        "loss": loss,
        "optimizer": trainer.optimizer,
        "scheduler": trainer.lr_scheduler,
        "max_grad_norm": limit if limit else None,  # the Trainer does not clip at 0
    }
