"""Faults of networks, and nodes that differ from the others, for `fleet_faults.py`."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sys
from pathlib import Path

from fleet_cases import Case, command_of, expect, marked, says, start_all, wait_for
from fleet_networks import delayed, namespace
from nodes import EXAMINE, Nodes


def first_node_dies(nodes: Nodes) -> list[str]:
    start_all(nodes)
    wait_for(nodes, "hello", 1)
    nodes.nodes[0].process.kill()
    codes = nodes.codes()
    named = f"node 0 (127.0.0.1 port {nodes.port})"
    return expect((codes[1], codes[2]) == (3, 3), f"{codes}") + says(nodes, 1, named)


def node_twice(nodes: Nodes) -> list[str]:
    start_all(nodes, 1)
    nodes.start(1, env={"NODE_NAME": "n2"})
    nodes.codes()
    return says(nodes, 0, "missing: n1", "3 nodes reported")


def two_tasks_per_node(nodes: Nodes) -> list[str]:
    nodes.start(0, env={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    return expect(nodes.codes() == {0: 2}, "no usage error") + says(nodes, 0, "ppr:1:node")


def no_route(nodes: Nodes) -> list[str]:
    """A node in a network of its own, whose packets reach nobody."""
    start_all(nodes, 1)
    nodes.wrapper = ("unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh")
    nodes.start(1)
    nodes.codes()
    return says(nodes, 0, "missing: n1") + says(nodes, 1, f"port {nodes.port}", "was not reached")


def node_in_a_network_of_its_own(nodes: Nodes) -> list[str]:
    with namespace() as words:
        nodes.address = ("--address", "10.77.0.1")
        start_all(nodes, 1)
        nodes.wrapper = words
        nodes.start(1)
        codes = nodes.codes()
    return expect(set(codes.values()) == {0}, f"{codes}") + says(nodes, 0, "3 nodes reported", "db")


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


def latency(nodes: Nodes) -> list[str]:
    """0.2 s in each direction between n1 and the first node."""
    nodes.deadline = max(120.0, nodes.deadline)
    with delayed(nodes.port, 0.2) as port:
        start_all(nodes, 1)
        nodes.start(1, "--port", str(port))
        codes = nodes.codes()
    return expect(codes[1] == 0, f"{codes}") + says(nodes, 0, "3 nodes reported")


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


def slow_node_1_3(nodes: Nodes) -> list[str]:
    return slowed(nodes, 1.3)


def slow_node_2(nodes: Nodes) -> list[str]:
    return slowed(nodes, 2.0)


SKEW = """
import time
now = time.time
time.time = lambda: now() + 2.0
"""


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


CASES: tuple[Case, ...] = (
    first_node_dies,
    node_twice,
    two_tasks_per_node,
    latency,
    reader_of_a_checkpoint_dies,
    other_variables,
    another_torch,
    slow_node_1_3,
    slow_node_2,
    skewed_clock_and_a_node_that_cannot_reduce,
)
OF_ROOT: tuple[Case, ...] = (
    no_route,
    node_in_a_network_of_its_own,
    blocked_port,
    wrong_shared_path,
)
"""Those that root alone can plant."""
