"""What a target holds: loaders and datasets, and what belongs to them."""

from __future__ import annotations

import os
import re
import types
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Pattern,
    Sequence,
)

import torch

from ... import wire
from ..foreign import Foreign, containers, observing
from ..subject import contract, frameworks, losses, own_model, subjects, transformers_model

OF_SPLIT = r"(_?(loader|dataloader|dataset|data|set|split|iter|ds|dl|batches))?"
TRAIN = re.compile(r"(?i)(train|training|trn)%s|(data)?loaders?|datasets?|data|batch|batches|dl|ds"
                   % OF_SPLIT)  # fmt: skip
EVAL = re.compile(r"(?i)(eval|evaluation|validation|valid|val|dev|test|holdout)%s" % OF_SPLIT)
MODELS = re.compile(r"(?i)model|module|net|network")
COLLATORS = re.compile(r"(?i)collate_fn|collator|data_collator|collate")
CRITERIA = re.compile(r"(?i)loss|criterion|loss_fn|objective|loss_function|crit")
TOKENIZERS = re.compile(r"(?i)tokenizer|tok|processing_class|processor")
NESTED = re.compile(r"(?i)(data)?loaders|datasets|data|splits")
"""Names of a dict of splits within the one that is returned."""


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


def call(request: Dict[str, Any], loaded: Callable[[], None] = lambda: None) -> Opened:
    """What the factory FILE.py:name returns; `loaded` is called before it is. Raises NotData,
    NotAFactory and its own errors."""
    arguments = list(request.get("arguments") or ())
    with wire.stage("load the code"):
        factory = own_model.load(request["file"], request["name"], os.curdir, arguments)
    loaded()
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
    if type(value) is types.SimpleNamespace or containers.is_record(value):
        fields = {name: observing.attribute(value, name) for name in vars(value)}
        return _of_mapping(fields) if not _is_batch(fields) else Opened([source("train", fields)])
    if isinstance(value, tuple) and observing.has(value, "_asdict"):
        return _of_mapping(dict(value._asdict()))
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
    for name, value in list(fields.items()):
        if NESTED.fullmatch(str(name)) and containers.is_mapping(value) and not _is_batch(value):
            fields = {**{n: e for n, e in fields.items() if n != name}, **dict(value.items())}
    train, evaluation = _first(fields, TRAIN), _first(fields, EVAL)
    if train is None and evaluation is None:
        raise NotData("a dict with the keys %s; allowed are train, eval, collate_fn, tokenizer, "
                      "model and loss" % ", ".join(sorted(map(str, fields))[:12]))  # fmt: skip
    collate = _first(fields, COLLATORS)
    named = (("train", train), ("eval", evaluation))
    sources = [source(name, each, collate) for name, each in named if each is not None]
    module = _first(fields, MODELS)
    module = module if isinstance(module, torch.nn.Module) else None
    loss = losses.bound(_first(fields, CRITERIA)) if module is not None else None
    criterion = _first(fields, CRITERIA)
    return Opened(sources, module, loss, _first(fields, TOKENIZERS), None, collate, criterion)


def _first(fields: Dict[str, Any], named: Pattern[str]) -> Foreign:
    each = ((name, value) for name, value in fields.items() if value is not None)
    return next((value for name, value in each if named.fullmatch(str(name))), None)


def _of_tuple(items: List[Foreign]) -> Opened:
    """Loaders, a model, its loss and a tokenizer, in any order; or one batch."""
    if _are_tensors(items):  # one batch
        return Opened([Source("train", "loader", [items])])
    modules = [each for each in items if isinstance(each, torch.nn.Module)]
    models = [each for each in modules if not losses.is_loss_module(each)]
    module = next(iter(models or (modules if len(modules) == len(items) else [])), None)
    if module is not None and (len(items) == 1 or frameworks.is_lightning(items[0])):
        raise NotData("a module without a batch")
    rest = [each for each in items if each is not None and each is not module]
    tokenizer = next((each for each in rest if is_tokenizer(each)), None)
    made = [each for each in rest if each is not tokenizer and not is_optimizer(each)]
    found = [each for each in made if not callable(each) or _is_data(each)]
    calls = [each for each in made if callable(each) and not _is_data(each)]
    if not found or (module is None and len(found) > 2):
        return Opened([source("train", items)])
    if module is None:
        criterion = next((e for e in calls if isinstance(e, torch.nn.Module)), None)
        collate = next((each for each in calls if each is not criterion), None)
        loss = None
    else:
        criterion, collate = next(iter(calls), None), None
        loss = losses.bound(criterion)
    sources = [_batch_or_source(name, each, collate) for name, each in zip(NAMES, found)]
    return Opened(sources, module, loss, tokenizer, None, collate, criterion)


NAMES = ("train", "eval")


def _batch_or_source(name: str, value: Foreign, collate: Foreign) -> Source:
    if isinstance(value, (tuple, list)) and _are_tensors(value):  # one batch
        return Source(name, "loader", [value])
    return source(name, value, collate)


def is_tokenizer(value: Foreign) -> bool:
    """Whether it turns texts into tokens and back, as those of transformers do."""
    return all(observing.has(value, name) for name in ("decode", "convert_ids_to_tokens"))


def is_optimizer(value: Foreign) -> bool:
    """Whether it is an optimizer, or a schedule of its rate."""
    return observing.has(value, "step") and (
        observing.has(value, "param_groups") or observing.has(value, "optimizer")
    )


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
