"""Found by every Python that `doctor guard` or `doctor rehearse` starts: waits for torch, watches.

Imports nothing that the interpreter has not imported already, and runs the sitecustomize that it
hides.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing is not imported into the program
if TYPE_CHECKING:
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_WAITS_FOR = "torch"


def _load_guard() -> Any:
    """The guard's package, from beside this directory, under a name of its own."""
    import importlib.util

    name = "_doctor_guard"
    if name not in sys.modules:
        package = os.path.dirname(_HERE)
        spec: Any = importlib.util.spec_from_file_location(
            name, os.path.join(package, "__init__.py"), submodule_search_locations=[package]
        )
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def _watch() -> None:
    """Start the guard; an error of its own is one line, not the program's."""
    try:
        guard = _load_guard()
        settings = sys.modules[guard.__name__ + ".settings"].from_environment()
        sys.modules[guard.__name__ + ".session"].start(settings)
        if "DOCTOR_REHEARSAL" in os.environ:
            _rehearsal().observe(sys.modules[_WAITS_FOR])
    except Exception as error:
        sys.stderr.write("doctor guard: this process is not watched: %r\n" % (error,))


def _rehearsal() -> Any:
    from importlib import import_module

    return import_module(_load_guard().__name__ + ".rehearsal")


class _Finder:
    """Finds torch like everybody else, and lets the guard in when it has been imported.

    It waits on where torch is only looked for, as libraries do that can go without.
    """

    _finding = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _WAITS_FOR or self._finding:
            return None
        from importlib.util import find_spec

        self._finding = True
        try:
            spec = find_spec(name)
        finally:
            self._finding = False
        loader: Any = getattr(spec, "loader", None)
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return spec

        def exec_module(module: Any) -> None:
            del loader.exec_module
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            execute(module)
            _watch()

        loader.exec_module = exec_module
        return spec


def _chain() -> None:
    """Run the sitecustomize that this one hides."""
    from importlib.machinery import PathFinder

    elsewhere = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    import importlib.util

    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if "DOCTOR_GUARD" in os.environ:
    sys.meta_path.insert(0, _Finder())
if "DOCTOR_REHEARSAL" in os.environ:
    try:
        _rehearsal().begin()
    except Exception as error:
        sys.stderr.write("doctor rehearse: this process is not observed: %r\n" % (error,))
_chain()
