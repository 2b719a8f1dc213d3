"""What a factory returns: a Trainer, a module of Lightning, or loaders, a model, its loss and a
tokenizer, by their names in a dict or a record, or by what they are in a tuple of any order."""

from __future__ import annotations

import os
import re
import types
from typing import Any, Callable, Dict, Iterator, List, Optional, Pattern

import torch

from ... import wire
from ..foreign import Foreign, containers, observing
from ..subject import frameworks, loaders, losses, own_model, subjects, transformers_model
from .targets import NotData, Opened, Source, are_tensors, is_batch, is_data, source

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
NAMES = ("train", "eval")


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
    if containers.is_mapping(value) and not is_batch(value):
        return _of_mapping(dict(value.items()))
    if observing.has(value, "_asdict") and isinstance(value, tuple):
        return _of_mapping(dict(zip(observing.attribute(value, "_fields"), value)))
    if (fields := fields_of(value)) is not None:
        return _of_mapping(fields)
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


def _of_lightning(module: Foreign, sources: Optional[List[Source]] = None) -> Opened:
    for name in ("log", "log_dict"):  # they need a running Trainer
        setattr(module, name, lambda *arguments, **options: None)
    return Opened(sources or _of_modules(module), module, frameworks.lightning_loss)


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
        if loaders.is_loader(first):
            sources.append(source("eval", first))
    return sources


def fields_of(value: Foreign) -> Optional[Dict[str, Any]]:
    """The attributes of an object that holds loaders, and is none; None of anything else."""
    record = type(value) is types.SimpleNamespace or containers.is_record(value)
    held = observing.attribute(value, "__dict__")
    if not isinstance(held, dict) or (is_data(value) and not record) or is_module(value):
        return None
    named = {str(name): each for name, each in held.items()}
    if record and is_batch(named):
        return None
    loaders = any(TRAIN.fullmatch(n) and is_data(e) for n, e in named.items())
    return named if record or loaders else None


def _of_mapping(fields: Dict[str, Any]) -> Opened:
    for name, value in list(fields.items()):
        if NESTED.fullmatch(str(name)) and containers.is_mapping(value) and not is_batch(value):
            fields = {**{n: e for n, e in fields.items() if n != name}, **dict(value.items())}
    found = [_first(fields, TRAIN), _first(fields, EVAL)]
    if all(each is None for each in found):
        unnamed = [each for each in fields.values() if is_loader(each)]
        found = [*unnamed, None][:2] if 0 < len(unnamed) <= 2 else found
    if all(each is None for each in found):
        raise NotData("a dict with the keys %s; allowed are train, eval, collate_fn, tokenizer, "
                      "model and loss" % ", ".join(sorted(map(str, fields))[:12]))  # fmt: skip
    collate, criterion = _first(fields, COLLATORS), _first(fields, CRITERIA)
    sources = [source(n, each, collate) for n, each in zip(NAMES, found) if each is not None]
    module = _first(fields, MODELS)
    module = module if is_module(module) else None
    loss = losses.bound(criterion) if module is not None else None
    return Opened(sources, module, loss, _first(fields, TOKENIZERS), None, collate, criterion)


def _first(fields: Dict[str, Any], named: Pattern[str]) -> Foreign:
    each = ((name, value) for name, value in fields.items() if value is not None)
    return next((value for name, value in each if named.fullmatch(str(name))), None)


def _of_tuple(items: List[Foreign]) -> Opened:
    """Loaders, a model, its loss and a tokenizer, in any order; or one batch."""
    if are_tensors(items):  # one batch
        return Opened([Source("train", "loader", [items])])
    parts = [each for each in flat(items) if each is not None and not is_setting(each)]
    modules = [each for each in parts if is_module(each)]
    models = [each for each in modules if not losses.is_loss_module(each)]
    module = next(iter(models or (modules if len(modules) == len(parts) else [])), None)
    rest = [each for each in parts if each is not module]
    of_modules = next((each for each in rest if observing.has(each, "train_dataloader")), None)
    if of_modules is not None:
        opened = read(of_modules)
        return opened if module is None else _with_module(opened.sources, module, None)
    tokenizer = next((each for each in rest if is_tokenizer(each)), None)
    made = [each for each in rest if each is not tokenizer]
    found = [each for each in made if not callable(each) or is_data(each)]
    calls = [each for each in made if callable(each) and not is_data(each)]
    if module is not None and not found:
        raise NotData("a module without a batch")
    loaders = all(map(is_loader, found))
    if not found or (module is None and len(found) > 2 and not loaders):
        return Opened([source("train", items)])
    criterion = next((e for e in calls if module is not None or is_module(e)), None)
    collate = None if module is not None else next((e for e in calls if e is not criterion), None)
    sources = [_batch_or_source(name, each, collate) for name, each in zip(NAMES, found)]
    opened = _with_module(sources, module, criterion)
    return opened._replace(tokenizer=tokenizer, collator=collate)


def _with_module(
    sources: List[Source], module: Optional[torch.nn.Module], criterion: Foreign
) -> Opened:
    if module is not None and frameworks.is_lightning(module):
        return _of_lightning(module, sources)
    loss = losses.bound(criterion) if module is not None else None
    return Opened(sources, module, loss, criterion=criterion)


def flat(items: List[Foreign]) -> Iterator[Foreign]:
    """The items, and those of a pair of loaders, and of a dict of them, among them."""
    for each in items:
        if isinstance(each, (tuple, list)) and each and all(map(is_loader, each)):
            yield from each
        elif containers.is_mapping(each) and any(map(is_loader, each.values())):
            found = [_first(dict(each.items()), named) for named in (TRAIN, EVAL)]
            yield from (one for one in found if one is not None)
        else:
            yield each


def _batch_or_source(name: str, value: Foreign, collate: Foreign) -> Source:
    if isinstance(value, (tuple, list)) and are_tensors(value):  # one batch
        return Source(name, "loader", [value])
    return source(name, value, collate)


def is_module(value: Foreign) -> bool:
    return isinstance(value, torch.nn.Module)


def is_loader(value: Foreign) -> bool:
    """Whether it is a loader or a dataset by its class."""
    known = (torch.utils.data.DataLoader, torch.utils.data.Dataset)
    return isinstance(value, known) or observing.has(value, "column_names")


def is_tokenizer(value: Foreign) -> bool:
    """Whether it turns texts into tokens and back, as those of transformers do."""
    return all(observing.has(value, name) for name in ("decode", "convert_ids_to_tokens"))


def is_setting(value: Foreign) -> bool:
    """Whether it is a number, a name, a dict of settings, a device, an optimizer, or a schedule."""
    if isinstance(value, (str, bytes, int, float, torch.device, torch.dtype)):
        return True
    if containers.is_mapping(value):
        return not is_batch(value) and not observing.has(value, "column_names")
    return observing.has(value, "step") and (
        observing.has(value, "param_groups") or observing.has(value, "optimizer")
    )
