"""The stages in their order: the run, the run that is stopped, the run that continues."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from doctor._util.atomic_write import atomic_write
from doctor._util.records import Unknown
from doctor._util.secrets import hide_in_arguments
from doctor.collect.guard_records import RUN, read_records
from doctor.collect.rehearsal import (
    access,
    agreement,
    continuing,
    events,
    observation,
    observed_run,
    places,
    resume_request,
    runs,
)
from doctor.collect.rehearsal.launchers import CALLS, refuse_launchers
from doctor.collect.rehearsal.places import Workplace, holds_run
from doctor.facts.guard import Guarded
from doctor.facts.rehearsal import (
    Accessed,
    Agreement,
    Attempt,
    Protection,
    Rehearsal,
    RehearsedStage,
    StageName,
)
from doctor.facts.rehearsal_resume import Resumed
from doctor.facts.rehearsal_runs import RehearsedRun, RunName

LEAST_SECONDS = 5.0
"""Below this a further run is not begun. Our own number."""
ORDER: tuple[StageName, ...] = (
    "runs", "agrees", "saves", "evaluates", "stops", "continues", "pace", "access",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user asked for."""

    output_dir: Path | None = None
    unprotected: bool = False
    network: bool = False
    writable: tuple[Path, ...] = ()
    budget: float = 900.0
    grace: float = 30.0
    signal: str = "SIGTERM"
    in_output: bool = False
    resume_command: tuple[str, ...] = ()
    keep: bool = False
    checkpoints_kept: int | None = None
    total_steps: int | None = None
    total_tokens: int | None = None
    price: float | None = None
    progress: Callable[[str], None] = lambda text: None
    access: tuple[str, ...] = ()
    """Servers of others that are asked: hf://, s3://, wandb, mlflow, https://."""
    look: Callable[[Path], None] = lambda records: None
    """Gets the directory of the records of the first run, before it is removed."""


def rehearse(
    command: Sequence[str], options: Options
) -> tuple[Rehearsal, Guarded | Unknown, Path | None]:
    """All stages; what the guard saw of the first run, and where the records stay, if they do.

    Raises UserError for a command that cannot be rehearsed here.
    """
    if options.resume_command:
        refuse_launchers(options.resume_command)
    access.check_targets(options.access)
    workplace = places.make_workplace(options.output_dir)
    stages = _Stages(list(command), options, workplace)
    failed = True
    try:
        stages.all()
        failed = stages.failed
        return stages.facts(), stages.guarded, workplace.root if failed or options.keep else None
    except KeyboardInterrupt:
        failed = False  # the user ended it, and needs no records
        raise
    finally:
        if not options.keep:
            workplace.remove(logs=failed)


class _Stages:
    """The rehearsal under way."""

    def __init__(self, command: list[str], options: Options, workplace: Workplace) -> None:
        self.command, self.options, self.workplace = command, options, workplace
        self.began = time.monotonic()
        self.request = runs.Request(
            workplace=workplace,
            files=not options.unprotected,
            network=options.network,
            writable=options.writable,
            grace=options.grace,
            signal=options.signal,
            in_output=options.in_output,
            counts=bool(options.total_steps or options.total_tokens),
            progress=options.progress,
        )
        self.free = shutil.disk_usage(workplace.root).free
        self.runs: list[RehearsedRun] = []
        self.attempts: list[Attempt] = []
        self.stages: dict[StageName, RehearsedStage] = {}
        self.protection = Protection()
        self.agreement: Agreement | None = None
        self.resumed: Resumed | None = None
        self.accessed: tuple[Accessed, ...] = ()
        self.guarded: Guarded | Unknown = Unknown(reason="the command did not run")

    @property
    def left(self) -> float:
        """Seconds of the budget."""
        return self.options.budget - (time.monotonic() - self.began)

    @property
    def failed(self) -> bool:
        """Whether the logs are worth keeping."""
        return any(run.code and not run.signalled for run in self.runs) or any(
            run.cut for run in self.runs
        )

    def all(self) -> None:
        """Every stage that can be tried, in the order of the runs."""
        if self.options.access:
            self.options.progress("asking the servers of --access")
            self.accessed = access.access(self.options.access, os.environ)
            self.tried("access", sum(each.seconds for each in self.accessed))
        self.estimate()
        first = self.run("run", self.command, "run")
        self.guarded = self.read_guard(first)
        self.options.look(self.workplace.records("run"))
        self.note_first(first)
        reason = self.no_second(first)
        stop_at = continuing.stop_step(first)
        if not reason and not stop_at:
            reason = "the run has too few steps to be stopped between them: at least 2 required"
        if reason:
            late = bool(first.cut) or (self.takes_output and not first.code and self.late(first))
            self.skip(("stops", "continues"), reason, out_of_time=late)
            return
        self.announce(first)
        hashed = continuing.save_steps(first)
        stopped = self.run("stop", self.command, "stop", stop_at, hashed)
        if stopped.signalled is None:
            self.skip(("stops", "continues"), f"the second run did not reach step {stop_at}")
            return
        self.tried("stops", stopped.seconds)
        self.continue_(first, stopped)

    def continue_(self, first: RehearsedRun, stopped: RehearsedRun) -> None:
        """Stage 6."""
        if not stopped.written:
            self.skip(("continues",), "nothing was in {output} when the run was stopped")
        elif self.left < max(LEAST_SECONDS, first.seconds / 2):
            self.skip(("continues",), self.spent(), out_of_time=True)
        else:
            command = list(self.options.resume_command) or self.command
            request = "--resume-command" if self.options.resume_command else ""
            output = self.workplace.output("stop")
            begun = output if self.options.in_output else None
            request = request or resume_request.requesting_flag(command, output, begun)
            continued = self.run("resume", command, "stop")
            self.tried("continues", continued.seconds)
            self.resumed = continuing.compare(self.workplace, stopped, request, begun)

    def no_second(self, first: RehearsedRun) -> str:
        """Why no further run is begun, "" if one is."""
        if first.cut:
            return "the run did not end within --budget: give it more, or the command fewer steps"
        if first.code and not continuing.saves_before_end(first):
            return "the run failed before a step that follows a save"
        if not self.takes_output:
            return (
                "the command has no {output}: name the directory of its checkpoints so, or start "
                "it there with --in-output"
            )
        return self.spent() if self.late(first) else ""

    def spent(self) -> str:
        """Why there is no time for a run."""
        return (
            f"--budget {self.options.budget:g} s leaves no time for it: give a larger one, or the "
            "command fewer steps"
        )

    def late(self, first: RehearsedRun) -> bool:
        """Whether what is left of the budget is too little for a run like the first."""
        return self.left < max(LEAST_SECONDS, first.seconds)

    @property
    def takes_output(self) -> bool:
        """Whether the command writes into {output}, so that it can be stopped and continued."""
        return self.options.in_output or any("{output}" in word for word in self.command)

    def estimate(self) -> None:
        """What all runs will take, before anything is known."""
        once = "the command runs once"
        runs = f"{once}, is run again and stopped, and continues: three times its own time"
        self.options.progress(
            f"{runs if self.takes_output else once}, at most {self.options.budget:g} s (--budget)"
        )

    def announce(self, first: RehearsedRun) -> None:
        """What the next runs will take, as far as that is known."""
        self.options.progress(
            f"the run took {first.seconds:.0f} s; stopping and continuing it takes about as long "
            f"twice, at most {max(0.0, self.left):.0f} s are left"
        )

    def run(
        self,
        name: RunName,
        command: Sequence[str],
        chain: str,
        stop_at: int = 0,
        hashed: tuple[int, ...] = (),
    ) -> RehearsedRun:
        """Run it and read what it left."""
        ended = runs.run(self.request, name, command, chain, max(1.0, self.left), stop_at, hashed)
        directory = self.workplace.records(name)
        self.protection = ended.protection
        for attempt in events.read_attempts(directory, name, CALLS):
            if attempt.kind == "write":
                there = attempt.exists and holds_run(attempt.path)
                attempt = msgspec.structs.replace(attempt, holds_run=there)
            self.attempts.append(attempt)
        run = observed_run.read(
            directory, self.workplace.output(chain), name, command, ended, stop_at,
            self.options.signal,
        )  # fmt: skip
        self.runs.append(run)
        return run

    def note_first(self, first: RehearsedRun) -> None:
        """Which stages the first run tried."""
        several = any(rank.world > 1 for rank in first.ranks)
        self.tried("runs", first.seconds)
        if self.options.total_steps or self.options.total_tokens:
            self.tried("pace", 0.0)
        if several:
            self.agreement = agreement.compare(
                observation.read_processes(self.workplace.records("run")), cut=bool(first.cut)
            )
            self.tried("agrees", 0.0)
        else:
            self.skip(("agrees",), "the command has one rank")
        if first.saved or first.checkpoints:
            self.tried("saves", sum(each.seconds for each in first.saved))
        else:
            failed = "the run failed first" if first.code else "let the command save in its steps"
            self.skip(("saves",), f"nothing was saved: {failed}")
        evaluations = [each for rank in first.ranks for each in rank.evaluations]
        if evaluations or any(rank.evaluating is not None for rank in first.ranks):
            self.tried("evaluates", sum(each.seconds for each in evaluations))
        else:
            self.skip(("evaluates",), "no evaluation was observed: let the command evaluate")

    def tried(self, name: StageName, seconds: float) -> None:
        self.stages[name] = RehearsedStage(name=name, tried=True, seconds=seconds)

    def skip(self, names: Sequence[StageName], reason: str, *, out_of_time: bool = False) -> None:
        for name in names:
            self.stages[name] = RehearsedStage(name=name, reason=reason, out_of_time=out_of_time)

    def read_guard(self, first: RehearsedRun) -> Guarded | Unknown:
        """The guard's records of the first run."""
        directory = self.workplace.records("run")
        code = first.code
        record = {
            "command": hide_in_arguments(self.command),
            "exit_code": None if code is None else code if code >= 0 else 128 - code,
        }
        data = json.dumps(record).encode()
        # The command may write there: a link of its own leads nowhere.
        atomic_write(directory / RUN, data, RUN, private=True, follow=False)
        return read_records(directory)

    def facts(self) -> Rehearsal:
        """Everything that is known now."""
        return Rehearsal(
            protection=self.protection,
            output=str(self.workplace.output("run")),
            takes_output=self.takes_output,
            grace=self.options.grace,
            free=self.free,
            keep=self.options.checkpoints_kept,
            total_steps=self.options.total_steps,
            total_tokens=self.options.total_tokens,
            price=self.options.price,
            runs=tuple(self.runs),
            attempts=tuple(self.attempts),
            agreement=self.agreement,
            resumed=self.resumed,
            accessed=self.accessed,
            stages=tuple(self.stages[name] for name in ORDER if name in self.stages),
            seconds=time.monotonic() - self.began,
        )
