"""Serves a TCPStore until stdin ends: store_server.py FD ADDRESS PORT NODES MEMORY WHOLE.

One answer: {"port": number, "files": the limit on open files}.
"""

from __future__ import annotations

import datetime
import resource
import socket

from ... import wire
from . import c10d


def main(address: str, port: str, nodes: str, memory: str, whole: str) -> None:
    files = raise_file_limit(int(nodes))
    try:
        with wire.stage("import of the store"):
            tcp_store = c10d.tcp_store(whole == "whole")
        with wire.stage("listening on port %s" % port):
            listener = listen(address, int(port), int(nodes))
            store = tcp_store(
                address or "0.0.0.0",  # noqa: S104 - the interface is not known
                listener.getsockname()[1],
                None,
                True,
                timeout=datetime.timedelta(seconds=60),
                wait_for_workers=False,
                master_listen_fd=listener.detach(),
            )
    except Exception as error:
        code = error.errno if isinstance(error, OSError) else None
        wire.send(error=wire.describe(error), code=code)
        return
    c10d.limit_memory(int(memory))
    wire.send(answer={"port": store.port, "files": files})
    for _ in wire.requests():
        pass


def raise_file_limit(nodes: int) -> int:
    """Raise the limit on open files as far as it goes; the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, nodes + 1024) if hard == resource.RLIM_INFINITY else hard
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


def listen(address: str, port: int, nodes: int) -> socket.socket:
    """A socket that listens at one address, "" for all of both families. Raises OSError."""
    both = not address and socket.has_dualstack_ipv6()
    listener = socket.socket(socket.AF_INET6 if both or ":" in address else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if both:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind((address, port))
    listener.listen(min(4096, nodes + 64))
    return listener
