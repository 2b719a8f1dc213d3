"""Where values stop being finite, in words, and the remedy for that place."""

from __future__ import annotations

import re

from doctor.checks.training.operation_fixes import (
    NAN_SOURCES,
    OPERATION_FIXES,
    REMARK_FIXES,
    STABLE_FORMS,
    STAGE_FIXES,
)
from doctor.facts.diagnosis import Diagnosis, Source


def location(diagnosis: Diagnosis, optimizer: str) -> str:
    """The first value that is not finite, as a clause; "" if it is not known."""
    if diagnosis.source and (diagnosis.source.place or diagnosis.source.remarks):
        return f"; {_describe(diagnosis.source, diagnosis)}"
    step = f"in step {diagnosis.step}" if diagnosis.step else ""
    names = ", ".join(diagnosis.bad_gradients[:3])
    match diagnosis.origin:
        case "module":
            return f"; the first non-finite output is that of {_module(diagnosis)}, {step}"
        case "loss":
            return f"; all modules' outputs are finite {step}, the loss is not"
        case "gradient":
            operation = f", from {diagnosis.operation}" if diagnosis.operation else ""
            return f"; the loss is finite {step}, the gradient norm of {names} is not{operation}"
        case "update":
            update = f"an update of {optimizer} with finite gradients"
            return f"; {step} {update} makes {names} non-finite"
    return ""


def _describe(source: Source, diagnosis: Diagnosis) -> str:
    """The operation with its line, what is wrong in its inputs, and the samples that do it."""
    name = source.name.strip("_")
    remarks = f": {'; '.join(source.remarks)}" if source.remarks else ""
    if source.backward and diagnosis.operation:
        where = f"the backward pass of {diagnosis.operation}"
        remarks = f": {_in_backward(diagnosis.operation, source)}" if source.remarks else ""
    elif source.backward:
        where = f"{name} in the backward pass"
    else:
        code = f" (`{source.code}`)" if source.code else ""
        library = f", through {source.library}" if source.library else ""
        place = f" in {source.place}" if source.place else ""
        module = f" in {_module(diagnosis)}" if _is_inside(source, diagnosis) else ""
        where = f"{name}{place}{code}{library}{',' if place and module else ''}{module}"
        where += "" if place or module else " in the loss"
    text = f"values stop being finite in {where}, in step {source.step}{remarks}"
    return f"{text}{_samples(source)}"


def _in_backward(operation: str, source: Source) -> str:
    """What is wrong in the inputs of an operation, by what its backward pass got."""
    name = re.match(r"[A-Za-z]+(?=Backward)", operation)
    poles = POLES.get(name[0]) if name else None
    count = re.match(r"\d+ of \d+", source.remarks[0])
    if poles and count:
        return f"{count[0]} of its inputs are {poles}"
    return f"in its {source.name.strip('_')}, {'; '.join(source.remarks)}"


POLES = {"Sqrt": "0", "Acos": "1 or -1", "Asin": "1 or -1", "Log": "0", "Rsqrt": "0"}
"""Operation in autograd -> the inputs where its derivative is infinite."""


def _is_inside(source: Source, diagnosis: Diagnosis) -> bool:
    """Whether the operation is called by a module of a library rather than by the user's line."""
    return diagnosis.origin == "module" and bool(source.library or not source.place)


def _samples(source: Source) -> str:
    if source.batch is None or source.backward:
        return ""
    if not source.samples:
        return f"; none of the {source.batch} samples does it alone"
    if len(source.samples) == source.batch:
        return f"; each of the {source.batch} samples does it"
    more = " and more" if source.more_samples else ""
    numbers = ", ".join(map(str, source.samples))
    plural = "s" if len(source.samples) > 1 else ""
    return f"; sample{plural} {numbers}{more} of {source.batch} (from 0)"


def _module(diagnosis: Diagnosis) -> str:
    name = diagnosis.first_module or "the model itself"
    return f"{name} ({diagnosis.first_module_type})"


def fix_by_location(diagnosis: Diagnosis, fix: str) -> str:
    """The fix if no change fixes the fault, with the place to start from first."""
    source = diagnosis.source
    if source is not None and (source.place or source.remarks) and not source.backward:
        stable = _stable_form(source)
        in_fp32 = " (in fp32: fp16 has no 1e-8)" * ("1e-" in (stable or ""))
        inside = _module(diagnosis) if _is_inside(source, diagnosis) else ""
        place = " and ".join(filter(None, (source.place, inside))) or "the loss"
        return f"Look at {place}. {stable or NAN_SOURCES}{in_fp32}. {fix}"
    operation = re.match(r"(\w+?)Backward", diagnosis.operation or "")
    stable = STABLE_FORMS.get(operation[1]) if operation else None
    if stable:
        return f"Use a stable form of that operation, in fp32 (fp16 has no 1e-8): {stable}. {fix}"
    if diagnosis.fault.startswith("non-finite"):
        places = {"module": f"the output of {_module(diagnosis)}", "loss": "the loss"}
        place = places.get(diagnosis.origin or "", "the first non-finite value")
        return f"Look at {place}. {NAN_SOURCES}. {fix}"
    return " ".join(filter(None, (STAGE_FIXES.get(diagnosis.fault), fix)))


def _stable_form(source: Source) -> str | None:
    """The remedy for what is unusual in the inputs of the operation, None if nothing is."""
    for text, remedy in REMARK_FIXES:
        if any(text in each for each in source.remarks):
            return remedy
    return OPERATION_FIXES.get(source.name.strip("_")) if source.remarks else None
