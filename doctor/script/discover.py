"""Which files of a directory are read: those that git tracks, else all but vendored ones."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from doctor._util.errors import UserError

VENDORED = {
    *(".venv", "venv", "build", "dist", "node_modules", "site-packages", ".git", "__pycache__"),
    *(".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hg", ".svn", ".eggs"),
    *(".ipynb_checkpoints", "wandb", ".direnv"),
}
CODE = (".py", ".ipynb", ".pyw")
DATA = (".json", ".yaml", ".yml")
LAUNCH = (".sh", ".sbatch", ".slurm", ".bash", ".mk", ".job")
LAUNCH_NAMES = ("Makefile", "Dockerfile", "makefile", "Containerfile", "justfile")
GIT_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Files:
    """What is to be read, relative to where the command runs; `notes` says what is left out."""

    scripts: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Listing:
    named: list[str] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def discover(paths: Sequence[str], exclude: Sequence[str] = ()) -> Files:
    """The files of all paths, each once, sorted. Raises UserError for a path that is missing."""
    listing = _Listing()
    for path in paths or (".",):
        if os.path.isdir(path):
            listing.listed += _directory(path, listing.notes)
        elif os.path.exists(path):
            listing.named.append(_tidy(path))
        else:
            raise UserError(f"{path} does not exist; name a file or a directory to lint")
    results = dict.fromkeys(listing.named)
    results |= dict.fromkeys(sorted(p for p in listing.listed if not excluded(p, exclude)))
    scripts = tuple(p for p in results if not is_launcher(p))
    launchers = tuple(p for p in results if is_launcher(p))
    return Files(scripts, launchers, tuple(listing.notes))


def is_launcher(path: str) -> bool:
    name = os.path.basename(path)
    return name.endswith(LAUNCH) or name.startswith(LAUNCH_NAMES)


def excluded(path: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches the path, a directory above it or its name."""
    if not patterns:
        return False
    import fnmatch

    parts = path.split("/")
    candidates = ["/".join(parts[: n + 1]) for n in range(len(parts))] + parts
    return any(
        fnmatch.fnmatch(each, pattern.rstrip("/")) for pattern in patterns for each in candidates
    )


def _tidy(path: str) -> str:
    return os.path.normpath(path)


def _wanted(name: str) -> bool:
    return name.endswith((*CODE, *DATA)) or is_launcher(name)


def _directory(path: str, notes: list[str]) -> list[str]:
    tracked = _tracked(path)
    if tracked is None:
        return [_tidy(each) for each in _walk(path, notes) if _wanted(each)]
    joined = (_tidy(os.path.join(path, each)) for each in tracked if _wanted(each))
    return [each for each in joined if os.path.isfile(each)]


def _tracked(path: str) -> list[str] | None:
    """What git tracks below a directory, None where git does not answer."""
    import subprocess

    command = ["git", "-C", path, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode:
        return None
    names = answer.stdout.decode("utf-8", "surrogateescape").split("\0")
    return [
        name for name in dict.fromkeys(names) if name and VENDORED.isdisjoint(name.split("/")[:-1])
    ]


def _walk(path: str, notes: list[str]) -> Iterator[str]:
    """All files below a directory; links to directories are not followed."""

    def on_error(error: OSError) -> None:
        notes.append(f"{error.filename} was not read: {error.strerror}")

    for directory, names, files in os.walk(path, onerror=on_error):
        names[:] = sorted(name for name in names if name not in VENDORED)
        yield from (os.path.join(directory, name) for name in sorted(files))


def read(path: str, limit: int) -> bytes:
    """The bytes of a regular file, at most `limit` and one more. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file")
        return file.read(limit + 1)
