"""Numbers and tensors that objects of the user's own classes hold, and no state_dict()."""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from types import ModuleType
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from ..foreign import Foreign

LIBRARIES = ("site-packages", "dist-packages", "/lib/python", "<frozen")
"""In the paths of files that are not the user's."""
MOST, LONGEST = 400, 200
"""Values that are recorded, and characters of a name."""
REGISTERED = ("_parameters", "_buffers", "_modules")
"""What a module's state_dict() is made of."""
LARGEST = 2**22
"""Elements of a tensor."""
STOPS = re.compile(r"early_?stop|patience", re.IGNORECASE)
"""In names of classes that end a training when it gets no better, also of libraries."""
DEPTH = 60
"""Frames that are looked at."""


def is_own(kind: type) -> bool:
    """Whether a class is of the user's program, and its objects have attributes."""
    if kind.__dictoffset__ == 0:
        return False
    module = sys.modules.get(kind.__module__)
    path = getattr(module, "__file__", None) or ""
    here = os.path.dirname(os.path.dirname(__file__))
    main = kind.__module__ == "__main__"
    return main or bool(path and not path.startswith(here) and not any(
        part in path for part in LIBRARIES
    ))  # fmt: skip


def stops_early(kind: type) -> bool:
    """Whether objects of this class count for how long a result has not improved."""
    return kind.__dictoffset__ != 0 and bool(STOPS.search(kind.__name__))


def attributes(torch: ModuleType, objects: List[Foreign]) -> Dict[str, List[float]]:
    """Name -> the number, or a tensor's mean and root mean square, [] for None, of all objects
    whose class has no more than one of them: no order of several is the same in two runs."""
    of_kind: Dict[type, List[Foreign]] = {}
    for each in objects:
        of_kind.setdefault(type(each), []).append(each)
    found: Dict[str, List[float]] = {}
    for kind, several in of_kind.items():
        if len(several) == 1:
            for name, value in _named(several[0].__dict__):
                numbers = _numbers(torch, value)
                if numbers is not None and len(found) < MOST:
                    found[f"{kind.__name__}.{name}"[:LONGEST]] = numbers
                elif type(value) in (list, deque) and len(found) < MOST:
                    found[f"len({kind.__name__}.{name})"[:LONGEST]] = [float(len(value))]
    return found


def variables(torch: ModuleType) -> Dict[str, List[float]]:
    """The same of the variables of the user's functions that are running, and of the script:
    numbers that are no counts, unless of a best result, and tensors without a graph."""
    found: Dict[str, List[float]] = {}
    for function, held in _frames():
        for name, value in held.items():
            best = type(value) is int and "best" in name.lower()
            if type(value) is not float and type(value) is not torch.Tensor and not best:
                continue
            numbers = None if getattr(value, "requires_grad", False) else _numbers(torch, value)
            if numbers is not None and len(found) < MOST:
                found[f"({function}) {name}"[:LONGEST]] = numbers
    return found


def _frames() -> Iterator[Tuple[str, Dict[str, Any]]]:
    """Name and variables of the user's functions that are running, and of the script."""
    frame: Foreign = sys._getframe(1)
    for _ in range(DEPTH):
        path = frame.f_code.co_filename
        if not any(part in path for part in (*LIBRARIES, "/doctor/guard/")):
            yield frame.f_code.co_name, dict(frame.f_locals)
        if frame.f_back is None:
            break
        frame = frame.f_back


def names_of(wanted: Set[int], objects: List[Foreign]) -> Dict[int, str]:
    """Id -> a variable or an attribute that has this object, "(<module>) log_alpha": of the user's
    functions that are running, and of these objects."""
    places = [(f"({function}) ", held) for function, held in _frames()]
    places += [(f"{type(each).__name__}.", each.__dict__) for each in objects]
    found: Dict[int, str] = {}
    for prefix, held in places:
        for name, value in list(held.items()):
            if id(value) in wanted and prefix + name not in found.values():
                found.setdefault(id(value), f"{prefix}{name}"[:LONGEST])
    return found


def _named(held: Dict[str, Any]) -> Iterator[Tuple[str, Any]]:
    """The attributes, and what those hold that are a dict."""
    for name, value in list(held.items()):
        if name in REGISTERED:
            continue
        if type(value) is dict and len(value) <= MOST:
            yield from ((f"{name}.{key}", each) for key, each in list(value.items()))
        else:
            yield name, value


def _numbers(torch: ModuleType, value: Foreign) -> Optional[List[float]]:
    if value is None:
        return []
    if type(value) in (int, float):
        return [float(value)]
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        if value.dtype.kind not in "iuf" or not 0 < value.size <= LARGEST:
            return None
        value = torch.as_tensor(numpy.array(value, dtype="float64"))
    if type(value) is not torch.Tensor or value.layout is not torch.strided or value.is_meta:
        return None
    if value.dtype is torch.bool or value.is_complex() or not 0 < value.numel() <= LARGEST:
        return None
    doubles = value.detach().to("cpu", torch.float64)
    return [float(doubles.mean()), float(doubles.square().mean().sqrt())]
