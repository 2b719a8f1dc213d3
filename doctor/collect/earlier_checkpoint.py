"""The newest checkpoint that a training wrote before it went wrong, by the times of its files.

Nothing is opened: names, sizes and times decide. Files that are older than the training are those
of others. Examined are the working directory, the directories named on the training's command
line, and those into which it called torch.save, as deep as trainers write.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from doctor._util.units import printable
from doctor.facts.guard import EarlierCheckpoint, GuardSaved

WEIGHTS = re.compile(
    r".*\.(safetensors|ckpt|distcp)|(?!(optim|sched|scaler|rng_|random_|training_args|"
    r"trainer_state|features|embeddings|.*_stats|.*_losses).*).*\.(pt|pth)|(pytorch_model|model|"
    r"mp_rank|consolidated|adapter_model|checkpoint|ckpt|step|epoch|last|best).*\.bin",
    re.IGNORECASE,
)
"""Names of files with weights, as transformers, Lightning, DeepSpeed, Megatron and torch save."""
DEPTH = 4
MOST_ENTRIES = 50_000
SECONDS = 5.0
SKIPPED = {".git", ".venv", "venv", "node_modules", "site-packages", "__pycache__", "wandb"}


class Span(NamedTuple):
    """From the start of a training to its first failure, seconds since 1970."""

    start: float
    failure: float


def places(
    command: Sequence[str], working_dir: Path, saved: Sequence[GuardSaved] = ()
) -> tuple[Path, ...]:
    """The working directory, directories that an argument or an option names, and those of `saved`.

    Each one once: not below another one.
    """
    values = [word.partition("=")[2] if word.startswith("-") else word for word in command[1:]]
    named = [working_dir / value for value in values if value]
    named += [Path(each.path).parent for each in saved]
    directories = [working_dir, *(path for path in named if _is_directory(path))]
    directories = [Path(os.path.abspath(path)) for path in directories]  # noqa: PTH100 - keeps links
    unique = dict.fromkeys(path for path in directories if path != Path("/"))
    return tuple(path for path in unique if not any(above in unique for above in path.parents))


def find_between(
    span: Span, where: Sequence[Path], saved: Sequence[GuardSaved] = ()
) -> EarlierCheckpoint:
    """The newest directory whose weights were all written in the span; its step by `saved`."""
    times: dict[str, float] = {}
    complete = True
    deadline = time.monotonic() + SECONDS
    for path in where:
        for number, entry in enumerate(_files(path)):
            if number >= MOST_ENTRIES or time.monotonic() > deadline:
                complete = False
                break
            written = _written(entry)
            if written is not None and written >= span.start:
                # Files beside one another, like last.ckpt and best.ckpt, are checkpoints each.
                place = entry.path if entry.name.endswith((".ckpt", ".pt", ".pth")) else ""
                place = place or str(Path(entry.path).parent)
                times[place] = max(written, times.get(place, 0.0))
    earlier = {place: written for place, written in times.items() if written < span.failure}
    finished = {place: w for place, w in earlier.items() if _step_of(place, saved)}
    earlier = finished or earlier  # what a failure cut off was written, and never finished
    newest = max(earlier, key=lambda place: earlier[place], default=None)
    return EarlierCheckpoint(
        path=printable(newest)[:2000] if newest else "",
        step=_step_of(newest, saved) if newest else 0,
        seconds=round(span.failure - earlier[newest], 1) if newest else 0.0,
        later=len(times) - len(earlier),
        examined=tuple(printable(str(path))[:2000] for path in where[:20]),
        complete=complete,
    )


def _step_of(place: str, saved: Sequence[GuardSaved]) -> int:
    """The step after which torch.save wrote this file, or the last one in this directory."""
    return max((s.step for s in saved if place in (s.path, str(Path(s.path).parent))), default=0)


def _files(top: Path) -> Iterator[os.DirEntry[str]]:
    """The files below a directory, without following links."""
    pending = [(str(top), 0)]
    while pending:
        path, depth = pending.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        yield entry
                    elif depth < DEPTH and entry.name not in SKIPPED:
                        pending.append((entry.path, depth + 1))
        except OSError:
            continue


def _written(entry: os.DirEntry[str]) -> float | None:
    """When a file with weights was written; None for other files."""
    if not WEIGHTS.fullmatch(entry.name):
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return status.st_mtime if status.st_size else None


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
