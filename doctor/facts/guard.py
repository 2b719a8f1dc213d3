"""What the guard recorded of a running training."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from doctor._util.records import Number, Section
from doctor._util.text_fields import ARGUMENTS

Text = Annotated[str, msgspec.Meta(max_length=2000)]
Code = Annotated[str, msgspec.Meta(pattern="^GRD[0-9]{3}$")]


class GuardAlarm(Section, frozen=True, kw_only=True):
    """What a rule of the guard observed in the training's process."""

    code: Code
    status: Literal["note", "warn", "fail"]
    step: int
    """The first step, of this optimizer."""
    last_step: int = 0
    """The last step at which it was recorded; the records thin out."""
    count: int = 1
    text: Text
    cause: Text = ""
    """A word that selects the fix, "" for the only one."""
    names: tuple[Text, ...] = ()
    """Parameters, at most 200."""
    moment: int = 0
    """When the step was observed, milliseconds since 1970; 0: not recorded."""


class GuardPoint(Section, frozen=True, kw_only=True):
    """One step on a curve. The loss is the sum over the micro-batches, without the loss scale."""

    optimizer: int = 0
    step: int
    loss: Number | None = None
    norm: Number | None = None
    """2-norm of the gradients: all of them if the loop clips, else of the smallest ones."""
    rate: Number | None = None
    """The largest learning rate of the groups."""
    scale: Number | None = None
    skipped: bool = False


class GuardCounts(Section, frozen=True, kw_only=True):
    """What was observed in one process until its last record."""

    steps: int = 0
    backwards: int = 0
    losses: int = 0
    """Losses that were read."""
    bad_losses: int = 0
    """Of them, those that are not finite."""
    norms: int = 0
    """Steps whose gradient norm was read."""
    rates: int = 0
    """Steps whose learning rate was read."""
    looks: int = 0
    """Comparisons of an optimizer's parameters with their start."""
    buffers: int = 0
    """Buffers of floating point in the model, at the last look."""
    model_looks: int = 0
    """Looks at the model's buffers."""
    mode_looks: int = 0
    """Looks at the mode of a model with dropout or batch norms."""
    clips: int = 0
    """Clippings of gradients, until they were judged."""
    states: int = 0
    """Objects that torch.save wrote, and state dicts that modules loaded."""
    fetched: int = 0
    """Batches of loaders, within the first backward passes."""
    graphs: int = 0
    """Of the first losses, those whose function is known from their graph."""
    evaluations: int = 0
    """Evaluations over a loader whose modules were looked at."""
    schedules: int = 0
    """Schedules of torch.optim.lr_scheduler."""
    followers: int | None = None
    """Modules of the shape of a trained one that no optimizer has, such as averages."""
    effective: int = 0
    """Most steps of one optimizer that should have changed its weights."""
    skipped: int = 0
    scaled: bool = False
    """A GradScaler was used."""
    tracked: int = 0
    """Parameters that are compared with their start."""
    gradients: int = 0
    """Of them, those with a gradient that was not 0."""
    moved: int = 0
    """Of them, those that differ from their start."""
    ones: int = 0
    """Of them, those that start at 1.0."""
    zeros: int = 0
    zeros_moved: int = 0
    vectors: int = 0
    """Of them, those of one dimension."""
    vectors_moved: int = 0
    half: int = 0
    """Of them, those with 16 bits."""
    dropped: int = 0
    """Reads that were given up because the device was too far behind."""
    unread: int = 0
    """Steps whose loss and norm were not read, to save time."""
    unread_from: int = 0
    """The first of them; 0 for none."""
    read_every: int = 1
    """Of how many steps one was read, at most."""
    step_seconds: float = 0.0
    """Time of a step when that was chosen; 0.0 if it never was."""
    optimizers: tuple[Text, ...] = ()
    seconds: float = 0.0
    updates: int = 0
    """Sampled updates of 16-bit weights that have a gradient."""
    updates_lost: int = 0
    """Of them, those that left the weight unchanged."""
    vocabulary: int = 0
    """Of a language model whose first losses were at ln(vocabulary); else 0."""
    flat_steps: int = 0
    """Losses that were compared with ln(vocabulary)."""
    timed: int = 0
    """Steps whose time was compared with that of earlier ones of the same work."""
    batches: int = 0
    """Batches of a DataLoader whose waiting time was read."""
    memory_windows: int = 0
    """Windows of 20 steps whose lowest use of memory was compared."""


class GuardSaved(Section, frozen=True, kw_only=True):
    """A file that torch.save wrote."""

    path: Text
    step: int
    """Steps before it, of the optimizer with most."""
    moment: int
    """When it was written, milliseconds since 1970."""


class GuardError(Section, frozen=True, kw_only=True):
    """The exception that ended a process."""

    error: Text
    """Its class."""
    message: Text
    """Without secrets."""
    moment: int
    """When the process ended, milliseconds since 1970."""


class GuardChecksums(Section, frozen=True, kw_only=True):
    """Checksums of samples of replicated parameters after one step."""

    optimizer: int
    step: int
    values: Annotated[tuple[int, ...], msgspec.Meta(max_length=64)]
    names: tuple[Text, ...] = ()
    """Of the parameters; only in the first record of an optimizer."""


class GuardedProcess(Section, frozen=True, kw_only=True):
    """One process of the training."""

    rank: int
    world: int
    pid: int
    started: int
    """Seconds since 1970."""
    torch: Text
    all: bool = False
    """The codes that are off by default were evaluated."""
    ended: Text = ""
    """ "exit", "error: ..." of the guard itself, "" if the process was killed."""
    error: GuardError | None = None
    """None where no exception ended the process."""
    counts: GuardCounts = GuardCounts()
    alarms: tuple[GuardAlarm, ...] = ()
    points: tuple[GuardPoint, ...] = ()
    checksums: tuple[GuardChecksums, ...] = ()
    saved: tuple[GuardSaved, ...] = ()
    """The last of them."""
    origin: Text = ""
    """Where the first non-finite value came from."""
    unreadable: int = 0
    """Lines of the file that are not records; a killed process leaves one."""


class GuardStall(Section, frozen=True, kw_only=True):
    """A rank that was without a step for long, as the parent saw it."""

    rank: int
    step: int = 0
    """The last one that was recorded."""
    seconds: float
    usual: float = 0.0
    """Seconds between two records before; 0.0: not known."""
    resumed: bool = False
    where: Text = ""
    """The innermost line of the program, as its stack told; "" where it could not be asked."""


class EarlierCheckpoint(Section, frozen=True, kw_only=True):
    """The newest checkpoint that this training wrote before its first failure."""

    path: Text = ""
    """A directory, or a file with everything; "" where there is none."""
    step: int = 0
    """After which it was written; 0: not recorded."""
    seconds: float = 0.0
    """From its last file to the failure."""
    later: int = 0
    """Checkpoints written after the failure."""
    examined: tuple[Text, ...] = ()
    """Directories that were searched."""
    complete: bool = True
    """False: there were too many files to look at all."""


class Guarded(Section, frozen=True, kw_only=True):
    """A training under the guard: the latest process of each rank."""

    processes: tuple[GuardedProcess, ...]
    """() where the command ended with an error before its first step."""
    restarts: int = 0
    """Earlier processes of the same ranks."""
    command: Annotated[tuple[Text, ...], ARGUMENTS] = ()
    exit_code: int | None = None
    """Of the command; None where the guard was not its parent."""
    signal: Text = ""
    """SIGINT, SIGTERM, SIGHUP or SIGQUIT, if the guard received it and passed it on."""
    stopped: bool = False
    """Ended by --stop."""
    watched: int = 0
    """Processes whose pace the parent followed."""
    stalls: tuple[GuardStall, ...] = ()
    checkpoint: EarlierCheckpoint | None = None
    """Before the first failure; None where nothing failed or the guard was not its parent."""

    @property
    def steps(self) -> int:
        """Most steps of a process."""
        return max((process.counts.steps for process in self.processes), default=0)

    @property
    def error(self) -> GuardError | None:
        """The exception of the process that ended first with one."""
        errors = [process.error for process in self.processes if process.error]
        return min(errors, key=lambda error: error.moment, default=None)

    @property
    def first_failure(self) -> int:
        """When the first failure was observed, milliseconds since 1970; 0 without one.

        Without an alarm that failed, when an exception ended the training.
        """
        moments = [
            alarm.moment
            for process in self.processes
            for alarm in process.alarms
            if alarm.status == "fail" and alarm.moment
        ]
        ended = self.error.moment if self.error is not None else 0
        return min(moments, default=ended)
