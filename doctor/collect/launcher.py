"""Which launcher started this process, by its environment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from doctor._util.units import printable
from doctor.facts.launched import Launched

Environ = Mapping[str, str]


def read_launcher(environ: Environ = os.environ) -> Launched | None:
    """The node as its launcher names it; None where no launcher of several nodes is at work.

    A launcher inside another (torchrun under srun) numbers the nodes; the outer one names them.
    """
    found = [each for read in LAUNCHERS if (each := read(environ)) is not None]
    if not found:
        return None
    named = next((each.node for each in found if each.node), "")
    job = next((each.job for each in found if each.job), "")
    first = found[0]
    return Launched(by=first.by, node=named, rank=first.rank, nodes=first.nodes, job=job)


def _number(environ: Environ, *names: str) -> int | None:
    """The first of these variables that is a number."""
    for name in names:
        if re.fullmatch(r"\d{1,9}", text := environ.get(name, "")):
            return int(text)
    return None


def _torchrun(environ: Environ) -> Launched | None:
    if "TORCHELASTIC_RUN_ID" not in environ or "GROUP_RANK" not in environ:
        return None
    run = environ["TORCHELASTIC_RUN_ID"]
    return Launched(
        by="torchrun",
        rank=_number(environ, "GROUP_RANK"),
        nodes=_number(environ, "GROUP_WORLD_SIZE"),
        job="" if run == "none" else printable(run),
    )


def _openmpi(environ: Environ) -> Launched | None:
    """OMPI_COMM_WORLD_NODE_RANK is a rank on the node; one task per node makes ranks of nodes."""
    if "OMPI_COMM_WORLD_RANK" not in environ:
        return None
    return Launched(
        by="openmpi",
        rank=_number(environ, "OMPI_COMM_WORLD_RANK"),
        nodes=_number(environ, "OMPI_COMM_WORLD_SIZE"),
        job=printable(environ.get("PMIX_NAMESPACE", "")),
    )


def _slurm(environ: Environ) -> Launched | None:
    if "SLURM_JOB_ID" not in environ:
        return None
    return Launched(
        by="slurm",
        node=printable(environ.get("SLURMD_NODENAME", "")),
        rank=_number(environ, "SLURM_NODEID"),
        nodes=_number(environ, "SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
        job=printable(environ["SLURM_JOB_ID"]),
    )


def _skypilot(environ: Environ) -> Launched | None:
    if "SKYPILOT_NODE_RANK" not in environ:
        return None
    return Launched(
        by="skypilot",
        rank=_number(environ, "SKYPILOT_NODE_RANK"),
        nodes=_number(environ, "SKYPILOT_NUM_NODES"),
        job=printable(environ.get("SKYPILOT_TASK_ID", "")),
    )


def _kubernetes(environ: Environ) -> Launched | None:
    """An indexed job; NODE_NAME is what its manifest takes from spec.nodeName."""
    if "JOB_COMPLETION_INDEX" not in environ:
        return None
    return Launched(
        by="kubernetes",
        node=printable(environ.get("NODE_NAME", "")),
        rank=_number(environ, "JOB_COMPLETION_INDEX"),
        job=printable(environ.get("JOBSET_NAME", environ.get("JOB_NAME", ""))),
    )


def _runpod(environ: Environ) -> Launched | None:
    if "PRIMARY_ADDR" not in environ or "NODE_RANK" not in environ:
        return None
    return Launched(
        by="runpod", rank=_number(environ, "NODE_RANK"), nodes=_number(environ, "NUM_NODES")
    )


LAUNCHERS: tuple[Callable[[Environ], Launched | None], ...] = (
    _torchrun,
    _openmpi,
    _slurm,
    _skypilot,
    _kubernetes,
    _runpod,
)
"""The innermost first."""
