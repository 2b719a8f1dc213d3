"""Reads what the guard wrote: JSON lines of every rank, which are untrusted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from doctor._util.records import Unknown
from doctor._util.regular_file import read_regular
from doctor._util.secrets import hide_in_arguments
from doctor.collect.guard_lines import ProcessLines
from doctor.collect.training_gpus import TrainingGpus, decode
from doctor.facts.guard import EarlierCheckpoint, Guarded, GuardedProcess, GuardStall, Text

FILE = re.compile(r"rank(\d{1,7})-(\d{1,10})\.jsonl")
RUN = "run.json"
"""Written by the parent: the command and how it ended."""
STALLS = "stalls.json"
"""Written by the parent: ranks that were without a step for long."""
GPUS = "gpus.json"
"""Written by the parent: what NVML recorded meanwhile."""
MOST_BYTES = 64 * 2**20
"""Of one file; the guard writes a quarter of it at most."""
MOST_FILES = 4096


class _Run(msgspec.Struct):
    command: tuple[Text, ...] = ()
    exit_code: int | None = None
    signal: Text = ""
    stopped: bool = False
    watched: int = 0
    checkpoint: EarlierCheckpoint | None = None


def read_records(directory: Path) -> Guarded | Unknown:
    """What the guard recorded in `directory`. Raises OSError where that cannot be listed."""
    names = [entry.name for entry in directory.iterdir() if FILE.fullmatch(entry.name)]
    files = sorted(names, key=_number)[:MOST_FILES]
    everything = [p for p in map(_read_process, (directory / name for name in files)) if p]
    everything = _of_the_training(everything)
    everything.sort(key=lambda process: process.started)
    latest = [p for p in everything if p.world == everything[-1].world]
    processes = {process.rank: process for process in latest}
    restarts = len(everything) - len(processes)
    run = _read_run(directory / RUN)
    began = any(process.counts.steps or process.alarms for process in processes.values())
    if not began and not run.exit_code:
        return Unknown(reason=_without_steps(processes))
    return Guarded(
        processes=tuple(processes[rank] for rank in sorted(processes)),
        restarts=restarts,
        command=hide_in_arguments(run.command),
        exit_code=run.exit_code,
        signal=run.signal,
        stopped=run.stopped,
        watched=run.watched,
        stalls=_read_stalls(directory / STALLS),
        checkpoint=run.checkpoint,
    )


def _of_the_training(everything: list[GuardedProcess]) -> list[GuardedProcess]:
    """Without those that ended before they trained, if they ever did: the guard switched itself
    off in them, or an error ended them. Where none trained, the error that came first stays."""
    trained = [p for p in everything if not _never_trained(p)]
    errors = {p.error.moment: p for p in everything if p.error is not None}
    return trained or [p for moment, p in errors.items() if moment == min(errors)] or everything


def _never_trained(process: GuardedProcess) -> bool:
    counts = process.counts
    began = counts.steps or counts.backwards or process.alarms
    return not began and (process.ended.startswith("error") or process.error is not None)


def _number(name: str) -> tuple[int, int]:
    match = FILE.fullmatch(name)
    assert match is not None
    return int(match[1]), int(match[2])


def _without_steps(processes: dict[int, GuardedProcess]) -> str:
    backwards = sum(process.counts.backwards for process in processes.values())
    errors = [p.ended for p in processes.values() if p.ended.startswith("error")]
    if errors:
        return f"the guard switched itself off before the first step: {errors[0]}"
    if backwards:
        return (
            f"{backwards} backward passes and no step of a torch.optim optimizer were observed; "
            "report steps with doctor.guard.Guard().step(loss)"
        )
    return (
        "no training step was observed: nothing was left to train, as after a resume from the last "
        "step, the program does not train with torch, or its Python ignores PYTHONPATH (python -I, "
        "-E or -S)"
    )


def _read_process(path: Path) -> GuardedProcess | None:
    process = ProcessLines()
    for line in lines(path):
        process.read(line)
    return process.finish()


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a regular file; one that cannot be read has none."""
    try:
        yield from read_regular(str(path), MOST_BYTES).splitlines()
    except OSError:
        return


def read_gpus(directory: Path) -> TrainingGpus:
    """What NVML recorded beside them; without GPUs where there is no such record."""
    return decode(b"\n".join(lines(directory / GPUS)))


def _read_stalls(path: Path) -> tuple[GuardStall, ...]:
    try:
        return msgspec.json.decode(b"\n".join(lines(path)), type=tuple[GuardStall, ...])[
            :MOST_FILES
        ]
    except msgspec.DecodeError:
        return ()


def _read_run(path: Path) -> _Run:
    try:
        return msgspec.json.decode(b"\n".join(lines(path)), type=_Run)
    except msgspec.DecodeError:
        return _Run()
