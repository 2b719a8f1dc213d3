"""Gives the CPU build of torch pretended CUDA devices; see pretend_tensors.py.

This folder stands on PYTHONPATH of an interpreter that `support/pretend.py` writes. After
`import torch` the devices of the environment's PRETEND_CUDA appear; every stage that a probe
enters is known by wrapping `wire.send`. A fork of a process that has imported torch imports it
again, which is then only this preparation.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.machinery
import json
import os
import sys
from typing import Any


class Pretending(importlib.abc.MetaPathFinder):
    """Finds `torch` and the probes' `wire`, and runs `prepare` once they are loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in PREPARED:
            return None
        prepare = PREPARED.pop(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            create, execute = spec.loader.create_module, spec.loader.exec_module
            imported = IMPORTED.get(name)

            def create_module(spec: Any) -> Any:
                return imported or create(spec)

            def exec_module(module: Any) -> None:
                if not imported:
                    if name == "torch":  # torch asks for its CUDA hooks once, while it is imported
                        ctypes.CDLL(CONFIG["library"])
                    execute(module)
                prepare(module)

            spec.loader.create_module = create_module  # type: ignore[method-assign]
            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def prepare_torch(torch: Any) -> None:
    import pretend_backend

    pretend_backend.install(torch)


def prepare_wire(wire: Any) -> None:
    """Record the stages; `pretend_record` tells the error of a stage."""
    import pretend_record

    send = wire.send

    def recording(**message: Any) -> None:
        send(**message)
        if "enter" in message:
            pretend_record.enter(message["enter"])

    wire.send = recording


PREPARED = {"torch": prepare_torch, "_doctor_probes.wire": prepare_wire}

CONFIG = json.loads(os.environ.get("PRETEND_CUDA", "{}"))

IMPORTED = {"torch": sys.modules.pop("torch")} if CONFIG and "torch" in sys.modules else {}
if CONFIG:
    sys.meta_path.insert(0, Pretending())
