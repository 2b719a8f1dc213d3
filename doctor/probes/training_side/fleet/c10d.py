"""torch.distributed's TCPStore, without the Python part of torch where that is possible.

The class is compiled, and torch's Python modules take four times as long to import as it does.
"""

from __future__ import annotations

import importlib.machinery
import resource
import sys
import types

from ..foreign import Foreign

OWN_MEMORY = 64 * 2**20


def tcp_store(whole: bool) -> Foreign:
    """The class TCPStore. `whole`: by importing all of torch."""
    if not whole and "torch" not in sys.modules:
        _stand_in("torch")
        _stand_in("torch.distributed")
        sys.modules.setdefault("numpy", None)  # type: ignore[arg-type]  # a quarter of the time
        import torch._C

        if torch._C._c10d_init():
            from torch._C._distributed_c10d import TCPStore

            return TCPStore
        raise ImportError("torch was built without torch.distributed")
    import torch.distributed

    return torch.distributed.TCPStore  # type: ignore[attr-defined]


def _stand_in(name: str) -> None:
    """A module without content, whose parts can be imported."""
    parent, _, child = name.rpartition(".")
    path = sys.modules[parent].__path__ if parent else None
    spec = importlib.machinery.PathFinder.find_spec(child, path)
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError("No module named %r" % name)
    module = types.ModuleType(name)
    module.__path__ = list(spec.submodule_search_locations)
    sys.modules[name] = module
    if parent:
        setattr(sys.modules[parent], child, module)


def limit_memory(more: int) -> None:
    """Let this process allocate so many bytes beyond what it has, and no more.

    A value grows without bound as anyone appends to it. An allocation that is refused ends one
    connection of the server, and one call of a client.
    """
    try:
        with open("/proc/self/status") as status:
            used = next(int(line.split()[1]) for line in status if line.startswith("VmData:"))
        resource.setrlimit(resource.RLIMIT_DATA, (used * 1024 + OWN_MEMORY + more,) * 2)
    except (OSError, ValueError, StopIteration):  # not Linux
        pass
