"""Where the processes of a run were when it was killed, and what the log of a run says."""

from __future__ import annotations

import ast
import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from doctor._util.regular_file import read_regular
from doctor._util.secrets import hide_secrets
from doctor.collect.rehearsal.observation import Observed
from doctor.facts.rehearsal_runs import Waiting

MOST_LOG, MOST_SOURCE = 16 * 2**20, 2**20
MOST_FRAMES, FRAMES = 30, 8
"""Lines of frames in all, and of one process."""
TAIL, TAIL_BYTES = 40, 20_000
"""Lines of the output that are kept of a run that failed, and where they are looked for."""
REFUSED = ("Read-only file system", "Permission denied", "Errno 13]", "Errno 30]", "os error 30")
"""Texts of errors with which a write is refused."""
MOST_REFUSED = 5
MISMATCH = re.compile(
    r"distributed collective mismatch|mismatch between collectives", re.IGNORECASE
)
"""In what gloo prints of data of another length, and torch with TORCH_DISTRIBUTED_DEBUG."""
TRACEBACK = "Traceback (most recent call last)"
LAUNCHERS_ERROR = re.compile(
    r"torch\.distributed\.elastic\.\S{1,100}\.ChildFailedError"
    r"|subprocess\.CalledProcessError: Command '?\[?'?\S{0,300}\bpython"
)
"""The last line of the traceback of torchrun, and of `accelerate launch` on one process."""
FRAME = re.compile(r'File "(.{1,1000})", line (\d{1,9}) in (.{1,200})')
PLACE = re.compile(r"(.{1,1000}):(\d{1,9})")
OF_A_RANK = re.compile(
    r"(?<![a-z])(?:local_|global_)?rank(?![a-z])|rank_?zero|is_(?:local_)?(?:main|master)"
    r"|main_process|global_zero|process_zero|(?<![a-z])master(?![a-z])",
    re.IGNORECASE,
)
"""In conditions that hold on some ranks alone."""
OF_OTHERS = re.compile(r"!=|\bnot\b|>")
"""In those of the ranks that wait for what one does first."""
LIBRARIES = ("/doctor/guard/", "/site-packages/", "/dist-packages/", "/lib/python", "<frozen")
CURRENT = "Current thread"


class _Collective(msgspec.Struct):
    name: str
    number: int
    returned: bool
    place: str = ""


_decode = msgspec.json.Decoder(_Collective).decode


def _text(path: Path, offset: int = 0) -> str:
    """Of a file that the user's processes wrote; "" for none."""
    try:
        return read_regular(str(path), MOST_LOG, follow=False, offset=offset).decode(
            errors="replace"
        )
    except OSError:
        return ""


def frames(directory: Path) -> tuple[str, ...]:
    """Of each process the frames nearest to where it waits."""
    found: list[str] = []
    for path in sorted(directory.glob("frames-*.txt")):
        found += [line[:300] for line in _text(path).splitlines()[:FRAMES]]
    return tuple(found[:MOST_FRAMES])


def waiting(directory: Path, processes: Sequence[Observed]) -> tuple[Waiting, ...]:
    """Of each rank its place, and the last collective that it called."""
    found = []
    for each in processes:
        pid = each.process.pid
        last: _Collective | None = None
        with contextlib.suppress(msgspec.DecodeError):
            last = _decode(_text(directory / f"collective-{pid}.json").encode())
        inside = last is not None and not last.returned
        end = each.end()
        text = _text(directory / f"frames-{pid}.txt")
        place = _place(text) or (end.place if end else "")
        place = last.place if last and inside else place
        found.append(
            Waiting(
                rank=each.process.rank,
                place=hide_secrets(place or (last.place if last else ""))[:500],
                collective=last.name[:100] if last else "",
                number=last.number if last else 0,
                inside=inside,
                called=_waits_in(text.rpartition(CURRENT)[2]).removeprefix(", in ")[:200],
                loop=hide_secrets(_loop(text)),
                condition=hide_secrets(_condition(place, text)),
                ended=end is not None,
                exchanging=end is not None and end.exchanging,
            )
        )
    return tuple(found)


def handler(directory: Path, processes: Sequence[Observed], signal: str) -> str:
    """The function that handles the signal, where a process was in it, and where in it; "" else."""
    for each in processes:
        name = each.handler(signal)
        text = _text(directory / f"frames-{each.process.pid}.txt").rpartition(CURRENT)[2]
        if name and any(match[3] == name for match in FRAME.finditer(text)):
            return hide_secrets(f"{name}, at {_place(text)}{_waits_in(text)}")[:500]
    return ""


def still(processes: Sequence[Observed], killed: float) -> float | None:
    """Seconds from the last step of any rank to this moment; None without a step."""
    moments = [step.moment for each in processes for step in each.steps]
    return max(0.0, killed - max(moments)) if moments else None


def _place(text: str) -> str:
    """File, line and function of the nearest frame of the main thread outside of libraries."""
    return next((f"{path}:{line} in {name}" for path, line, name in _own_frames(text)), "")


def _waits_in(text: str) -> str:
    """The library's function that the nearest frame of the user's called; "" for none."""
    called = ""
    for match in FRAME.finditer(text):
        if not any(library in match[1] for library in LIBRARIES):
            break
        called = f", in {match[3]} of {os.path.basename(match[1])}"
    return called


def _own_frames(text: str) -> Iterator[tuple[str, int, str]]:
    """Those of the main thread outside of libraries, the nearest first."""
    thread = text.rpartition(CURRENT)[2]
    for match in FRAME.finditer(thread):
        if not any(library in match[1] for library in LIBRARIES):
            yield match[1], int(match[2]), match[3]


def _loop(text: str) -> str:
    """The nearest while loop around the frames that takes no step; "" where a for loop is nearer,
    or none is there."""
    for path, line, _ in _own_frames(text):
        loops = [each for each in _around(path, line) if not isinstance(each, ast.If)]
        if loops:
            nearest = max(loops, key=lambda each: each.lineno)
            called = {n.attr for n in ast.walk(nearest) if isinstance(n, ast.Attribute)}
            if not isinstance(nearest, ast.While) or called & {"backward", "step"}:
                return ""
            return f"while {ast.unparse(nearest.test)[:100]} ({path[-200:]}:{nearest.lineno})"
    return ""


def _condition(place: str, text: str) -> str:
    """The nearest condition on the rank around a place, or around a frame of its calls; "" for
    none."""
    match = PLACE.match(place)
    frames = [(match[1], int(match[2]))] if match else []
    for path, line in (*frames, *(each[:2] for each in _own_frames(text))):
        around = [each for each in _around(path, line) if isinstance(each, ast.If)]
        for each in sorted(around, key=lambda each: -each.lineno):
            test = ast.unparse(each.test)
            inside = each.body[0].lineno <= line <= (each.body[-1].end_lineno or 0)
            if inside and OF_A_RANK.search(test) and not OF_OTHERS.search(test):
                return f"if {test[:100]} ({path[-200:]}:{each.lineno})"
    return ""


def _around(path: str, line: int) -> list[ast.For | ast.While | ast.If]:
    """The loops and conditions of a file of the user's that have this line."""
    try:
        tree = ast.parse(read_regular(path, MOST_SOURCE, follow=False))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    kinds = ast.For | ast.While | ast.If
    found = [each for each in ast.walk(tree) if isinstance(each, kinds)]
    return [each for each in found if each.lineno <= line <= (each.end_lineno or 0)]


def last_lines(log: Path) -> tuple[str, ...]:
    """The end of what a run printed."""
    try:
        offset = max(0, log.stat().st_size - TAIL_BYTES)
    except OSError:
        return ()
    lines = [line for line in _text(log, offset).splitlines() if line.strip()]
    return tuple(hide_secrets(line)[:500] for line in _of_the_command(lines)[-TAIL:])


def _of_the_command(lines: list[str]) -> list[str]:
    """Without the traceback with which a launcher says that the processes it started had failed."""
    own = next((n for n, line in enumerate(lines) if LAUNCHERS_ERROR.match(line)), len(lines))
    begins = [n for n, line in enumerate(lines[:own]) if line.startswith(TRACEBACK)]
    return lines[: begins[-1]] if own < len(lines) and begins and begins[-1] else lines


def mismatch(log: Path) -> str:
    """The first line of the output that says that ranks called different collectives; "" else."""
    found = (line for line in _text(log).splitlines() if MISMATCH.search(line))
    return hide_secrets(next(found, "").strip()[:2000])[-500:]


def refusals(log: Path) -> tuple[str, ...]:
    """The first lines of the output that speak of a refused write."""
    lines = [
        hide_secrets(line.strip())[:500]
        for line in _text(log).splitlines()
        if any(word in line for word in REFUSED)
    ]
    return tuple(dict.fromkeys(lines))[:MOST_REFUSED]
