"""A real HTTP server on the loopback, well behaved or not, that counts what it sends."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

MANNERS = ("well", "no-ranges", "longer", "shifted", "early", "slow", "silent", "changing", "gzip")


@dataclass
class Served:
    """Where it listens, the paths of its requests and how many bytes of files it sent."""

    address: str
    paths: list[str] = field(default_factory=list)
    sent: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    """A path's last part -> the status that it always answers."""


@contextlib.contextmanager
def serving(root: Path, manner: str = "well") -> Iterator[Served]:
    """Serve a folder. `manner` tells how the answers to GET go wrong."""
    assert manner in MANNERS

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            served.paths.append(self.path)
            path = root / unquote(urlsplit(self.path).path).lstrip("/")
            name = path.name
            if status := served.statuses.get(name):
                self._end(status)
            elif not path.is_file():
                self._end(404)
            else:
                self._file(path.read_bytes())

        def _end(self, status: int) -> None:
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", f"{served.address}/moved{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _file(self, data: bytes) -> None:
            span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if manner == "no-ranges" or span is None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self._send(data)
                return
            begin, last = int(span[1]), min(int(span[2]), len(data) - 1)
            if begin >= len(data):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(data)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self._part(data, begin, last)

        def _part(self, data: bytes, begin: int, last: int) -> None:
            part, total = data[begin : last + 1], len(data)
            length = len(part)
            probe = length == 1
            if manner == "changing":
                total += len(served.paths)
            if manner == "longer" and not probe:
                part, length = part + bytes(1 << 20), length + (1 << 20)
            if manner == "shifted" and not probe:
                begin, last = begin + 1, last + 1
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{last}/{total}")
            self.send_header("Content-Length", str(length))
            if manner == "gzip":
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            if manner == "early" and not probe:
                part = part[: len(part) // 2]
                self.close_connection = True
            self._send(part, drops=not probe)

        def _send(self, data: bytes, drops: bool = True) -> None:
            with contextlib.suppress(OSError):
                if manner == "silent" and drops:
                    stop.wait(60)
                elif manner == "slow" and drops:
                    for byte in data:
                        self.wfile.write(bytes([byte]))
                        served.sent += 1
                        if stop.wait(0.05):
                            return
                else:
                    self.wfile.write(data)
                    served.sent += len(data)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    stop = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = Served(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        stop.set()
        server.shutdown()
        server.server_close()
        thread.join()
        time.sleep(0)
