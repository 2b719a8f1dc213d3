"""The job file: doctor.toml, or [tool.doctor] in pyproject.toml, and DOCTOR_ variables.

A file that was found, rather than named, is somebody's who wrote into the folder: it may say what
is expected and never what is run (`CODE`), and another user's is not read at all.
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
from doctor.job.file.tables import JOB_KEYS, Ignore, Severity, decode, decode_job

NAMES = ("doctor.toml", "pyproject.toml")
VARIABLE = "DOCTOR_CONFIG"
LIMIT = 1 << 20
"""Bytes of a job file that are read."""
CODE = ("model", "python")
"""Keys that make the doctor run something: they count only in a file that the user named."""
PATHS = ("checkpoint", "output_dir", "cache_dir", "hf", "python", "model")


@dataclass(frozen=True, slots=True)
class JobFile:
    """What a job file says; the empty one says nothing."""

    path: str = ""
    job: Mapping[str, Any] | None = None
    expect: Expect | None = None
    ignores: tuple[Ignore, ...] = ()
    severity: Mapping[str, Severity] | None = None
    named: bool = False
    """By --config or DOCTOR_CONFIG."""
    notes: tuple[str, ...] = ()
    """What was left out of it and why, for the report."""


def load(named: Path | None, environ: Mapping[str, str], start: str | None) -> JobFile:
    """The file named by --config, else by DOCTOR_CONFIG, else the nearest one from `start` up.

    `start` None: none is searched for. Raises UserError with one line that names file and key.
    """
    if named is not None:
        return _named(named, "--config")
    if environ.get(VARIABLE):
        return _named(Path(environ[VARIABLE]), VARIABLE)
    return _found(start) if start is not None else JobFile()


def environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Keys of [job] that variables such as DOCTOR_GPUS set. Raises UserError."""
    names = {f"DOCTOR_{key.upper()}": key for key in JOB_KEYS}
    given = {key: environ[name] for name, key in names.items() if environ.get(name)}
    try:
        return decode_job(given, text=True)
    except ValueError as error:
        key, _, said = str(error).removeprefix("job.").partition(":")
        raise UserError(f"DOCTOR_{key.upper()}:{said}") from None


def _named(path: Path, by: str) -> JobFile:
    path = Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser may raise
    try:
        text, _ = _read(path)
    except OSError as error:
        raise UserError(f"{by} {path}: {error.strerror or error}") from None
    tables = _tables(path, text)
    if tables is None:
        raise UserError(f"{by} {path} has no table [tool.doctor]")
    return replace(_decoded(path, tables), named=True)


def _found(start: str) -> JobFile:
    notes: list[str] = []
    for path in _upward(Path(start)):
        try:
            text, told = _read(path)
        except OSError:  # not there, or not for this user
            continue
        if reason := _strange(path, told):
            notes.append(f"{path} was not read, {reason}; --config {path} takes it")
            continue
        if path.name == "pyproject.toml" and "doctor" not in text:
            continue
        if (tables := _tables(path, text)) is not None:
            found = _without_code(_decoded(path, tables))
            return replace(found, notes=(*notes, *found.notes))
    return JobFile(notes=tuple(notes))


def _upward(folder: Path) -> Iterator[Path]:
    """The files to look at, from a folder up to its repository's root, or the file system's."""
    for parent in (folder, *folder.parents):
        yield from (parent / name for name in NAMES)
        if (parent / ".git").exists():
            return


def _read(path: Path) -> tuple[str, os.stat_result]:
    """Text and status of a regular file. Raises OSError, and UserError where it is no text."""
    with open(path, "rb", opener=_without_waiting) as file:
        told = os.fstat(file.fileno())
        if not stat.S_ISREG(told.st_mode):
            raise OSError(0, "it is not a file")
        data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise UserError(f"{path} is over {LIMIT >> 20} MiB, no job file is")
    return data.decode("utf-8", "replace"), told


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _strange(path: Path, told: os.stat_result) -> str:
    """Why a found file may be another's than the user's, "" if it is not."""
    folder = path.parent.stat()
    if told.st_uid not in (os.getuid(), 0):
        return "another user owns it"
    if told.st_mode & stat.S_IWOTH:
        return "every user can write it"
    if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        return "every user can replace it"
    return ""


def _tables(path: Path, text: str) -> dict[str, Any] | None:
    """The tables of a job file; None for a pyproject.toml without any."""
    try:
        tables: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not TOML: {' '.join(str(error).split())}") from None
    if path.name != "pyproject.toml":
        return tables
    tool = tables.get("tool")
    said = tool.get("doctor") if isinstance(tool, dict) else None
    if said is not None and not isinstance(said, dict):
        raise UserError(f"{path}: tool.doctor must be a table")
    return said


def _decoded(path: Path, tables: dict[str, Any]) -> JobFile:
    try:
        told = decode(tables)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    folder = Path(os.path.abspath(path)).parent  # noqa: PTH100 - links are left alone
    job = {key: _from(folder, value) if key in PATHS else value for key, value in told.job.items()}
    expect = told.expect
    if expect and expect.disk:
        disk = {_from(folder, name): size for name, size in expect.disk.items()}
        expect = msgspec.structs.replace(expect, disk=disk)
    return JobFile(str(path), job, expect, told.ignores, told.severity)


def _from(folder: Path, name: str) -> str:
    """A path as the file means it: relative to the file's own folder."""
    if name.startswith("~") or "://" in name:
        return name
    return os.path.normpath(folder / name)


def _without_code(found: JobFile) -> JobFile:
    """The file without what only a named one may say."""
    job = dict(found.job or {})
    left = [key for key in CODE if job.pop(key, None) is not None]
    if "://" in str(job.get("checkpoint", "")):
        left += ["checkpoint"]
        del job["checkpoint"]
    if not left:
        return found
    what = " and ".join(left)
    note = (
        f"{what} of {shown(found.path)} not used: what runs code or calls an address counts "
        f"only in a file that you name: --config {shown(found.path)}"
    )
    return replace(found, job=job, notes=(*found.notes, note))
