"""The run that made a checkpoint: its history and its optimizer."""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Section, Unknown


class History(Section, frozen=True, kw_only=True):
    """The run, by trainer_state.json."""

    steps: int
    """global_step."""
    lr_sum: float
    """Sum of the learning rate over the steps that the log covers."""
    lr_squares: float
    """Sum of its squares over the same steps."""
    covered: int
    """Steps that the log covers."""
    lr_max: float = 0.0
    """The largest logged learning rate; 0: not recorded."""
    falling_from: int = 0
    """The logged step after which the rate fell for the last time; 0 where a rate rose after the
    largest, or none fell."""
    losses: tuple[float, float, float] | None = None
    """The first logged one, the least, and the median of the last three; None: fewer than ten."""
    nan_at_end: int = 0
    """The last entries of the log whose loss or gradient norm is NaN or infinite."""


class NormEvidence(Section, frozen=True, kw_only=True):
    """The optimizer's state for the norms that are at their initial value.

    The counts from `absent` to `unread_moments` add up to `norms`, unless nothing can be matched.
    """

    norms: int
    matched_by: Literal["names", "order", "shapes"] | None = None
    """How entries were matched with the norms: by name, by the order of the weights in their file,
    or by shapes, where the counts hold for every mapping. None: they cannot be matched."""
    reason: str = ""
    """Why they cannot be."""
    absent: int = 0
    """In none of the parameter groups: the optimizer never stepped them."""
    missing: int = 0
    """In a group and without an entry: never received a gradient."""
    zero_moments: int = 0
    """With an entry whose moments are all zero: every gradient was zero."""
    nonzero_moments: int = 0
    """With an entry that has a non-zero moment."""
    unread_moments: int = 0
    """With an entry that could not be read, or that has no moments."""
    dtypes: dict[str, int] = {}
    """dtype of the moments -> norms, of those that are not zero."""
    step_min: float | None = None
    step_max: float | None = None
    lr_max: float | None = None
    """Largest learning rate of the groups that may hold them."""
    matrices_absent: bool = False
    """Matrices are in no group either: there are more of them than parameters in the groups."""
    masters_changed: int = 0
    """Whose fp32 master differs from all-ones and all-zeros."""
    masters_unchanged: int = 0
    """Whose fp32 master is all-ones or all-zeros as well."""


class Fit(Section, frozen=True, kw_only=True):
    """An optimizer's entries beside the weights of the same save."""

    weights: int
    """Tensors that an optimizer can step."""
    foreign: int = 0
    """Entries for whose shape there is no weight, or no further one."""
    example: tuple[int, ...] = ()
    """The shape of one of them."""
    resized: tuple[int, int] = (0, 0)
    """Rows of such an entry, and of a weight that is otherwise of its shape and has no entry."""
    ungrouped: int = 0
    """Entries of parameters that are in no group."""


class Optimizer(Section, frozen=True, kw_only=True):
    """Summary of an optimizer's saved state."""

    file: str
    kind: str
    """"Adam", "SGD with momentum", ...; "of an unknown kind"."""
    entries: int
    """Parameters with state."""
    parameters: int
    """Parameters in its groups."""
    missing: int = 0
    """Of these, without an entry: they never received a gradient."""
    missing_names: tuple[str, ...] = ()
    """The first ten, where the optimizer saved names."""
    moments: dict[str, int] = {}
    """dtype of the moments -> entries."""
    moments_follow_weights: bool = False
    """The moments have the dtype of the weights that the optimizer steps."""
    zero_moments: int = 0
    """Entries whose moments are all zero."""
    nonzero_moments: int = 0
    """Entries with a non-zero moment."""
    unread_moments: int = 0
    """Entries whose moments were not read, or have none."""
    nonfinite: tuple[str, ...] = ()
    """Its numbers that are NaN or infinite: "step", "learning rate"."""
    step_min: float | None = None
    step_max: float | None = None
    lr: tuple[float, ...] = ()
    """Of the groups; the initial rate of a schedule, where the group has it."""
    current_lr: tuple[float, ...] = ()
    """Of the groups, as they were saved; (): not recorded."""
    weight_decay: tuple[float, ...] = ()
    masters: dict[str, int] = {}
    """dtype of the copies of the weights that the optimizer steps -> copies."""
    low_masters: bool = False
    """DeepSpeed's bf16_master_weights_and_grads is set."""
    compensation: str = ""
    """The slot that keeps updates from being lost to rounding, such as a Kahan compensation."""
    norms: NormEvidence | None = None
    """None: no norm is at its initial value."""
    fit: Fit | None = None
    """None: its entries cannot be compared with the weights (flat or factored, several models)."""


class Training(Section, frozen=True, kw_only=True):
    """The run that made the checkpoint."""

    steps: int | None = None
    """Steps that the run had taken, by trainer_state.json or the checkpoint's own counter."""
    epoch: int = 0
    """By the checkpoint's own counter; 0: it has none."""
    history: History | None = None
    idle_averages: tuple[str, ...] = ()
    """Counters of updates of averages of the weights that are 0."""
    scale: float | None = None
    """The GradScaler's; None: the files hold no state of one."""
    optimizer: Optimizer | Unknown | None = None
    """None: the files hold no optimizer's state."""
