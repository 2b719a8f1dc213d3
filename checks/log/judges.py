"""Each class of the table as a check, and the check that a first cause was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint
from doctor.checks.log import apart, curves
from doctor.checks.log import flight_recorder as flight_checks
from doctor.checks.log.checkpointed import CHECKPOINTED, HARMLESS, trains
from doctor.checks.log.classes import BY_ID_OF_NO_CLASS, BY_SLUG, CLASSES
from doctor.checks.log.curves import nonfinite, resources
from doctor.checks.log.differential.decide import decided
from doctor.checks.log.event_texts import (
    commands_of,
    detail_of,
    fix_of,
    joined,
    place_of,
    refined,
    text_of,
    where,
)
from doctor.checks.log.first import STOPPED, consequence, verdict_on_first
from doctor.checks.log.memory_fit import fitted_before, ranks_on_one_gpu, stage_of_event, what_fits
from doctor.checks.log.on_cpu import on_cpu
from doctor.checks.log.runs import over_runs, runs_of
from doctor.checks.log.story import class_of, is_overcome, story_of
from doctor.errors.cause import Cause
from doctor.errors.fitted import MEMORY, fitted, worded
from doctor.facts.flight_recorder import FlightRecorder
from doctor.facts.host import Host
from doctor.facts.interpreter import Torch
from doctor.facts.log import Log, LogEvent
from doctor.facts.memory.plan import Plan, plan
from doctor.facts.own_model import OwnModel
from doctor.facts.training import ModelShape
from doctor.facts.views import JobGpus
from doctor.job.job import Chosen, Job, Target
from doctor.judge.check import Check, Owner, Status, Verdict, note, ok, skip, unknown, warn
from doctor.judge.combine import worst
from doctor.log.collector import ENDED

SCALER = "scaler-collapse"
SCALES = ("loss_scale", "skipped_steps")
"""The class that the curve of the loss scale shows as well."""
WITHOUT_GPU = ("cuda-unavailable", "driver-too-old", "no-kernel-image", "bitsandbytes-setup")
ON_CPU = ("the log names a GPU, and torch is built without CUDA or cpu is its only device",)
FAILED_OTHERWISE = "what the program failed of below names no GPU"
AT_NAN = "stopped-at-nan"
NOT_FINITE = ("loss-nonfinite", "gradient-nonfinite", "loss-zero-gradnorm-nan")
"""The class of a program that stopped at NaN, and checks of curves that show where it began."""
OF_NODE = "node"
"""What a restart brings where a node is at fault: it stays so although the training went on."""
MOST_PLACES = 20
"""Places of a warning that a finding lists."""


def first_cause(log: Log, flight_recorder: FlightRecorder | Unknown | None) -> Verdict:
    """Whether the log names the first cause of each failure."""
    verdicts = [_first_cause(run, flight_recorder) for run in runs_of(log)]
    return worst(*verdicts) if len(verdicts) > 1 else verdicts[0]


def _first_cause(log: Log, flight_recorder: FlightRecorder | Unknown | None) -> Verdict:
    story = story_of(log)
    read = _extent(log)
    if story.first is not None:
        if stopped := stopped_after(story.first, log):
            return ok(f"{stopped.code} {stopped.slug} fails, and {story.first.name} ended the run")
        return ok(f"{class_of(story.first).code} {story.first.name} at {where(story.first)}")
    if failing := _failing(log, flight_recorder):
        return ok(f"no error in {read}; {failing.code} {failing.slug} fails")
    if warned := _warned(log):
        return ok(f"no error in {read}; {warned} warns")
    if named := next((each for each in log.events if each.name in BY_ID_OF_NO_CLASS), None):
        return _named_only(named, read)
    summaries = [event for event in story.others if class_of(event).role == "summary"]
    if summaries:
        return unknown(
            f"{read} hold a launcher's summary only ({where(summaries[0])}); give the log of the "
            "rank that it names",
            places=(place_of(summaries[0]),),
        )
    if unread := _unread(log, read):
        return unread
    noted = story.overcome or story.warnings
    also = " that ended the training" if noted else ""
    return unknown(
        f"{_completed(log)}no known failure{also} in {read}; that is no proof of a healthy "
        f"training; {_metrics_of(log)}"
    )


METRICS = {
    "loss": ("loss", "mean_loss", "discriminator_loss"),
    "evaluation": ("eval_loss", "score", "reward", "episode_reward"),
    "learning rate": ("learning_rate",),
    "speed": ("throughput", "speed", "step_time", "iteration_time", "epoch_time"),
}


def _metrics_of(log: Log) -> str:
    """What was read of the training itself, and what was not found."""
    points: dict[str, int] = {}
    for curve in log.curves:
        name = curve.name.partition(":")[0]
        kind = next((kind for kind, names in METRICS.items() if name in names), "")
        points[kind] = max(points.get(kind, 0), curve.points)
    found = [f"{kind} ({points[kind]:,} values)" for kind in METRICS if kind in points]
    absent = ", ".join(kind for kind in METRICS if kind not in points)
    if not found:
        return f"no metric was read in it ({absent})"
    return f"read: {', '.join(found)}{f'; not found: {absent}' if absent else ''}"


def _unread(log: Log, read: str) -> Verdict | None:
    """That there is nothing to read, or that not all of it was read."""
    if problems := [file for file in log.files if file.problem]:
        return unknown(
            f"nothing was recognized in {read}; {len(problems)} not read to the end: "
            f"{problems[0].path}: {problems[0].problem}"
        )
    if log.files and not any(file.bytes or file.lines for file in log.files):
        return unknown("the log is empty: nothing was written to it")
    return None


def _completed(log: Log) -> str:
    """That a line says so; what the training learned is another question."""
    done = next((file for file in log.files if file.finished), None)
    return f"the training completed ({done.path}:{done.finished}); " if done else ""


def _named_only(event: LogEvent, read: str) -> Verdict:
    """A line that is of no class: what it means is known, not that it ended the training."""
    row = fitted(BY_ID_OF_NO_CLASS[event.name], text_of(event))
    return replace(
        unknown(
            f"no line of a known class in {read}; {where(event)} has the message of {row.id}: "
            f"{row.why} {row.fix}",
            places=(place_of(event),),
        ),
        causes=(row.id,),
    )


def stopped_after(first: LogEvent, log: Log) -> Check | None:
    """The check of a curve that fails, where people, a scheduler or the program's own check for
    NaN then stopped the run."""
    if first.name in STOPPED:
        return _failing(log, None)
    failing = _failing(log, None) if first.name == AT_NAN else None
    if failing is None or failing.slug not in NOT_FINITE:
        return None
    names_ranks = worded(class_of(first), first.text) is not class_of(first)
    before = any(
        place.path == first.path and 0 < place.line < first.line
        for place in failing.judge(log).places
    )
    return failing if before and not names_ranks else None


def _failing(log: Log, recorder: FlightRecorder | Unknown | None) -> Check | None:
    """The check of dumps, of a curve or of the loss scale that fails where no line does."""
    if isinstance(recorder, FlightRecorder):
        for check in flight_checks.CHECKS:
            if check.judge(recorder).status is Status.FAIL:
                return check
    if nonfinite.scale_holds(log).status is Status.FAIL:
        return next(check for check in CHECKS if check.slug == SCALER)
    return next((c for c in curves.CHECKS if c.judge(log).status is Status.FAIL), None)


def _warned(log: Log) -> str:
    """The check of a curve, or the class of a line, that warns of a run that no error ended."""
    for check in curves.CHECKS:
        if check.judge(log).status is Status.WARN:
            return f"{check.code} {check.slug}"
    row = next(map(class_of, story_of(log).warnings), None)
    row = row or (BY_SLUG[WITHOUT_GPU[0]] if on_cpu(log) else None)
    return f"{row.code} {row.id}" if row else ""


def _extent(log: Log) -> str:
    files = f"{len(log.files):,} files" if len(log.files) > 1 else "the log"
    return f"{files} ({log.lines:,} lines)"


FIRST_CAUSE = Check(
    code="LOG001",
    slug="first-cause",
    title="The first cause of the failure is identified",
    why="The last screen of a failed training shows consequences: timeouts, aborted communicators, "
    "a launcher's summary. The first failure, by time or position and over all ranks, is the "
    "one to "
    "fix.",
    passes=(
        "an event of a known class begins the failure",
        "no event does, but a curve fails or warns",
    ),
    warns=(),
    fails=("never: the class of the first cause fails instead",),
    fix="Give the logs of all ranks, from their beginning.",
    commands=("doctor triage LOG_DIRECTORY",),
    limits="that the cause is the only one.",
    owner=Owner.JOB,
    judge=first_cause,
    sources=("nvrx-attribution",),
    required="always",
)


def _judge_of(row: Cause) -> Callable[..., Verdict]:
    def judge(log: Log, torch: Torch | Unknown) -> Verdict:
        return over_runs(log, lambda run: _verdict(row, run, torch))

    return _judge_memory if row.id == MEMORY else judge


def _judge_memory(
    log: Log,
    torch: Torch | Unknown,
    job: Job,
    target: Target,
    chosen: Chosen | Unknown,
    job_gpus: JobGpus | Unknown,
    checkpoint: Checkpoint | Unknown | None,
    host: Host | Unknown,
    shape: ModelShape | Unknown | None,
    own: OwnModel | Unknown | None,
) -> Verdict:
    """Out of memory: the remedy says what would fit, where the facts state the model."""
    needs = cache(lambda: plan(job, target, chosen, job_gpus, checkpoint, host, shape, own))
    return over_runs(log, lambda run: _memory(run, torch, job, needs))


def _memory(
    log: Log, torch: Torch | Unknown, job: Job, needs: Callable[[], Plan | Unknown | None]
) -> Verdict:
    (row,) = (row for row in CLASSES if row.id == MEMORY)
    verdict = _verdict(row, log, torch)
    events = [event for event in log.events if event.name == MEMORY]
    if verdict.status not in (Status.FAIL, Status.WARN) or not events:
        return verdict
    first = story_of(log).first
    event = first if first is not None and first.name == MEMORY else events[0]
    fits = what_fits(event.text, job, needs())
    decision = decided(log, (MEMORY,), event.path) if verdict.status is Status.FAIL else None
    if (stage := stage_of_event(event)) is not None:
        summary, fits = f"{verdict.summary}; {stage.summary}", fits if needs() is not None else ""
        fix = joined(decision.fix if decision else "", stage.fix, fits)
        return replace(verdict, summary=summary, fix=fix, also=())
    if shared := ranks_on_one_gpu(log, event):
        return replace(verdict, fix=shared)
    grew = resources.grown(log, "device_memory")
    return replace(verdict, fix=joined(grew, verdict.fix, fits, fitted_before(log, event)))


def _verdict(row: Cause, log: Log, torch: Torch | Unknown) -> Verdict:
    story = story_of(log)
    if story.first is not None and story.first.name == row.id:
        if stopped := stopped_after(story.first, log):
            return note(f"{where(story.first)}: it ended a run of which {stopped.slug} fails")
        return verdict_on_first(row, log, torch)
    if own := [event for event in story.warnings if event.name == row.id]:
        return _warned_of(row, own, log, torch)
    if own := [event for event in story.overcome if event.name == row.id]:
        ended = all(ENDED in event.groups for event in own)
        after = "after the training had ended well" if ended else "training went on after it"
        after = after if ended or any(map(is_overcome, own)) else FAILED_OTHERWISE
        warning = _warning(row, own, log, torch, f"; {after}")
        return warning if _is_warned(row) else replace(warning, status=Status.NOTE)
    if own := [event for event in story.others if event.name == row.id]:
        return _beside_first(row, own, log, torch)
    if row.id == WITHOUT_GPU[0] and (found := on_cpu(log)):
        return found
    if row.id == SCALER and any(curve.name in SCALES for curve in log.curves):
        return nonfinite.scale_holds(log)
    return ok(f"no such line in {_extent(log)}")


def _beside_first(row: Cause, own: list[LogEvent], log: Log, torch: Torch | Unknown) -> Verdict:
    """A consequence of the first cause; a note on what begins a failure of another run."""
    story = story_of(log)
    separate = apart.split(story.others, story.first)[1] if story.first else []
    if story.first is None or not separate or separate[0] not in own:
        return skip(consequence(own, separate[0] if own[0] in separate else story.first, log))
    suffix = f"; it does not follow from {story.first.name}, and may be of another run"
    return replace(_warning(row, own, log, torch, suffix), status=Status.NOTE)


def _warned_of(row: Cause, events: list[LogEvent], log: Log, torch: Torch | Unknown) -> Verdict:
    """A warning, but for one that a training which learns shows to be harmless."""
    if row.id == CHECKPOINTED and trains(log, events[0].path):
        return note(f"{where(events[0])}: {detail_of(row, events[0])}{HARMLESS}")
    return _warning(row, events, log, torch, "")


def _is_warned(row: Cause) -> bool:
    """Whether a line of the row is a fault although the training went on: it runs on a node with a
    fault, or without its GPU."""
    return row.retry == OF_NODE or row.id in WITHOUT_GPU


def _warning(
    row: Cause, events: list[LogEvent], log: Log, torch: Torch | Unknown, suffix: str
) -> Verdict:
    count = sum(event.count for event in events)
    times = f"{count:,} times, first at " if count > 1 else ""
    return warn(
        f"{times}{where(events[0])}: {detail_of(row, events[0])}{suffix}",
        *commands_of(refined(row, events[0]), events[0]),
        fix=fix_of(row, events[0], log, torch),
        places=tuple(map(place_of, events[:MOST_PLACES])),
    )


def _check(row: Cause) -> Check:
    """The row as `doctor explain` prints it and the engine judges it."""
    first = ("it is the first cause of a failure",)
    overcome = ("a line of the class is in the log, and the training goes on after it",)
    is_warned = _is_warned(row) or row.role == "warning"
    return Check(
        code=row.code,
        slug=row.id,
        title=row.title,
        why=row.why,
        passes=("no line of the class is in the log",),
        notes=() if is_warned else overcome,
        warns=(*(overcome if is_warned else ()), *(ON_CPU if row.id == WITHOUT_GPU[0] else ())),
        fails=() if row.role in ("warning", "summary") else first,
        fix=row.fix,
        commands=row.commands,
        owner=row.owner,
        judge=_judge_of(row),
        sources=row.sources,
        limits="that the log is complete.",
    )


CHECKS: tuple[Check, ...] = (FIRST_CAUSE, *map(_check, CLASSES))
