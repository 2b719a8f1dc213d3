"""What happened when the job's own command was run in small."""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Section
from doctor.facts.rehearsal_resume import Resumed
from doctor.facts.rehearsal_runs import RehearsedRun, RunName, Text

StageName = Literal["runs", "agrees", "saves", "evaluates", "stops", "continues", "pace", "access"]


class Protection(Section, frozen=True, kw_only=True):
    """What kept the command from doing harm."""

    landlock: int = 0
    """Version of the kernel's interface; 0: not in force."""
    mounts: bool = False
    """Every mount was read-only but for what the command may write."""
    network: Literal["closed", "open"] = "open"
    why: Text = ""
    """Why something is missing."""

    @property
    def files(self) -> bool:
        """Whether the kernel refuses writes elsewhere."""
        return self.mounts or bool(self.landlock)


class Attempt(Section, frozen=True, kw_only=True):
    """Something that the command tried to do outside, and that was refused."""

    run: RunName
    kind: Literal["write", "upload", "connect", "cluster"]
    what: Text
    """The call: "open", "os.remove", "huggingface_hub.upload_folder", "scontrol requeue 7"."""
    path: Text = ""
    """The file, the repository or the host."""
    exists: bool = False
    """The file was there."""
    holds_run: bool = False
    """It is, or lies in, a directory with checkpoints."""
    place: Text = ""
    """The user's nearest line."""


class Agreement(Section, frozen=True, kw_only=True):
    """What the ranks of the first run have in common."""

    ranks: int
    replicated: bool = False
    """They train under DistributedDataParallel."""
    steps: tuple[int, ...] = ()
    """After which the weights of all ranks were compared; 0: before the first."""
    differ_from: int | None = None
    """The first of these steps at which weights differ."""
    names: tuple[Text, ...] = ()
    """The first weights that differ."""
    count: int = 0
    unwrapped: bool = False
    """All of these are outside of the DistributedDataParallel that is there."""
    averaged: int = 0
    """Of these, the weights whose gradients at the first step are equal on all ranks."""
    exchanged: int = 0
    """Of all weights, those whose gradients are the same on all ranks at the first step."""
    unaveraged: int = 0
    """Of these, the weights whose gradients at the first step differ between the ranks."""
    rates_step: int = 0
    """The first step until `differ_from` at which the learning rates of the ranks differ."""
    rates: tuple[float, ...] = ()
    """These; (): they do not differ."""
    lacking: tuple[Text, ...] = ()
    """The first weights that have no gradient at the first step of a rank, and could have one."""
    batches: int = 0
    """Ranks whose first batch was seen."""
    distinct: int = 0
    """Different ones among them."""
    sampled: bool = False
    """The loader of each rank has a DistributedSampler that shuffles."""
    orders: tuple[Text, ...] = ()
    """What these shuffle by at the first batch, rank by rank; (): the same, or not known of all."""
    data_parallel: bool = False
    """DistributedDataParallel, or FSDP over all ranks: each has data of its own."""
    parted: int = 0
    """Weights of which each rank holds another part."""
    whole: int = 0
    """Weights that several ranks hold alike, and that were compared."""
    epoch: tuple[int, ...] = ()
    """Batches of an epoch of each rank, by the length of its sampler; (): not known of all."""
    repeated: int = 0
    """Samples that the second epoch takes in the order of the first on all ranks, although a
    DistributedSampler shuffles."""
    joined: bool = False
    """The training runs under Join."""
    went_on: bool = False
    """All ranks took further steps after an epoch had ended."""
    uneven_end: bool = False
    """The epoch of one rank had ended, and that of another had not, when the run was killed."""


class TriedBatch(Section, frozen=True, kw_only=True):
    """A batch that the first steps seldom meet, forward and backward."""

    name: Text
    """longest, last or shortest."""
    samples: int
    length: int = 0
    peak: int | None = None
    """Bytes of torch's allocator on the GPU; None: no GPU was used."""
    total: int | None = None
    error: Text = ""


class Batches(Section, frozen=True, kw_only=True):
    """The samples of a factory's loader by length, and the batches made of them."""

    untold: Text = ""
    """Why nothing is known of them."""
    read: int = 0
    """Samples whose length was read, of `of`."""
    of: int = 0
    longest: int = 0
    shortest: int = 0
    planned: tuple[Text, ...] = ()
    """Names of the batches that were to be tried."""
    tried: tuple[TriedBatch, ...] = ()
    device: Text = ""
    """Kind of the device that the job trains on; "": not known."""


class Accessed(Section, frozen=True, kw_only=True):
    """What a server of others answered."""

    target: Text
    """Without secrets."""
    usable: bool | None
    """The job can use it; None: not known."""
    detail: Text = ""
    seconds: float = 0.0


class RehearsedStage(Section, frozen=True, kw_only=True):
    """A stage: tried or not, and why not."""

    name: StageName
    tried: bool = False
    reason: Text = ""
    out_of_time: bool = False
    """Not tried, as --budget was spent before it."""
    seconds: float = 0.0


class Rehearsal(Section, frozen=True, kw_only=True):
    """All runs and what was made of them."""

    protection: Protection = Protection()
    output: Text = ""
    """Where {output} was."""
    takes_output: bool = False
    """The command has {output}."""
    grace: float = 30.0
    free: int | None = None
    """Bytes free where {output} is, before the first run."""
    keep: int | None = None
    """Checkpoints that the real job will keep, if stated."""
    total_steps: int | None = None
    """Steps of the real job, if stated."""
    total_tokens: int | None = None
    """Tokens that the real job takes, if stated."""
    price: float | None = None
    """Of the whole machine per hour, in any currency, if stated."""
    runs: tuple[RehearsedRun, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    agreement: Agreement | None = None
    """None: one rank, or nothing to compare."""
    resumed: Resumed | None = None
    """None: not tried, or nothing to compare."""
    trained: Text = ""
    """How a factory's module was trained and saved; "": the job's own command was run."""
    own_trainer: bool = False
    """Its own Trainer chose the batches."""
    batches: Batches | None = None
    """None: the job's own command was run, or nothing was tried."""
    accessed: tuple[Accessed, ...] = ()
    """(): not asked for."""
    stages: tuple[RehearsedStage, ...] = ()
    seconds: float = 0.0

    def run(self, name: RunName) -> RehearsedRun | None:
        """The run of this name; None where it was not tried."""
        return next((each for each in self.runs if each.name == name), None)

    def stage(self, name: StageName) -> RehearsedStage:
        """The stage of this name."""
        absent = RehearsedStage(name=name, reason="it was not reached")
        return next((each for each in self.stages if each.name == name), absent)
