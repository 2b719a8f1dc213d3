"""What Python code of this process opens, removes and connects to, as Python's audit events say.

The kernel refuses what is not allowed; this says what it was. Code in C++ or Rust raises no events.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Callable

from ..foreign import Foreign
from .settings import Settings

FILE = "events.jsonl"
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    "os.remove": 1, "os.rmdir": 1, "os.mkdir": 2, "os.truncate": None, "os.symlink": None,
    "os.chmod": 2, "os.chown": None, "shutil.rmtree": 1,
}  # fmt: skip
"""Event -> where its arguments have the descriptor of a directory."""
MOST, LONGEST = 200, 1000
"""Records of a kind in a process; characters of a path."""
IGNORED = ("/dev/", "/proc/", "/sys/")
LOCAL = ("", "localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 - names, not what is bound

Report = Callable[..., None]


class Events:
    """Appends records to one file that all processes share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.path = os.path.join(settings.records, FILE)
        self.busy = False
        self.seen: set[tuple[str, str]] = set()
        self.counts: dict[str, int] = {}

    def report(self, kind: str, what: str, path: str = "", **fields: Foreign) -> None:
        """One record; the same once."""
        count = self.counts.get(kind, 0)
        if (kind, what + path) in self.seen or count >= MOST:
            return
        self.seen.add((kind, what + path))
        self.counts[kind] = count + 1
        record = {"kind": kind, "what": what, "path": path[:LONGEST], "pid": os.getpid(),
                  "moment": int(1000 * time.time()), **fields}  # fmt: skip
        busy, self.busy = self.busy, True
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            file = os.open(self.path, flags, 0o600)
            try:
                os.write(file, json.dumps(record).encode() + b"\n")
            finally:
                os.close(file)
        except OSError:
            pass
        finally:
            self.busy = busy


def install(settings: Settings) -> Report:
    """Start listening; the function that reports."""
    events = Events(settings)
    output = settings.output.rstrip("/")
    allowed = tuple(path.rstrip("/") + "/" for path in settings.writable)

    def changed(event: str, path: Foreign, descriptor: Foreign = None) -> None:
        text = _absolute(path, descriptor)
        if not text or (text + "/").startswith(allowed) or text.startswith(IGNORED):
            return
        real = os.path.realpath(text)
        if (real + "/").startswith(allowed) or real.startswith(IGNORED):
            return
        if "__pycache__" in real or (event == "os.mkdir" and os.path.isdir(real)):
            return
        events.report("write", event, text, exists=os.path.lexists(real))

    def looked(event: str, path: Foreign) -> None:
        text = _absolute(path, None)
        if text == output or text.startswith(output + "/"):
            events.report("read", event, text, exists=os.path.exists(text))

    def resolve(event: str, args: Foreign) -> None:
        if event == "open":
            path, _, flags = args
            if flags & WRITING:
                changed("open", path)
            else:
                looked("open", path)
        elif event in CHANGES:
            place = CHANGES[event]
            changed(event, args[0], args[place] if place and len(args) > place else None)
        elif event in ("os.rename", "os.link"):
            changed(event, args[0], args[2] if len(args) > 2 else None)
            changed(event, args[1], args[3] if len(args) > 3 else None)
        elif event in ("os.listdir", "os.scandir", "glob.glob"):
            looked(event, args[0])
        elif event == "socket.getaddrinfo":
            host = args[0].decode() if isinstance(args[0], bytes) else args[0]
            if isinstance(host, str) and host not in LOCAL and host != os.uname().nodename:
                events.report("connect", host)

    known = {"open", "os.rename", "os.link", "os.listdir", "os.scandir", "glob.glob",
             "socket.getaddrinfo", *CHANGES}  # fmt: skip

    def hook(event: str, args: Foreign) -> None:
        if event not in known or events.busy:
            return
        events.busy = True
        try:
            resolve(event, args)
        except Exception:  # the program goes on, whatever this could not read
            pass
        finally:
            events.busy = False

    sys.addaudithook(hook)
    return events.report


def _absolute(path: Foreign, descriptor: Foreign) -> str:
    """The path as text; "" for what is none."""
    if path is None:
        path = "."
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str):
        return ""
    if isinstance(descriptor, int) and descriptor >= 0 and not path.startswith("/"):
        path = os.path.join(os.readlink(f"/proc/self/fd/{descriptor}"), path)
    return os.path.abspath(path)
