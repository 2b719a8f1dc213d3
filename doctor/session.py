"""One run: flags to a job, facts from a file or this machine, findings, a report."""

from __future__ import annotations

import contextlib
import math
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from doctor import catalog
from doctor.checkpoint.remote import there
from doctor.engine import examine
from doctor.errors import UserError
from doctor.facts import Facts, decode, encode
from doctor.job import Job
from doctor.model import Check
from doctor.report import FailOn, Report
from doctor.units import parse_count, printable

LOOKED_AT = ("checkpoint", "output_dir", "python", "model", "hf", "lora", "compile", "attention")
"""Flags that name what must be looked at here, so that a facts file cannot answer them."""
FACTS_BYTES = 256 * 2**20


def examine_job(
    flags: Mapping[str, Any],
    facts_file: Path | None,
    save_facts: Path | None,
    only: Sequence[str],
    skip: Sequence[str],
    fail_on: FailOn,
    *,
    progress: bool,
) -> Report:
    """Examine and judge. Raises UserError for what the user can mend."""
    checks = selected(only, skip)
    given = _given(flags)
    _writable(save_facts)
    if facts_file:
        facts = _replayed(read_facts(facts_file), given)
    else:
        facts = _live(_needed(Job(working_dir=_here(), **given), checks), progress)
    if save_facts:
        write_facts(facts, save_facts)
    findings = examine(catalog.CHECKS, facts)
    shown = catalog.in_families(f for f in findings if f.check in checks)
    replayed = str(facts_file or "")
    return Report(facts, tuple(shown), fail_on, replayed=replayed, chosen=bool(only))


def selected(only: Sequence[str], skip: Sequence[str]) -> list[Check]:
    """The checks that --only and --skip leave; each names codes, slugs or families."""
    wanted, unwanted = _codes(only), _codes(skip)
    left = [
        check
        for check in catalog.CHECKS
        if (not only or check.code in wanted) and check.code not in unwanted
    ]
    if not left:
        raise UserError("--only and --skip leave no check; name other codes or families")
    return left


def _codes(names: Sequence[str]) -> set[str]:
    parts = [part.strip() for name in names for part in name.split(",") if part.strip()]
    return {check.code for part in parts for check in catalog.lookup(part)}


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in flags.items() if value is not None}
    for name in ("params", "trainable"):
        if name in given:
            try:
                given[name] = parse_count(given[name])
            except ValueError as error:
                raise UserError(f"--{name}: {error}") from None
    if "attention" in given:
        given["attention"] = _attention(given["attention"])
    _consistent(given)
    return given


def _attention(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.split(",") if part.strip().isdecimal())
    if len(sizes) != 4 or text.count(",") != 3 or not all(0 < size < 2**20 for size in sizes):
        raise UserError("--attention wants batch,heads,tokens,head_dim, as in 1,32,2048,128")
    return sizes


def _consistent(given: Mapping[str, Any]) -> None:
    """Flags that contradict each other describe no job."""
    if given.get("trainable", 0) > given.get("params", math.inf):
        raise UserError("--trainable is more than --params; only a part of the model can train")
    if given.get("device") in ("cpu", "mps") and given.get("gpus"):
        raise UserError(f"--gpus does not go with --device {given['device']}")
    if given.get("model") and given.get("hf"):
        raise UserError("--model and --hf are two trainings; name one of them")
    if not given.get("hf") and any(given.get(name) for name in ("layers", "weights")):
        raise UserError("--layers and --weights are about the model of --hf FOLDER")
    if given.get("recipe") == "pure-bf16" and given.get("precision") in ("fp16", "fp32"):
        raise UserError(f"--recipe pure-bf16 does not go with --precision {given['precision']}")


def _needed(job: Job, checks: Sequence[Check]) -> Job:
    """The job without what no selected check looks at."""
    families = {check.family for check in checks}
    if not families & {"SMK", "GPU"}:
        job = msgspec.structs.replace(job, smoke=False)
    return job


def _here() -> str:
    try:
        return printable(os.getcwd())  # noqa: PTH109 - Path.cwd() is the same with more
    except OSError as error:
        raise UserError(f"the working directory is gone: {error.strerror}; cd to another") from None


def _live(job: Job, progress: bool) -> Facts:
    from doctor.collect import collect
    from doctor.interpreter import program

    if job.device == "mps" and sys.platform != "darwin":
        raise UserError("--device mps is for a Mac")
    if job.python and not os.access(program(job.python), os.X_OK):
        raise UserError(f"--python {job.python} is no program that can be run")
    if job.checkpoint:
        there(job.checkpoint, "--checkpoint")
    with _progress(progress) as told:
        return collect(job, told)


@contextlib.contextmanager
def _progress(wanted: bool) -> Iterator[Callable[[str], None]]:
    """Tell on stderr what takes long, where stderr is a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield lambda doing: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda doing: status.update(doing)


def _replayed(facts: Facts, given: dict[str, Any]) -> Facts:
    for name in LOOKED_AT:
        if name in given:
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} is looked at on this machine; leave it out with --facts")
    job = msgspec.structs.replace(facts.job, **given)
    if not job.smoke:
        facts = facts.with_(smoke=None, watched=None)
    return facts.with_(job=job)


def read_facts(path: Path) -> Facts:
    """A facts file of anyone. Raises UserError with one line."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError(f"--facts {path} is not a file")
            data = file.read(FACTS_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UserError(f"--facts {path}: {getattr(error, 'strerror', error)}") from None
    if len(data) > FACTS_BYTES:
        raise UserError(f"--facts {path} is over {FACTS_BYTES >> 20} MiB, no facts file is")
    try:
        return decode(data)
    except ValueError as error:
        raise UserError(f"--facts {path}: {error}") from None


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _writable(path: Path | None) -> None:
    """Find out before the run that its facts could not be written after it."""
    if path is None:
        return
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113 - never raises
        raise UserError(f"--save-facts {path} is there and is no file; name another")
    if not os.access(os.path.realpath(path.parent), os.W_OK):
        raise UserError(f"--save-facts {path} cannot be written; name a file in a writable folder")


def write_facts(facts: Facts, path: Path) -> None:
    """Write a whole file or none, through links. Raises UserError."""
    data, target = encode(facts), Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with draft.open("xb") as file:
            file.write(data)
        draft.replace(target)
    except OSError as error:
        raise UserError(f"--save-facts {path}: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
