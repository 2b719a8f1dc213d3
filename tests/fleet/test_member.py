"""Which node this is, by the variables of each launcher and by flags."""

from __future__ import annotations

from typing import Any

import pytest

from doctor._util.errors import UserError
from doctor.fleet.member import Member, member_of

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "2",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
}
SRUN = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "3",
    "SLURM_NODEID": "2",
    "SLURM_NNODES": "4",
    "SLURM_STEP_NUM_NODES": "4",
    "SLURM_STEP_TASKS_PER_NODE": "1(x4)",
    "SLURMD_NODENAME": "gpu-3",
    "SLURM_RESTART_COUNT": "1",
}
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "OMPI_COMM_WORLD_NODE_RANK": "0",
    "MASTER_ADDR": "head",
}
SKYPILOT = {
    "SKYPILOT_NODE_RANK": "1",
    "SKYPILOT_NUM_NODES": "2",
    "SKYPILOT_NODE_IPS": "10.0.0.5\n10.0.0.6",
    "SKYPILOT_TASK_ID": "sky-1",
}


@pytest.mark.parametrize(
    ("environ", "flags", "expected"),
    [
        ({}, {}, {"rank": 0, "nodes": 1}),
        (
            TORCHRUN,
            {},
            {"rank": 1, "nodes": 4, "restart": 2, "port": 29500, "joins_agent": True},
        ),
        (SRUN, {"address": "gpu-1"}, {"rank": 2, "nodes": 4, "job": "77.3", "restart": 1}),
        (SRUN | TORCHRUN, {}, {"rank": 1, "launcher": "torchrun"}),
        (MPIRUN, {}, {"rank": 1, "nodes": 2, "address": "head"}),
        (
            SKYPILOT,
            {},
            {"rank": 1, "nodes": 2, "address": "10.0.0.5", "names": ("10.0.0.5", "10.0.0.6")},
        ),
        (
            {"JOB_COMPLETION_INDEX": "3"},
            {"nodes": 8, "address": "job-0.job"},
            {"rank": 3, "nodes": 8},
        ),
        ({}, {"rank": 1, "nodes": 2, "address": "a", "port": 4000}, {"rank": 1, "port": 4000}),
        (
            {},
            {"rank": 1, "names": ("a", "b"), "address": "a"},
            {"nodes": 2, "expected": ("a", "b")},
        ),
        # The port of torchrun's agent belongs to its address.
        (TORCHRUN, {"address": "10.0.0.9"}, {"address": "10.0.0.9", "joins_agent": False}),
    ],
)
def test_the_member_follows_the_launcher_and_the_flags(
    environ: dict[str, str], flags: dict[str, Any], expected: dict[str, Any]
) -> None:
    member = member_of(environ, **flags)
    assert {name: getattr(member, name) for name in expected} == expected
    assert member.port > 1023


@pytest.mark.parametrize(
    ("environ", "flags", "word"),
    [
        (TORCHRUN | {"LOCAL_WORLD_SIZE": "8"}, {}, "--nproc-per-node 1"),
        (SRUN | {"SLURM_STEP_TASKS_PER_NODE": "1(x3),2"}, {}, "--ntasks-per-node=1"),
        (MPIRUN | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, {}, "ppr:1:node"),
        ({k: v for k, v in SRUN.items() if "STEP" not in k}, {}, "batch script"),
        ({k: v for k, v in MPIRUN.items() if k != "MASTER_ADDR"}, {}, "--address"),
        ({"JOB_COMPLETION_INDEX": "1"}, {"address": "a"}, "--nodes"),
        ({}, {"nodes": 2}, "--node-rank"),
        ({}, {"rank": 0}, "--nodes"),
        ({}, {"rank": 2, "nodes": 2, "address": "a"}, "not below"),
        ({}, {"rank": 0, "nodes": 2}, "--address"),
        ({}, {"rank": 0, "nodes": 3, "names": ("a", "b"), "address": "a"}, "--nodes-from"),
    ],
)
def test_what_is_missing_or_contradicts_is_a_usage_error(
    environ: dict[str, str], flags: dict[str, Any], word: str
) -> None:
    with pytest.raises(UserError, match=word):
        member_of(environ, **flags)


def test_one_job_has_one_port_on_every_node_and_another_after_a_restart() -> None:
    ports = {
        member_of(SRUN | {"SLURM_NODEID": str(rank)}, address="gpu-1").port for rank in range(4)
    }
    again = member_of(SRUN | {"SLURM_RESTART_COUNT": "2"}, address="gpu-1").port
    assert len(ports) == 1
    assert again not in ports
    assert all(20_000 <= port < 30_000 for port in (*ports, again))


def test_a_node_is_called_by_its_name_where_that_is_known() -> None:
    assert Member(nodes=3, names=("a", "b", "c")).label(2) == "c"
    assert Member(nodes=3).label(2) == "node 2"
