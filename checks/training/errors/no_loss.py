"""A forward pass or a loss function that returns something else than a loss."""

from __future__ import annotations

import re

from doctor.checks.training.errors.explanation import Explanation
from doctor.facts.own_model import OwnModel

RETURNED = re.compile(r"^([\w ]+) returned no loss but (\w+)(?: with ([\w, ]+))?")


SHAPE = re.compile(r"^the loss has the shape .* and is not a scalar")
EXAMPLE = "return model, batch, lambda model, batch: criterion(model(batch['x']), batch['y'])"
SEVERAL = (
    "Reduce a loss of several values: loss.mean(), or reduction='mean' of the criterion. If it is "
    "the output of the model and not a loss, return (module, batch, loss) from the factory.\n"
    f"{EXAMPLE}\ndoctor explain model"
)


def explain(own: OwnModel) -> Explanation | None:
    """What to return instead; None if the doctor's own message names no reason."""
    if own.raised and SHAPE.search(own.raised.message):
        return Explanation("", SEVERAL)
    match = RETURNED.match(own.raised.message if own.raised else "")
    if not match:
        return None
    source, kind, names = match[1], match[2], match[3] or ""
    fields = [each.name for each in own.batch]
    if kind == "NoneType":
        return Explanation(
            "", f"Return the loss at the end of {source}: without a return statement it is None."
        )
    if kind in ("float", "int"):
        return Explanation(
            "",
            "Return the tensor itself, without .item() or float(): a number has no graph for "
            "backward().\n" + EXAMPLE,
        )
    if kind == "generator":
        return Explanation("", f"Return the loss: {source} contains yield, so it is a generator.")
    if kind.endswith("Output") or "Output" in kind:
        return _record(source, names, fields)
    if names and source == "training_step":
        return Explanation(
            "", "Give the loss the key 'loss' in the dict that training_step returns."
        )
    return None


def _record(source: str, names: str, fields: list[str]) -> Explanation | None:
    if "labels" in fields or source != "the forward pass":
        return None
    close = next((each for each in fields if each in ("label", "target", "targets", "y")), None)
    rename = f"Rename {close} to labels in the batch" if close else "Add labels to the batch"
    return Explanation(
        f"the batch has {', '.join(fields)}",
        f"{rename}: a model of transformers computes its loss only if it gets labels=. For a "
        "causal language model they are a copy of input_ids, with -100 where nothing is to be "
        "learned.",
    )
