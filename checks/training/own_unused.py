"""Parameters that the forward pass does not read, or computes a result of that nothing uses: layers
of another stage, of a part of a network that is not needed, or forgotten ones."""

from __future__ import annotations

from collections.abc import Sequence

from doctor._util.units import listed
from doctor.checks.training import own_cuts
from doctor.checks.training.own_parameters import uncalled_fix
from doctor.facts.diagnosis import Diagnosis
from doctor.facts.training import Parameter, Smoke, without_gradient

MOST = 4
"""Parts in a summary."""


def are_unused(without: Sequence[Parameter], steps: Smoke) -> bool:
    """Whether each of these got no gradient, and either no function got it, or nothing was seen to
    use the result, also where the time was over before that was looked at."""
    diagnosis = steps.diagnosis
    return diagnosis is not None and all(
        _is_unused(each, diagnosis) or is_unfinished([each], diagnosis) for each in without
    )


def _is_unused(parameter: Parameter, diagnosis: Diagnosis) -> bool:
    if parameter.computed is not False:
        return False
    if _is_unread(parameter, diagnosis):
        return True
    cuts = own_cuts.of(diagnosis.cuts, [parameter])
    return bool(cuts) and all(each.kind == "unused" for each in cuts)


def _is_unread(parameter: Parameter, diagnosis: Diagnosis) -> bool:
    inside = any(parameter.name.startswith(f"{name}.") for name in diagnosis.uncalled)
    return inside or parameter.name in diagnosis.unread


def without_parts_of_libraries(
    required: Sequence[Parameter], steps: Smoke
) -> tuple[list[Parameter], str]:
    """The parameters without those that a network of an installed package has for other uses, such
    as its head where the features are taken, or a pooler; and a note about these."""
    diagnosis, without = steps.diagnosis, without_gradient(required)
    if diagnosis is None or len(without) == len(required):
        return list(required), ""
    unused = [each for each in without if _is_unused(each, diagnosis)]
    theirs = [each for each in unused if _is_of_library(each, unused, required, diagnosis)]
    if not theirs:
        return list(required), ""
    names = listed(list(dict.fromkeys(_part(each, theirs, required) for each in theirs)), MOST)
    return [each for each in required if each not in theirs], (
        f"; {len(theirs)} more are not used by this loss: {names}, in networks of installed "
        "packages"
    )


def _is_of_library(
    parameter: Parameter,
    unused: Sequence[Parameter],
    required: Sequence[Parameter],
    diagnosis: Diagnosis,
) -> bool:
    """Whether code of an installed package holds the part of the model that is not used."""
    if not _is_unread(parameter, diagnosis):
        return diagnosis.is_of_library(parameter.name)
    part = _part(parameter, unused, required)
    around = part.rpartition(".")[0]
    return diagnosis.is_of_library(around) and diagnosis.owners.get(part) is not False


def _part(parameter: Parameter, unused: Sequence[Parameter], required: Sequence[Parameter]) -> str:
    """The outermost module around it of which all parameters are unused, or its own name."""
    used = [each.name for each in required if each not in unused]
    steps = parameter.name.split(".")
    parts = (".".join(steps[:count]) for count in range(1, len(steps)))
    free = (part for part in parts if not any(name.startswith(f"{part}.") for name in used))
    return next(free, parameter.name)


def is_unfinished(parameters: Sequence[Parameter], diagnosis: Diagnosis | None) -> bool:
    """Whether a function gets one of these, which get no gradient, and the time was over before it
    was seen what becomes of its result."""
    return (
        diagnosis is not None
        and diagnosis.unfinished
        and any(each.computed is False and not _is_unread(each, diagnosis) for each in parameters)
    )


def purpose(without: Sequence[Parameter], diagnosis: Diagnosis | None) -> str:
    """Why it may be no fault."""
    return NOT_SEEN if is_unfinished(without, diagnosis) else ON_PURPOSE


ON_PURPOSE = "no step used them; no fault if they are for another stage, or another head"


NOT_SEEN = (
    "they are computed with, and the time was over before it was seen whether anything uses the "
    "result; no fault if nothing needs it"
)


def fix(
    idle: Sequence[str], without: Sequence[Parameter], diagnosis: Diagnosis | None = None
) -> str:
    """The remedy; `idle`: modules that are not called."""
    use = NOT_SEEN_FIX if is_unfinished(without, diagnosis) else USE_FIX
    call = uncalled_fix(idle, without) or use
    return f"{call} {REPLICAS}"


USE_FIX = "Use their result in the loss, or remove them."
NOT_SEEN_FIX = (
    "If the loss is to depend on them, look for detach, .item(), numpy, no_grad and indices between"
    " them and the loss, and use their result; else remove them."
)
REPLICAS = (
    "DistributedDataParallel raises for parameters without a gradient unless "
    "find_unused_parameters=True."
)
