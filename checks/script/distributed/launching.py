"""Rules on shell scripts and batch jobs that start trainings on several GPUs or nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.distributed import batch
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Launch

HERE = re.compile(r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::\d+)?$")
OWN_NAME = re.compile(r"\$\(hostname\b|\$\{?HOSTNAME\b|`hostname\b")
ADDRESSES = ("master_addr", "rdzv_endpoint", "main_process_ip")
RANKS = ("node_rank", "machine_rank")


def commands_cut(reading: Training) -> Iterator[Match]:
    texts = {
        "cut.blank": "blanks follow the backslash: the command ends here",
        "cut.comment": "a comment between continued lines ends the command",
        "cut.backslash": "a backslash is missing: the options below are another command",
    }
    for setting in reading.script.settings:
        if message := texts.get(setting.key):
            yield Match(setting.span, message)


def meeting(reading: Training) -> Iterator[Match]:
    """Several nodes, and an address or a rank that is the same on each of them."""
    known = batch.settings(reading)
    for launch in reading.script.launches:
        several = _nodes_of(reading, launch)
        if not several:
            continue
        address = next((launch.launcher[k] for k in ADDRESSES if k in launch.launcher), "")
        variable = known.get("export.MASTER_ADDR") or known.get("set.MASTER_ADDR")
        if HERE.match(address) and variable is not None and HERE.match(str(variable.value)):
            yield Match(variable.span, "each node waits for itself: MASTER_ADDR is this node")
        elif HERE.match(address):
            yield Match(
                batch.place(launch), f"each node waits for itself: the address is {address}"
            )
        elif variable is not None and not address and HERE.match(str(variable.value)):
            yield Match(variable.span, "each node waits for itself: MASTER_ADDR is this node")
        elif "standalone" in launch.launcher:
            yield Match(batch.place(launch), "--standalone on several nodes: each trains alone")
        elif OWN_NAME.match(address) and batch.in_srun(launch) and _is_quoted(launch, address):
            yield Match(
                batch.place(launch), f"each node waits for itself: it replaces {address} by its own"
            )
        yield from _ranks(launch)
        yield from _started_once(reading, launch)
    yield from _one_port(reading)


def _is_quoted(launch: Launch, text: str) -> bool:
    """It stands in single quotes, or behind a backslash: the shell of each node replaces it."""
    before = launch.text.split(text.strip("\"'"), 1)[0]
    return before.count("'") % 2 == 1 or before.endswith("\\")


def _one_port(reading: Training) -> Iterator[Match]:
    """Two launchers that run at once on one machine and wait at the same port."""
    seen: dict[str, Launch] = {}
    for launch in reading.script.launches:
        several = launch.program in ("torchrun", "accelerate", "deepspeed")
        if not several or not batch.in_background(launch) or "standalone" in launch.launcher:
            continue
        if batch.in_srun(launch) or re.search(r"\b(?:ssh|docker|for|while)\b", launch.text):
            continue
        port = batch.flag(launch, "master_port", "main_process_port", "rdzv_endpoint") or ""
        if port in seen and not re.search(r"\$|:0$", port) and (port != "0"):
            yield Match(batch.place(launch), f"two trainings wait at one port: {port or 29500}")
        seen[port] = launch


def _nodes_of(reading: Training, launch: Launch) -> bool:
    """The job or the launcher has several nodes."""
    asked = batch.number(batch.flag(launch, "nnodes", "num_machines", "num_nodes") or "")
    return (batch.nodes(reading) or asked or 1) > 1 or (asked or 1) > 1


def _ranks(launch: Launch) -> Iterator[Match]:
    """node_rank that all nodes share."""
    rank = batch.flag(launch, *RANKS)
    backend = batch.flag(launch, "rdzv_backend")
    if rank is None or not batch.in_srun(launch) or backend not in (None, "static"):
        return
    if batch.number(rank) is not None:
        yield Match(batch.place(launch), f"each node has rank {rank}")
        return
    quoted = "'" in launch.prefix or "'" in launch.text.split(rank.strip("\"'"), 1)[0]
    if re.search(r"\$\{?SLURM_(?:NODEID|PROCID)", rank) and not quoted and "\\$" not in launch.text:
        yield Match(
            batch.place(launch), f"{rank} is replaced before srun starts: each node has rank 0"
        )


def _started_once(reading: Training, launch: Launch) -> Iterator[Match]:
    """torchrun without srun in a batch script: only the first node starts it."""
    known = batch.settings(reading)
    elsewhere = re.search(r"\b(?:ssh|pdsh|parallel|mpirun|clush|docker|singularity|apptainer)\b",
                          launch.text)  # fmt: skip
    if (batch.nodes(reading) or 1) < 2 or launch.program not in ("torchrun", "accelerate"):
        return
    if not batch.in_srun(launch) and not elsewhere and not launch.prefix and known:
        yield Match(
            batch.place(launch),
            f"only the first of {batch.nodes(reading)} nodes starts it: srun is missing",
        )


def processes(reading: Training) -> Iterator[Match]:
    for launch in reading.script.launches:
        each = _per_node(launch)
        there = batch.gpus(reading)
        seen = _own_devices(launch) or batch.visible(reading)
        tasks = batch.tasks_per_node(reading, launch)
        where = batch.place(launch)
        launcher = launch.program in ("torchrun", "accelerate", "deepspeed")
        if launcher and batch.in_srun(launch) and tasks and tasks > 1:
            yield Match(where, f"srun starts {launch.program} {tasks} times on each node")
        if each and seen and each > seen and launcher:
            yield Match(where, f"{each} processes for {seen} visible GPUs")
        elif each and there and launcher and each > there:
            yield Match(where, f"{each} processes for {there} GPUs of a node")
        elif each and there and launcher and each < there and (not seen or seen == there):
            yield Match(where, f"{there - each} of {there} GPUs of a node have no process", "warn")
        yield from _of_lightning(launch, tasks)
        yield from _of_nodes(reading, launch)


def _per_node(launch: Launch) -> int | None:
    each = batch.number(batch.flag(launch, "nproc_per_node", "nproc-per-node", "num_gpus") or "")
    total = batch.number(batch.flag(launch, "num_processes") or "")
    machines = batch.number(batch.flag(launch, "num_machines") or "1")
    return each or (total // machines if total and machines else None)


def _own_devices(launch: Launch) -> int | None:
    """CUDA_VISIBLE_DEVICES=0,1 before the command itself."""
    found = re.search(r"\bCUDA_VISIBLE_DEVICES=[\"']?(\d+(?:,\d+)*)", launch.prefix)
    return found[1].count(",") + 1 if found else None


def _of_lightning(launch: Launch, tasks: int | None) -> Iterator[Match]:
    """Lightning under srun has a task for each device."""
    devices = next((batch.number(v) for k, v in launch.arguments.items()
                    if k in ("trainer.devices", "devices")), None)  # fmt: skip
    for word in launch.text.split():
        if found := re.fullmatch(r"trainer\.devices=(\d+)", word):
            devices = int(found[1])
    lightning = any(key.startswith("trainer.") for key in launch.arguments) or devices is not None
    if devices and lightning and batch.in_srun(launch) and tasks and tasks != devices and (
        launch.program == "python"
    ):  # fmt: skip
        message = f"{devices} devices, and srun starts {tasks} of the tasks that Lightning expects"
        yield Match(batch.place(launch), message)


def _of_nodes(reading: Training, launch: Launch) -> Iterator[Match]:
    count = batch.nodes(reading)
    asked = batch.number(batch.flag(launch, "nnodes", "num_machines") or "")
    given = next((batch.number(v) for k, v in launch.arguments.items()
                  if k in ("trainer.num_nodes", "num_nodes")), None)  # fmt: skip
    for value in (asked, given):
        if count and value and count != value:
            yield Match(batch.place(launch), f"the job has {count} nodes, the command {value}")
            return
    total = batch.number(batch.flag(launch, "num_processes") or "")
    if total and asked and total % asked:
        yield Match(batch.place(launch), f"{total} processes cannot be shared by {asked} nodes")
    elif total and asked and asked > 1 and total == batch.gpus(reading):
        yield Match(batch.place(launch), "num_processes is for all nodes together, not for one")


RULES = (
    Rule(
        code="SCR359",
        slug="command-cut",
        title="A command that is continued has all of its lines",
        severity="fail",
        find=commands_cut,
        why="The shell joins lines at a backslash that is the last character. Behind a blank, a "
        "comment or a missing backslash the options are a command of their own, and the training "
        "runs with defaults.",
        fires=(
            "blanks behind a backslash, and options in the next line",
            "a comment between continued lines",
            "a line of options below a command or options without a backslash",
        ),
        fix="End each line but the last with a backslash; put comments above the command.",
        sources=("bash-quoting",),
        kinds=batch.KIND,
    ),
    Rule(
        code="SCR360",
        slug="nodes-do-not-meet",
        title="All nodes meet at one address, and each has its rank",
        severity="fail",
        find=meeting,
        why="Each node must reach the same address under its own rank; otherwise the rendezvous "
        "waits until it times out, or every node trains alone.",
        fires=(
            "MASTER_ADDR=localhost, or --standalone, in a job of several nodes",
            "--node_rank as a number, or $SLURM_NODEID that the batch script replaces, under srun",
            "torchrun in a batch script of several nodes without srun",
            "two launchers in the background with one port",
        ),
        fix="MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1); "
        "srun bash -c 'torchrun --node_rank=$SLURM_NODEID ...'.",
        sources=("torch-elastic-run",),
        kinds=batch.KIND,
    ),
    Rule(
        code="SCR361",
        slug="processes-and-gpus",
        title="There are as many processes as GPUs",
        severity="fail",
        find=processes,
        why="Processes without a GPU of their own raise an invalid device ordinal or share one. "
        "torchrun starts the processes of a node itself: several tasks start them several times. "
        "Lightning expects a task for each device.",
        fires=(
            "more processes than visible GPUs, or than the job has on a node",
            "torchrun, accelerate or deepspeed under srun with several tasks on a node",
            "--trainer.devices and ntasks-per-node that differ",
            "nodes of the job and of the command that differ",
            "fewer processes than GPUs (a warning)",
        ),
        fix="One task per node with torchrun; one task per device with Lightning.",
        sources=("torch-elastic-run", "lightning-slurm"),
        kinds=batch.KIND,
    ),
)  # fmt: skip
