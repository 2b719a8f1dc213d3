"""The messages a probe writes and reads; `doctor.collect.child` defines their meaning.

All probes import this module, also those under the training interpreter, so it keeps to the
standard library and to the syntax of Python 3.9.
"""

import contextlib
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
PROBES = os.path.dirname(os.path.abspath(__file__))
"""The directory of the probes: frames of files in it are none of the user's code."""
_report = -1
# The user's code may replace these in their modules.
_encode = json.JSONEncoder().encode
_decode = json.JSONDecoder().decode
_write, _exit, _clock = os.write, os._exit, time.perf_counter


def report_to(descriptor: int) -> None:
    """Set the descriptor that `send` writes to."""
    global _report
    _report = descriptor


def send(**message: Any) -> None:
    """Write one message; end the probe if its parent is gone."""
    send_to(_report, message)


def send_to(descriptor: int, message: Dict[str, Any]) -> None:
    """Write one message to a descriptor; end the process if nobody reads it."""
    data = _encode(message).encode() + b"\n"
    try:
        while data:
            data = data[_write(descriptor, data) :]
    except OSError:
        _exit(1)


def decoded(line: bytes) -> Dict[str, Any]:
    """One message that `send_to` wrote."""
    message: Dict[str, Any] = _decode(line.decode())
    return message


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """Report the name of a call that may hang or crash, and its duration."""
    send(enter=name)
    started = _clock()
    yield
    send(left=name, seconds=_clock() - started)


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


def requests() -> Iterator[Dict[str, Any]]:
    """Requests from stdin. From this call on, the end of stdin ends the process at once."""
    received: "queue.Queue[Dict[str, Any]]" = queue.Queue()

    def read() -> None:
        for line in sys.stdin.buffer:
            received.put(_decode(line.decode()))
        _exit(0)

    threading.Thread(target=read, daemon=True).start()
    return iter(received.get, None)


def received(seconds: float) -> Dict[str, object]:
    """The request that arrives within that time, {} if none does; the end of stdin ends it."""
    if not select.select([sys.stdin.buffer], [], [], seconds)[0]:
        return {}
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit()
    return decoded(line)
