"""Python tracebacks in a log, each joined from the lines of one process."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

HEADER = "Traceback (most recent call last)"
IGNORED = "Exception ignored in"
NOT_LOGGED = "--- Logging error ---"
"""A message could not be formatted: logging prints the traceback and the program goes on."""
CUES = (HEADER.encode(), IGNORED.encode(), NOT_LOGGED.encode())
"""Texts of the lines that begin a traceback, or announce one that Python ignores."""
PREFIX = re.compile(
    r"^(?:\[[\w-]{1,40}\]:? ?"
    r"|[\w.-]{1,60}:? (?=\[[Rr]ank ?\d{1,6}\]:)|\d{1,6}: |\[\d+,\d+\]<std(?:err|out)>: ?"
    r"|\([\w .-]{1,60}pid=\d+[^)]{0,60}\) ?|\[\d+\] )"
)
"""What a launcher writes before each line of a process."""
FRAME = re.compile(r'File "([^"]{1,500})", line (\d{1,8})(?:, in (\S{1,200}))?')
RICH_FRAME = re.compile(r"(?:[│|] )(/?[\w./~-]{1,300}\.py):(\d{1,8}) in (\S{1,100})")
EXCEPTION = re.compile(
    r"^(?P<exception>(?:[A-Za-z_]\w{0,100}\.){0,10}[A-Za-z_]\w{0,140})(?:: ?(?P<message>.*))?$"
)
"""The line that ends a traceback."""
BARE = re.compile(
    r"^(?:\[?(?:ERROR|CRITICAL|FATAL)\b.{0,100}?[\]:] "
    r"?)?(?P<exception>(?:[A-Za-z_]\w{0,60}\.){0,8}(?:_?[A-Z]\w{1,60}(?:Error|Exception|Interrupt)|"
    r"Exception)):(?: (?P<message>\S.*)|\s*)$"
)
"""An exception without a traceback: a log that was cut, a notebook, a server's log."""
ARGPARSE = re.compile(r"^(?P<exception>[\w./-]{1,120}\.py: error): (?P<message>\S.*)$")
"""How a program ends that refuses its command line."""
BARE_CUES = (b"Error:", b"Exception:", b".py: error:")
LONGEST = 4000
"""Lines of a traceback that are waited for."""
CODE = ("    ", "│", "|")
PACKAGE = re.compile(r"(?:site|dist)-packages/(\w{1,60})[/.]")
CONNECTING = {"urllib3", "requests", "httpx", "httpcore", "aiohttp", "anyio", "websocket",
              "websockets", "grpc", "tenacity", "backoff"}  # fmt: skip
OF_FRAME = ('  File "', "    ")
INSIDE = (" ", "\t", "│", "╭", "╰", "|", "❱", "+", "^", "~")


@dataclass(slots=True)
class Traceback:
    """An open traceback: its header, and the last lines so far."""

    line: int
    ignored: bool = False
    """Python says that it ignores the exception: one in a destructor."""
    lines: int = 0
    frames: deque[str] = field(default_factory=lambda: deque(maxlen=2))
    code: str = ""
    """The last frame that is not in an installed package: "train.py:12 in main"."""
    source: str = ""
    """The line of that frame as the traceback has it."""
    functions: deque[str] = field(default_factory=lambda: deque(maxlen=24))
    """Of the last frames, the innermost last."""
    package: str = ""
    """Of the last frame in an installed package that is none of those that make connections."""
    _is_own: bool = False

    def add(self, body: str) -> None:
        """Add one line below the header."""
        self.lines += 1
        match = FRAME.search(body) or RICH_FRAME.search(body)
        if match:
            self.frames.clear()
            self.functions.append(match[3] or "")
            self._is_own = not is_installed(match[1])
            if (package := PACKAGE.search(match[1])) and package[1] not in CONNECTING:
                self.package = package[1]
            if self._is_own:
                self.code = f"{match[1]}:{match[2]}" + (f" in {match[3]}" if match[3] else "")
                self.source = ""
        elif self._is_own and not self.source:
            self.source = body
        self.frames.append(body)


def is_installed(path: str) -> bool:
    """Whether a file is of a package or of Python, rather than of the program."""
    parts = ("site-packages", "dist-packages", "/lib/python3")
    return any(part in path for part in parts) or path.startswith("<frozen")


def bare_exception(text: str) -> re.Match[str] | None:
    """The exception that a line without a traceback consists of."""
    body = split_prefix(text)[1][:2000]
    if ".py: error:" in body:
        return ARGPARSE.match(body)
    return BARE.match(body) if "Error:" in body or "Exception:" in body else None


class Tracebacks:
    """The open traceback of each process whose lines have a prefix of their own."""

    MOST = 1024

    def __init__(self) -> None:
        self.open: dict[str, Traceback] = {}
        self._ignored: set[str] = set()

    def is_code(self, text: str) -> bool:
        """Whether the line is source code in a traceback: `    raise ValueError("...")`."""
        prefix, body = split_prefix(text)
        return body.startswith(CODE) and (prefix in self.open or body.lstrip().startswith("raise "))

    def holds(self, text: str) -> bool:
        """Whether the line is a frame of an open traceback, or its code."""
        prefix, body = split_prefix(text)
        return prefix in self.open and body.startswith(OF_FRAME)

    def take(self, number: int, text: str) -> tuple[Traceback, str] | None:
        """The traceback that this line ends, and the line without its prefix; else None."""
        prefix, body = split_prefix(text)
        if HEADER in body:
            if len(self.open) < self.MOST:
                self.open[prefix] = Traceback(number, prefix in self._ignored)
            self._ignored.discard(prefix)
            return None
        if NOT_LOGGED in body:
            self._ignored.add(prefix)
            return None
        if body.startswith(IGNORED):
            self._ignored.add(prefix)
            self.open[prefix] = Traceback(number, ignored=True)  # the exception may stand alone
            return None
        traceback = self.open.get(prefix)
        if traceback is None:
            return None
        if not body.strip() or (body.startswith(INSIDE) and traceback.lines < LONGEST):
            traceback.add(body)
            return None
        del self.open[prefix]
        return traceback, body


def split_prefix(text: str) -> tuple[str, str]:
    """What the launcher wrote before the line, and the line."""
    match = PREFIX.match(text)
    end = match.end() if match else 0
    while match and (match := PREFIX.match(text[end:])):
        end += match.end()
    return text[:end], text[end:]
