"""What was observed where an error was raised: records, never sentences.

A probe writes each as a dict with its kind under "type". A kind of a newer doctor, or a record that
does not fit its kind, is kept as `Unread`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar, get_args

import msgspec

from doctor._util.records import Section

Sizes = tuple[int, ...]


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of the user's code."""

    place: str = ""
    """ "train.py, line 12"; "" if it is not known."""
    code: str = ""

    def __str__(self) -> str:
        return f"{self.place} (`{self.code}`)" if self.code else self.place


# What the raising line holds


class Value(Section, frozen=True, kw_only=True):
    """A variable of the raising expression."""

    name: str
    text: str
    """In short: "[4, 8] float32", "None"."""


class NoneValue(Section, frozen=True, kw_only=True):
    """A variable of the raising expression that is None, where None is refused."""

    name: str
    function: str = ""
    """Of which it is a parameter; "" if it is none."""


class Variable(Section, frozen=True, kw_only=True):
    """Something of the raising line that is another kind of thing than the line takes it for."""

    name: str
    kind: Literal["model", "packed", "one-tuple", "attribute"]
    """packed: a PackedSequence. one-tuple: a tuple with one member. attribute: of a module, and it
    hides the method of that name."""


class Parts(Section, frozen=True, kw_only=True):
    """What was unpacked, or indexed by a text."""

    name: str
    parts: tuple[str, ...] = ()
    count: int
    shape: Sizes | None = None
    """Of a tensor."""


class NonFinite(Section, frozen=True, kw_only=True):
    """A variable of the raising line, an argument or a parameter below it, that is not finite."""

    name: str
    text: str
    """ "36 of 36 values", "nan" for a number."""


class IndexRange(Section, frozen=True, kw_only=True):
    """Integers that the raising call used as an index, and those that it takes."""

    least: int
    size: int | None
    """The smallest index that is too large; None: there is none."""
    low: int
    high: int
    """The smallest and the largest of those outside."""
    some: tuple[int, ...]
    """Some of those outside, in ascending order."""
    outside: int
    """How many values are."""
    values: int
    distinct: int
    at: tuple[Sizes, ...] = ()
    """Positions of the first ones."""
    origin: str = ""
    """What made the index: "the result of argmax in train.py, line 8"."""


class ZeroDivisor(Section, frozen=True, kw_only=True):
    """The divisor of a division of whole numbers, with zeros in it."""

    zeros: int
    values: int
    at: tuple[Sizes, ...] = ()


class Violation(Section, frozen=True, kw_only=True):
    """Values that a distribution of torch refuses."""

    distribution: str
    parameter: str
    """ "value": what log_prob got."""
    constraint: str
    violations: int
    checked: int
    unit: Literal["values", "rows"]
    low: float | None = None
    high: float | None = None
    """Of the violations; None where rows were checked."""
    nan: bool = False
    """NaN is among them."""


# Names, and what there is in their place


class Missing(Section, frozen=True, kw_only=True):
    """A name, an attribute, a key or a method that does not exist, and what there is."""

    kind: Literal["name", "attribute", "key", "method"]
    name: str
    owner: str = ""
    """Class of the object, or the variable that holds the dict."""
    members: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    dict_of: str = ""
    """The variable that holds a dict with a key of that name."""


class Signature(Section, frozen=True, kw_only=True):
    """What the function takes that was called with other arguments."""

    accepts: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    of_model: bool = False
    """It is the forward of the model itself."""


# Modules, functions and hooks


class Returned(Section, frozen=True, kw_only=True):
    """The last module that returned None or a tuple."""

    module: str
    kind: str
    """Its class."""
    value: Literal["None", "tuple", "list"]


class Layout(Section, frozen=True, kw_only=True):
    """The innermost module with batch_first, and the shapes of its inputs."""

    batch_first: bool
    inputs: dict[str, Sizes] = {}
    options: dict[str, int] = {}
    """Its whole numbers and flags: hidden_size, num_layers, bidirectional."""


class Hook(Section, frozen=True, kw_only=True):
    """A hook that took part in the error."""

    kind: Literal["module", "gradient"]
    """gradient: of a tensor."""
    function: str
    on: str
    """The module, or the parameter."""
    place: str = ""


class OwnFunction(Section, frozen=True, kw_only=True):
    """The torch.autograd.Function of the user that the error names."""

    name: str
    place: str
    """Of its class."""
    backward: str = ""
    """The place of its backward."""
    parameters: tuple[str, ...] = ()
    """Of forward."""
    arguments: tuple[str, ...] = ()
    """Names of what apply() got."""
    shapes: tuple[Sizes | None, ...] = ()
    """Of these; None for what is no tensor."""
    applied: Line = Line()
    outputs: int | None = None
    """Tensors that forward returned; None if it raised."""


# Sizes


class Joined(Section, frozen=True, kw_only=True):
    """What an argument of the raising call was joined or flattened from."""

    function: str
    shapes: tuple[Sizes, ...]
    place: str = ""


class Regrouped(Section, frozen=True, kw_only=True):
    """A view of values [samples, ...] whose first dimension is not the samples."""

    function: str
    before: Sizes
    after: Sizes
    place: str = ""
    code: str = ""


# Data


class UnequalSamples(Section, frozen=True, kw_only=True):
    """A field of the samples whose sizes differ, where they are joined into a batch."""

    field: str = ""
    """A key, "part 0", "number of parts"; "" if a sample is one tensor."""
    sizes: tuple[Sizes, ...]


class AbsentInSamples(Section, frozen=True, kw_only=True):
    """Fields that some samples lack, or that are None in them."""

    fields: tuple[str, ...]
    samples: tuple[int, ...]
    none: bool = False


class Sample(Section, frozen=True, kw_only=True):
    """The sample that a dataset was asked for when it raised."""

    index: int
    dataset: str
    length: int | None = None
    """That its __len__ returns; None without one."""


class TransformerInputs(Section, frozen=True, kw_only=True):
    """What a model of transformers got of input_ids and inputs_embeds."""

    ids: bool = False
    embeddings: bool = False
    positions: int | None = None
    """Of inputs_embeds."""
    passed: tuple[str, ...] = ()
    """The tensors that were passed to the model."""
    refused: bool = False
    """The error is about these two."""
    decoder: bool = False
    smooths_labels: bool = False
    """A Trainer takes the labels out."""


# The graph


class Saved(Section, frozen=True, kw_only=True):
    """An operation whose backward pass needs a value that was changed since."""

    operation: str
    line: Line
    changed: tuple[Line, ...] = ()
    """The lines that changed it."""
    parameters: tuple[str, ...] = ()
    """Those among what they changed."""


class Operation(Section, frozen=True, kw_only=True):
    """The line of an operation whose backward pass failed."""

    name: str
    line: Line


class NoGradFunction(Section, frozen=True, kw_only=True):
    """A function of the user that a decorator runs without gradients."""

    function: str


class BackwardCall(Section, frozen=True, kw_only=True):
    """The user's own call of backward()."""

    line: Line
    shared: tuple[str, ...] = ()
    """Variables there that the losses of two calls were computed from."""


class KeptGraph(Section, frozen=True, kw_only=True):
    """Tensors with a graph that outlive their step."""

    names: tuple[str, ...]
    where: Literal["training", "once", "batch", "copied"]
    """training: attributes, closures, globals. once: those that a forward pass keeps as they are.
    copied: attributes of the module that is copied."""


# Optimizers


class StateKeys(Section, frozen=True, kw_only=True):
    """Keys that differ between a model and the dict that load_state_dict got."""

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()


class OptimizerState(Section, frozen=True, kw_only=True):
    """State of an optimizer that has another shape than its parameter."""

    optimizer: str
    key: str
    parameter: str
    shape: Sizes
    required: Sizes


class OptimizerGroups(Section, frozen=True, kw_only=True):
    """Options that the groups of an optimizer lack, and others that they have."""

    optimizer: str
    absent: tuple[str, ...]
    others: tuple[str, ...] = ()


class SharedParameters(Section, frozen=True, kw_only=True):
    """Parameters in two groups of an optimizer."""

    names: tuple[str, ...]


class ParameterCount(Section, frozen=True, kw_only=True):
    """A model beside the optimizer that got no parameter."""

    model: str
    parameters: int
    trainable: int
    held: str = ""
    """Where a model without a parameter keeps its weights: "layers are in blocks, a list"."""


class Schedule(Section, frozen=True, kw_only=True):
    """The schedule whose step raised, with its numbers."""

    kind: str
    numbers: dict[str, float] = {}


class LinearModules(Section, frozen=True, kw_only=True):
    """The last names of the linear modules of the model that adapters were to be put into."""

    names: tuple[str, ...]


class Unread(Section, frozen=True, kw_only=True):
    """A kind of a newer doctor, a record that does not fit its kind, or what an observer could not
    see: never taken for absent."""

    kind: str
    reason: str


AnyObservation = (
    Value
    | NoneValue
    | Variable
    | Parts
    | NonFinite
    | IndexRange
    | ZeroDivisor
    | Violation
    | Missing
    | Signature
    | Returned
    | Layout
    | Hook
    | OwnFunction
    | Joined
    | Regrouped
    | UnequalSamples
    | AbsentInSamples
    | Sample
    | TransformerInputs
    | Saved
    | Operation
    | NoGradFunction
    | BackwardCall
    | KeptGraph
    | StateKeys
    | OptimizerState
    | OptimizerGroups
    | SharedParameters
    | ParameterCount
    | Schedule
    | LinearModules
    | Unread
)
Kind = TypeVar("Kind", bound=Section)
KINDS: dict[str, type[Section]] = {each.__name__: each for each in get_args(AnyObservation)}


def readable(items: object) -> list[dict[str, object]]:
    """Each record that can be read as it is, any other as an `Unread`: one after the other, so that
    one that cannot be read does not take the others along."""
    if not isinstance(items, Iterable):
        return [_unread("", "no list of observations")]
    return [_readable(each) for each in items]


def _readable(item: object) -> dict[str, object]:
    kind = str(item.get("type")) if isinstance(item, dict) else ""
    if kind not in KINDS:
        return _unread(kind, "unknown to this version")
    try:
        msgspec.convert(item, KINDS[kind])
    except msgspec.ValidationError as error:
        return _unread(kind, str(error))
    return dict(item) if isinstance(item, dict) else {}


def _unread(kind: str, reason: str) -> dict[str, object]:
    return {"type": "Unread", "kind": kind, "reason": reason}
