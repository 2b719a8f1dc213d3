"""The last collective that Python code of this process called, in a file that outlives a hang.

Those that C++ calls, as DistributedDataParallel does for gradients, are not seen.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from types import ModuleType
from typing import Callable, Optional

from ..foreign import Foreign

NAMES = (
    "all_reduce", "barrier", "monitored_barrier", "broadcast", "reduce", "all_gather", "gather",
    "scatter", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "all_to_all",
    "all_to_all_single", "send", "recv", "all_gather_object", "broadcast_object_list",
    "gather_object", "scatter_object_list", "new_group",
)  # fmt: skip
BYTES = 600
"""Of the one record, which is written over."""
DEPTH = 30
"""Frames in which the caller is looked for."""


class Collectives:
    """Counts the outermost collectives."""

    def __init__(self, torch: ModuleType, directory: str) -> None:
        self.torch, self.directory = torch, directory
        self.inside = os.path.join(os.path.dirname(torch.__file__ or ""), "")
        self.number = self.depth = 0
        self._file: Optional[int] = None
        self._pid = 0

    def install(self) -> None:
        """Wrap the functions of torch.distributed, under both of their names."""
        package = self.torch.distributed
        if not package.is_available():
            return
        module = sys.modules["torch.distributed.distributed_c10d"]
        for name in NAMES:
            original = vars(module).get(name)
            if original is not None:
                wrapped = self._wrapped(name, original)
                for owner in (module, package):
                    if vars(owner).get(name) is original:
                        setattr(owner, name, wrapped)

    def _wrapped(self, name: str, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
        compiling = self.torch.compiler.is_compiling

        @functools.wraps(original)
        def collective(*args: Foreign, **kwargs: Foreign) -> Foreign:
            if compiling() or self.depth:
                return original(*args, **kwargs)
            self.depth += 1
            try:
                self.write(name, returned=False)
                result = original(*args, **kwargs)
                self.write(name, returned=True)
                return result
            finally:
                self.depth -= 1

        return collective

    def write(self, name: str, *, returned: bool) -> None:
        """Keep the call; a disk that is full changes nothing."""
        self.number += not returned
        try:
            if self._file is None or self._pid != os.getpid():
                path = os.path.join(self.directory, "collective-%d.json" % os.getpid())
                self._file, self._pid = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), os.getpid()
            record = {"name": name, "number": self.number, "returned": returned,
                      "place": self.caller()}  # fmt: skip
            os.pwrite(self._file, json.dumps(record).encode()[:BYTES].ljust(BYTES), 0)
        except OSError:
            pass

    def caller(self) -> str:
        """The nearest line outside of torch and of this package."""
        frame = sys._getframe(1)
        own = os.path.dirname(__file__)
        for _ in range(DEPTH):
            path = frame.f_code.co_filename
            if not path.startswith((self.inside, own)):
                return "%s:%d" % (path[-300:], frame.f_lineno)
            if frame.f_back is None:
                break
            frame = frame.f_back
        return ""
