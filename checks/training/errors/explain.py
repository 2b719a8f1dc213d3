"""The cause of an error that was raised and its remedy, from what was observed there."""

from __future__ import annotations

import re
from collections.abc import Callable

from doctor.checks.training.errors import (
    broadcasts,
    distributions,
    functions,
    functorch,
    getters,
    graph,
    grown,
    hooks,
    inputs,
    layers,
    losses,
    names,
    no_loss,
    ranges,
    samples,
    shapes,
    time_first,
    types,
    updates,
)
from doctor.checks.training.errors.explanation import Explanation
from doctor.facts.own_model import OwnModel
from doctor.facts.raised import Operand, Raised

MOST, COLUMNS = 5, 80
"""Arguments in a summary, and characters of one."""
LOSSES = re.compile(r"loss|entropy")


CALLED = (
    "Give the third value of the factory the arguments that it is called with: a function is "
    "called as loss(module, batch), an instance of nn.Module or a function of "
    "torch.nn.functional as criterion(output, target)."
)
ARGUMENTS = re.compile(r"positional arguments? but|required positional|unexpected keyword argument")


FACTORY = (
    "Name a factory without parameters, a function around it: it is called without arguments.\n"
    "def make():\n"
    "    return build(config)"
)


EXPLAINERS: tuple[Callable[[Raised], Explanation | None], ...] = (
    functions.explain,
    functorch.explain,
    ranges.explain,
    distributions.explain,
    getters.explain,
    names.explain,
    samples.explain,
    graph.explain,
    layers.explain,
    updates.explain,
    types.explain,
    losses.explain,
    grown.explain,
    shapes.explain,
    broadcasts.explain,
)


def _called_by_doctor(own: OwnModel) -> Explanation | None:
    """A factory or its loss whose parameters are others, so that no line of it ran.

    torch calls functions of the user too, in the backward pass: hooks and autograd functions."""
    raised = own.raised
    if raised is None or raised.error != "TypeError" or not ARGUMENTS.search(raised.message):
        return None
    if raised.place or raised.module_type or raised.observed:
        return None
    if not own.built.ok:
        return Explanation("", FACTORY)
    return Explanation("", CALLED) if _stage(own) in ("", "forward") else None


def explain(own: OwnModel) -> Explanation | None:
    """What the first explainer says about the error; None if it is not explained."""
    if own.raised is None:
        return None
    of_all = (no_loss.explain, hooks.explain, time_first.explain, inputs.explain, _called_by_doctor)
    for explain_own in of_all:
        if explanation := explain_own(own):
            return explanation
    for explainer in EXPLAINERS:
        if explanation := explainer(own.raised):
            return explanation
    return None


def _stage(own: OwnModel) -> str:
    """The stage that raised, "" if none is recorded."""
    return own.smoke.stages[-1].name if own.smoke and own.smoke.stages else ""


def describe(own: OwnModel) -> str:
    """The module and the call with its arguments, as clauses that begin with a semicolon."""
    raised = own.raised
    if raised is None:
        return ""
    clauses = [_module(raised), _call(raised)]
    if LOSSES.search(raised.function) and own.batch:
        shapes = ", ".join(f"{each.name} {list(each.shape)}" for each in own.batch[:MOST])
        clauses.append(f"the batch has {shapes}")
    return "".join(f"; {each}" for each in clauses if each)


def _module(raised: Raised) -> str:
    if raised.module:
        return f"in module {raised.module}, {raised.module_type}"
    return f"in {raised.module_type}" if raised.module is None and raised.module_type else ""


def _call(raised: Raised) -> str:
    """The function with its arguments, without those that say nothing; else the line's values."""
    if "own function" in raised.observed:  # the cause lists them
        return ""
    of_torch = any(each.shape is not None for each in raised.operands)
    informative = [
        each
        for each in raised.operands
        if (each.shape is not None or _is_named(each, raised) if of_torch else each.value)
        and each.name not in ("bias", "memo", "_nil", "args", "kwargs")
    ]
    function = raised.function.removesuffix(".__init__").removesuffix(".forward")
    if not informative or (re.search("__get(attr|item)__$", function) and not of_torch):
        listed = {"keys", "parts"} & set(raised.observed)
        values = "" if listed else raised.observed.get("values", "")
        return f"there {values}" if values else ""
    return f"{function} got {', '.join(show(each) for each in informative[:MOST])}"


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
