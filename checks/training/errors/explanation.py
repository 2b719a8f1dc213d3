"""What an error means, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from doctor.checks.training.errors.words import words
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


def first_of(*proofs: Proof) -> Proof:
    """What the first one says that holds: specific ones before general ones."""

    def proof(raised: Raised) -> Explanation | None:
        return next(filter(None, (prove(raised) for prove in proofs)), None)

    return proof


def seen_as(record: type[Any], fix: str = "", **fields: object) -> Proof:
    """An observation of that kind with these values is the cause, in its own words."""

    def proof(raised: Raised) -> Explanation | None:
        for each in raised.all(record):
            if all(getattr(each, name) == value for name, value in fields.items()):
                return Explanation(words(each), fix)
        return None

    return proof


def named(operand: Operand, other: str) -> str:
    """The parameter or the argument, else `other`."""
    return operand.parameter or operand.name.strip() or other


def module(raised: Raised, other: str = "the layer") -> str:
    """The module that was running, by its path; "module 0" if that is a number."""
    path = raised.module or raised.module_type.partition("(")[0] or other
    return f"module {path}" if path.rpartition(".")[2].isdigit() else path
