"""What a run works on, resolved from flags, DOCTOR_ variables, the job file and saved facts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from doctor import catalog
from doctor._util.errors import UserError
from doctor.catalog.overrides import Policy
from doctor.cli.facts_file import read_facts
from doctor.cli.job_file import check_injected, policy_of, read_job_file, working_directory
from doctor.cli.options import ConfigFlags
from doctor.collect.own_names import functions_of
from doctor.facts.facts import Facts
from doctor.job import budget
from doctor.job.file.config import JobFile, environment
from doctor.job.job import Job
from doctor.job.merge import THIS_MACHINE, Request, merge
from doctor.judge.check import Check


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that determines a run, apart from the machine."""

    request: Request
    saved: Facts | None
    """The facts to judge; None: those of this machine."""
    checks: tuple[Check, ...]
    """The checks that are reported."""
    policy: Policy
    config: str
    """Path of the job file, "" if there is none."""
    notes: tuple[str, ...]
    """For the report: settings from variables, and what was omitted or not used."""


def resolve(
    flags: Mapping[str, Any],
    config: ConfigFlags,
    facts_file: Path | None,
    among: Sequence[Check],
    saved: Facts | None = None,
) -> Inputs:
    """The inputs of a run. Keys of `flags` are fields of Job or RunOptions. Raises UserError.

    `among` are the checks that --only and --skip choose from; `saved` are the facts of the file
    where it has been read, or facts without a file.
    """
    only, skip = flags.get("only", ()), flags.get("skip", ())
    checks = catalog.select(only, skip, among)
    is_saved = facts_file is not None or saved is not None
    file = read_job_file(config, search=not is_saved)
    policy = policy_of(file, config)
    check_injected(policy, checks)
    variables = environment(os.environ)
    if facts_file is not None and saved is None:
        saved = read_facts(facts_file)
    if saved is not None:
        request = _request_of_saved(flags, variables, file, saved)
        omitted: tuple[str, ...] = ()
    else:
        base = Request(Job(working_dir=working_directory()))
        request = merge(flags, variables, file, base, replayed=False)
        check_arguments(request.job)
        request, omitted = _limit_to_budget(_limit_to(request, checks))
    notes = (*_note_on_variables(variables), *omitted, *file.notes)
    return Inputs(request, saved, checks, policy, file.path, notes)


def _request_of_saved(
    flags: Mapping[str, Any], variables: Mapping[str, object], file: JobFile, saved: Facts
) -> Request:
    """The request that the facts were recorded for, overridden by this command line."""
    check_arguments(Job(arguments=flags.get("arguments", ())))
    for name in THIS_MACHINE:
        if name in flags:
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} names something on this machine; omit it with --facts")
    # A budget limits collection: with saved facts there is none.
    flags = {name: value for name, value in flags.items() if name != "budget"}
    base = Request(saved.job, saved.options, saved.expect)
    return merge(flags, variables, file, base, replayed=True)


def _limit_to(request: Request, checks: Sequence[Check]) -> Request:
    """The request without what none of the checks reads."""
    job, options, expect = request
    families = {check.family for check in checks}
    if not families & {"SMK", "GPU", "NUM", "DAT"}:
        options = msgspec.structs.replace(options, smoke=False, quick=True)
    if not families & {"SMK", "NUM", "MEM", "DSK", "DAT", "RHS"}:
        job = msgspec.structs.replace(job, model=None, hf=None, data=None, lora=None, compile=False)
    elif "DAT" not in families:
        job = msgspec.structs.replace(job, data=None)
        options = msgspec.structs.replace(options, loader=False)
    return Request(job, options, expect)


def _limit_to_budget(request: Request) -> tuple[Request, tuple[str, ...]]:
    """The request without what exceeds its budget, and a note on what that is."""
    job, options, expect = request
    if options.budget is None:
        return request, ()
    job, options, parts = budget.reduce(job, options, options.budget)
    note = f"omitted by --budget {options.budget:g}: {', '.join(parts)}"
    return Request(job, options, expect), (note,) if parts else ()


def _note_on_variables(variables: Mapping[str, object]) -> tuple[str, ...]:
    names = ", ".join(f"DOCTOR_{name.upper()}" for name in variables)
    return (f"set by variables, unless overridden by a flag: {names}",) if names else ()


def check_arguments(job: Job) -> None:
    """Raise UserError for words that only the code of --model takes, where there is no model."""
    if not job.arguments or job.model:
        return
    words = " ".join(job.arguments)
    options = _options(Path(job.arguments[0]))
    if not options:
        raise UserError(f"{words}: arguments require --model FILE.py:factory, whose code gets them")
    raise UserError(f"{words}: name what is to be examined by an option: {' or '.join(options)}")


def _options(path: Path) -> list[str]:
    """The options that take what is there."""
    try:
        if path.is_dir():
            return [f"--checkpoint {path}", f"--output-dir {path}"]
        if not path.is_file():
            return []
    except OSError:
        return []
    if path.suffix not in (".py", ".ipynb"):
        return [f"--checkpoint {path}"]
    names = functions_of(str(path)) or []
    factories = [f"--model {path}:{name}" for name in names if name.startswith("make")]
    return [f"--script {path}", *factories[:1]]
