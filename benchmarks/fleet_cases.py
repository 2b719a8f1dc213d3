"""The faults that `fleet_faults.py` plants: what is done to the nodes, and what must be said."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from nodes import Nodes

MARK = "DOCTOR_FLEET_CASE"
SLOW_START = """#!/bin/sh
case "$*" in *torch_stages*) exec "{python}" "{hold}" "$@" ;; esac
exec "{python}" "$@"
"""
HOLD = """
import importlib.util, sys, time
sys.argv = sys.argv[1:]
spec = importlib.util.spec_from_file_location("launch", sys.argv[0])
launch = importlib.util.module_from_spec(spec)
spec.loader.exec_module(launch)
launch.register()
time.sleep(600)
"""
Case = Callable[[Nodes], "list[str]"]


def expect(condition: bool, what: str) -> list[str]:
    return [] if condition else [what]


def says(nodes: Nodes, rank: int, *words: str) -> list[str]:
    text = nodes.nodes[rank].stdout + nodes.nodes[rank].stderr
    return [f"n{rank} does not say {word!r}:\n{text}" for word in words if word not in text]


def silent(nodes: Nodes) -> str:
    return f"joined and did not report within {0.75 * nodes.deadline:g} s: n1"


def store(nodes: Nodes):  # type: ignore[no-untyped-def]
    """A client of the nodes' store, which authenticates nobody."""
    import datetime

    from torch.distributed import TCPStore

    deadline = time.monotonic() + nodes.deadline
    while True:
        with contextlib.suppress(Exception):
            socket.create_connection(("127.0.0.1", nodes.port), 5).close()  # TCPStore is loud
            return TCPStore(
                "127.0.0.1", nodes.port, None, False, timeout=datetime.timedelta(seconds=5)
            )
        if time.monotonic() > deadline:
            raise TimeoutError("the store was not reached")
        time.sleep(0.2)


def wait_for(nodes: Nodes, round: str, rank: int) -> None:
    """Until a message of the node is in the store."""
    client, key = store(nodes), f"doctor//0/{round}/{rank}/0"
    deadline = time.monotonic() + nodes.deadline
    while not client.check([key]):
        if time.monotonic() > deadline:
            raise TimeoutError(key)
        time.sleep(0.05)


def slow_python(nodes: Nodes) -> str:
    """An interpreter under which the examination does not end and the store works."""
    program, hold = nodes.directory / "slow-python", nodes.directory / "hold.py"
    hold.write_text(HOLD)
    program.write_text(SLOW_START.format(python=sys.executable, hold=hold))
    program.chmod(0o755)
    return str(program)


def start_all(nodes: Nodes, *without: int) -> None:
    for rank in range(nodes.count):
        if rank not in without:
            nodes.start(rank)


def nothing(nodes: Nodes) -> list[str]:
    start_all(nodes)
    return expect(set(nodes.codes().values()) == {0}, "healthy nodes fail") + says(
        nodes, 0, "3 nodes reported; 3 required"
    )


def never_joins(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    nodes.codes()
    return says(nodes, 0, "missing: n1")


def killed_before_joining(nodes: Nodes) -> list[str]:
    start_all(nodes)
    nodes.nodes[1].process.kill()
    nodes.codes()
    return says(nodes, 0, "missing: n1")


def killed_while_examined(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    nodes.start(1, "--python", slow_python(nodes))
    wait_for(nodes, "hello", 1)
    nodes.nodes[1].process.kill()
    nodes.codes()
    return says(nodes, 0, "missing: n1", silent(nodes))


def killed_after_delivering(nodes: Nodes) -> list[str]:
    start_all(nodes, 2)
    wait_for(nodes, "result", 1)
    nodes.nodes[1].process.kill()
    nodes.codes()
    return says(nodes, 0, "missing: n2", "2 nodes reported")


def node_is_stopped(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    stopped = nodes.start(1, "--python", slow_python(nodes))
    wait_for(nodes, "hello", 1)
    stopped.process.send_signal(signal.SIGSTOP)
    nodes.nodes[0].wait()
    nodes.nodes[2].wait()
    stopped.process.send_signal(signal.SIGCONT)
    stopped.wait()
    return says(nodes, 0, silent(nodes))


def store_is_stopped(nodes: Nodes) -> list[str]:
    for rank in range(nodes.count):
        nodes.start(rank, "--python", slow_python(nodes))
    wait_for(nodes, "hello", 1)
    server = next(pid for pid in marked(nodes) if b"store_server" in command_of(pid))
    os.kill(server, signal.SIGSTOP)
    nodes.codes()
    return says(nodes, 0, "FLT016") + says(nodes, 1, "node 0 (127.0.0.1")


def examination_hangs_on_the_first_node(nodes: Nodes) -> list[str]:
    start_all(nodes, 0)
    nodes.start(0, "--python", slow_python(nodes))
    nodes.codes()
    return says(nodes, 0, "2 nodes reported; 3 required", "did not end before the deadline")


def another_key(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    nodes.start(1, env={"DOCTOR_FLEET_SECRET": "another key of 16"})
    nodes.codes()
    return says(nodes, 0, "missing: n1", "node 1: it is sealed with another key") + says(
        nodes, 1, "another key"
    )


def no_key_on_one_node(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    nodes.start(1, env={"DOCTOR_FLEET_SECRET": ""})
    nodes.codes()
    return says(nodes, 0, "missing: n1", "node 1: it is sealed with another key")


def no_key_at_all(nodes: Nodes) -> list[str]:
    nodes.secret = ""
    start_all(nodes)
    nodes.codes()
    return says(nodes, 0, "note FLT017", "3 nodes reported; 3 required")


def replayed_message(nodes: Nodes) -> list[str]:
    """A store that lives on, as torchrun's agent has one, with the messages of an earlier run."""
    import datetime

    from torch.distributed import TCPStore

    server = TCPStore("127.0.0.1", 0, None, True, timeout=datetime.timedelta(seconds=5))
    nodes.port = server.port
    agent = {
        "TORCHELASTIC_RUN_ID": "job",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "GROUP_WORLD_SIZE": "3",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(server.port),
    }
    nodes.address = ()
    for rank in range(3):
        nodes.start(rank, env={**agent, "GROUP_RANK": str(rank)})
    first = nodes.codes()
    for rank in (0, 2):
        nodes.start(rank, env={**agent, "GROUP_RANK": str(rank)})
    nodes.nodes[0].wait()
    nodes.nodes[2].wait()
    return expect(set(first.values()) == {0}, f"the first run failed: {first}") + says(
        nodes, 0, "missing: n1", "node 1: it is sealed with another key, or belongs to another run"
    )


def stranger_with_garbage(nodes: Nodes) -> list[str]:
    start_all(nodes)
    store(nodes)
    for data in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"\xff" * 100_000):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", nodes.port)) as s:
            s.sendall(data)
    client = store(nodes)
    for rank in (1, 2):
        client.set(f"doctor//0/result/{rank}/0", os.urandom(500))
    codes = nodes.codes()
    return expect(set(codes.values()) == {0}, f"garbage did harm: {codes}") + says(
        nodes, 0, "3 nodes reported; 3 required"
    )


def growing_value(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    client = store(nodes)
    with contextlib.suppress(Exception):
        for _ in range(60):
            client.append("doctor//0/hello/1/0", "x" * (7 << 20))
    nodes.codes()
    return says(nodes, 0, "missing: n1", "2 nodes reported; 3 required")


def port_is_taken(nodes: Nodes) -> list[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", nodes.port))
        taken.listen()
        start_all(nodes)
        nodes.codes()
    return says(nodes, 0, "FAIL FLT016", f"port {nodes.port}", "Address already in use")


def name_does_not_resolve(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    nodes.start(1, "--address", "no-such-host.invalid")
    nodes.codes()
    return says(nodes, 0, "missing: n1") + says(nodes, 1, "no-such-host.invalid", "gaierror")


def dead_dns(nodes: Nodes) -> list[str]:
    """A name server that answers nothing: 192.0.2.1 is for documentation."""
    resolver = nodes.directory / "resolv.conf"
    resolver.write_text("nameserver 192.0.2.1\n")
    start_all(nodes, 1)
    nodes.wrapper = (
        *("unshare", "--mount", "sh", "-c"),
        f'mount --bind {resolver} /etc/resolv.conf && exec "$@"',
        "sh",
    )
    nodes.start(1, "--address", "first.example.org")
    nodes.codes()
    return says(nodes, 0, "missing: n1") + says(nodes, 1, "first.example.org")


def few_open_files(nodes: Nodes) -> list[str]:
    start_all(nodes, 0)
    nodes.wrapper = ("sh", "-c", 'ulimit -n 64 && exec "$@"', "sh")
    nodes.start(0)
    nodes.codes()
    return says(nodes, 0, "FAIL FLT016", "64 open files allowed; 67 required")


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def marked(nodes: Nodes) -> list[int]:
    """Processes of the case, by a variable that all of them inherit."""
    mark = f"{MARK}={nodes.directory}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


CASES: tuple[Case, ...] = (
    nothing,
    never_joins,
    killed_before_joining,
    killed_while_examined,
    killed_after_delivering,
    node_is_stopped,
    store_is_stopped,
    examination_hangs_on_the_first_node,
    another_key,
    no_key_on_one_node,
    no_key_at_all,
    replayed_message,
    stranger_with_garbage,
    growing_value,
    port_is_taken,
    name_does_not_resolve,
    few_open_files,
)
OF_ROOT: tuple[Case, ...] = (dead_dns,)
"""Those that root alone can plant."""
