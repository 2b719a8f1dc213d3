"""What the command tried to do outside, and was refused."""

from __future__ import annotations

import re
from pathlib import Path

from doctor._util.units import shown
from doctor.checks.rehearsal.parts import some, unobserved
from doctor.facts.rehearsal import Attempt, Rehearsal
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, unknown, warn

OVER = (
    "Pass the directory of checkpoints as {output}, and check in the job's script where it writes "
    "before it starts: an existing run there is overwritten."
)


def writes_inside(rehearsal: Rehearsal) -> Verdict:
    writes = [each for each in rehearsal.attempts if each.kind == "write"]
    confined = rehearsal.protection.files
    if not writes:
        if not confined:
            return unknown("not protected: the kernel refused nothing, and C++ is not observed")
        return _printed(rehearsal)
    did = "refused" if confined else "not refused (--unprotected)"
    listed = some([_written(each) for each in writes], len(writes))
    over = [each for each in writes if each.holds_run]
    if over:
        return fail(
            f"would write into a run that is already there: {_written(over[0])}; {did}",
            fix=_build(rehearsal, over[0]) or OVER,
        )
    if not confined:
        return warn(f"wrote outside {{output}}: {listed}; {did}", fix=_build(rehearsal, writes[-1]))
    if _died(rehearsal):
        return fail(
            f"writes outside {{output}}, and ends where it cannot: {listed}; {did}",
            fix=_build(rehearsal, writes[-1]),
        )
    return note(
        f"tried to write outside {{output}} and went on: {listed}; {did}",
        fix="Nothing, if the job does not need the files; else --writable DIRECTORY allows it.",
    )


def _printed(rehearsal: Rehearsal) -> Verdict:
    """The verdict where Python saw no write: programs print what was refused."""
    failed = [run for run in rehearsal.runs if run.refusals and run.code and run.signalled is None]
    lines = [line for run in failed or rehearsal.runs for line in run.refusals]
    if not lines and (reason := _unobserved(rehearsal)):
        return reason
    if not lines:
        return ok("nothing outside {output} was opened for writing, as far as Python shows")
    summary = f"a write outside {{output}} was refused: {shown(lines[0], 300)}"
    return fail(summary) if failed else note(f"{summary}; the command went on")


def _unobserved(rehearsal: Rehearsal) -> Verdict | None:
    """Unknown where one of the runs was not observed to the end."""
    runs = rehearsal.runs or (None,)
    return next((reason for run in runs if (reason := unobserved(run))), None)


def _build(rehearsal: Rehearsal, attempt: Attempt) -> str | None:
    """The remedy where the command has {output} and the line that writes elsewhere is known."""
    if not attempt.place or not rehearsal.takes_output:
        return None
    return (
        f"Build the path from the argument that has {{output}}: {shown(attempt.place, 200)} writes "
        "elsewhere, by a constant, a setting of another file or a relative name. If it belongs "
        "there (a log of all runs, a cache), --writable DIRECTORY allows it."
    )


def _written(attempt: Attempt) -> str:
    there = " (it exists)" if attempt.exists else ""
    line = f" at {shown(attempt.place, 200)}" if attempt.place else ""
    return f"{attempt.what} {shown(attempt.path, 200)}{there}{line}"


REFUSED = re.compile(r"\[Errno (?:13|30)\][^'\n]{1,60}'([^'\n]{1,500})'")
"""Of an error: Permission denied, Read-only file system, and the path."""


def refused(rehearsal: Rehearsal, error: str) -> bool:
    """Whether the error is that of a write that the rehearsal refused, which RHS001 reports."""
    path = Path(match[1]).parts if (match := REFUSED.search(error)) else ()
    tried = (Path(each.path).parts for each in rehearsal.attempts if each.kind == "write")
    return rehearsal.protection.files and any(path and each[-len(path) :] == path for each in tried)


def _died(rehearsal: Rehearsal) -> bool:
    """Whether a run failed, and printed that a write was refused."""
    return any(run.code and run.refusals and run.signalled is None for run in rehearsal.runs)


WRITES = Check(
    code="RHS001",
    slug="writes-inside-output",
    title="The command writes only into {output}",
    why="A command copied from a real run writes where that run is: the first save of a test "
    "overwrites a checkpoint of last week, and save_total_limit removes the others.",
    passes=("nothing outside {output}, temporary directories and caches was opened for writing",),
    notes=("a write elsewhere was refused, and the command went on",),
    warns=("it wrote elsewhere, with --unprotected",),
    fails=(
        "it would write into a directory that holds a run",
        "a write elsewhere was refused, and a run ended with that error",
    ),
    fix="Pass the directory of checkpoints and logs as {output}. Start a script that writes where "
    "it is started with --in-output. --writable DIRECTORY allows another directory.",
    owner=Owner.JOB,
    judge=writes_inside,
    limits="that code in C++ or Rust tried nothing: the kernel refuses it, but does not say it.",
    sources=("landlock",),
)


def uploads(rehearsal: Rehearsal) -> Verdict:
    kinds = ("upload", "cluster", "connect")
    found = [each for each in rehearsal.attempts if each.kind in kinds]
    closed = rehearsal.protection.network == "closed"
    route = "the network was closed" if closed else "the network was open"
    if not found and (reason := _unobserved(rehearsal)):
        return reason
    if not found:
        return ok(f"no upload, tracker or call of the cluster was observed; {route}")
    words = [f"{each.what} {shown(each.path, 120)}".strip() for each in found]
    runs = {each.kind for each in found}
    did = "refused" if closed or "connect" not in runs else "refused where known"
    return note(f"{did}: {some(words, len(words), 4)}; {route}")


UPLOADS = Check(
    code="RHS002",
    slug="uploads-refused",
    title="Uploads, trackers and calls of the cluster are listed",
    why="A rehearsal that pushes to a hub, logs to a tracker or requeues the job leaves traces "
    "that others see. What was refused is what the real job will do.",
    passes=("nothing was to be uploaded, logged elsewhere or requeued",),
    notes=("it was, and was refused: each call is listed",),
    fix="Nothing: the real job may upload. Let nobody rely on what a rehearsal did not upload.",
    owner=Owner.JOB,
    judge=uploads,
    limits="that the real job uploads nothing: only what happens in these steps was seen.",
)

CHECKS = (WRITES, UPLOADS)
