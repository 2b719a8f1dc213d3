"""Doctors of several nodes as processes: they meet, and no fault makes them hang or go unnamed.

All nodes are on this machine. `benchmarks/fleet_faults.py` has the rest of the faults.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import command
import nodes
import preloaded
import pytest
from nodes import EXAMINE, Nodes

pytestmark = pytest.mark.slow


@contextmanager
def fleet(count: int, **options: object) -> Iterator[Nodes]:
    each = Nodes(count, **options)  # type: ignore[arg-type]
    try:
        yield each
    finally:
        each.end()


SKEW = """
import time
now = time.time
time.time = lambda: now() + 2.0
"""


def test_nodes_meet_and_the_first_one_prints_the_report(tmp_path: Path) -> None:
    """They also compare clocks, of which n1's is 2 s ahead, see a directory and reduce in pairs.

    n1 has a package of its own, which is fetched from it, and node 0 keeps them in a ledger.
    """
    output, code, ledger = tmp_path / "output", tmp_path / "code", tmp_path / "ledger"
    for directory in (output, code, ledger, code / "own_package-1.5.dist-info"):
        directory.mkdir()
    (code / "sitecustomize.py").write_text(SKEW)
    (code / "own_package-1.5.dist-info/METADATA").write_text("Name: own-package\nVersion: 1.5\n")
    flags = (*EXAMINE, "--collectives", "--output-dir", str(output), "--ledger", str(ledger))
    with fleet(3, flags=flags, secret="0123456789abcdef") as each:
        each.start(0, env={"DOCTOR_LEDGER_KEY_FILE": str(tmp_path / "key")})
        path = os.pathsep.join([str(code), os.environ.get("PYTHONPATH", "")])
        each.start(1, env={"PYTHONPATH": path})
        each.start(2)
        assert each.codes() == {0: 1, 1: 0, 2: 0}, each.nodes[0].stdout
        report = each.nodes[0].stdout
        assert "3 nodes reported; 3 required" in report
        assert re.search(r"FAIL FLT010 .*n1, \+[12]\.", report), report
        passed = re.findall(r"pass (FLT0\d\d)", report)
        assert {"FLT001", "FLT015", "FLT016", "FLT017", "FLT018", "FLT019"} <= set(passed), report
        assert report.count("FAIL") == 1
        assert "+own-package==1.5" in report, report
        for rank in (1, 2):
            assert re.fullmatch(rf"n{rank}: READY: .*\n", each.nodes[rank].stdout)
    assert list(output.iterdir()) == []
    assert len(list(ledger.glob("*.doctor.json"))) == 1


def test_a_fleet_of_one_says_what_run_says() -> None:
    alone = command.doctor("run", *EXAMINE, "--python", preloaded.python())
    fleet_of_one = command.doctor("fleet", "run", *EXAMINE, "--python", preloaded.python())
    assert fleet_of_one.returncode == alone.returncode == 0

    def findings(text: str) -> dict[str, str]:
        """Status by code; amounts, such as free space, change between two runs."""
        words = [line.split() for line in text.splitlines()]
        return {each[1]: each[0] for each in words if each[:1] in (["pass"], ["skip"], ["????"])}

    one, other = findings(fleet_of_one.stdout), findings(alone.stdout)
    late = {"DSK003"}  # whose service answers too late on a busy machine: unknown
    assert (
        {code: one[code] for code in one.keys() - late}
        == {code: other[code] for code in other.keys() - late}
        != {}
    )


def test_what_did_not_come_is_named_in_time() -> None:
    """One node never starts, one has another key, and one is stopped after it started.

    The nodes end although others hang, and state the time that they waited.
    """
    with fleet(4, deadline=80.0, secret="0123456789abcdef") as each:
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
        assert "no other node reached node 0" in report
        assert "within 60 s" in report  # a quarter of the deadline is reserved
        assert "within 80 s" in each.nodes[2].stderr


def test_torchrun_starts_one_doctor_per_node_and_its_store_is_joined() -> None:
    port = nodes.free_port()
    words = [
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"),
        *("--master-addr", "127.0.0.1", "--master-port", str(port)),
    ]
    doctor = ["-m", "doctor", "fleet", "run", "--deadline", "300"]
    processes = [
        subprocess.Popen(
            [*words, "--node-rank", str(rank), *doctor, *EXAMINE, *nodes.ONE_MACHINE],
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
