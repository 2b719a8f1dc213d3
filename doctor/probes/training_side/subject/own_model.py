"""The user's own model: FILE.py:factory, called in this process.

The code of the file runs here and may do anything: its errors are passed on, what it prints goes to
stderr, and the parent has a deadline and survives its death. contract.py reads what the factory
returns.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Optional, Tuple

import torch

from ... import wire
from ..foreign import Foreign, containers, observing
from . import contract, flat_script, import_stop, partial_loads, subjects, training_step
from .subjects import NotAFactory


def make(
    spec: Dict[str, Any], device: torch.device, recipe: str, seed: Optional[int]
) -> training_step.Subject:
    """The subject returned by the factory, on the device. Raises NotAFactory and its own errors."""
    parent = os.getpid()
    try:
        with partial_loads.recorded() as loads:
            value = _call_factory(spec)
        wire.send(note={"own": {"partial_loads": loads}})
    finally:
        if os.getpid() != parent:  # the code forked, and this is its child
            os._exit(0)
    with wire.stage("move the model to the device"):
        parts = contract.parts(value, spec, seed)
        module, batch = parts.module, parts.batch
        if any(each.is_meta for each in containers.tensors(batch).values()):
            raise NotAFactory("the batch has tensors on the meta device, which have no values")
        if recipe == "pure-bf16":
            module = module.to(dtype=torch.bfloat16)
            # As a script casts its inputs for such weights.
            batch = containers.mapped(batch, lambda x: x.bfloat16() if x.is_floating_point() else x)
        module = placed(module, device)
        if parts.notes:
            name = "%s:%s" % (spec["file"], spec["name"])
            wire.send(note={"own": {"said": "%s (%s)" % (name, "; ".join(parts.notes))}})
        return training_step.Subject(
            module,
            subjects.on_device(batch, device),
            parts.loss,
            parts.update,
            parts.fixed,
            parts.last,
        )


def _call_factory(spec: Dict[str, Any]) -> Foreign:
    with wire.stage("load the code"):
        arguments = list(spec.get("arguments") or ())
        factory = load(spec["file"], spec["name"], spec["directory"], arguments)
    with wire.stage("call the factory"):
        try:
            return factory()
        except SystemExit as error:
            message = "the factory called sys.exit(%r)" % error.code
            raise NotAFactory(message + parsed(error)) from error
        except KeyboardInterrupt as error:
            raise NotAFactory("the factory raised KeyboardInterrupt") from error


def load(file: str, name: str, directory: str, arguments: Foreign = ()) -> Callable[[], Any]:
    """The function `name` of the file, which sees these command-line arguments.

    Its directory and the working directory are importable, and that of the package it is in.
    """
    path = os.path.realpath(os.path.join(directory, file))
    require_no_training(path)
    package, root = package_of(path)
    for entry in (os.path.realpath(directory), root if package else os.path.dirname(path)):
        if entry not in sys.path:
            sys.path.insert(0, entry)
    sys.argv = [path, *arguments]
    sys.stdin = open(os.devnull)  # noqa: SIM115 - the requests are read by a thread of wire
    # A process that multiprocessing spawns would run this probe again.
    sys.modules["__main__"].__dict__.pop("__file__", None)
    module = _imported(path, package)
    factory = getattr(module, name, None)
    if factory is None:
        functions = ", ".join(sorted(n for n, v in vars(module).items() if _defined_in(v, module)))
        message = "%s has no %s; it has %s" % (file, name, functions or "no function")
        raise NotAFactory(message)
    if not callable(factory):
        raise NotAFactory("%s in %s is not a function" % (name, file))
    code = observing.code_of(factory)
    if code is not None and code.co_filename.replace(os.sep, "/").endswith("hydra/main.py"):
        raise NotAFactory(
            "%s is decorated with hydra.main, which parses the command line and returns nothing: "
            "name a plain function that composes the configuration itself, "
            "with hydra.initialize(...) and hydra.compose(...)" % name
        )
    return factory  # type: ignore[no-any-return]


def require_no_training(path: str) -> None:
    """Raise NotAFactory if the file trains while it is imported, before anything of it runs."""
    try:
        with open(path, "rb") as file:
            place = flat_script.trains_on_import(file.read())
    except OSError:
        return
    if place is not None:
        raise NotAFactory(
            "%s trains while it is imported: line %d, `%s`; it was not imported"
            % (os.path.basename(path), place.line, place.code)
        )


def package_of(path: str) -> Tuple[str, str]:
    """The dotted name of a file in a package, and the directory that makes it importable."""
    directory, base = os.path.split(path)
    stem = os.path.splitext(base)[0]
    names = [] if stem == "__init__" else [stem]
    while os.path.isfile(os.path.join(directory, "__init__.py")):
        directory, name = os.path.split(directory)
        names.insert(0, name)
    return (".".join(names), directory) if len(names) > 1 or stem == "__init__" else ("", directory)


def _defined_in(value: Foreign, module: ModuleType) -> bool:
    return callable(value) and observing.attribute(value, "__module__") == module.__name__


def _imported(path: str, package: str) -> ModuleType:
    try:
        with import_stop.stopped_at_training():
            return importlib.import_module(package) if package else _module(path)
    except import_stop.TrainsOnImport as error:
        base = os.path.basename(path)
        raise NotAFactory(
            "%s trains while it is imported: %s; it was stopped there" % (base, error)
        ) from None
    except SystemExit as error:
        message = "%s called sys.exit(%r) while it was imported" % (path, error.code)
        hint = parsed(error) or "; put that under if __name__ == '__main__'"
        raise NotAFactory(message + hint) from error


def parsed(error: BaseException) -> str:
    """What to do if argparse exited: it did not find the arguments of the script."""
    entry = error.__traceback__
    while entry is not None:
        if os.path.basename(entry.tb_frame.f_code.co_filename) == "argparse.py":
            return (
                ", because argparse did not accept the command line; pass the script's arguments "
                "after --, as in: doctor run --model FILE.py:factory -- --data corpus"
            )
        entry = entry.tb_next
    return ""


def _module(path: str) -> ModuleType:
    """The module of a file, under its own name unless that is taken, never as __main__."""
    own = os.path.splitext(os.path.basename(path))[0]
    for name in (own, "doctor_own_" + own):
        if name not in sys.modules:
            break
        file = getattr(sys.modules[name], "__file__", None)
        if file and os.path.realpath(file) == path:
            return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise NotAFactory("%s is not a Python file" % path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def placed(module: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """The module on the device; unchanged if it is already there or on several devices."""
    devices = {str(weight.device) for weight in module.parameters()}
    if "meta" in devices:
        raise NotAFactory("the model has parameters on the meta device, which have no values")
    in_place = len(devices) > 1 or devices == {str(device)}
    return module if in_place else module.to(device)
