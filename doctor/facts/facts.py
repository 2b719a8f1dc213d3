"""Everything a run knows, to and from JSON."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from doctor import __version__
from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint
from doctor.facts.load import Attention, Load, Peers, Watched
from doctor.facts.machine import Cuda, Driver, Gpu, Host, Interpreter, Libraries, Place, Torch
from doctor.facts.training import ModelShape, OwnModel, Settings, Smoke
from doctor.facts.views import JobGpus, effective, find_target, match_gpus
from doctor.job.job import Chosen, Job, Target, choose_precision

HOLDS = "names of the host, of folders and of files, and values of environment variables, as found"
"""What a facts file tells its reader about itself; reports leave out what `redaction` knows."""


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a run knows. Sections first; the properties below are views of them."""

    schema_version: Literal[1] = 1
    doctor: str = __version__
    origin: str = "recorded by doctor run"
    """Recorded on hardware, or made from documented values."""
    holds: str = HOLDS
    job: Job
    host: Host | Unknown
    driver: Driver | Unknown | None = None
    """None: the job does not want an NVIDIA GPU."""
    gpus: tuple[Gpu, ...] | Unknown | None = None
    interpreter: Interpreter | Unknown
    torch: Torch | Unknown
    cuda: Cuda | Unknown | None = None
    libraries: Libraries | Unknown | None = None
    places: tuple[Place, ...] | Unknown
    checkpoint: Checkpoint | Unknown | None = None
    smoke: Smoke | Unknown | None = None
    """The doctor's small model on the job's first device."""
    siblings: tuple[Smoke, ...] = ()
    """The same on the job's other GPUs."""
    attention: Attention | Unknown | None = None
    own: OwnModel | Unknown | None = None
    """None: neither --model nor --hf was named."""
    shape: ModelShape | Unknown | None = None
    """None: neither --hf nor --checkpoint names a folder on this machine."""
    load: tuple[Load, ...] | Unknown | None = None
    watched: tuple[Watched, ...] | Unknown | None = None
    peers: Peers | Unknown | None = None
    """None: the job has one GPU, or none."""
    seconds: float = 0.0

    def with_(self, **sections: Any) -> Facts:
        """The same facts with these sections instead."""
        return msgspec.structs.replace(self, **sections)

    @property
    def target(self) -> Target:
        return find_target(self.job, self.host, self.torch, self.cuda)

    @property
    def job_gpus(self) -> JobGpus | Unknown:
        gpus = None if self.target.kind == "rocm" else self.gpus
        return match_gpus(self.host, gpus, self.cuda)

    @property
    def chosen(self) -> Chosen | Unknown:
        gpus = self.job_gpus
        lowest = gpus.lowest_capability if isinstance(gpus, JobGpus) else None
        macos = self.host.macos if isinstance(self.host, Host) else None
        found = choose_precision(self.job, self.target, lowest, macos)
        return found or Unknown(reason="the compute capability could not be read")

    @property
    def settings(self) -> Settings | Unknown:
        """The numeric switches: as the user's code left them, else as torch starts."""
        return effective(self.own, self.torch)


def decode(data: bytes) -> Facts:
    """Facts from a JSON file of anyone. Raises ValueError with one line that says where."""
    try:
        return msgspec.json.decode(data, type=Facts)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = " ".join(str(error).split()) or "nested too deeply"
        raise ValueError(f"not a facts file: {said}") from None


def encode(facts: Facts) -> bytes:
    """Facts as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n"
