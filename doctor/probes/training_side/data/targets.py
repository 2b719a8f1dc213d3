"""What a target holds: loaders and datasets, and what belongs to them."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

import torch

from ... import wire
from ..foreign import Foreign, containers, observing
from ..subject import contract, frameworks, losses, own_model, subjects, transformers_model

TRAIN = ("train", "loader", "train_loader", "train_dataloader", "train_dataset", "dataset", "data",
         "batch", "dataloader", "train_ds")  # fmt: skip
EVAL = ("eval", "validation", "val", "valid", "dev", "test", "eval_loader", "val_loader",
        "eval_dataset", "val_dataset", "eval_dataloader", "val_dataloader", "val_ds")  # fmt: skip
COLLATORS = ("collate_fn", "collator", "data_collator", "collate")
CRITERIA = ("loss", "criterion", "loss_fn", "objective")
TOKENIZERS = ("tokenizer", "processing_class", "processor")


class NotData(Exception):
    """The target holds no data; the message says what it is."""


class Source(NamedTuple):
    """A split: its loader, or its rows."""

    name: str
    kind: str
    items: Foreign
    """A loader of batches, or a dataset or an iterable of rows."""
    total: Optional[int] = None

    @property
    def by_row(self) -> bool:
        return self.kind != "loader"


class Opened(NamedTuple):
    """The splits of a target, and what else it holds."""

    sources: List[Source]
    module: Optional[torch.nn.Module] = None
    loss: Optional[Callable[[Any, Any], torch.Tensor]] = None
    tokenizer: Foreign = None
    trainer: Foreign = None
    collator: Foreign = None
    criterion: Foreign = None
    """A loss that is a module, as torch.nn.CTCLoss."""


def call(request: Dict[str, Any]) -> Opened:
    """What the factory FILE.py:name returns. Raises NotData, NotAFactory and its own errors."""
    arguments = list(request.get("arguments") or ())
    with wire.stage("load the code"):
        factory = own_model.load(request["file"], request["name"], os.curdir, arguments)
    with wire.stage("call the factory"):
        value = factory()
    with wire.stage("make the loaders"):
        return read(value)


def with_model(opened: Opened, directory: str) -> Opened:
    """The same with a small model of a transformers directory where the target has none."""
    if opened.module is not None:
        return opened
    spec = {"directory": directory, "layers": None, "weights": False}
    module = observing.attempt(lambda: transformers_model.base(spec, "amp").model, None)
    return opened._replace(module=module, loss=subjects.model_loss)


def read(value: Foreign) -> Opened:
    """The splits and the training of a factory's value. Raises NotData."""
    if frameworks.is_trainer(value):
        return _of_trainer(value)
    if frameworks.is_lightning(value):
        return _of_lightning(value)
    if observing.has(value, "train_dataloader"):
        return Opened(_of_modules(value))
    if containers.is_mapping(value) and not _is_batch(value):
        return _of_mapping(dict(value.items()))
    if isinstance(value, (tuple, list)) and value:
        return _of_tuple(list(value))
    return Opened([source("train", value)])


def _of_trainer(trainer: Foreign) -> Opened:
    sources = [source("train", trainer.get_train_dataloader())]
    if observing.attribute(trainer, "eval_dataset") is not None:
        evaluation = observing.attempt(trainer.get_eval_dataloader, None)
        if evaluation is not None:
            sources.append(source("eval", evaluation))

    def loss(module: Foreign, batch: Foreign) -> Foreign:
        value = trainer.compute_loss(module, dict(batch))
        return value[0] if isinstance(value, tuple) else value

    tokenizer = observing.attribute(trainer, "processing_class")
    collator = observing.attribute(trainer, "data_collator")
    return Opened(sources, trainer.model, loss, tokenizer, trainer, collator)


def _of_lightning(module: Foreign) -> Opened:
    for name in ("log", "log_dict"):  # they need a running Trainer
        setattr(module, name, lambda *arguments, **options: None)
    return Opened(_of_modules(module), module, frameworks.lightning_loss)


def _of_modules(module: Foreign) -> List[Source]:
    """The loaders of a LightningModule or a datamodule, prepared as Lightning does."""
    if observing.has(module, "prepare_data"):
        module.prepare_data()
    if observing.has(module, "setup"):
        observing.attempt(lambda: module.setup("fit"), None)
    sources = [source("train", module.train_dataloader())]
    evaluation = observing.attempt(lambda: module.val_dataloader(), None)
    if evaluation is not None and not isinstance(evaluation, torch.nn.Module):
        first = (
            evaluation[0] if isinstance(evaluation, (list, tuple)) and evaluation else evaluation
        )
        if contract.is_loader(first):
            sources.append(source("eval", first))
    return sources


def _of_mapping(fields: Dict[str, Any]) -> Opened:
    train, evaluation = _first(fields, TRAIN), _first(fields, EVAL)
    if train is None and evaluation is None:
        raise NotData("a dict with the keys %s; allowed are train, eval, collate_fn, tokenizer, "
                      "model and loss" % ", ".join(sorted(map(str, fields))[:12]))  # fmt: skip
    collate = _first(fields, COLLATORS)
    named = (("train", train), ("eval", evaluation))
    sources = [source(name, each, collate) for name, each in named if each is not None]
    module = fields.get("model")
    module = module if isinstance(module, torch.nn.Module) else None
    loss = losses.bound(_first(fields, CRITERIA)) if module is not None else None
    criterion = _first(fields, CRITERIA)
    return Opened(sources, module, loss, _first(fields, TOKENIZERS), None, collate, criterion)


def _first(fields: Dict[str, Any], names: Any) -> Foreign:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _of_tuple(items: List[Foreign]) -> Opened:
    if isinstance(items[0], torch.nn.Module):
        if len(items) == 1 or frameworks.is_lightning(items[0]):
            raise NotData("a module without a batch")
        loss = losses.bound(items[2] if len(items) > 2 else None)
        if isinstance(items[1], (tuple, list)) and _are_tensors(items[1]):  # one batch
            return Opened([Source("train", "loader", [items[1]])], items[0], loss)
        criterion = items[2] if len(items) > 2 else None
        return Opened([source("train", items[1])], items[0], loss, criterion=criterion)
    if len(items) == 2 and _is_data(items[0]):
        if _is_data(items[1]):
            return Opened([source("train", items[0]), source("eval", items[1])])
        if callable(items[1]):
            return Opened([source("train", items[0], items[1])], collator=items[1])
    if _are_tensors(items):  # one batch
        return Opened([Source("train", "loader", [items])])
    return Opened([source("train", items)])


def _is_data(value: Foreign) -> bool:
    return isinstance(value, torch.utils.data.Dataset) or observing.has(value, "__iter__") or (
        observing.has(value, "__getitem__") and observing.has(value, "__len__")
    )  # fmt: skip


def _is_batch(value: Foreign) -> bool:
    """Whether it is one batch: a mapping of tensors."""
    return _are_tensors(list(value.values()))


def _are_tensors(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(each, torch.Tensor) for each in values)


def source(name: str, value: Foreign, collate: Foreign = None) -> Source:
    """The split in a loader, a dataset or an iterable. Raises NotData."""
    if containers.is_mapping(value) and _is_batch(value):
        return Source(name, "loader", [value])
    if isinstance(value, torch.Tensor):
        return Source(name, "loader", [value])
    if not _is_data(value):
        raise NotData("%s of the class %s, which gives no rows" % (name, type(value).__name__))
    dataset = observing.attribute(value, "dataset")
    if dataset is not None and observing.has(value, "__iter__"):
        return Source(name, "loader", value, size(dataset))
    if isinstance(value, torch.utils.data.Dataset) or _is_rows(value):
        if callable(collate):
            loader = torch.utils.data.DataLoader(value, batch_size=8, collate_fn=collate)
            return Source(name, "loader", loader, size(value))
        return Source(name, "dataset", value, size(value))
    return Source(name, "loader", value)


def _is_rows(value: Foreign) -> bool:
    """Whether its items are rows: a list of dicts of plain values, a `datasets` object."""
    if observing.has(value, "column_names") or observing.has(value, "features"):
        return True
    if not isinstance(value, (list, tuple)) or not value:
        return False
    first = value[0]
    return containers.is_mapping(first) and not _is_batch(first)


def size(dataset: Foreign) -> Optional[int]:
    length = observing.attempt(lambda: len(dataset), None)
    return length if isinstance(length, int) else None


def items_of(source: Source) -> Iterator[Foreign]:
    """Batches of a loader; rows of a dataset, as batches of one."""
    value = source.items
    if source.kind == "loader":
        yield from value
    elif observing.has(value, "__getitem__") and size(value) is not None:
        for index in range(size(value) or 0):
            yield as_batch(value[index])
    else:
        for row in value:
            yield as_batch(row)


def as_batch(row: Foreign) -> Foreign:
    """A row as a batch of one; lists of numbers become tensors."""
    if containers.is_mapping(row):
        return {str(name): _as_tensor(each) for name, each in row.items()}
    if isinstance(row, (tuple, list)) and row and not isinstance(row[0], str):
        return tuple(_as_tensor(each) for each in row)
    return _as_tensor(row)


def _as_tensor(value: Foreign) -> Foreign:
    if isinstance(value, torch.Tensor):
        return value[None]
    if isinstance(value, (int, float)):
        return torch.tensor([value])
    if isinstance(value, list) and value and isinstance(value[0], (int, float)):
        return observing.attempt(lambda: torch.tensor([value]), value)
    if observing.has(value, "__array_interface__"):
        return observing.attempt(lambda: torch.as_tensor(value)[None], value)
    return value
