"""The messages a probe writes and reads; `doctor.collect.child` defines their meaning.

Probes run by path under the training interpreter, so this file keeps to the standard library and
to the syntax of Python 3.9. Importing it takes the probes' folder off sys.path, and the working
directory that an empty entry of PYTHONPATH puts there: a folder named torch lying about must not
be imported instead of torch.
"""

import contextlib
import importlib.util
import json
import math
import os
import queue
import sys
import threading
import time
from typing import Any, Dict, Iterator, List, Union

_REPORT = int(sys.argv[1])
_AVOIDED = {os.path.realpath(os.path.dirname(__file__))}
if {"", "."} & set(os.environ.get("PYTHONPATH", "absent").split(os.pathsep)):
    _AVOIDED.add(os.path.realpath(os.getcwd()))
sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") not in _AVOIDED]


def tell(**message: Any) -> None:
    """Write one message; a parent that is gone ends the probe."""
    data = json.dumps(message).encode() + b"\n"
    try:
        while data:
            data = data[os.write(_REPORT, data) :]
    except OSError:
        os._exit(1)


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """Name the call that may hang or crash, and time it."""
    tell(enter=name)
    began = time.perf_counter()
    yield
    tell(left=name, seconds=time.perf_counter() - began)


def number(value: float) -> Union[float, str]:
    """A float as the facts write it: non-finite ones as strings."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def said(error: BaseException) -> str:
    """ "ValueError: first line of the message"."""
    lines: List[str] = str(error).strip().splitlines() or [""]
    return "%s: %s" % (type(error).__name__, lines[0])


def sibling(name: str) -> Any:
    """The module of another training-side probe file, by path: it is not on sys.path."""
    private = "doctor_probe_" + name
    if private not in sys.modules:
        path = os.path.join(
            os.path.dirname(os.path.abspath(__file__)), "training_side", name + ".py"
        )
        spec = importlib.util.spec_from_file_location(private, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[private] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[private]


def requests() -> Iterator[Dict[str, Any]]:
    """Requests from stdin. The end of stdin ends the process at once, whatever it is doing."""
    arrived: "queue.Queue[Dict[str, Any]]" = queue.Queue()

    def read() -> None:
        for line in sys.stdin.buffer:
            arrived.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield arrived.get()
