"""The user's own model: FILE.py:factory, called in this process.

Imported by subjects.py; standard library and torch only, Python 3.9. The code of the file runs
here and may do anything: its errors are passed on, what it prints goes to stderr, and the
parent has a deadline and survives its death. docs/own-model.md documents what a factory returns.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any, Callable, Dict, Optional, Tuple

import torch
import wire

subjects = wire.sibling("subjects")

SEED = 21


class NotAFactory(Exception):
    """The file or the value of its factory breaks the contract; the message states the contract."""


def make(spec: Dict[str, Any], device: torch.device, recipe: str, seed: Optional[int]) -> Any:
    """The subject returned by the factory, on the device. Raises NotAFactory and its own errors."""
    parent = os.getpid()
    try:
        value = _call_factory(spec)
    finally:
        if os.getpid() != parent:  # the code forked, and this is its child
            os._exit(0)
    with wire.stage("move the model to the device"):
        module, batch, loss = parts(value, spec, seed)
        if any(each.is_meta for each in subjects.tensors(batch).values()):
            raise NotAFactory("the batch has tensors on the meta device, which have no values")
        if recipe == "pure-bf16":
            module = module.to(dtype=torch.bfloat16)
        module = placed(module, device)
        return subjects.Subject(module, subjects.on_device(batch, device), loss)


def _call_factory(spec: Dict[str, Any]) -> Any:
    with wire.stage("load the code"):
        factory = load(spec["file"], spec["name"], spec["directory"])
    with wire.stage("call the factory"):
        try:
            return factory()
        except SystemExit as error:
            raise NotAFactory("the factory called sys.exit(%r)" % error.code) from error


def load(file: str, name: str, directory: str) -> Callable[[], Any]:
    """The function `name` of the file. Its directory and the working directory are importable."""
    path = os.path.realpath(os.path.join(directory, file))
    for entry in (os.path.realpath(directory), os.path.dirname(path)):
        if entry not in sys.path:
            sys.path.insert(0, entry)
    sys.argv = [path]
    sys.stdin = open(os.devnull)  # noqa: SIM115 - the requests are read by a thread of wire
    # A process that multiprocessing spawns would run this probe again.
    sys.modules["__main__"].__dict__.pop("__file__", None)
    module = _module(path)
    factory = getattr(module, name, None)
    if factory is None:
        functions = ", ".join(sorted(n for n, v in vars(module).items() if _defined_in(v, module)))
        message = "%s has no %s; it has %s" % (file, name, functions or "no function")
        raise NotAFactory(message)
    if not callable(factory):
        raise NotAFactory("%s in %s is not a function" % (name, file))
    return factory  # type: ignore[no-any-return]


def _defined_in(value: Any, module: Any) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module.__name__


def _module(path: str) -> Any:
    """The module of a file, under its own name unless that is taken, never as __main__."""
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file and os.path.realpath(file) == path:
            return sys.modules[name]
        name = "doctor_own_" + name
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise NotAFactory("%s is not a Python file" % path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(name, None)
        if isinstance(error, SystemExit):
            message = "%s called sys.exit(%r) while it was imported" % (path, error.code)
            raise NotAFactory(message + "; put that under if __name__ == '__main__'") from error
        raise
    return module


def parts(
    value: Any, spec: Dict[str, Any], seed: Optional[int]
) -> Tuple[torch.nn.Module, Any, Callable[[Any, Any], torch.Tensor]]:
    """Module, batch and loss from the value of a factory. Raises NotAFactory, NotPossible."""
    items = value if isinstance(value, tuple) else (value,)
    if not items or not isinstance(items[0], torch.nn.Module) or len(items) > 3:
        message = "the factory returned %s; " % _type_names(value)
        raise NotAFactory(message + subjects.CONTRACT)
    module = items[0]
    if not any(weight.requires_grad for weight in module.parameters()):
        raise NotAFactory("no parameter of the model requires a gradient: nothing would train")
    if len(items) == 1:
        batch = _batch_for(module, spec, SEED if seed is None else seed)
        return module, batch, subjects.model_loss
    if seed is not None:
        raise subjects.NotPossible("the factory makes the batch")
    return (module, *_batch_and_loss(*items[1:]))


def _batch_and_loss(batch: Any, loss: Any = None) -> Tuple[Any, Callable[[Any, Any], torch.Tensor]]:
    if loss is not None and not callable(loss):
        raise NotAFactory("the third value that the factory returned is not a loss function")
    if loss is not None:
        return batch, subjects.with_loss(loss, without_batch=False)
    if callable(batch) and not isinstance(batch, torch.Tensor):
        return None, subjects.with_loss(batch, without_batch=True)
    if not isinstance(batch, (torch.Tensor, list, tuple)) and not hasattr(batch, "items"):
        message = "the factory's batch is %s; " % type(batch).__name__
        raise NotAFactory(message + subjects.CONTRACT)
    return batch, subjects.model_loss


def _type_names(value: Any) -> str:
    if not isinstance(value, tuple):
        return type(value).__name__
    return "(%s)" % ", ".join(type(each).__name__ for each in value)


def _batch_for(module: Any, spec: Dict[str, Any], seed: int) -> Any:
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
        raise NotAFactory(message + "example_input_array; " + subjects.CONTRACT)
    if seed != SEED:
        raise subjects.NotPossible("the model has only its one example_input_array")
    return example


def placed(module: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """The module on the device; unchanged if it is already there or on several devices."""
    devices = {str(weight.device) for weight in module.parameters()}
    if "meta" in devices:
        raise NotAFactory("the model has parameters on the meta device, which have no values")
    in_place = len(devices) > 1 or devices == {str(device)}
    return module if in_place else module.to(device)
