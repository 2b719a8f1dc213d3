"""What a factory may return: the module, its batch, its loss and its optimizer.

`doctor explain model` lists the forms; frameworks.py reads objects of Lightning and of
transformers.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..foreign import Foreign, observing
from . import frameworks, frozen, loaders, losses, optimizers, subjects
from .subjects import CONTRACT, NotAFactory

SEED = 21
KEYS = ("model", "batch", "loss", "optimizer", "scheduler", "max_grad_norm", "save", "load")
"""Keys of a dict that a factory returns; only "model" is required. `save` and `load` take a
directory, and only a rehearsal calls them."""
ALIASES = {
    **{"module": "model", "net": "model", "network": "model"},
    **{"data": "batch", "loader": "batch", "dataloader": "batch", "train_loader": "batch"},
    **{"train": "batch", "train_dataloader": "batch"},
    **{"loss_fn": "loss", "criterion": "loss", "opt": "optimizer", "lr_scheduler": "scheduler"},
}
"""Other names that users give these keys."""
OF_DATA = re.compile(
    r"(?i)tokenizer|tok|processing_class|processor|collate_fn|collator|data_collator|"
    r"(?:eval|evaluation|validation|valid|val|dev|test)(?:_?(?:loader|dataloader|dataset|data|dl|ds))?"
)
"""Keys of what `doctor data` reads beside the training: the same factory serves both."""


class Parts(NamedTuple):
    """A training, as its factory returned it."""

    module: torch.nn.Module
    batch: Any
    loss: Callable[[Any, Any], torch.Tensor]
    update: Optional[Any] = None
    """A optimizers.Update."""
    notes: Tuple[str, ...] = ()
    """What the doctor does otherwise than the user's script."""
    fixed: bool = False
    """The batch is no loader's."""
    last: int = 0
    """Samples of a loader's last batch of an epoch, if it is smaller."""


def parts(value: Foreign, spec: Dict[str, Any], seed: Optional[int]) -> Parts:
    """The training in the value of a factory. Raises NotAFactory, NotPossible, Unsupported."""
    fields = fields_of(value)
    module = fields["model"]
    if not any(weight.requires_grad for weight in module.parameters()):
        raise NotAFactory(frozen.nothing_trains(module))
    batch, loss = fields.get("batch"), fields.get("loss")
    if "batch" not in fields and loss is not None:
        loss = subjects.with_loss(loss, without_batch=True)
    elif "batch" not in fields:
        loss = subjects.model_loss
        batch = batch_for(module, spec, SEED if seed is None else seed)
    elif seed is not None:
        raise subjects.NotPossible("the factory makes the batch")
    else:
        batch, loss = batch_and_loss(batch, loss, spec)
    update, notes = update_of(fields)
    given = fields.get("batch")
    fixed = given is not None and not is_function(given) and not loaders.is_loader(given)
    return Parts(module, batch, loss, update, notes, fixed, loaders.last_batch(given))


def fields_of(value: Foreign) -> Dict[str, Any]:
    """The value of a factory as a dict with some of `KEYS`. Raises NotAFactory."""
    if inspect.isawaitable(value) or inspect.isgenerator(value):
        raise NotAFactory("the factory returned a %s; %s" % (type(value).__name__, CONTRACT))
    if frameworks.is_trainer(value):
        return dict(frameworks.of_trainer(value))
    if observing.has(value, "items") and not isinstance(value, torch.nn.Module):
        named = {
            ALIASES.get(key, key): each
            for key, each in value.items()
            if not OF_DATA.fullmatch(str(key))
        }
        unknown = any(key not in KEYS for key in named)
        if unknown or not isinstance(named.get("model"), torch.nn.Module):
            message = (
                "the factory returned a dict with the keys %s; allowed are %s, and model is a "
            )
            message += "torch.nn.Module"
            raise NotAFactory(message % (", ".join(map(str, value)) or "(none)", ", ".join(KEYS)))
        return completed({key: each for key, each in named.items() if each is not None})
    items = list(value) if isinstance(value, (tuple, list)) else [value]
    fields = placed(items) if items and isinstance(items[0], torch.nn.Module) else None
    if fields is None:
        raise NotAFactory("the factory returned %s; %s" % (type_names(value), CONTRACT))
    return completed(fields)


def placed(items: Sequence[Foreign]) -> Optional[Dict[str, Any]]:
    """The parts of a tuple: an optimizer and a schedule by their type, the others by their place,
    where a loss of None is the module's own."""
    fields: Dict[str, Any] = {"model": items[0]}
    others: List[Any] = []
    for each in items[1:]:
        kind = "optimizer" if is_optimizer(each) else "scheduler" if is_schedule(each) else ""
        if kind in fields:
            return None
        if kind:
            fields[kind] = each
        elif is_tokenizer(each) or (len(others) == 1 and is_second_loader(others[0], each)):
            continue
        else:
            others.append(each)
    while len(others) > 1 and others[-1] is None:
        others.pop()
    if len(others) > 2:
        return None
    return {**fields, **dict(zip(("batch", "loss"), others))}


def completed(fields: Dict[str, Any]) -> Dict[str, Any]:
    """The same fields with those that a LightningModule adds."""
    if frameworks.is_lightning(fields["model"]):
        return dict(frameworks.of_lightning(fields))
    return fields


def type_names(value: Foreign) -> str:
    if not isinstance(value, (tuple, list)):
        return type(value).__name__
    return "(%s)" % ", ".join(type(each).__name__ for each in value)


def is_tokenizer(value: Foreign) -> bool:
    """A tokenizer or processor of transformers, which takes part in no step."""
    inner = observing.attribute(value, "tokenizer", value)
    return all(observing.has(inner, name) for name in ("convert_ids_to_tokens", "pad"))


def is_second_loader(first: Foreign, value: Foreign) -> bool:
    """The loader of the evaluation, behind that of the training."""
    return all(observing.has(each, "batch_sampler") for each in (first, value))


def is_optimizer(value: Foreign) -> bool:
    return observing.has(value, "param_groups") and observing.has(value, "step")


WITH_CLOSURE = ("LBFGS", "SAM", "ASAM", "GSAM")
"""Optimizers whose step() computes the loss again, though closure=None is its default."""


def needs_closure(optimizer: Foreign) -> bool:
    """Whether step() takes a function that computes the loss, and does nothing without."""
    names = inspect.Signature()  # a schedule replaces the method by a wrapper
    names = observing.attempt(lambda: inspect.signature(type(optimizer).step), names)
    required = any(
        each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
        for each in list(names.parameters.values())[1:]
    )
    return required or type(optimizer).__name__ in WITH_CLOSURE


def is_schedule(value: Foreign) -> bool:
    return isinstance(value, torch.optim.lr_scheduler.LRScheduler)


# The batch and the loss


def batch_and_loss(
    batch: Foreign, loss: Foreign, spec: Dict[str, Any]
) -> Tuple[Any, Callable[[Any, Any], torch.Tensor]]:
    """The first batch of a loader, and the loss of a criterion or a function.

    spec["batch_number"]: of batches before that one, which are left out; spec["in_turn"]: each call
    of the loss takes the next of so many.
    """
    if loss is not None and not callable(loss):
        raise NotAFactory("the third value that the factory returned is not a loss function")
    if loss is None and is_function(batch):
        return None, subjects.with_loss(batch, without_batch=True)
    several = spec.get("in_turn", 0)
    found = loaders.batches(batch, several or 1, spec.get("batch_number", 0))
    batch = found[0]
    if loss is not None:
        bound = losses.bound(loss)
    elif not isinstance(batch, (torch.Tensor, list, tuple)) and not observing.has(batch, "items"):
        message = "the factory's batch is %s; " % type(batch).__name__
        raise NotAFactory(message + CONTRACT)
    else:
        bound = subjects.model_loss
    return (found, loaders.in_turn(bound)) if several else (batch, bound)


def is_function(value: Foreign) -> bool:
    """Whether it is a loss in the place of a batch: tensors and some batches are callable too."""
    a_batch = isinstance(value, torch.Tensor) or observing.has(value, "items")
    return callable(value) and not (a_batch or loaders.is_loader(value))


def batch_for(module: torch.nn.Module, spec: Dict[str, Any], seed: int) -> Foreign:
    """A batch for a module that came without one, from its config or example input."""
    config: Any = observing.attribute(subjects.transformers_like(module) or module, "config")
    text = config.get_text_config() if observing.has(config, "get_text_config") else config
    vocabulary = observing.attribute(text, "vocab_size")
    if isinstance(vocabulary, int) and vocabulary > 0:
        positions = observing.attribute(text, "max_position_embeddings", 64) or 64
        length = spec["length"] or min(64, positions)
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
    """The user's optimizers.Update, and a note if the doctor cannot use it."""
    optimizer, scheduler = fields.get("optimizer"), fields.get("scheduler")
    notes = tuple(fields.get("notes", ()))
    if isinstance(scheduler, dict):  # as Lightning takes it
        scheduler = scheduler.get("scheduler")
    if optimizer is None:
        return None, notes
    if not is_optimizer(optimizer):
        raise NotAFactory("the factory's optimizer is %s, not a torch.optim.Optimizer"
                          % type_names(optimizer))  # fmt: skip
    if needs_closure(optimizer):
        name = type(optimizer).__name__
        return None, (*notes, "%s needs a closure, so AdamW was used" % name)
    limit = fields.get("max_grad_norm")
    return optimizers.Update(optimizer, scheduler, None if limit is None else float(limit)), notes
