"""The error that ended the user's own training, and what was observed where it was raised."""

from __future__ import annotations

from doctor._util.records import Section
from doctor.facts.diagnosis import Cut


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
    parameter: str = ""
    """Its name in the model, if it is one of its parameters: "first.weight"."""


class Raised(Section, frozen=True, kw_only=True):
    """An exception with the place, the call and the arguments that were observed.

    `operands` are those of `function`, which is torch's function if the step was repeated under a
    function mode, else the function of a library that the user's line called.
    """

    error: str
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
    operands: tuple[Operand, ...] = ()
    observed: dict[str, str] = {}
    """Kind of an observation -> what was observed, as probes/training_side/raised.py lists them."""
    cuts: tuple[Cut, ...] = ()
    """Where the paths from the parameters to a loss without graph end."""

    def operand(self, name: str, position: int | None = None) -> Operand | None:
        """The argument of that name, or at that position if it has no name."""
        named = next((each for each in self.operands if each.name == name), None)
        if named is None and position is not None and position < len(self.operands):
            at = self.operands[position]
            return at if not at.name else None
        return named
