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
    use the result."""
    diagnosis = steps.diagnosis
    return diagnosis is not None and all(_is_unused(each, diagnosis) for each in without)


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
        return _owner(diagnosis, parameter.name)
    part = _part(parameter, unused, required)
    return _owner(diagnosis, part.rpartition(".")[0]) and diagnosis.owners.get(part) is not False


def _owner(diagnosis: Diagnosis, name: str) -> bool:
    while name and name not in diagnosis.owners:
        name = name.rpartition(".")[0]
    return diagnosis.owners.get(name, False)


def _part(parameter: Parameter, unused: Sequence[Parameter], required: Sequence[Parameter]) -> str:
    """The outermost module around it of which all parameters are unused, or its own name."""
    used = [each.name for each in required if each not in unused]
    steps = parameter.name.split(".")
    parts = (".".join(steps[:count]) for count in range(1, len(steps)))
    free = (part for part in parts if not any(name.startswith(f"{part}.") for name in used))
    return next(free, parameter.name)


ON_PURPOSE = "no step used them; no fault if they are for another stage, or another head"


def fix(idle: Sequence[str], without: Sequence[Parameter]) -> str:
    """The remedy; `idle`: modules that are not called."""
    call = uncalled_fix(idle, without) or "Use their result in the loss, or remove them."
    return f"{call} {REPLICAS}"


REPLICAS = (
    "DistributedDataParallel raises for parameters without a gradient unless "
    "find_unused_parameters=True."
)
