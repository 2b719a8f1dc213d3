"""One run of the job's own command in small: its ranks, its saves, how it ended."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from doctor._util.records import Section
from doctor._util.text_fields import ARGUMENTS

Text = Annotated[str, msgspec.Meta(max_length=2000)]
RunName = Literal["run", "stop", "resume"]
Cut = Literal["", "deadline", "grace", "interrupted"]
"""Why the doctor killed a run."""


class Evaluated(Section, frozen=True, kw_only=True):
    """One evaluation of a rank."""

    step: int
    seconds: float
    calls: int
    samples: int
    memory: tuple[int, ...] = ()
    """Bytes in use at each call of the model: on the GPU, or resident on a CPU."""
    of: int | None = None
    """Samples of the dataset whose loader gave the batches; None: not known."""
    generated: int = 0
    """Calls of generate()."""
    graphs: int = 0
    """Calls with gradients enabled that no step followed before the model trained again."""
    averaged: Text = ""
    """The average whose weights the model had at the next step, and not its own."""
    left: tuple[Text, ...] = ()
    """Classes of dropout and batch norms, all of them in evaluation mode still at the next step."""


class CountedStep(Section, frozen=True, kw_only=True):
    """Floating-point operations of one step of a rank, a multiplication and an addition being two,
    by the shapes of matrix products, convolutions and attention."""

    flops: dict[str, int]
    """dtype -> operations."""
    left_out: tuple[Text, ...] = ()
    """Operators of other libraries, of which nothing is known."""


class KeptGraphs(Section, frozen=True, kw_only=True):
    """Tensors in memory whose graphs no backward pass has freed."""

    step: int
    """After this one."""
    graphs: int
    nodes: int = 0
    """Of graphs from before the previous look that tensors in memory reach, freed or not; at most
    20,000."""
    hooks: int = 0
    """Most hooks of one module."""
    used: int = 0
    """Bytes in use: on the GPU, or resident on a CPU."""


class RehearsedRank(Section, frozen=True, kw_only=True):
    """One process that trained."""

    rank: int
    world: int
    steps: int = 0
    seconds: tuple[float, ...] = ()
    """Of the steps after the first, without hashing."""
    waited: float | None = None
    """Of these steps, seconds in which it waited for batches of a DataLoader."""
    passes: int = 0
    """Backward passes of the last step."""
    tokens: int | None = None
    """Whole numbers in the first batch, samples x length; None: it has none of two dimensions."""
    rates: tuple[tuple[float, ...], ...] = ()
    """Learning rates of the groups, at each of the first steps."""
    ended: bool = False
    """It ended by itself, with or without an exception."""
    error: Text = ""
    """Class and message of the exception that ended it."""
    place: Text = ""
    """The user's nearest line of its traceback; of an error in a loader's worker, there."""
    handler: Text = ""
    """The handler of a signal that this exception came from; "": it came from none."""
    in_model: bool = False
    """It came from a module of torch that was called."""
    in_loader: bool = False
    """It came from a loader, which reads and joins samples."""
    dtypes: Text = ""
    """The dtype of a weight after its last step and at that exception, where they differ."""
    grad_off: bool = False
    """At that exception gradients were off, and no context had switched them off."""
    evaluating: int | None = None
    """The step of an evaluation that had begun and did not end."""
    generating: bool = False
    """That evaluation had called generate()."""
    turns: int = 0
    """Times that the first batch of that evaluation came again, after others; 0: not so often."""
    evaluations: tuple[Evaluated, ...] = ()
    outputs: Text = ""
    """A list that gets a tensor or more in each call of each evaluation, and keeps all."""
    outputs_kept: int = 0
    """Its length after the last one."""
    resident: int = 0
    """Peak of the host's memory, bytes."""
    allocated: int | None = None
    """Peaks of torch's allocator on the GPU, bytes; None: no GPU was used."""
    reserved: int | None = None
    total: int | None = None
    """Memory of that GPU."""
    gpu: Text = ""
    """Its name, as torch gives it."""
    hashing: float = 0.0
    """Seconds spent in hashing, which the steps leave out."""
    broken: Text = ""
    """Why the process was no longer observed."""
    kept: tuple[KeptGraphs, ...] = ()
    """Looked at every few steps."""
    counted: CountedStep | None = None
    """The arithmetic of one step; None: it was not counted."""


class SavedFile(Section, frozen=True, kw_only=True):
    """A call that saved, in rank 0 or the first rank that made one."""

    step: int
    what: Text
    path: Text = ""
    seconds: float = 0.0


class FailedCall(Section, frozen=True, kw_only=True):
    """An error that a save raised, or that ended a thread, also where nobody read it."""

    rank: int
    step: int
    """After this one."""
    what: Text
    """The function that saves; "thread"."""
    path: Text = ""
    error: Text
    """Class and message."""
    place: Text = ""
    """The user's nearest line."""
    thread: bool = False
    """In another thread than the main one."""
    entry: Text = ""
    """The keys of that which cannot be pickled, and its class."""
    repeated: bool = False
    """Something was saved under this path later."""


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
    """Where a rank was when its run was killed at its deadline, or failed."""

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
    called: Text = ""
    """The function of a library that it called there, and that one's file."""
    loop: Text = ""
    """The while loop around that place, where it takes no step."""
    condition: Text = ""
    """The condition on the rank around that place."""
    exchanging: bool = False
    """An error ended it while gradients or weights of a step were exchanged."""


class HostMemory(Section, frozen=True, kw_only=True):
    """Most bytes at once that all processes of a run had for themselves, looked at each second."""

    loading: int
    """Before the first step."""
    running: int
    """From then on."""
    free: int
    """Before the run, under the limits of this process's control groups."""
    shm: int = 0
    """By which what was free in /dev/shm fell, others' use included."""
    shm_free: int | None = None
    """In /dev/shm, before the run; None: there is none."""

    @property
    def most(self) -> int:
        """With /dev/shm, which is memory too."""
        return max(self.loading, self.running) + self.shm


class RehearsedRun(Section, frozen=True, kw_only=True):
    """One run of the command."""

    name: RunName
    command: Annotated[tuple[Text, ...], ARGUMENTS] = ()
    code: int | None = None
    """Exit code, -N for signal N; None: it was killed at its deadline."""
    seconds: float
    cut: Cut = ""
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
    memory: HostMemory | None = None
    """None: not known."""
    saved: tuple[SavedFile, ...] = ()
    written: int = 0
    """Bytes in {output} at the end."""
    failures: tuple[FailedCall, ...] = ()
    saved_after_signal: bool = False
    """Files in {output} were written after the signal."""
    checkpoints: tuple[OnDisk, ...] = ()
    overwritten: tuple[Text, ...] = ()
    """Files below {output} with contents that were written over under their own name."""
    partial: tuple[Text, ...] = ()
    """A file with one rank's parts of sharded weights, where no other rank saved its own; then the
    first of them."""
    shared: tuple[Text, ...] = ()
    """Files that several ranks wrote at the same step, each by itself."""
    emptied: Text = ""
    """The only checkpoint, removed before the next one was written; "": none was."""
    emptied_at: int = 0
    """After this step."""
    never_kept: bool = False
    """It was so with each save but the last, and steps followed without any checkpoint."""
    newest_removed: tuple[Text, ...] = ()
    """Checkpoints below {output} that were removed while they were the newest."""
    tail: tuple[Text, ...] = ()
    """The last lines that it printed, where it failed."""
    mismatch: Text = ""
    """The line of its output that says that ranks called different collectives."""
    refusals: tuple[Text, ...] = ()
    """Lines of its output that speak of a refused write."""
    frames: tuple[Text, ...] = ()
    """Where its processes were when it was killed at its deadline."""
    waiting: tuple[Waiting, ...] = ()
    """The same of its ranks; also where it failed and there are several."""
    handler: Text = ""
    """The function that handles the signal, and where it was when it was killed; "": it was in
    none."""
    handled_by: Text = ""
    """The function of Python that handles the signal; "": none does."""
    unhandled: tuple[int, ...] = ()
    """Ranks with no function of Python that handles it, where another has one."""
    raised_by_handler: Text = ""
    """Class and message of the exception that the handler raised."""
    reached: bool | None = None
    """The signal came to the process that waited for it in its step; None: not known."""
    lost_flags: tuple[Text, ...] = ()
    """The function that handles the signal, and the flags that it sets as variables of its own,
    without `global`."""
    still: float | None = None
    """Seconds without a step of any rank before it was killed at its deadline."""

    @property
    def steps(self) -> int:
        """Most steps of a rank."""
        return max((rank.steps for rank in self.ranks), default=0)
