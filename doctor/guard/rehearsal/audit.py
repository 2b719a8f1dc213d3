"""What Python code of this process opens, removes and connects to, as Python's audit events say.

The kernel refuses what is not allowed; this says what it was. Code in C++ or Rust raises no events.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from ..foreign import Foreign
from .places import calling_line
from .settings import Settings

FILE = "events.jsonl"
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    "os.remove": 1, "os.rmdir": 1, "os.mkdir": 2, "os.truncate": None,
    "os.chmod": 2, "os.chown": None, "shutil.rmtree": 1,
}  # fmt: skip
"""Event -> where its arguments have the descriptor of a directory."""
MOST, LONGEST = 200, 1000
"""Records of a kind in a process; characters of a path."""
SAVES = re.compile(r"\.(ckpt|pth?|pkl|pickle|npz|joblib|msgpack|bin)(\W?(tmp|part|new|temp)\w*)?$")
"""Names of files whose writing is a save."""
WEIGHTS = re.compile(SAVES.pattern.replace("ckpt|", "ckpt|safetensors|distcp|"))
"""Names of files that a training can go on from."""
BEST = re.compile(r"(?<![a-z])best(?![a-z])", re.IGNORECASE)
"""In names of results, which are kept beside what a training goes on from."""
MOST_LOOKED = 10_000
"""Files of {output} among which another checkpoint is looked for."""
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


class Audit:
    """What the audit events say of files and hosts."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.output = events.settings.output.rstrip("/")
        self.real_output = os.path.realpath(self.output) + "/"
        self.removed = ""
        """The last one that was removed as the newest; what is below it is removed with it."""
        self.arriving = ""
        """Where the last rename from outside {output} went to. Under confinement it fails, as
        {output} is a mount of its own, and shutil.move copies instead: that is no rewriting."""
        self.saving: Callable[[str], None] = lambda path: None
        """Called before Python code writes a file that looks like a checkpoint's into {output}."""
        self.allowed = tuple(path.rstrip("/") + "/" for path in events.settings.writable)
        self.actions: Dict[str, Callable[..., None]] = {
            "open": self.opened,
            "os.rename": self.moved,
            "os.link": self.moved,
            "os.symlink": self.linked,
            "socket.getaddrinfo": self.resolved,
            **dict.fromkeys(("os.listdir", "os.scandir", "glob.glob"), self.looked),
            **dict.fromkeys(CHANGES, self.changed),
        }

    def __call__(self, event: str, args: Foreign) -> None:
        """The hook itself, called for every event of Python."""
        action = self.actions.get(event)
        if action is None or self.events.busy:
            return
        self.events.busy = True
        try:
            action(event, args)
        except Exception:  # the program goes on, whatever this could not read
            pass
        finally:
            self.events.busy = False

    def opened(self, event: str, args: Foreign) -> None:
        """open(), for reading or writing."""
        if args[2] & WRITING:
            path = _absolute(args[0], None)
            self.wrote(event, path)
            if args[2] & os.O_TRUNC and SAVES.search(path) and self._in_output(path):
                self.overwrites(event, path)
                self.saving(path)
        else:
            self.looked(event, args)

    def changed(self, event: str, args: Foreign) -> None:
        """A file or directory is made, removed or changed."""
        place = CHANGES[event]
        path = _absolute(args[0], _at(args, place) if place else None)
        self.wrote(event, path)
        if event in ("os.remove", "shutil.rmtree") and self._in_output(path):
            self.removes(event, path)

    def moved(self, event: str, args: Foreign) -> None:
        """A rename or link, which changes two places."""
        for path, place in ((args[0], 2), (args[1], 3)):
            self.wrote(event, _absolute(path, _at(args, place)))

        path = _absolute(args[1], _at(args, 3))
        if event == "os.rename" and self._in_output(path):
            if not self._in_output(_absolute(args[0], _at(args, 2))):
                self.arriving = path
            if WEIGHTS.search(path):
                self.events.report("renamed", event, path)

    def linked(self, event: str, args: Foreign) -> None:
        """A link is made: where it points to is not changed."""
        self.wrote(event, _absolute(args[1], _at(args, 2)))

    def looked(self, event: str, args: Foreign) -> None:
        """Something is read or listed: of interest in {output}."""
        text = _absolute(args[0], None)
        if self._in_output(text):
            self.events.report("read", event, text, exists=os.path.exists(text))

    def resolved(self, event: str, args: Foreign) -> None:
        """The address of a host is looked up."""
        host = args[0].decode() if isinstance(args[0], bytes) else args[0]
        if isinstance(host, str) and host not in LOCAL and host != os.uname().nodename:
            self.events.report("connect", "look-up of the host", host)

    def wrote(self, event: str, path: str) -> None:
        """A change of a path that may lie outside."""
        if not path or self._allows(path):
            return
        real = os.path.realpath(path)
        if self._allows(real) or "__pycache__" in real:
            return
        if event == "os.mkdir" and os.path.isdir(real):
            return
        self.events.report("write", event, path, exists=os.path.lexists(real), place=calling_line())

    def overwrites(self, event: str, path: str) -> None:
        """A file of {output} is about to be written: over one that has contents?"""
        try:
            written = os.stat(path).st_size > 0
        except OSError:
            return
        if written and self._in_output(path) and path != self.arriving:
            self.events.report("rewrite", event, path)

    def removes(self, event: str, path: str) -> None:
        """A file or directory of {output} is about to be removed: the only or newest checkpoint?"""
        inside = path + "/"
        if self.removed and inside.startswith(self.removed):
            return
        goes = stays = 0.0
        is_result = BEST.search(path[len(self.output) :])
        for number, (each, changed) in enumerate(_checkpoint_files(self.output)):
            if number >= MOST_LOOKED:
                return
            if (each + "/").startswith(inside):
                goes = max(goes, changed)
            elif is_result or not BEST.search(each[len(self.output) :]):
                stays = max(stays, changed)
        if goes > stays:
            self.removed = inside
            self.events.report("newest" if stays else "emptied", event, path)

    def _in_output(self, path: str) -> bool:
        """Whether it lies in {output}, and not behind a link that leads out of it."""
        if path != self.output and not path.startswith(self.output + "/"):
            return False
        inside = (os.path.realpath(os.path.dirname(path)) + "/").startswith(self.real_output)
        return path == self.output or inside

    def _allows(self, path: str) -> bool:
        return path.startswith(IGNORED) or (path + "/").startswith(self.allowed)


def install(settings: Settings) -> Report:
    """Start listening; the function that reports."""
    events = Events(settings)
    _installed.append(Audit(events))
    sys.addaudithook(_installed[0])
    return events.report


def installed() -> Optional[Audit]:
    """The one of this process."""
    return _installed[0] if _installed else None


_installed: List[Audit] = []


def _checkpoint_files(directory: str) -> Iterator[Tuple[str, float]]:
    """Files below it whose names are those of a checkpoint's parts, and that have contents, and
    when they were written."""
    for parent, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(parent, name)
            if WEIGHTS.search(name) and not os.path.islink(path) and os.path.getsize(path):
                yield path, os.path.getmtime(path)


def _at(args: Foreign, place: int) -> Foreign:
    return args[place] if len(args) > place else None


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
    return str(os.path.abspath(path))
