"""Networks for the faults of fleets: a node in a namespace of its own, and a slow way to a port."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Iterator


class SkipCase(Exception):
    """Why a case cannot run here."""


@contextlib.contextmanager
def namespace(*rules: str) -> Iterator[tuple[str, ...]]:
    """A network namespace that reaches this machine as 10.77.0.1; the words that run in it."""
    number = f"{os.getpid() % 100_000}{len(NAMESPACES)}"
    NAMESPACES.append(number)
    name, here, there = f"doctor{number}", f"da{number}", f"db{number}"
    inside = f"ip netns exec {name}"
    commands = [
        f"ip netns add {name}",
        f"ip link add {here} type veth peer name {there}",
        f"ip link set {there} netns {name}",
        f"ip addr add 10.77.0.1/24 dev {here}",
        f"ip link set {here} up",
        f"{inside} ip addr add 10.77.0.2/24 dev {there}",
        f"{inside} ip link set {there} up",
        *(f"{inside} {rule.format(device=there)}" for rule in rules),
    ]
    try:
        for command in commands:
            done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
            if done.returncode:
                raise SkipCase(f"{command}: {done.stderr.strip()}")
        yield ("ip", "netns", "exec", name)
    finally:
        subprocess.run(["ip", "link", "del", here], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


NAMESPACES: list[str] = []


@contextlib.contextmanager
def delayed(port: int, seconds: float) -> Iterator[int]:
    """A port that leads to another one, each byte later by so many seconds."""
    listener = socket.create_server(("127.0.0.1", 0))

    def read(source: socket.socket, late: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        data = b" "
        while data:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            late.put((time.monotonic() + seconds, data))

    def write(target: socket.socket, late: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = late.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    break
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def forward(source: socket.socket, target: socket.socket) -> None:
        late: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        threading.Thread(target=read, args=(source, late), daemon=True).start()
        write(target, late)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near = listener.accept()[0]
                try:
                    far = socket.create_connection(("127.0.0.1", port))
                except OSError:
                    near.close()
                    continue
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=forward, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.close()
