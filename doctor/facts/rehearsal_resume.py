"""The state at the start of a continued run, compared with that of the save."""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Section
from doctor.facts.rehearsal_runs import Text


class Lost(Section, frozen=True, kw_only=True):
    """A part of the state that the resume did not bring back."""

    kind: Literal[
        "weights", "buffers", "dtype", "shape", "optimizer", "group", "option", "schedule",
        "scaler", "rate", "average", "attribute", "frozen", "reference",
        "replaced", "untied", "cycled", "number", "size", "loose",
    ]  # fmt: skip
    names: tuple[Text, ...] = ()
    """The first of them; of a rate the schedules of torch, one of which sets it."""
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
    skipped: int = 0
    """Batches of each step, where the resume skips as many batches as steps were taken; 0: not."""
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
    epoch_steps: int = 0
    """Steps of the epoch that had just ended at that save; 0: it is in the middle of one."""
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
    pending: int = 0
    """Backward passes before that save to which no step of an optimizer belonged yet."""
    passed_over: Text = ""
    """The newest checkpoint on disk, whole, where the resume took the first, or one that only
    sorts behind it as a text."""
    taken: Text = ""
    """That one."""
    oldest: bool = False
    """The one that was taken is the first of several, and not the last as a text."""
    beside_best: Text = ""
    """A checkpoint with an optimizer's state, where it opened that of the best result, which is
    older than the newest save."""
    best: Text = ""
    """A file of the best result so far that the resume wrote, and the whole run did not."""
    best_anew: Text = ""
    """A variable with the best result so far that is as at a fresh start again."""
    best_at: int = 0
    """After this step of all."""
    narrow: Text = ""
    """The dtype of a state that the model took, of fewer bits than its weights."""
    kept_optimizer: bool = False
    """A checkpoint on disk has an optimizer's state."""
    prefix: Text = ""
    """What the keys in the file have before the names of the model, or lack."""
    same_batches: int = 0
    """Ranks that begin with the same batch after the resume, and with different ones before."""
    first_batch: bool = False
    """The model is called with the first batch of all after the resume, where the run that was not
    stopped has another one."""
    position: Text = ""
    """The key of its checkpoints under which there is how far the data are read."""
    order: SampleOrder | None = None
    """None: no loader with a dataset that is read by index was observed."""

    @property
    def counted_from_0(self) -> bool:
        """Whether the state was restored, and as many steps follow as from a fresh start."""
        left = self.expected_steps
        return left is not None and 0 < self.saved_step <= self.steps - left
