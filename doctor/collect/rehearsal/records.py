"""The records that the hooks of a rehearsal write, of the kinds that are read."""

from __future__ import annotations

from typing import Any

import msgspec

Tensor = list[Any]
"""dtype, shape, hash; then of a buffer whether it is saved, of a weight which part it is."""


class Process(msgspec.Struct, tag="process", tag_field="kind"):
    rank: int
    world: int
    pid: int
    moment: float


class Step(msgspec.Struct, tag="step", tag_field="kind"):
    s: int
    moment: float
    t: float | None
    rates: list[float]
    waited: float = 0.0
    passes: int = 0
    leader: int = 1
    """How often another optimizer took the newest step, with the first one."""
    numbers: dict[str, float | None] = {}
    """That the loss was computed with, and that are others than at the step before; None for one
    that is gone."""


class Memory(msgspec.Struct, tag="memory", tag_field="kind"):
    resident: int
    allocated: int | None = None
    reserved: int | None = None
    total: int | None = None
    gpu: str = ""


class Kept(msgspec.Struct, tag="kept", tag_field="kind"):
    """Tensors with a graph that no backward pass has freed, nodes of all graphs, and bytes in use,
    after step `s`."""

    s: int
    graphs: int
    used: int
    nodes: int = 0
    hooks: int = 0


class Saved(msgspec.Struct, tag="saved", tag_field="kind"):
    s: int
    what: str
    path: str
    t: float
    moment: float = 0.0
    parts: list[str] = []
    """Sharded weights of which it has this rank's part alone."""
    positions: dict[str, str] = {}
    """Entries that say how far the data are read."""


class Load(msgspec.Struct, tag="load", tag_field="kind"):
    s: int
    module: str
    given: int
    missing: list[str]
    unexpected: list[str]
    missed: int
    extra: int
    narrow: str = ""
    """A floating-point dtype of the state, of fewer bits than the weight that took it."""


class Counted(msgspec.Struct, tag="counted", tag_field="kind"):
    """The arithmetic of one step."""

    flops: dict[str, int]
    left_out: list[str] = []


class Evaluating(msgspec.Struct, tag="evaluating", tag_field="kind"):
    s: int
    generates: bool = False
    turns: int = 0
    """Times that its first batch came again, after others."""


class Evaluated(msgspec.Struct, tag="evaluated", tag_field="kind"):
    s: int
    t: float
    calls: int
    samples: int
    memory: list[int]
    generated: int = 0
    graphs: int = 0
    of: int | None = None
    lists: dict[str, list[int]] = {}
    """Lengths of the program's lists of tensors before and after it."""


class Left(msgspec.Struct, tag="left", tag_field="kind"):
    """At the step after the evaluation after step `s`, these classes were in evaluation mode."""

    s: int
    kinds: list[str]


class Averaged(msgspec.Struct, tag="averaged", tag_field="kind"):
    """The step after the evaluation after step `s` began with the weights of this average."""

    s: int
    name: str


class End(msgspec.Struct, tag="end", tag_field="kind"):
    s: int
    error: str = ""
    message: str = ""
    place: str = ""
    """The user's nearest line, of an error."""
    exchanging: bool = False
    """It came while gradients or weights of a step were exchanged."""
    handler: str = ""
    """The handler of a signal that it came from."""
    in_model: bool = False
    """It came from a module that was called."""
    in_loader: bool = False
    """It came from a loader."""
    dtypes: str = ""
    """Of a weight after the last step and at the error, where they differ."""
    grad_off: bool = False
    """Gradients were switched off for the whole program."""


class Failed(msgspec.Struct, tag="failed", tag_field="kind"):
    """An error that a save raised, or that ended a thread."""

    s: int
    what: str
    path: str
    error: str
    message: str
    place: str
    thread: bool = False
    entry: str = ""
    """Of what was saved: the keys of that which cannot be pickled, and its class."""
    moment: float = 0.0


class Broken(msgspec.Struct, tag="broken", tag_field="kind"):
    text: str


class Paused(msgspec.Struct, tag="paused", tag_field="kind"):
    s: int
    handlers: dict[str, str] = {}
    lost_flags: dict[str, list[str]] = {}
    """Signal -> flags that its handler sets as variables of its own."""
    frozen: list[str] = []


class Handles(msgspec.Struct, tag="handles", tag_field="kind"):
    """The handlers of signals on a rank that does not wait for one."""

    handlers: dict[str, str]


class Signalled(msgspec.Struct, tag="signalled", tag_field="kind"):
    """The signal of stage 5, for which step `s` waited."""

    s: int
    reached: bool | None = None
    """It came to this process; None: not known."""
    error: str = ""
    """The exception that its handler raised."""
    message: str = ""


class Unprepared(msgspec.Struct, tag="unprepared", tag_field="kind"):
    """accelerator.load_state() was called with no model prepared."""

    s: int


class Asks(msgspec.Struct, tag="asks", tag_field="kind"):
    """A setting of the program whose name speaks of a resume."""

    name: str
    value: str


class Exchanged(msgspec.Struct, tag="exchanged", tag_field="kind"):
    """A save after step `s` had other weights than those with which the training went on."""

    s: int


class Gradients(msgspec.Struct, tag="gradients", tag_field="kind"):
    """At the first step."""

    tensors: dict[str, Tensor]
    lacking: list[str] = []
    """Weights that could have one, and have none."""


class Group(msgspec.Struct):
    """Parameters of an optimizer by name, and its settings."""

    parameters: list[str]
    options: dict[str, Any]


class OptimizerState(msgspec.Struct):
    """Groups and the state of each parameter: numbers, or tensors."""

    groups: list[Group]
    state: dict[str, dict[str, Any]]


class Snapshot(msgspec.Struct, tag="snapshot", tag_field="kind"):
    """The state of a training after `s` steps; `when`: start, save, step, end."""

    when: str
    s: int
    seconds: float
    weights: dict[str, Tensor]
    buffers: dict[str, Tensor]
    optimizers: dict[str, OptimizerState]
    schedules: dict[str, Any]
    scalers: dict[str, Any]
    frozen: list[str] = []
    """Weights that require no gradient."""
    attributes: dict[str, list[Any]] = {}
    """Numbers, or means and root mean squares of tensors, that objects of the user's own classes
    hold and no state_dict() has; [] for None."""
    loose: dict[str, Tensor] = {}
    """Parameters of optimizers that are in no module; with that optimizer's name, and its name for
    the parameter."""
    unwrapped: list[str] = []
    """Trained weights outside of all DistributedDataParallel, where there is one."""
    replicated: bool = False
    """A DistributedDataParallel was in memory."""
    data_parallel: bool = False
    """It, or FSDP over all ranks."""
    exchanged: bool = False
    """Of a save: the weights are others than after the step."""
    background: bool = False
    """Of a save by another thread, which holds a copy of an earlier state."""
    pending: int = 0
    """Of a save: backward passes since the last step of an optimizer."""


class Batch(msgspec.Struct, tag="batch", tag_field="kind"):
    """What the trained module was called with, the first time and after a save of step `s`."""

    tensors: list[Tensor]
    s: int = 0


class Loader(msgspec.Struct, tag="loader", tag_field="kind"):
    """The first loader that trains, and the batches of its epoch; None: it has no length."""

    batches: int | None
    shuffles: str = ""
    """The class of its sampler, where that is one of torch which shuffles."""
    by: str = ""
    """What a DistributedSampler shuffles by."""


class Taken(msgspec.Struct, tag="taken", tag_field="kind"):
    """The samples that step `s` was taken with."""

    s: int
    samples: list[int | str]


class Epoch(msgspec.Struct, tag="epoch", tag_field="kind"):
    """An epoch of a loader that trains ended, after step `s`."""

    s: int


class Joined(msgspec.Struct, tag="joined", tag_field="kind"):
    """The training runs under Join, which lets ranks end unevenly."""


_Record = (
    Process | Step | Memory | Saved | Load | Evaluating | Evaluated | End | Broken
    | Paused | Batch | Snapshot | Loader | Taken | Epoch | Joined | Unprepared | Exchanged
    | Gradients | Asks | Counted | Kept | Left | Failed | Signalled | Averaged | Handles
)  # fmt: skip
decode = msgspec.json.Decoder(_Record).decode
