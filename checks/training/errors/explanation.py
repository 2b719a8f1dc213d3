"""What an error means, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from doctor.facts.own_model import OwnModel
from doctor.facts.raised import Operand, Raised


class Explanation(NamedTuple):
    """What was observed of a cause."""

    cause: str
    """A clause of the summary, "" if the error says it."""
    fix: str = ""
    """Sentences, "" for those of the cause's row."""


Proof = Callable[[Raised], Explanation | None]
"""Whether a cause follows from what was observed: None if not. A message proves nothing where the
arguments of the call were seen."""
OwnProof = Callable[[Raised, OwnModel], Explanation | None]
"""The same with the training beside the error: its batch, its hooks."""


def named(operand: Operand, other: str) -> str:
    """The parameter or the argument, else `other`."""
    return operand.parameter or operand.name.strip() or other


def module(raised: Raised, other: str = "the layer") -> str:
    """The module that was running, by its path; "module 0" if that is a number."""
    path = raised.module or raised.module_type.partition("(")[0] or other
    return f"module {path}" if path.rpartition(".")[2].isdigit() else path


def place(raised: Raised) -> str:
    return raised.place or "that line"
