"""Doctors of several nodes as processes: they meet, and no fault makes them hang or go unnamed.

All nodes are on this machine. `benchmarks/fleet_faults.py` has the rest of the faults.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import command
import nodes
import preloaded
import pytest
from nodes import EXAMINE, Nodes

pytestmark = pytest.mark.slow
BEYOND = 2.0
"""Seconds beyond the deadline in which a node ends."""
SLACK = 10.0
"""Of a busy machine, to start and end a process."""


@contextmanager
def fleet(count: int, **options: object) -> Iterator[Nodes]:
    each = Nodes(count, **options)  # type: ignore[arg-type]
    try:
        yield each
    finally:
        each.end()


def in_time(each: Nodes, *ranks: int) -> bool:
    latest = each.deadline + BEYOND + SLACK
    return all(node.ended - node.started < latest for r, node in each.nodes.items() if r in ranks)


def test_nodes_meet_and_the_first_one_prints_the_report() -> None:
    with fleet(3, secret="0123456789abcdef") as each:
        assert each.run() == {0: 0, 1: 0, 2: 0}, each.nodes[0].stdout
        report = each.nodes[0].stdout
        assert "pass FLT001" in report
        assert "3 nodes reported; 3 required" in report
        assert "pass FLT015" in report
        assert "pass FLT017" in report
        lines = [each.nodes[rank].stdout for rank in (1, 2)]
        assert lines == [f"n{rank}: READY: all checks passed\n" for rank in (1, 2)]
        assert each.nodes[1].stderr == ""


def test_a_fleet_of_one_says_what_run_says() -> None:
    alone = command.doctor("run", *EXAMINE, "--python", preloaded.python())
    fleet_of_one = command.doctor("fleet", "run", *EXAMINE, "--python", preloaded.python())
    assert fleet_of_one.returncode == alone.returncode == 0

    def findings(text: str) -> list[str]:
        return [line[:40] for line in text.splitlines() if line[:6].strip() in ("pass", "skip")]

    assert findings(fleet_of_one.stdout) == findings(alone.stdout) != []


def test_what_did_not_come_is_named_in_time() -> None:
    """One node never starts, one has another key, and one is stopped after it started."""
    with fleet(4, deadline=16.0, secret="0123456789abcdef") as each:
        each.start(0)
        each.start(2, env={"DOCTOR_FLEET_SECRET": "another-key-of-16"})
        stopped = each.start(3)
        stopped.process.send_signal(signal.SIGSTOP)
        assert each.nodes[0].wait() == 1
        assert each.nodes[2].wait() == 3
        report = each.nodes[0].stdout
        assert "missing: n1, n2, n3" in report
        assert "1 node refused: node 2: it is sealed with another key" in report
        assert "node 0 (127.0.0.1" in each.nodes[2].stderr
        assert "another key" in each.nodes[2].stderr
        assert in_time(each, 0, 2)


def test_the_first_node_dies() -> None:
    with fleet(2, deadline=14.0) as each:
        first, other = each.start(0), each.start(1)
        wait_for_port(each.port, first)
        first.process.kill()
        assert other.wait() == 3
        assert other.stdout == "n1: READY: all checks passed\n"
        assert f"node 0 (127.0.0.1 port {each.port})" in other.stderr
        assert in_time(each, 1)


def wait_for_port(port: int, node: nodes.Node) -> None:
    """Until the store listens."""
    while node.process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(node.stderr)


def test_a_port_that_is_taken_is_named() -> None:
    with fleet(2, deadline=12.0) as each, socket.socket() as taken:
        taken.bind(("127.0.0.1", each.port))
        taken.listen()
        assert each.run() == {0: 1, 1: 3}
        report = each.nodes[0].stdout
        assert "FAIL FLT016" in report
        assert f"port {each.port}" in report
        assert "Address already in use" in report
        assert in_time(each, 0, 1)


def test_torchrun_starts_one_doctor_per_node_and_its_store_is_joined() -> None:
    port = nodes.free_port()
    words = [
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"),
        *("--master-addr", "127.0.0.1", "--master-port", str(port)),
    ]
    doctor = ["-m", "doctor", "fleet", "run", "--deadline", "300"]
    processes = [
        subprocess.Popen(
            [*words, "--node-rank", str(rank), *doctor, *EXAMINE],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    outputs = [process.communicate(timeout=nodes.OUT_OF_REACH) for process in processes]
    assert "2 nodes reported; 2 required" in outputs[0][0], outputs
    assert "torchrun's agent serves the store" in outputs[0][0]
    assert ": READY" in outputs[1][0]


def test_two_tasks_on_one_node_are_a_usage_error() -> None:
    env = {"TORCHELASTIC_RUN_ID": "a", "GROUP_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    done = command.doctor("fleet", "run", env=env)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "torchrun --nproc-per-node 1" in done.stderr
