"""The job file: doctor.toml, or [tool.doctor] in pyproject.toml, and DOCTOR_ variables.

A file that is discovered, not named by the user, may have been written by anyone who can write to
that directory: it may set expectations but not what is executed (`CODE`), and a file that another
user owns or can replace is not read at all.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from doctor._util.errors import UserError
from doctor._util.units import shown
from doctor.job.expect import Expect
from doctor.job.file.lint import LintTable
from doctor.job.file.tables import JOB_KEYS, WITHOUT_VARIABLE, Ignore, Severity, decode, decode_job

NAMES = ("doctor.toml", "pyproject.toml")
VARIABLE = "DOCTOR_CONFIG"
NO_LINT_TABLE = LintTable()
LIMIT = 1 << 20
"""Maximum size of a job file in bytes."""
CODE = ("model", "python", "data")
"""Keys that make the doctor execute something: used only from a file that the user named."""
PATHS = ("checkpoint", "output_dir", "cache_dir", "hf", "python", "model", "data")


@dataclass(frozen=True, slots=True)
class JobFile:
    """The contents of a job file; the empty one sets nothing."""

    path: str = ""
    job: Mapping[str, Any] | None = None
    """Fields of Job and RunOptions."""
    expect: Expect | None = None
    ignores: tuple[Ignore, ...] = ()
    severity: Mapping[str, Severity] | None = None
    lint: LintTable = NO_LINT_TABLE
    named: bool = False
    """By --config or DOCTOR_CONFIG."""
    notes: tuple[str, ...] = ()
    """For the report: what was not used, and why."""


def load(named: Path | None, environ: Mapping[str, str], start: str | None) -> JobFile:
    """The file named by --config, else by DOCTOR_CONFIG, else the nearest one from `start` up.

    `start` None: do not search. Raises UserError with one line that names file and key.
    """
    if named is not None:
        return _load_named(named, "--config")
    if environ.get(VARIABLE):
        return _load_named(Path(environ[VARIABLE]), VARIABLE)
    return _discover(start) if start is not None else JobFile()


def environment(environ: Mapping[str, str]) -> dict[str, object]:
    """Keys of [job] that variables such as DOCTOR_GPUS set. Raises UserError."""
    variables = {f"DOCTOR_{k.upper()}": k for k in JOB_KEYS if k not in WITHOUT_VARIABLE}
    texts = {key: environ[name] for name, key in variables.items() if environ.get(name)}
    try:
        return decode_job(texts, text=True)
    except ValueError as error:
        key, _, message = str(error).removeprefix("job.").partition(":")
        raise UserError(f"DOCTOR_{key.upper()}:{message}") from None


def _load_named(path: Path, named_by: str) -> JobFile:
    path = Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser may raise
    try:
        text, _ = _read(path)
    except OSError as error:
        raise UserError(f"{named_by} {path}: {error.strerror or error}") from None
    tables = _tables(path, text)
    if tables is None:
        raise UserError(f"{named_by} {path} has no table [tool.doctor]")
    return replace(_decode(path, tables), named=True)


def _discover(start: str) -> JobFile:
    notes: list[str] = []
    for path in _candidates(Path(start)):
        try:
            text, status = _read(path)
        except OSError:  # missing, or not readable by this user
            continue
        if reason := _reason_untrusted(path, status):
            notes.append(f"{path} was not read: {reason}; to use it, pass --config {path}")
            continue
        if path.name == "pyproject.toml" and "doctor" not in text:
            continue
        if (tables := _tables(path, text)) is not None:
            file = _without_code(_decode(path, tables))
            return replace(file, notes=(*notes, *file.notes))
    return JobFile(notes=tuple(notes))


def _candidates(directory: Path) -> Iterator[Path]:
    """Possible job files, from a directory up to its repository's root, or the file system's."""
    for parent in (directory, *directory.parents):
        yield from (parent / name for name in NAMES)
        if (parent / ".git").exists():
            return


def _read(path: Path) -> tuple[str, os.stat_result]:
    """Text and status of a regular file. Raises OSError, and UserError above the size limit."""
    with open(path, "rb", opener=_open_without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "not a regular file")
        data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise UserError(f"{path} exceeds the {LIMIT >> 20} MiB limit of a job file")
    return data.decode("utf-8-sig", "replace"), status


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _reason_untrusted(path: Path, status: os.stat_result) -> str:
    """Why another user may have written a discovered file, "" if that is excluded."""
    directory = path.parent.stat()
    if status.st_uid not in (os.getuid(), 0):
        return "another user owns it"
    if status.st_mode & stat.S_IWOTH:
        return "every user can write it"
    if directory.st_mode & stat.S_IWOTH and not directory.st_mode & stat.S_ISVTX:
        return "every user can replace it"
    return ""


def _tables(path: Path, text: str) -> dict[str, object] | None:
    """The tables of a job file; None for a pyproject.toml without any."""
    try:
        tables: dict[str, object] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not TOML: {' '.join(str(error).split())}") from None
    if path.name != "pyproject.toml":
        return tables
    tool = tables.get("tool")
    table = tool.get("doctor") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UserError(f"{path}: tool.doctor must be a table")
    return table


def _decode(path: Path, tables: dict[str, object]) -> JobFile:
    try:
        decoded = decode(tables)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    directory = Path(os.path.abspath(path)).parent  # noqa: PTH100 - links are not resolved
    job = {
        key: _absolute(directory, value) if key in PATHS and not _is_command(key, value) else value
        for key, value in decoded.job.items()
    }
    expect = decoded.expect
    if expect and expect.disk:
        disk = {_absolute(directory, name): size for name, size in expect.disk.items()}
        expect = msgspec.structs.replace(expect, disk=disk)
    return JobFile(str(path), job, expect, decoded.ignores, decoded.severity, decoded.lint)


def _is_command(key: str, name: str) -> bool:
    """Whether it is the interpreter by its name on PATH: "python3.12"."""
    return key == "python" and "/" not in name and name.startswith("python")


def _absolute(directory: Path, name: str) -> str:
    """A path of the file, which is relative to the file's own directory."""
    if name.startswith("~") or "://" in name:
        return name
    return os.path.normpath(directory / name)


def _without_code(file: JobFile) -> JobFile:
    """The file without the keys that only a named one may set."""
    job = dict(file.job or {})
    removed = [key for key in CODE if job.pop(key, None) is not None]
    if "://" in str(job.get("checkpoint", "")):
        removed += ["checkpoint"]
        del job["checkpoint"]
    if not removed:
        return file
    note = (
        f"{' and '.join(removed)} of {shown(file.path)} not used: a key that executes code or "
        f"opens an address requires --config {shown(file.path)}"
    )
    return replace(file, job=job, notes=(*file.notes, note))
