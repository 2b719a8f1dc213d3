"""Properties whose getter raised an AttributeError: the class reports that they are absent."""

from __future__ import annotations

import msgspec

from doctor.checks.training.errors import names
from doctor.checks.training.errors.explanation import Explanation
from doctor.facts.raised import Raised

INNER = "inner "
"""Begins what probes/training_side/raised_getters.py observed at the error inside of a getter."""


def explain(raised: Raised) -> Explanation | None:
    """A property whose getter raised an AttributeError, which __getattr__ of the class hides."""
    observed = raised.observed
    if not (name := observed.get("getter")):
        return None
    hidden = f"{name} is a property of {observed['owner']}, whose getter raised an AttributeError"
    if not (message := observed.get(f"{INNER}message")):
        where = f" in {observed['getter at']}" if observed["getter at"] else ""
        return Explanation(
            f"{hidden}, which __getattr__ hides",
            f"Look at the getter of {name}{where}: it reads an attribute that does not exist. "
            "torch.nn.Module reports the property itself as absent.",
        )
    inner = {k.removeprefix(INNER): v for k, v in observed.items() if k.startswith(INNER)}
    place, code = inner["place"], inner["code"]
    error = msgspec.structs.replace(raised, message=message, place=place, observed=inner)
    explanation = (
        names.nothing(error) or explain(error) or names.attribute(error) or Explanation("", "")
    )
    cause = f"{hidden} that __getattr__ hides: {message}, in {place} (`{code}`)"
    if explanation.cause:
        cause += f"; {explanation.cause}"
    fix = explanation.fix.replace("that line", place)
    return Explanation(cause, fix or f"Correct the attribute that {place} reads, or create it.")
