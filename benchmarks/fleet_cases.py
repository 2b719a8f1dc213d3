"""The faults that `fleet_faults.py` plants: what is done to the nodes, and what must be said."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fleet_networks import delayed, namespace
from nodes import EXAMINE, Nodes

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
CASES: dict[str, tuple[Case, str]] = {}


def case(needs: str = "") -> Callable[[Case], Case]:
    def add(function: Case) -> Case:
        CASES[function.__name__] = (function, needs)
        return function

    return add


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


@case()
def nothing(nodes: Nodes) -> list[str]:
    start_all(nodes)
    return expect(set(nodes.codes().values()) == {0}, "healthy nodes fail") + says(
        nodes, 0, "3 nodes reported; 3 required"
    )


@case()
def never_joins(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    nodes.codes()
    return says(nodes, 0, "missing: n1")


@case()
def killed_before_joining(nodes: Nodes) -> list[str]:
    start_all(nodes)
    nodes.nodes[1].process.kill()
    nodes.codes()
    return says(nodes, 0, "missing: n1")


@case()
def killed_while_examined(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    nodes.start(1, "--python", slow_python(nodes))
    wait_for(nodes, "hello", 1)
    nodes.nodes[1].process.kill()
    nodes.codes()
    return says(nodes, 0, "missing: n1", silent(nodes))


@case()
def killed_after_delivering(nodes: Nodes) -> list[str]:
    start_all(nodes, 2)
    wait_for(nodes, "result", 1)
    nodes.nodes[1].process.kill()
    nodes.codes()
    return says(nodes, 0, "missing: n2", "2 nodes reported")


@case()
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


@case()
def store_is_stopped(nodes: Nodes) -> list[str]:
    for rank in range(nodes.count):
        nodes.start(rank, "--python", slow_python(nodes))
    wait_for(nodes, "hello", 1)
    server = next(pid for pid in marked(nodes) if b"store_server" in command_of(pid))
    os.kill(server, signal.SIGSTOP)
    nodes.codes()
    return says(nodes, 0, "FLT016") + says(nodes, 1, "node 0 (127.0.0.1")


@case()
def examination_hangs_on_the_first_node(nodes: Nodes) -> list[str]:
    start_all(nodes, 0)
    nodes.start(0, "--python", slow_python(nodes))
    nodes.codes()
    return says(nodes, 0, "2 nodes reported; 3 required", "did not end before the deadline")


@case()
def another_key(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    nodes.start(1, env={"DOCTOR_FLEET_SECRET": "another key of 16"})
    nodes.codes()
    return says(nodes, 0, "missing: n1", "node 1: it is sealed with another key") + says(
        nodes, 1, "another key"
    )


@case()
def no_key_on_one_node(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    nodes.start(1, env={"DOCTOR_FLEET_SECRET": ""})
    nodes.codes()
    return says(nodes, 0, "missing: n1", "node 1: it is sealed with another key")


@case()
def no_key_at_all(nodes: Nodes) -> list[str]:
    nodes.secret = ""
    start_all(nodes)
    nodes.codes()
    return says(nodes, 0, "note FLT017", "3 nodes reported; 3 required")


@case()
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


@case()
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


@case()
def growing_value(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    client = store(nodes)
    with contextlib.suppress(Exception):
        for _ in range(60):
            client.append("doctor//0/hello/1/0", "x" * (7 << 20))
    nodes.codes()
    return says(nodes, 0, "missing: n1", "2 nodes reported; 3 required")


@case()
def port_is_taken(nodes: Nodes) -> list[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", nodes.port))
        taken.listen()
        start_all(nodes)
        nodes.codes()
    return says(nodes, 0, "FAIL FLT016", f"port {nodes.port}", "Address already in use")


@case()
def name_does_not_resolve(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    nodes.start(1, "--address", "no-such-host.invalid")
    nodes.codes()
    return says(nodes, 0, "missing: n1") + says(nodes, 1, "no-such-host.invalid", "gaierror")


@case("root")
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


@case()
def few_open_files(nodes: Nodes) -> list[str]:
    start_all(nodes, 0)
    nodes.wrapper = ("sh", "-c", 'ulimit -n 64 && exec "$@"', "sh")
    nodes.start(0)
    nodes.codes()
    return says(nodes, 0, "FAIL FLT016", "64 open files allowed; 67 required")


@case()
def first_node_dies(nodes: Nodes) -> list[str]:
    start_all(nodes)
    wait_for(nodes, "hello", 1)
    nodes.nodes[0].process.kill()
    codes = nodes.codes()
    named = f"node 0 (127.0.0.1 port {nodes.port})"
    return expect((codes[1], codes[2]) == (3, 3), f"{codes}") + says(nodes, 1, named)


@case()
def node_twice(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    nodes.start(1, env={"NODE_NAME": "n2"})
    nodes.codes()
    return says(nodes, 0, "missing: n1", "3 nodes reported")


@case()
def two_tasks_per_node(nodes: Nodes) -> list[str]:
    nodes.start(0, env={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    return expect(nodes.codes() == {0: 2}, "no usage error") + says(nodes, 0, "ppr:1:node")


@case("root")
def no_route(nodes: Nodes) -> list[str]:
    """A node in a network of its own, whose packets reach nobody."""
    start_all(nodes, 1)
    nodes.wrapper = ("unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh")
    nodes.start(1)
    nodes.codes()
    return says(nodes, 0, "missing: n1") + says(nodes, 1, f"port {nodes.port}", "was not reached")


@case("root")
def node_in_a_network_of_its_own(nodes: Nodes) -> list[str]:
    with namespace() as words:
        nodes.address = ("--address", "10.77.0.1")
        start_all(nodes, 1)
        nodes.wrapper = words
        nodes.start(1)
        codes = nodes.codes()
    return expect(set(codes.values()) == {0}, f"{codes}") + says(nodes, 0, "3 nodes reported", "db")


@case("root")
def blocked_port(nodes: Nodes) -> list[str]:
    """Packets to the first node are lost without an answer: they go to a MAC that nobody has."""
    lost = "ip neigh add 10.77.0.1 lladdr 02:00:00:00:00:99 dev {device}"
    with namespace(lost) as words:
        nodes.address = ("--address", "10.77.0.1")
        start_all(nodes, 1)
        nodes.wrapper = words
        nodes.start(1)
        nodes.codes()
    return says(nodes, 0, "missing: n1") + says(nodes, 1, "10.77.0.1", f"port {nodes.port}")


@case()
def latency(nodes: Nodes) -> list[str]:
    """0.2 s in each direction between n1 and the first node."""
    nodes.deadline = max(120.0, nodes.deadline)
    with delayed(nodes.port, 0.2) as port:
        start_all(nodes, 1)
        nodes.start(1, "--port", str(port))
        codes = nodes.codes()
    return expect(codes[1] == 0, f"{codes}") + says(nodes, 0, "3 nodes reported")


@case()
def reader_of_a_checkpoint_dies(nodes: Nodes) -> list[str]:
    """A node is killed with its share; the others read it, and the report is complete."""
    import numpy
    from safetensors.numpy import save_file

    values = numpy.random.default_rng(0).normal(0, 0.02, (4096, 4096)).astype("float16")
    values[4000, 4000] = numpy.nan
    path = nodes.directory / "model.safetensors"
    save_file({"layers.0.q_proj.weight": values}, path)
    nodes.command = (sys.executable, "-P", "-m", "doctor", "fleet", "scan", str(path), "--deep")
    nodes.flags = ("--format", "plain", "--no-config")
    nodes.deadline = max(360.0, nodes.deadline)
    start_all(nodes)
    reader = None
    while reader is None and nodes.nodes[0].process.poll() is None:
        found = (pid for pid in marked(nodes) if b'"share": [1, 3]' in command_of(pid))
        reader = next(found, None)
    if reader is None:
        return ["no process read the second share"]
    nodes.nodes[1].process.kill()
    os.kill(reader, signal.SIGKILL)
    nodes.codes()
    return says(nodes, 0, "layers.0.q_proj.weight")


@case()
def other_variables(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    nodes.start(1, env={"NCCL_IB_DISABLE": "1"})
    nodes.codes()
    return says(nodes, 0, "FLT006", "n1 has 1")


OTHER_TORCH = """
import importlib.util, sys

class Other:
    def find_spec(self, name, path=None, target=None):
        if name == "torch.version":
            return importlib.util.spec_from_file_location(name, {file!r})

sys.meta_path.insert(0, Other())
"""


@case()
def another_torch(nodes: Nodes) -> list[str]:
    """n1 imports a torch that says another version, as an image that was not updated."""
    found = importlib.util.find_spec("torch")
    assert found
    assert found.origin
    version = Path(found.origin).with_name("version.py").read_text("utf-8")
    file = nodes.directory / "other_version.py"
    file.write_text(re.sub(r"__version__ = '[\d.]+", "__version__ = '2.12.1", version))
    (nodes.directory / "sitecustomize.py").write_text(OTHER_TORCH.format(file=str(file)))
    start_all(nodes, 1)
    nodes.start(1, env={"PYTHONPATH": f"{nodes.directory}:{os.environ.get('PYTHONPATH', '')}"})
    nodes.codes()
    return says(nodes, 0, "FAIL FLT005", "n1 has 2.12.1")


def slowed(nodes: Nodes, factor: float) -> list[str]:
    """Five nodes with injected rates, of which n1's products of matrices are slower each time."""
    nodes.count = 5
    nodes.deadline = max(120.0, 1.5 * nodes.deadline)
    nodes.command = (sys.executable, "-P", str(Path(__file__).with_name("measured_node.py")),
                     "fleet", "run")  # fmt: skip
    start_all(nodes, 1)
    nodes.start(1, env={"MEASURED_SLOW": str(factor)})
    nodes.codes()
    text = nodes.nodes[0].stdout
    wrong = says(nodes, 0, "WARN FLT011", "n1 (GPU 0): matmul")
    wrong += expect(not re.search(r"FLT011.*n[0234] \(", text), f"another node is accused:\n{text}")
    return wrong + expect("measured once" not in text, f"it was measured once:\n{text}")


@case()
def slow_node_1_3(nodes: Nodes) -> list[str]:
    return slowed(nodes, 1.3)


@case()
def slow_node_2(nodes: Nodes) -> list[str]:
    return slowed(nodes, 2.0)


SKEW = """
import time
now = time.time
time.time = lambda: now() + 2.0
"""


@case()
def skewed_clock_and_a_node_that_cannot_reduce(nodes: Nodes) -> list[str]:
    """n1's clock is 2 s ahead; n2 has no interface that gloo may use."""
    (nodes.directory / "sitecustomize.py").write_text(SKEW)
    nodes.deadline = max(300.0, nodes.deadline)
    nodes.count = 4
    nodes.flags = (*EXAMINE, "--collectives")
    start_all(nodes, 1, 2)
    nodes.start(1, env={"PYTHONPATH": f"{nodes.directory}:{os.environ.get('PYTHONPATH', '')}"})
    nodes.start(2, env={"GLOO_SOCKET_IFNAME": "absent0"})
    nodes.codes()
    return says(nodes, 0, "FAIL FLT010", "n1, +2.", "n2 failed with every partner")


@case("root")
def wrong_shared_path(nodes: Nodes) -> list[str]:
    """n1 has another file system at the path of the output directory."""
    output = nodes.directory / "output"
    output.mkdir()
    nodes.flags = (*EXAMINE, "--output-dir", str(output))
    start_all(nodes, 1)
    nodes.wrapper = (
        *("unshare", "--mount", "sh", "-c"),
        f'mount -t tmpfs none {output} && exec "$@"',
        "sh",
    )
    nodes.start(1)
    nodes.codes()
    return says(nodes, 0, "WARN FLT018", "is not seen on n1")


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
