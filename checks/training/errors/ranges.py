"""Values of an index that exceed what they index."""

from __future__ import annotations

from doctor.checks.training.errors.explanation import Explanation, shape, tensors
from doctor.facts.raised import Raised

IGNORED = ("-100", "-1", "255")
"""Labels that mark what is to be ignored: in torch, in masks, in images of classes."""


def explain(raised: Raised) -> Explanation | None:
    """None unless such values were observed."""
    observed = raised.observed
    if "out of range" not in observed:
        return None
    origin = f" in {observed['values of']}" if observed.get("values of") else ""
    cause = f"{observed['out of range']}{origin}; allowed are {observed['allowed']}"
    return Explanation(cause, _fix(raised, raised.function.strip("_")))


def _fix(raised: Raised, function: str) -> str:
    observed = raised.observed
    lowest, highest, allowed = observed["lowest"], observed["highest"], observed["allowed"]
    ignored = next((each for each in (lowest, highest) if each in IGNORED), "")
    if ignored and function not in ("getitem", "setitem"):
        return (
            f"Replace the label {ignored}, which marks what is ignored, before it is used as an "
            f"index: labels.masked_fill(labels == {ignored}, 0), and leave these places out of the "
            "result."
        )
    if function == "bincount":
        return "Shift or map the values so that the lowest is 0: bincount counts 0, 1, 2, ..."
    if function == "one_hot":
        return (
            f"Pass num_classes={int(highest) + 1} or more to one_hot, or map the labels to "
            f"{allowed}. A label of its own for the background or an empty cell takes one class "
            "more, whose column is left out afterwards: "
            f"F.one_hot(labels, {int(highest) + 1})[..., :-1]."
        )
    first = shape(tensors(raised)[0]) if tensors(raised) else ()
    table = f" (its shape is {list(first)})" if first else ""
    return (
        f"Let the index stay within {allowed}, or make the tensor larger that it reads or "
        f"writes{table}: labels that begin with 1, positions beyond a maximal length, indices of "
        "another table and nodes that a filter removed are the usual reasons."
    )
