"""Records of the bisection of a faulty training: what was tried, and where the fault begins."""

from __future__ import annotations

from typing import Literal

import msgspec

from doctor._util.records import Number, Section

Fault = Literal[
    "raised", "crashed", "hung", "non-finite loss", "zero loss", "non-finite gradient",
    "no gradient",
]  # fmt: skip

LEFT_OUT = "left out, the time was over"
"""The detail of an attempt that was not started before the deadline."""


class Attempt(Section, frozen=True, kw_only=True):
    """A repetition of the same steps with one thing changed."""

    change: str
    """A key of `doctor.collect.changes.CHANGES`: "cudnn-off", "math", "eager", ..."""
    outcome: Literal["fixed", "same", "other", "not possible", "mended"]
    """other: a different fault; mended: the earlier spelling of fixed, replaced when it is read."""
    detail: str = ""
    """The fault it ended with, or why it was not possible."""
    loss: Number | None = None
    grad_norm: Number | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.outcome == "mended":
            msgspec.structs.force_setattr(self, "outcome", "fixed")


class Source(Section, frozen=True, kw_only=True):
    """The operation that made the first value that is not finite, out of finite inputs."""

    name: str
    """As torch names it: "log", "native_batch_norm"."""
    place: str = ""
    """The user's line: "train.py, line 12"; "" if none called it."""
    code: str = ""
    library: str = ""
    """The line of a library that the user's line called, "" if it called torch itself."""
    remarks: tuple[str, ...] = ()
    """What is unusual in its inputs: "1 of 4 values of the divisor are 0"."""
    certain: bool = False
    """The remarks alone explain the result: the operation is not defined for such inputs."""
    step: int = 1
    backward: bool = False
    """It belongs to the backward pass: `place` is a line of the user's own backward(), or ""."""
    function: str = ""
    """The function of torch.nn.functional that called it, if its arguments explain the result:
    "kl_div"."""
    module: str | None = None
    """The module of torch that called it: "2 (Softmax)"; None: not recorded."""
    made_by: str = ""
    """The function that made the values that explain the result: "relu"."""
    origin: str = msgspec.field(name="made_of", default="")
    """The same, with what they were computed from: "the result of norm of the parameter proto"."""
    state: str = ""
    """The buffer, or tensor held by a module, that carries the values to the next step, which reads
    them: "codes"."""
    samples: tuple[int, ...] = ()
    """Samples of the batch that make the loss non-finite each by itself."""
    more_samples: bool = False
    """There are more than those listed."""
    batch: int | None = None
    """Samples of the batch, if they could be tried one by one."""


class Cut(Section, frozen=True, kw_only=True):
    """A place where the path from parameters to the loss ends, or their gradient becomes 0."""

    kind: Literal[
        "detached", "number", "no_grad", "indices", "constant", "unused", "zero", "none", "small",
        "replaced", "hook", "result hook", "cancelled", "derivative", "copied",
    ]  # fmt: skip
    """The function removes the graph, returns numbers, runs under no_grad, returns integers or
    booleans, or another result without graph; no further function was seen to read its result; its
    backward pass turns a gradient into zeros, returns none, or makes it smaller by a factor of a
    million; the forward pass replaces the parameter by another one; a hook is registered on a
    parameter that gets zeros, or on the result of an operation, whose gradient it makes 0;
    gradients that are not 0 add up to exactly 0, as those of a bias over the samples of a batch
    may; derivative and copied: of earlier versions."""
    name: str
    """As torch names it: "detach", "argmax"; of a zero, the operation's in autograd:
    "RoundBackward0"."""
    place: str = ""
    """The user's line: "train.py, line 12"."""
    code: str = ""
    module: str = ""
    """The module of torch that called it: "2 (Dropout)"."""
    remark: str = ""
    """What was observed: "64 of 64 inputs are 0 or less"."""
    certain: bool = False
    """It is so whatever the values are, so no change of numbers avoids it."""
    origin: str = ""
    """Of a factor that is 0 throughout: the operation that made it 0, "floor_divide"."""
    origin_place: str = ""
    """Its line."""
    parameters: tuple[str, ...] = ()


class Diagnosis(Section, frozen=True, kw_only=True):
    """The bisection of a faulty training: one change at a time, until one fixes it."""

    fault: Fault
    attempts: tuple[Attempt, ...] = ()
    first_module: str | None = None
    """Name of the first module whose output was not finite; "" is the model itself."""
    first_module_type: str | None = None
    step: int | None = None
    """The step in which a value stopped being finite, from 1."""
    origin: Literal["module", "loss", "gradient", "update"] | None = msgspec.field(
        name="born", default=None
    )
    """The first value in that step that is not finite: a module's output, the loss of finite
    outputs, a gradient of a finite loss, or a weight updated with finite gradients."""
    bad_gradients: tuple[str, ...] = ()
    """The first parameters whose gradient, or whose value after the update, was not finite."""
    operation: str | None = None
    """The operation whose gradient is not finite: its name in autograd, and its line of code."""
    source: Source | None = None
    uncalled: tuple[str, ...] = ()
    """Modules with trainable parameters that the forward pass does not call."""
    unread: tuple[str, ...] = ()
    """Trainable parameters that no function of the forward pass gets."""
    owners: dict[str, bool] = {}
    """Name of a module -> whether its class is of an installed package, where that changes from
    the module around it, as of a network of a library inside of one's own."""
    cuts: tuple[Cut, ...] = ()
    unfinished: bool = False
    """The pass that follows parameters to where their paths end took longer than its time."""
    attention: bool | None = None
    """The forward pass calls one of torch's attention functions, or hides what it calls; None: not
    observed."""
    on_cpu: str = ""
    """How the same forward pass ended on the CPU after an error of a GPU's kernel: "raises
    IndexError: index 25 is out of bounds for dimension 2 with size 32 in train.py, line 27",
    "completes"; "" if it was not tried."""
    index_on_cpu: bool = False
    """That error names an index that exceeds its table."""
    bad_index: tuple[str, ...] = ()
    """Indices outside of their table that the code computes: "tokens: 4 of 64 values outside the
    vocabulary [0, 16): -1; they are the result of sub in train.py, line 12"."""
    bad_batch: tuple[str, ...] = ()
    """Errors in the batch: "labels: 3 of 64 values outside [0, 256)"."""
    remarks: tuple[str, ...] = msgspec.field(name="noted", default=())
    """Unusual properties of the batch that do not explain the fault by themselves."""
    bad_weights: tuple[str, ...] = ()
    """Parameters and buffers that were not finite before the first step."""
    seconds: float = 0.0

    def is_of_library(self, name: str) -> bool:
        """Whether the module of this name, or the innermost one around it that has an answer, is
        of an installed package."""
        while name and name not in self.owners:
            name = name.rpartition(".")[0]
        return self.owners.get(name, False)

    @property
    def repeats(self) -> tuple[Attempt, ...]:
        """The repetitions with nothing changed."""
        return tuple(each for each in self.attempts if each.change == "repeat")

    @property
    def intermittent(self) -> bool:
        """Whether the fault was absent in some repetition with nothing changed."""
        return any(each.outcome == "fixed" for each in self.repeats)

    @property
    def fixed_by(self) -> Attempt | None:
        """The first change that removes the fault, if the fault returns without it."""
        if self.intermittent:
            return None
        return next((each for each in self.attempts if each.outcome == "fixed"), None)
