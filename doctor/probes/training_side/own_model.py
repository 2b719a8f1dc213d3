"""The user's own model: FILE.py:factory, called in this process.

Imported by subjects.py; standard library and torch only, Python 3.9. The code of the file runs
here and may do anything: what it raises is handed on, what it prints goes to stderr, and the
parent has a deadline and survives its death. docs/own-model.md tells what a factory returns.
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
    """The file or what its factory returned is not what is asked for; the text says what is."""


def make(spec: Dict[str, Any], device: torch.device, recipe: str, seed: Optional[int]) -> Any:
    """The subject that the factory returned, on the device. Raises NotAFactory and anything."""
    mine = os.getpid()
    try:
        returned = _returned(spec)
    finally:
        if os.getpid() != mine:  # the code forked, and this is its child
            os._exit(0)
    with wire.stage("move the model to the device"):
        module, batch, loss = parts(returned, spec, seed)
        if any(each.is_meta for each in subjects.tensors(batch).values()):
            raise NotAFactory("the batch has tensors on the meta device, which have no values")
        if recipe == "pure-bf16":
            module = module.to(dtype=torch.bfloat16)
        module = placed(module, device)
        return subjects.Subject(module, subjects.on_device(batch, device), loss)


def _returned(spec: Dict[str, Any]) -> Any:
    with wire.stage("load the code"):
        factory = load(spec["file"], spec["name"], spec["folder"])
    with wire.stage("call the factory"):
        try:
            return factory()
        except SystemExit as error:
            raise NotAFactory("the factory called sys.exit(%r)" % error.code) from error


def load(file: str, name: str, folder: str) -> Callable[[], Any]:
    """The function `name` of the file. Its folder and the working directory are importable."""
    path = os.path.realpath(os.path.join(folder, file))
    for entry in (os.path.realpath(folder), os.path.dirname(path)):
        if entry not in sys.path:
            sys.path.insert(0, entry)
    sys.argv = [path]
    sys.stdin = open(os.devnull)  # noqa: SIM115 - the requests are read by a thread of wire
    # A process that multiprocessing spawns would run this probe again.
    sys.modules["__main__"].__dict__.pop("__file__", None)
    module = _module(path)
    factory = getattr(module, name, None)
    if factory is None:
        functions = ", ".join(sorted(n for n, v in vars(module).items() if _own(v, module)))
        said = "%s has no %s; it has %s" % (file, name, functions or "no function")
        raise NotAFactory(said)
    if not callable(factory):
        raise NotAFactory("%s in %s is no function" % (name, file))
    return factory  # type: ignore[no-any-return]


def _own(value: Any, module: Any) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module.__name__


def _module(path: str) -> Any:
    """The module of a file, under its own name unless that is taken, never as __main__."""
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules:
        known = getattr(sys.modules[name], "__file__", None)
        if known and os.path.realpath(known) == path:
            return sys.modules[name]
        name = "doctor_own_" + name
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise NotAFactory("%s is no Python file" % path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(name, None)
        if isinstance(error, SystemExit):
            said = "%s called sys.exit(%r) while it was imported" % (path, error.code)
            raise NotAFactory(said + "; put what runs under if __name__ == '__main__'") from error
        raise
    return module


def parts(
    returned: Any, spec: Dict[str, Any], seed: Optional[int]
) -> Tuple[torch.nn.Module, Any, Callable[[Any, Any], torch.Tensor]]:
    """Module, batch and loss of what a factory returned. Raises NotAFactory, NotPossible."""
    given = returned if isinstance(returned, tuple) else (returned,)
    if not given or not isinstance(given[0], torch.nn.Module) or len(given) > 3:
        said = "the factory returned %s; " % _described(returned)
        raise NotAFactory(said + subjects.RETURN_WHAT)
    module = given[0]
    if not any(weight.requires_grad for weight in module.parameters()):
        raise NotAFactory("no parameter of the model requires a gradient: nothing would train")
    if len(given) == 1:
        batch = _batch_for(module, spec, SEED if seed is None else seed)
        return module, batch, subjects.called
    if seed is not None:
        raise subjects.NotPossible("the factory makes the batch")
    return (module, *_batch_and_loss(*given[1:]))


def _batch_and_loss(batch: Any, loss: Any = None) -> Tuple[Any, Callable[[Any, Any], torch.Tensor]]:
    if loss is not None and not callable(loss):
        raise NotAFactory("the third of what the factory returned is no function of the loss")
    if loss is not None:
        return batch, subjects.with_loss(loss, alone=False)
    if callable(batch) and not isinstance(batch, torch.Tensor):
        return None, subjects.with_loss(batch, alone=True)
    if not isinstance(batch, (torch.Tensor, list, tuple)) and not hasattr(batch, "items"):
        said = "the factory's batch is %s; " % type(batch).__name__
        raise NotAFactory(said + subjects.RETURN_WHAT)
    return batch, subjects.called


def _described(value: Any) -> str:
    if not isinstance(value, tuple):
        return type(value).__name__
    return "(%s)" % ", ".join(type(each).__name__ for each in value)


def _batch_for(module: Any, spec: Dict[str, Any], seed: int) -> Any:
    """A batch for a module that came without one, by what it tells of itself."""
    config: Any = getattr(subjects.transformers_like(module) or module, "config", None)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    vocabulary = getattr(text, "vocab_size", None)
    if isinstance(vocabulary, int) and vocabulary > 0:
        length = spec["length"] or min(64, getattr(text, "max_position_embeddings", 64) or 64)
        tokens = subjects.random_tokens(vocabulary, spec["batch"], length, seed)
        return {"input_ids": tokens, "labels": tokens.clone()}
    example = getattr(module, "example_input_array", None)
    if example is None:
        said = "the factory returned a module alone, which tells neither config.vocab_size nor "
        raise NotAFactory(said + "example_input_array; " + subjects.RETURN_WHAT)
    if seed != SEED:
        raise subjects.NotPossible("the model brings its one example_input_array")
    return example


def placed(module: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """The module on the device; one that is there, or spread over several, is not touched."""
    where = {str(weight.device) for weight in module.parameters()}
    if "meta" in where:
        raise NotAFactory("the model has parameters on the meta device, which have no values")
    there = len(where) > 1 or where == {str(device)}
    return module if there else module.to(device)
