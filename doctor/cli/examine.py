"""Facts of a run: collected on this machine, or saved ones with this run's request."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping

from doctor._util.errors import UserError
from doctor.checkpoint.io.addresses import check_exists
from doctor.cli.examination import Record
from doctor.facts.facts import Facts
from doctor.job.job import Job
from doctor.job.merge import Request


def collect_facts(
    request: Request, *, progress: bool, held: Mapping[str, int] | None = None
) -> Facts:
    """Examine this machine. Raises UserError where something that the user named is missing.

    `held`: bytes that the calling process holds, by the UUID of the GPU.
    """
    from doctor.collect.collect import collect

    check_installed()
    _check_names(request.job)
    record = Record()
    with _progress(progress) as report_progress:
        facts = collect(*request, record.timed(report_progress), held, _is_slow)
    return facts.with_(examination=record.close())


def _is_slow(facts: Facts) -> bool:
    """Whether GPU005 would report something."""
    from doctor import catalog
    from doctor.judge.engine import examine

    return any(finding.is_problem for finding in examine(catalog.find("GPU005"), facts))


def check_installed() -> None:
    """Raise UserError in a zip archive: probes are started as files."""
    from doctor.collect.child import PROBES

    if not PROBES.is_dir():
        raise UserError(
            "doctor cannot examine anything from a zip archive (zipapp, PEX, shiv); install "
            "its checkout with pip, pipx or uv"
        )


def _check_names(job: Job) -> None:
    """Raise UserError where a file or directory of the job does not exist."""
    from doctor.collect.data_target import what_of
    from doctor.collect.interpreter import program
    from doctor.collect.own_names import factory_of, find_directory

    if job.device == "mps" and sys.platform != "darwin":
        raise UserError("--device mps requires macOS")
    if job.python and not os.access(program(job.python), os.X_OK):
        raise UserError(
            f"--python {job.python}: {program(job.python)} is not an executable file; name an "
            "interpreter, the directory of its environment, or a command on PATH"
        )
    if job.checkpoint:
        check_exists(job.checkpoint, "--checkpoint")
    if job.model:
        factory_of(job.model)
    if job.hf:
        find_directory(job.hf)
    if job.data:
        what_of(job.data, "--data")


@contextlib.contextmanager
def _progress(enabled: bool) -> Iterator[Callable[[str], None]]:
    """A function that shows the current activity on stderr, where stderr is a terminal."""
    if not enabled or not sys.stderr.isatty():
        yield lambda activity: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda activity: status.update(activity)


def replay(saved: Facts, request: Request) -> Facts:
    """Saved facts as they would be with this request's job, options and expectations."""
    if not request.options.smoke:
        saved = saved.with_(smoke=None, siblings=(), attention=None, watched=None)
    if request.options.quick:
        saved = saved.with_(load=None, peers=None)
    return saved.with_(job=request.job, options=request.options, expect=request.expect)
