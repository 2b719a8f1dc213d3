"""Calls a function when a module has been imported."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Callable

from ..foreign import Foreign


class AfterImport:
    """A finder that finds like everybody else; `actions` get the module once it is executed."""

    def __init__(self, actions: dict[str, Callable[[Foreign], None]]) -> None:
        self.actions = actions
        self._finding: set[str] = set()

    def find_spec(self, name: str, path: Foreign = None, target: Foreign = None) -> Foreign:
        """Part of the protocol of sys.meta_path."""
        if name not in self.actions or name in self._finding:
            return None
        self._finding.add(name)
        try:
            spec: Foreign = find_spec(name)
        finally:
            self._finding.discard(name)
        loader: Foreign = getattr(spec, "loader", None)
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return spec

        def exec_module(module: Foreign) -> None:
            del loader.exec_module
            execute(module)
            action = self.actions.pop(name, None)  # not before: many only look for a module
            try:
                if action is not None:
                    action(module)
            except Exception as error:  # a version with other names
                sys.stderr.write("doctor rehearse: %s is not observed: %r\n" % (name, error))

        loader.exec_module = exec_module
        return spec


def after_import(actions: dict[str, Callable[[Foreign], None]]) -> None:
    """Each function gets its module when that is imported, or now if it is."""
    for name in [name for name in actions if name in sys.modules]:
        actions.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, AfterImport(actions))
