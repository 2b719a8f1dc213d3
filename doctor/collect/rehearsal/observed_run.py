"""One run of the command as a fact: what its processes recorded, and what it left on disk."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from doctor._util.secrets import hide_in_arguments
from doctor.collect.rehearsal import events, hanging, observation, on_disk, runs
from doctor.collect.rehearsal.observation import LONGEST, MOST_FAILED, Observed
from doctor.collect.rehearsal.records import Handles, Paused, Saved
from doctor.facts.rehearsal_runs import RehearsedRun, RunName

MOST_NAMED = 100
"""Files that are named."""
MOST_PARTS = 3
EACH_ALONE = ("torch.save", "safetensors", "open")
"""Ways to save in which each rank that takes part writes a file of its own."""


def read(
    directory: Path,
    output: Path,
    name: RunName,
    command: Sequence[str],
    ended: runs.Ended,
    stop_at: int,
    signal: str,
) -> RehearsedRun:
    """`directory` has the records, `output` is {output}."""
    processes = observation.read_processes(directory)
    signalled = None if ended.signalled is None else ended.began + ended.signalled
    failed = bool(ended.cut) or bool(ended.code) or not processes
    emptied_at, emptied = events.read_emptied(directory, processes, output)
    return RehearsedRun(
        name=name,
        command=hide_in_arguments(tuple(command)),
        code=ended.code,
        seconds=ended.seconds,
        cut=ended.cut,
        signalled=ended.signalled,
        signal=signal if ended.signalled is not None else "",
        stopped_at=stop_at if ended.signalled is not None else 0,
        left=tuple(ended.left),
        stuck=tuple(ended.stuck),
        orphans=tuple(ended.orphans),
        ranks=tuple(each.rank() for each in processes),
        memory=ended.memory,
        failures=tuple(failed for each in processes for failed in each.failures())[:MOST_FAILED],
        saved=next((each.saved() for each in processes if each.saved()), ()),
        written=on_disk.written(output),
        saved_after_signal=signalled is not None and on_disk.changed_since(output, signalled),
        checkpoints=on_disk.checkpoints(output),
        overwritten=events.read_overwritten(directory, output)[:MOST_NAMED],
        shared=written_by_several(processes, output, events.read_renamed(directory)),
        partial=parts_of_one_rank(processes, output),
        emptied=emptied,
        emptied_at=emptied_at,
        never_kept=bool(emptied) and events.never_kept(directory, processes),
        newest_removed=events.read_newest_removed(directory, processes, output),
        tail=_tail(directory, output) if failed else (),
        mismatch=hanging.mismatch(directory / runs.LOG) if failed else "",
        refusals=hanging.refusals(directory / runs.LOG),
        handled_by=next((h for each in processes if (h := each.handler(signal))), "")[:100],
        unhandled=_unhandled(processes, signal),
        reached=next((r for each in processes if (r := each.reached()) is not None), None),
        raised_by_handler=next((e for each in processes if (e := each.handlers_error())), ""),
        lost_flags=next((f for each in processes if (f := each.lost_flags(signal))), ()),
        **_where_it_stood(directory, processes, ended, signal),
    )


def _tail(directory: Path, output: Path) -> tuple[str, ...]:
    """The end of what it printed; files of {output} by the names that they have in it."""
    lines = hanging.last_lines(directory / runs.LOG)
    return tuple(line.replace(f"{output}{os.sep}", "") for line in lines)


def _unhandled(processes: Sequence[Observed], signal: str) -> tuple[int, ...]:
    """The ranks whose handlers are known and that have none, where another has one."""
    known = [each for each in processes if each.of(Paused) or each.of(Handles)]
    without = [each.process.rank for each in known if not each.handler(signal)]
    return tuple(without[:MOST_NAMED]) if len(without) < len(known) else ()


def _where_it_stood(
    directory: Path, processes: Sequence[Observed], ended: runs.Ended, signal: str
) -> dict[str, Any]:
    """The fields about the places of the processes when the run was killed, or its ranks failed."""
    late, held = ended.cut == "deadline", ended.cut == "grace"
    several_failed = (bool(ended.code) or held) and len(processes) > 1
    return {
        "handler": hanging.handler(directory, processes, signal) if held else "",
        "frames": hanging.frames(directory) if late else (),
        "waiting": hanging.waiting(directory, processes) if late or several_failed else (),
        "still": hanging.still(processes, ended.began + ended.seconds) if late else None,
    }


def parts_of_one_rank(processes: Sequence[Observed], output: Path) -> tuple[str, ...]:
    """A file with one rank's parts of sharded weights, and their first names; () where another
    rank saved its own after the same step."""
    if any(each.process.world != len(processes) for each in processes):
        return ()  # one was not observed
    saves = [(e.process.rank, save) for e in processes for save in e.of(Saved) if save.parts]
    ranks = Counter(step for step, _ in {(save.s, rank) for rank, save in saves})
    for _, save in saves:
        if ranks[save.s] == 1:
            path = os.path.relpath(save.path, output) if save.path else "a file"
            return (path[:LONGEST], *(name[:LONGEST] for name in save.parts[:MOST_PARTS]))
    return ()


def written_by_several(
    processes: Sequence[Observed], output: Path, renamed: Sequence[tuple[int, str]] = ()
) -> tuple[str, ...]:
    """Files below {output} that more than one rank wrote after the same step, or gave the name to
    what it had written under another."""
    ranks = Counter(
        place
        for each in processes
        for place in {(s.step, s.path) for s in each.saved() if s.what in EACH_ALONE and s.path}
    )
    written = [path for (_, path), count in ranks.items() if count > 1]
    trained = {each.process.pid for each in processes}
    named = Counter(path for pid, path in dict.fromkeys(renamed) if pid in trained)
    written += [path for path, count in named.items() if count > 1]
    paths = [os.path.relpath(path, output) for path in written]
    inside = [path[:LONGEST] for path in paths if not path.startswith("..")]
    return tuple(dict.fromkeys(inside))[:MOST_NAMED]
