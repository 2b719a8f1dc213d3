"""The error that ended the user's own training, and what was observed where it was raised."""

from __future__ import annotations

from doctor._util.records import Section
from doctor.facts.diagnosis import Cut
from doctor.facts.observations import AnyObservation, Kind


class Operand(Section, frozen=True, kw_only=True):
    """One argument of the call that raised."""

    name: str = ""
    """Of the argument: "input"; "" if the function has no names for it."""
    kind: str = "Tensor"
    """The name of its class."""
    shape: tuple[int, ...] | None = None
    """Of a tensor or an array."""
    dtype: str = ""
    device: str = ""
    value: str = ""
    """Of anything but a tensor, in short: "None", "'1e-4'", "[3, 20]"."""
    numbers: tuple[int, ...] = ()
    """An integer, or those in a tuple or list of integers."""
    parameter: str = ""
    """Its name in the model, if it is one of its parameters: "first.weight"."""


class Raised(Section, frozen=True, kw_only=True):
    """An exception with the place, the call and the arguments that were observed.

    `operands` are those of `function`, which is torch's function if the step was repeated under a
    function mode, else the function of a library that the user's line called.
    """

    errors: tuple[str, ...]
    """The class of the exception and its parents: AcceleratorError, RuntimeError, Exception."""
    message: str = ""
    """The whole message, at most 4,000 characters."""
    place: str = ""
    """The innermost line of the user's files: "train.py, line 12"."""
    code: str = ""
    module: str | None = None
    """Path of the innermost module whose forward was running, "" the model itself; None: none was,
    or it is not a part of the model."""
    module_type: str = ""
    """That module: "Linear(in_features=8, out_features=5, bias=True)"."""
    function: str = ""
    """As in torch: "linear", "cross_entropy"; of a library "AdamW.__init__"."""
    caller: str = ""
    """The function of a library that the user's line called, where torch's own is `function`."""
    operands: tuple[Operand, ...] = ()
    observations: tuple[AnyObservation, ...] = ()
    cuts: tuple[Cut, ...] = ()
    """Where the paths from the parameters to a loss without graph end."""

    @property
    def error(self) -> str:
        return self.errors[0] if self.errors else ""

    def is_a(self, *errors: str) -> bool:
        """Whether it is of one of these classes, or of one derived from it."""
        return not set(errors).isdisjoint(self.errors)

    def all(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """The observations of that kind."""
        return tuple(each for each in self.observations if isinstance(each, kind))

    def first(self, kind: type[Kind]) -> Kind | None:
        return next(iter(self.all(kind)), None)

    def operand(self, name: str) -> Operand | None:
        """The argument of that name."""
        return next((each for each in self.operands if each.name == name), None)
