"""Everything a run knows, to and from JSON."""

from __future__ import annotations

from typing import Annotated, Literal, get_type_hints

import msgspec

from doctor import __version__
from doctor._util.records import Unknown
from doctor._util.secrets import hide_in_arguments, hide_secrets
from doctor._util.text_fields import Change, extras, map_texts
from doctor._util.units import shown
from doctor.checkpoint.records import Checkpoint
from doctor.facts import migrate
from doctor.facts.data import Data
from doctor.facts.fleet import Fleet
from doctor.facts.flight_recorder import FlightRecorder
from doctor.facts.guard import Guarded
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Interpreter, Libraries, Torch
from doctor.facts.launched import Launched
from doctor.facts.load import Attention, Load, MemoryTest, Peers, Watched
from doctor.facts.log import Log
from doctor.facts.machine import Driver, Examination, Gpu, Place
from doctor.facts.own_model import OwnModel
from doctor.facts.rehearsal import Rehearsal
from doctor.facts.script import Script
from doctor.facts.script_machine import ScriptMachine
from doctor.facts.training import ModelShape, Settings, Smoke
from doctor.facts.views import JobGpus, effective_settings, find_target, match_gpus, script_machine
from doctor.job.expect import Expect
from doctor.job.job import Chosen, Job, Target, choose_precision
from doctor.job.run_options import RunOptions

WITHOUT_SECRETS: Change = {
    "text": hide_secrets,
    "arguments": hide_in_arguments,
    "product": str,
    "identifier": str,
    "node": str,
}


def _printable(name: str) -> str:
    """The name of something, or a version. Raises ValueError for one with control characters."""
    if not name.isprintable():
        raise ValueError(f"not a facts file: control characters in the name '{shown(name)}'")
    return name


CHECKED: Change = {
    "text": str,
    "arguments": tuple,
    "product": _printable,
    "identifier": _printable,
    "node": _printable,
}
HOLDS = "unredacted names of the host, directories and files, and values of environment variables"
"""A notice to whoever opens a facts file. Reports are redacted, see `doctor.report.redaction`."""


SCANNED = "recorded by doctor scan"
LINTED = "recorded by doctor lint"
DELIVERED = "recorded by doctor data"
"""Values of `Facts.origin` where no machine was examined."""
Subject = Literal["machine", "log", "training", "checkpoint", "scripts", "fleet", "data"]


ORIGIN = "read from a pasted report"
"""How the origin of the facts of a pasted report begins."""


def absent(reason: str) -> msgspec.Meta:
    """Why a section is None, read by `Facts.reason_absent`."""
    return msgspec.Meta(extra={"absent": reason})


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a run knows. Sections first; the properties below are views of them."""

    schema_version: Literal[3] = 3
    doctor: str = __version__
    origin: str = "recorded by doctor run"
    """Recorded on hardware, or made from documented values."""
    holds: str = HOLDS
    examination: Annotated[
        Examination | None, absent("the facts were recorded by an earlier version")
    ] = None
    job: Job
    options: RunOptions = RunOptions()
    expect: Expect = Expect()
    host: Host | Unknown
    driver: Annotated[Driver | Unknown | None, absent("the job trains without an NVIDIA GPU")] = (
        None
    )
    gpus: Annotated[
        tuple[Gpu, ...] | Unknown | None, absent("the job trains without an NVIDIA GPU")
    ] = None
    interpreter: Interpreter | Unknown
    torch: Torch | Unknown
    cuda: Annotated[Cuda | Unknown | None, absent("torch did not start CUDA")] = None
    libraries: Annotated[Libraries | Unknown | None, absent("torch did not start CUDA")] = None
    places: tuple[Place, ...] | Unknown
    checkpoint: Annotated[Checkpoint | Unknown | None, absent("no --checkpoint given")] = None
    smoke: Annotated[Smoke | Unknown | None, absent("omitted by --no-smoke")] = None
    """The doctor's small model on the job's first device."""
    siblings: tuple[Smoke, ...] = ()
    """The same on the job's other GPUs."""
    attention: Annotated[Attention | Unknown | None, absent("omitted by --no-smoke")] = None
    own: Annotated[OwnModel | Unknown | None, absent("neither --model nor --hf given")] = None
    data: Annotated[
        Data | Unknown | None, absent("no data was read; doctor data TARGET reads them")
    ] = None
    shape: Annotated[
        ModelShape | Unknown | None,
        absent("neither --hf nor --checkpoint names a directory on this machine"),
    ] = None
    load: Annotated[
        tuple[Load, ...] | Unknown | None, absent("omitted by --quick, or nothing ran on a GPU")
    ] = None
    watched: Annotated[
        tuple[Watched, ...] | Unknown | None, absent("nothing ran on an NVIDIA GPU")
    ] = None
    peers: Annotated[
        Peers | Unknown | None, absent("the job has one GPU, or --quick omitted it")
    ] = None
    memory_tests: Annotated[
        tuple[MemoryTest, ...] | Unknown | None, absent("not requested with --memory-test")
    ] = None
    scripts: Annotated[tuple[Script, ...] | Unknown | None, absent("no --script given")] = None
    flight_recorder: Annotated[
        FlightRecorder | Unknown | None, absent("no flight-recorder dump given")
    ] = None
    log: Annotated[Log | Unknown | None, absent("no log was read; doctor triage reads one")] = None
    guard: Annotated[Guarded | Unknown | None, absent("no training was watched")] = None
    rehearsal: Annotated[Rehearsal | Unknown | None, absent("no command was rehearsed")] = None
    launched: Annotated[
        Launched | None, absent("no launcher of several nodes started the doctor")
    ] = None
    """How a launcher of several nodes named this one."""
    fleet: Annotated[
        Fleet | Unknown | None, absent("several nodes are compared by doctor compare")
    ] = None
    seconds: float = 0.0

    def with_(self, **sections: object) -> Facts:
        """A copy with these sections replaced."""
        return msgspec.structs.replace(self, **sections)

    def reason_absent(self, section: str) -> str:
        """Why a section is None."""
        if section in self.options.omitted:
            return f"omitted by --budget {self.options.budget or 0:g}"
        return _ABSENT.get(section, f"the job does not need {section}")

    @property
    def subject(self) -> Subject:
        """What a report on these facts is about."""
        if self.fleet is not None:
            return "fleet"
        if self.log is not None or self.flight_recorder is not None:
            return "log"
        if self.guard is not None or (self.rehearsal is not None and not self.job.trains_own):
            return "training"
        elsewhere: dict[str, Subject] = {
            SCANNED: "checkpoint",
            LINTED: "scripts",
            DELIVERED: "data",
        }
        return elsewhere.get(self.origin, "machine")

    @property
    def is_pasted(self) -> bool:
        """Whether another tool's output was read, not the machine."""
        return self.origin.startswith(ORIGIN)

    @property
    def target(self) -> Target:
        return find_target(self.job, self.host, self.torch, self.cuda)

    @property
    def smokes(self) -> tuple[Smoke, ...]:
        """The smoke steps of all GPUs that have a record, the first GPU's first."""
        return (*((self.smoke,) if isinstance(self.smoke, Smoke) else ()), *self.siblings)

    @property
    def job_gpus(self) -> JobGpus | Unknown:
        gpus = None if self.target.kind == "rocm" else self.gpus
        return match_gpus(self.host, gpus, self.cuda, self.job.gpus)

    @property
    def chosen(self) -> Chosen | Unknown:
        gpus = self.job_gpus
        lowest = gpus.lowest_capability if isinstance(gpus, JobGpus) else None
        macos = self.host.macos if isinstance(self.host, Host) else None
        chosen = choose_precision(self.job, self.target, lowest, macos)
        return chosen or Unknown(reason="the compute capability could not be read")

    @property
    def settings(self) -> Settings | Unknown:
        """The numeric switches: as the user's code left them, else as torch starts."""
        return effective_settings(self.own, self.torch)

    @property
    def script_machine(self) -> ScriptMachine:
        """What rules on scripts may know of this machine."""
        return script_machine(self.torch, self.job_gpus, self.own, self.attention, self.interpreter)


def without_machine(reason: str, job: Job, **sections: object) -> Facts:
    """Facts of something else than a machine; `reason`: why the machine was not examined."""
    unread = Unknown(reason=reason)
    facts = Facts(job=job, host=unread, interpreter=unread, torch=unread, places=unread)
    return facts.with_(**sections)


_ABSENT: dict[str, str] = {
    name: extra["absent"]
    for name, hint in get_type_hints(Facts, include_extras=True).items()
    for extra in extras(hint)
}


def decode(data: bytes) -> Facts:
    """Facts from an untrusted JSON file, of this or an earlier schema version.

    Raises ValueError with one line that names the place.
    """
    facts = decode_unchecked(data)
    map_texts(facts, CHECKED)
    return facts


def decode_unchecked(data: bytes) -> Facts:
    """The same with names that may hold control characters: for what checks the names it keeps.

    Raises ValueError.
    """
    try:
        return _decode(migrate.to_current(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = " ".join(str(error).split()) or "nested too deeply"
        raise ValueError(f"not a facts file: {message}") from None


def _decode(data: bytes) -> Facts:
    """Facts of the current schema; where a record does not fit, without those of its kind."""
    try:
        return msgspec.json.decode(data, type=Facts)
    except msgspec.ValidationError:
        return msgspec.json.decode(migrate.readable(data), type=Facts)


def encode(facts: Facts) -> bytes:
    """Facts as indented JSON, without passwords and tokens."""
    stored = map_texts(facts, WITHOUT_SECRETS)
    return msgspec.json.format(msgspec.json.encode(stored), indent=2) + b"\n"
