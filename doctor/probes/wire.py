"""The messages a probe writes and reads; `doctor.collect.child` defines their meaning.

Probes run by path under the training interpreter, so this file keeps to the standard library and
to the syntax of Python 3.9. Importing it removes the probes' directory from sys.path, and the
working directory that an empty entry of PYTHONPATH puts there: a directory named torch must not
be imported instead of torch.
"""

import contextlib
import importlib.util
import json
import math
import os
import queue
import select
import sys
import threading
import time
from typing import Any, Dict, Iterator, List, Union

INCOMPLETE = (":", ",", "(", "[", "{")
"""How a line of a message ends that goes on in the next one: torch.compile's quote calls whose
arguments take several lines, and give the reason after them."""
NUMBERS_FOLLOW = "found invalid values:"
"""The end of a line after which torch.distributions prints a whole tensor."""
MOST_LINES = 12
HEAD, TAIL = 200, 400
"""Characters at the start and the end of a message of several lines."""
_REPORT = int(sys.argv[1])
_REMOVED = {os.path.realpath(os.path.dirname(__file__))}
if {"", "."} & set(os.environ.get("PYTHONPATH", "absent").split(os.pathsep)):
    _REMOVED.add(os.path.realpath(os.getcwd()))
sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") not in _REMOVED]


def send(**message: Any) -> None:
    """Write one message; end the probe if its parent is gone."""
    data = json.dumps(message).encode() + b"\n"
    try:
        while data:
            data = data[os.write(_REPORT, data) :]
    except OSError:
        os._exit(1)


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """Report the name of a call that may hang or crash, and its duration."""
    send(enter=name)
    started = time.perf_counter()
    yield
    send(left=name, seconds=time.perf_counter() - started)


def number(value: float) -> Union[float, str]:
    """A float as the facts write it: non-finite ones as strings."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def describe(error: BaseException) -> str:
    """ "ValueError: first line of the message", and the next lines if that one is not complete."""
    message = str(error)
    if isinstance(error, KeyError) and " " in str(error.args[:1]):  # its text is a repr
        message = str(error.args[0])
    lines: List[str] = [line.strip() for line in message.strip().splitlines()] or [""]
    count = 1
    while count < min(len(lines), MOST_LINES) and lines[count - 1].endswith(INCOMPLETE):
        if lines[count - 1].endswith(NUMBERS_FOLLOW):
            lines[count - 1] = lines[count - 1][:-1]
            break
        count += 1
    text = " ".join(lines[:count])
    if count > 1 and len(text) > HEAD + TAIL:
        text = "%s ... %s" % (text[:HEAD], text[-TAIL:])
    return "%s: %s" % (type(error).__name__, text)


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
    """Requests from stdin. From this call on, the end of stdin ends the process at once."""
    received: "queue.Queue[Dict[str, Any]]" = queue.Queue()

    def read() -> None:
        for line in sys.stdin.buffer:
            received.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return iter(received.get, None)


def stopped(seconds: float) -> bool:
    """Wait at most that long for a request; the end of stdin ends the probe."""
    if not select.select([sys.stdin.buffer], [], [], seconds)[0]:
        return False
    if not sys.stdin.buffer.readline():
        sys.exit()
    return True
