"""What happened when the job's own command was run in small."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from doctor._util.records import Section
from doctor._util.text_fields import ARGUMENTS

Text = Annotated[str, msgspec.Meta(max_length=2000)]
RunName = Literal["run", "stop", "resume"]
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


class Evaluated(Section, frozen=True, kw_only=True):
    """One evaluation of a rank."""

    step: int
    seconds: float
    calls: int
    samples: int
    memory: tuple[int, ...] = ()
    """Bytes in use at each call of the model: on the GPU, or resident on a CPU."""
    generated: int = 0
    """Calls of generate()."""
    graphs: int = 0
    """Calls with gradients enabled that no step followed before the model trained again."""


class RehearsedRank(Section, frozen=True, kw_only=True):
    """One process that trained."""

    rank: int
    world: int
    steps: int = 0
    seconds: tuple[float, ...] = ()
    """Of the steps after the first, without hashing."""
    rates: tuple[tuple[float, ...], ...] = ()
    """Learning rates of the groups, at each of the first steps."""
    ended: bool = False
    """It ended by itself, with or without an exception."""
    error: Text = ""
    """Class and message of the exception that ended it."""
    evaluating: int | None = None
    """The step of an evaluation that had begun and did not end."""
    generating: bool = False
    """That evaluation had called generate()."""
    evaluations: tuple[Evaluated, ...] = ()
    resident: int = 0
    """Peak of the host's memory, bytes."""
    allocated: int | None = None
    """Peaks of torch's allocator on the GPU, bytes; None: no GPU was used."""
    reserved: int | None = None
    total: int | None = None
    """Memory of that GPU."""
    hashing: float = 0.0
    """Seconds spent in hashing, which the steps leave out."""
    broken: Text = ""
    """Why the process was no longer observed."""


class SavedFile(Section, frozen=True, kw_only=True):
    """A call that saved, in rank 0 or the first rank that made one."""

    step: int
    what: Text
    path: Text = ""
    seconds: float = 0.0


class OnDisk(Section, frozen=True, kw_only=True):
    """A checkpoint in {output} after a run, as doctor scan reads it."""

    path: Text
    """Below {output}; "." is {output} itself."""
    bytes: int
    weights: bool = True
    """Weights were found."""
    optimizer: bool | None = None
    """An optimizer's state was found, or could not be read; None: not recorded."""
    torn: tuple[Text, ...] = ()
    """Files that are not whole, with what is wrong."""
    unread: Text = ""
    """Why it could not be examined."""


class Waiting(Section, frozen=True, kw_only=True):
    """Where a rank was when its run was killed at its deadline."""

    rank: int
    place: Text = ""
    """File, line and function of the nearest frame that is not a library's."""
    collective: Text = ""
    """The last one that Python code called; "": none."""
    number: int = 0
    """How many it had called by then, this one counted."""
    inside: bool = False
    """It had not returned."""
    ended: bool = False
    """The process had ended by itself before."""


class RehearsedRun(Section, frozen=True, kw_only=True):
    """One run of the command."""

    name: RunName
    command: Annotated[tuple[Text, ...], ARGUMENTS] = ()
    code: int | None = None
    """Exit code, -N for signal N; None: it was killed at its deadline."""
    seconds: float
    cut: Literal["", "deadline", "grace", "interrupted"] = ""
    """Why the doctor killed it."""
    signalled: float | None = None
    """Seconds from the start to the signal of stage 5; None: none was sent."""
    signal: Text = ""
    stopped_at: int = 0
    """The step in whose middle it was sent; 0: not recorded."""
    left: tuple[Text, ...] = ()
    """Names of processes that were still there 5 s after the command had ended, and after they
    had got the signal, too."""
    orphans: tuple[Text, ...] = ()
    """Names of processes that outlived the command until they got the signal themselves."""
    stuck: tuple[Text, ...] = ()
    """Names of processes that SIGKILL did not end."""
    ranks: tuple[RehearsedRank, ...] = ()
    saved: tuple[SavedFile, ...] = ()
    written: int = 0
    """Bytes in {output} at the end."""
    saved_after_signal: bool = False
    """Files in {output} were written after the signal."""
    checkpoints: tuple[OnDisk, ...] = ()
    overwritten: tuple[Text, ...] = ()
    """Files below {output} with contents that were written over under their own name."""
    tail: tuple[Text, ...] = ()
    """The last lines that it printed, where it failed."""
    refusals: tuple[Text, ...] = ()
    """Lines of its output that speak of a refused write."""
    frames: tuple[Text, ...] = ()
    """Where its processes were when it was killed at its deadline."""
    waiting: tuple[Waiting, ...] = ()
    """The same of its ranks."""
    handler: Text = ""
    """The function that handles the signal, and where it was when it was killed; "": it was in
    none."""
    still: float | None = None
    """Seconds without a step of any rank before it was killed at its deadline."""

    @property
    def steps(self) -> int:
        """Most steps of a rank."""
        return max((rank.steps for rank in self.ranks), default=0)


class Lost(Section, frozen=True, kw_only=True):
    """A part of the state that the resume did not bring back."""

    kind: Literal[
        "weights", "buffers", "dtype", "shape", "optimizer", "group", "option", "schedule",
        "scaler", "rate", "average",
    ]  # fmt: skip
    names: tuple[Text, ...] = ()
    """The first of them."""
    count: int = 1
    of: int = 0
    """How many there are."""
    persistent: bool = True
    """Of buffers: they are in state_dict()."""
    fresh: bool = False
    """They are as at the start of a training, and not as they were saved."""
    rank: int = 0
    before: Text = ""
    after: Text = ""
    step: int = 0
    """Of a rate: the step at which both runs differ most."""


class SampleOrder(Section, frozen=True, kw_only=True):
    """The samples of the steps after a resume, beside those of the run that was not stopped."""

    untold: Text = ""
    """Why they cannot be compared."""
    steps: int = 0
    """Steps after the save that were compared."""
    samples: int = 0
    """Taken in all of the uninterrupted run's steps until then."""
    same: bool = False
    """Each step takes the same samples."""
    again: int = 0
    """Samples that the two parts take more often than the uninterrupted run does until then."""
    left_out: int = 0
    """Samples that they take less often."""
    anew: bool = False
    """The first steps after the resume take the samples of the first steps of all."""


class Resumed(Section, frozen=True, kw_only=True):
    """The state at the start of the continued run, compared with that of the last save."""

    saved_step: int
    """Of the state that was compared."""
    newest_step: int
    """Of the newest save."""
    from_start: bool = False
    """All weights are those of a training that begins, and nothing was restored."""
    looked: bool = False
    """The command opened or listed something in {output} before its first step."""
    request: Text = ""
    """The flag of its command line that asks for a resume, or --resume-command; "": none."""
    opened: Text = ""
    """A file of a checkpoint in {output} that it opened before its first step; "": none."""
    steps: int = 0
    """Steps of the continued run."""
    expected_steps: int | None = None
    """Steps that were left; None: the uninterrupted run did not end by itself."""
    compared: int = 0
    """Tensors that were compared."""
    lost: tuple[Lost, ...] = ()
    missed_keys: tuple[Text, ...] = ()
    """Keys that load_state_dict did not find, and was told not to mind."""
    extra_keys: tuple[Text, ...] = ()
    exchanged: bool = False
    """The save held other weights than those with which the training went on after it, as an
    average that is in the model while it is saved."""
    unprepared: bool = False
    """accelerator.load_state() was called before a model was prepared."""
    stateful: int = 0
    """Parameters for which the optimizer had a state at the save."""
    prefix: Text = ""
    """What the keys in the file have before the names of the model, or lack."""
    order: SampleOrder | None = None
    """None: no loader with a dataset that is read by index was observed."""


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
    averaged: int = 0
    """Of these, the weights whose gradients at the first step are equal on all ranks."""
    batches: int = 0
    """Ranks whose first batch was seen."""
    distinct: int = 0
    """Different ones among them."""
    data_parallel: bool = False
    """DistributedDataParallel, or FSDP over all ranks: each has data of its own."""
    parted: int = 0
    """Weights of which each rank holds another part."""
    whole: int = 0
    """Weights that several ranks hold alike, and that were compared."""
    epoch: tuple[int, ...] = ()
    """Batches of an epoch of each rank, by the length of its sampler; (): not known of all."""
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
