"""What a check is and what it says: data only."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypedDict, Unpack

from doctor._util.owner import Owner as Owner
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.described import EVERYWHERE
from doctor.judge.place import Place
from doctor.judge.sources import is_document
from doctor.judge.switches import Switch


class Status(StrEnum):
    """How a check ended. UNKNOWN applies but could not be read; SKIP does not apply.

    NOTE passes, with something worth reading.
    """

    PASS = "pass"  # noqa: S105 - the word, not a password
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"
    UNKNOWN = "unknown"


PIP = "python -m pip "
"""How commands that install packages begin; a report names the interpreter that was examined."""

Required = Literal["never", "always", "smoke", "checkpoint", "output_dir", "gpus", "memory_test"]
"""When a check must have an answer: never, always, or if the job or the options have this field."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge answers: one line, and where this machine calls for it, its own remedy.

    `summary` states the observed and the required value. `fix`, `owner` and `commands` replace
    the check's own when given; `sources` stand beside its document sections. `seconds` is how long
    the observation behind it took. `switches_off` is what the remedy turns off, for prescriptions.
    `places` are the lines of a script or a log that it is about, the first one first. `causes` are
    ids of rows of `doctor.errors` that the failure has or may have, the headline first.
    """

    status: Status
    summary: str
    commands: tuple[str, ...] = ()
    fix: str | None = None
    owner: Owner | None = None
    sources: tuple[str, ...] = ()
    seconds: float = 0.0
    switches_off: tuple[Switch, ...] = ()
    places: tuple[Place, ...] = ()
    causes: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Fixes of further causes that the failure may have, a line each."""
    retry: str = ""
    """What a restart brings: fix, again or node, as `doctor.errors.cause.Retry`; "" unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: what `doctor explain` prints, and how it is judged.

    `judge` is pure; its parameters name the sections and views of `Facts` that it needs.
    `passes`, `notes`, `warns` and `fails` are the conditions in words (() = never). `sources` are
    ids of `doctor.judge.sources`. `after` names codes whose fail or unknown makes this pointless.
    `targets` are the kinds of device it applies to; the engine skips it elsewhere. `limits` goes on
    "a pass is no proof", as in "that hours of load stay cool". `returns`: a failure whose owner is
    the machine means RETURN. `required`: when an unknown leaves the run without a verdict.
    `also`: other commands that answer it, `read` from a pasted report, `guard` from samples taken
    during the training. `aliases` are older slugs, still accepted everywhere. `leads`: its failure
    is named before those of other checks, whose remedies it makes dangerous.
    """

    code: str
    slug: str
    title: str
    why: str
    passes: tuple[str, ...]
    fix: str
    owner: Owner
    judge: Callable[..., Verdict]
    notes: tuple[str, ...] = ()
    warns: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    targets: tuple[str, ...] = EVERYWHERE
    limits: str = ""
    returns: bool = False
    required: Required = "never"
    also: tuple[Literal["read", "guard"], ...] = ()
    aliases: tuple[str, ...] = ()
    leads: bool = False

    @property
    def family(self) -> str:
        """The three letters of the code."""
        return self.code[:3]

    def is_required(self, job: Job, options: RunOptions) -> bool:
        """Whether an unknown leaves the run without a verdict."""
        match self.required:
            case "never":
                return False
            case "always":
                return True
            case "smoke" | "memory_test":
                return bool(getattr(options, self.required))
            case field:
                return bool(getattr(job, field))


@dataclass(frozen=True, slots=True)
class Finding:
    """A check and its verdict, joined by the engine."""

    check: Check
    verdict: Verdict
    python: str = "python"
    """The interpreter that was examined, for the commands that install into it."""
    pip: bool = True
    """Whether that interpreter can import pip; if not, the commands use uv."""
    uv: bool = True
    """Whether the machine has uv; if it has neither, the commands install pip first."""
    ignored: str = ""
    """Why the user accepts it, "" if not: then it counts neither for the verdict nor the exit."""
    judged: Status | None = None
    """The check's own status where [severity] gave it another."""
    injected: bool = False
    """Whether --inject forced it to fail: then the check's commands and sources are none of its."""

    @property
    def family(self) -> str:
        return self.check.family

    @property
    def status(self) -> Status:
        return self.verdict.status

    @property
    def is_problem(self) -> bool:
        """Whether it is a warning or a failure."""
        return self.status in (Status.WARN, Status.FAIL)

    @property
    def fix(self) -> str:
        """The remedy of a problem, or what a note says may be done; else ""."""
        return "\n".join(filter(None, (self.headline_fix, *self.verdict.also)))

    @property
    def headline_fix(self) -> str:
        """The same without the fixes of further causes."""
        if self.status is Status.NOTE:
            return self.verdict.fix or ""
        return (self.verdict.fix or self.check.fix) if self.is_problem else ""

    @property
    def commands(self) -> tuple[str, ...]:
        if not self.is_problem or self.injected:
            return ()
        lines = self.verdict.commands or self.check.commands
        return tuple(map(self._command, lines))

    def _command(self, line: str) -> str:
        """The line for this interpreter, if it is one that installs packages."""
        if not line.startswith(PIP):
            return line
        home, path = ("~/", self.python[2:]) if self.python.startswith("~/") else ("", self.python)
        python = home + shlex.quote(path)
        action, _, packages = line.removeprefix(PIP).partition(" ")
        if self.pip:
            return f"{python} -m pip {action} {packages}"
        if not self.uv:
            return f"{python} -m ensurepip && {python} -m pip {action} {packages}"
        return f"uv pip {action} --python {python} {packages}"

    @property
    def owner(self) -> Owner:
        return self.verdict.owner or self.check.owner

    @property
    def places(self) -> tuple[Place, ...]:
        return self.verdict.places

    @property
    def limits(self) -> str:
        """What this pass does not prove, "" for any other status."""
        return self.check.limits if self.status in (Status.PASS, Status.NOTE) else ""

    @property
    def sources(self) -> tuple[str, ...]:
        """The documents' sections always; of the addresses the verdict's own, where it has some."""
        if self.injected:
            return ()
        own = self.verdict.sources
        cited = self.check.sources
        documents = tuple(id for id in cited if is_document(id)) if own else cited
        return tuple(dict.fromkeys(documents + own))


def ok(summary: str, *, seconds: float = 0.0, places: tuple[Place, ...] = ()) -> Verdict:
    """The machine is as it should be."""
    return Verdict(Status.PASS, summary, seconds=seconds, places=places)


def note(
    summary: str,
    *,
    fix: str | None = None,
    owner: Owner | None = None,
    seconds: float = 0.0,
    places: tuple[Place, ...] = (),
    causes: tuple[str, ...] = (),
) -> Verdict:
    """The machine is as it should be, and something is worth reading; `fix` is what may be done."""
    return Verdict(
        Status.NOTE, summary, fix=fix, owner=owner, seconds=seconds, places=places, causes=causes
    )


class Remedy(TypedDict, total=False):
    """What a warning or failure adds to its check; see `Verdict`."""

    fix: str | None
    owner: Owner | None
    sources: tuple[str, ...]
    seconds: float
    switches_off: tuple[Switch, ...]
    places: tuple[Place, ...]
    causes: tuple[str, ...]
    also: tuple[str, ...]
    retry: str


def warn(summary: str, *commands: str, **remedy: Unpack[Remedy]) -> Verdict:
    """It will run, and it will cost time, memory or trust."""
    return Verdict(Status.WARN, summary, commands, **remedy)


def fail(summary: str, *commands: str, **remedy: Unpack[Remedy]) -> Verdict:
    """Do not spend GPU hours before this is fixed."""
    return Verdict(Status.FAIL, summary, commands, **remedy)


def skip(reason: str) -> Verdict:
    """The check does not apply to this machine or job."""
    return Verdict(Status.SKIP, reason)


def unknown(reason: str, *, seconds: float = 0.0, places: tuple[Place, ...] = ()) -> Verdict:
    """The check applies, and what it needs could not be read."""
    return Verdict(Status.UNKNOWN, reason, seconds=seconds, places=places)
