"""What a shell script asks for: nodes, tasks, GPUs and processes, as far as it says so."""

from __future__ import annotations

import re

from doctor.checks.script.training import Training
from doctor.facts.script import Launch, Setting, Span

KIND = ("shell",)


def settings(reading: Training) -> dict[str, Setting]:
    """The settings of a file by their keys; the last one counts."""
    return {setting.key: setting for setting in reading.script.settings}


def number(text: object) -> int | None:
    """A plain number, None for a variable or anything else."""
    found = str(text).strip()
    return int(found) if re.fullmatch(r"\d{1,6}", found) else None


def directive(reading: Training, name: str) -> int | None:
    setting = settings(reading).get(f"sbatch.{name}")
    return number(setting.value) if setting is not None else None


def nodes(reading: Training) -> int | None:
    """Nodes of the job: 1-4 has no one number."""
    return directive(reading, "nodes")


def gpus(reading: Training) -> int | None:
    """GPUs of a node by the batch directives."""
    known = settings(reading)
    for name, pattern in (
        ("gpus-per-node", r"(?:\w+:)?(\d+)"),
        ("gres", r"gpu:(?:[\w.-]+:)?(\d+).*"),
    ):
        setting = known.get(f"sbatch.{name}")
        if setting is not None and (found := re.fullmatch(pattern, str(setting.value))):
            return int(found[1])
    each, tasks = directive(reading, "gpus-per-task"), directive(reading, "ntasks-per-node")
    if each and tasks:
        return each * tasks
    total, count = directive(reading, "gpus"), nodes(reading) or 1
    return total // count if total and total % count == 0 else None


def visible(reading: Training) -> int | None:
    """GPUs that CUDA_VISIBLE_DEVICES names."""
    setting = settings(reading).get("export.CUDA_VISIBLE_DEVICES")
    text = str(setting.value) if setting is not None else ""
    return text.count(",") + 1 if re.fullmatch(r"\d+(?:,\d+)*,?", text.strip(",")) else None


def flag(launch: Launch, *names: str) -> str | None:
    """A launcher's flag under any of its names."""
    return next((launch.launcher[n] for n in names if n in launch.launcher), None)


def tasks_per_node(reading: Training, launch: Launch) -> int | None:
    """Tasks that srun starts on a node: its own option, the directive, or 1 by default."""
    if not in_srun(launch):
        return 1
    own = re.search(r"--ntasks-per-node[= ](\d+)", launch.prefix)
    total = re.search(r"(?:--ntasks[= ]|-n ?)(\d+)", launch.prefix)
    count = nodes(reading)
    if own:
        return int(own[1])
    if total:
        return int(total[1]) // count if count else None
    if (given := directive(reading, "ntasks-per-node")) is not None:
        return given
    if (given := directive(reading, "ntasks")) is not None:
        return given // (count or 1)
    return None if "sbatch.ntasks-per-node" in settings(reading) else 1


def in_srun(launch: Launch) -> bool:
    return re.search(r"\b(?:srun|mpirun|mpiexec)\b", launch.prefix) is not None


def in_background(launch: Launch) -> bool:
    """The script goes on while it runs."""
    return re.search(r"[^&>]&\s*$", launch.text) is not None


def place(launch: Launch) -> Span:
    return Span(launch.line, 1, launch.line, 2)
