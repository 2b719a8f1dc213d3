"""From an error that was raised to its causes: observations decide, the message only proposes."""

from __future__ import annotations

import re
from typing import NamedTuple

from doctor.checks.training.errors import data, graph, joining, ranges, shapes, values, views
from doctor.checks.training.errors.explanation import Explanation, OwnProof, Proof
from doctor.checks.training.errors.words import words
from doctor.errors.cause import Cause
from doctor.errors.causes import CAUSES
from doctor.errors.fitted import fitted
from doctor.errors.match import holds, is_message_of, with_message
from doctor.facts import observations as seen
from doctor.facts.own_model import OwnModel
from doctor.facts.raised import Operand, Raised

PROOFS: dict[str, Proof] = {
    **graph.PROOFS,
    **ranges.PROOFS,
    **values.PROOFS,
    **values.NAMES,
    **data.PROOFS,
    **shapes.PROOFS,
    **joining.PROOFS,
    **views.PROOFS,
}
OWN_PROOFS: dict[str, OwnProof] = data.OWN_PROOFS
"""Id of a row of `doctor.errors` -> its proof."""
PROPOSED = (
    "module-without-return",
    "module-returns-tuple",
    "no-tensor",
    "parameter-changed-in-place",
    "dtype-mismatch",
    "device-mismatch",
    "meta-device",
    "no-parameters",
    "schedule-end",
    "division-by-zero",
    *values.NAMES,
)
"""Rows whose operands occur where nothing is wrong with them, too: autocast mixes dtypes. They
count if the message is one of the row."""
MOST, COLUMNS = 5, 80
"""Arguments in a summary, and characters of one."""
LOSSES = re.compile(r"loss|entropy")


class Explained(NamedTuple):
    """A cause that follows from what was observed."""

    cause: Cause
    seen: Explanation

    @property
    def fix(self) -> str:
        return self.seen.fix or self.cause.fix


Proven = tuple[Explained, ...]


def explain(own: OwnModel) -> Proven:
    """Every proven cause in the order of the table, specific before general: the first is the
    headline, the others are possible too."""
    raised = own.raised
    if raised is None:
        return ()
    possible = (each for each in CAUSES if not each.errors or raised.is_a(*each.errors))
    proofs = ((cause, _proof(cause, raised, own)) for cause in possible)
    proven = [Explained(cause, proof) for cause, proof in proofs if proof]
    return tuple(each for each in proven if each.cause.id not in values.NAMES) or tuple(proven)


def _proof(cause: Cause, raised: Raised, own: OwnModel) -> Explanation | None:
    if cause.id in PROPOSED and not is_message_of(cause, f"{raised.error}: {raised.message}"):
        return None
    of_own = OWN_PROOFS.get(cause.id)
    if of_own and (proof := of_own(raised, own)):
        return proof
    prove = PROOFS.get(cause.id)
    return prove(raised) if prove else None


def possible_causes(own: OwnModel) -> tuple[Cause, ...]:
    """Those that have the message, where none is proven: the only one, or of several those that
    the arguments of the call would not have proven."""
    raised = own.raised
    if raised is None:
        return ()
    rows = [each for each in CAUSES if not each.errors or raised.is_a(*each.errors)]
    message = f"{raised.error}: {raised.message}"
    found = with_message(message, rows)
    if len(found) > 1 or {each.id for each in found} & OWN_PROOFS.keys():
        found = with_message(message, [each for each in rows if not is_decided(each, raised)])
    return tuple(fitted(each, message) for each in found)


def is_decided(cause: Cause, raised: Raised) -> bool:
    """Whether what was observed would have proven this cause, so that its message says nothing;
    not where the message has a wording, and so a cause and a fix, of its own."""
    by_call = raised.operands and cause.id in BY_CALL
    worded = any(holds(each.message, raised.message) for each in cause.wordings)
    return (cause.id in OWN_PROOFS or bool(by_call)) and not worded


BY_CALL = {*shapes.PROOFS, *ranges.PROOFS, *values.PROOFS} - set(PROPOSED)
"""Rows that the arguments of the call decide."""


# The call, its arguments, and everything else that was observed


def describe(own: OwnModel, cause: str = "") -> str:
    """The module, the call with its arguments and what was observed, as clauses that begin with a
    semicolon; without those that `cause` has."""
    raised = own.raised
    if raised is None:
        return ""
    clauses = [_module(raised), _call(raised)]
    if own.batch and (LOSSES.search(raised.function) or not raised.place):
        shapes = ", ".join(f"{each.name} {list(each.shape)}" for each in own.batch[:MOST])
        clauses.append(f"the batch has {shapes}")
    clauses += [words(each) for each in raised.observations]
    return "".join(f"; {each}" for each in dict.fromkeys(clauses) if each and each not in cause)


def _module(raised: Raised) -> str:
    if raised.module:
        return f"in module {raised.module}, {raised.module_type}"
    return f"in {raised.module_type}" if raised.module is None and raised.module_type else ""


def _call(raised: Raised) -> str:
    """The function with its arguments, without those that say nothing; else the line's values."""
    if raised.all(seen.OwnFunction):  # its arguments are listed
        return ""
    of_torch = any(each.shape is not None for each in raised.operands)
    informative = [
        each
        for each in raised.operands
        if (each.shape is not None or _is_named(each, raised) if of_torch else each.value)
        and each.name not in ("bias", "memo", "_nil", "args", "kwargs")
    ]
    function = raised.function.removesuffix(".__init__").removesuffix(".forward")
    if informative and (of_torch or not re.search("__get(attr|item)__$", function)):
        return f"{function} got {', '.join(show(each) for each in informative[:MOST])}"
    if raised.all(seen.Parts) or any(each.kind == "key" for each in raised.all(seen.Missing)):
        return ""
    values = [f"{each.name} is {each.text}" for each in raised.all(seen.Value)[:MOST]]
    return f"there {', '.join(values)}" if values else ""


def _is_named(operand: Operand, raised: Raised) -> bool:
    """Whether the message names this argument as the wrong one."""
    return f"argument '{operand.name}'" in raised.message and operand.value != "None"


def show(operand: Operand) -> str:
    """ "weight [5, 1568] float32 (head.weight)"."""
    name = operand.name.strip()
    value = operand.value[:COLUMNS] or operand.kind
    if operand.shape is not None:
        value = f"{list(operand.shape)} {operand.dtype}"
    parameter = operand.parameter if operand.parameter.rpartition(".")[2] != name else ""
    end = f" ({parameter})" if parameter else ""
    return f"{name} {value}{end}".strip()
