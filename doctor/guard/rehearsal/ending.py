"""Where an exception that ends the program came from."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any, Dict

LIBRARIES = ("site-packages", "dist-packages", "/lib/python", "<frozen", "/doctor/guard/")
"""In the paths of files that are not the user's."""
EXCHANGES = ("autograd/__init__.py", "nn/parallel/", "distributed/fsdp/", "distributed/_")
"""Files of torch that exchange gradients or weights in a training step, below its directory."""
LONGEST = 300


def where_it_ended(torch: ModuleType) -> Dict[str, Any]:
    """The user's nearest line, and whether the ranks exchanged gradients or weights of a step in
    it; {} where no exception ends the program."""
    trace = getattr(getattr(sys, "last_value", None), "__traceback__", None)
    inside = os.path.join(os.path.dirname(torch.__file__ or ""), "")
    place, exchanging = "", False
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if not any(library in path for library in LIBRARIES):
            place = "%s:%d" % (path[-LONGEST:], trace.tb_lineno)
            exchanging = False
        elif path.startswith(inside):
            exchanging = exchanging or path[len(inside) :].startswith(EXCHANGES)
        trace = trace.tb_next
    return {"place": place, "exchanging": exchanging} if place else {}
