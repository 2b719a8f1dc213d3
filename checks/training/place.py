"""Where values stop being finite, in words, and the remedy for that place."""

from __future__ import annotations

import re

from doctor.checks.training import operation_fixes as known
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
    called = f" of {source.function}" if source.function not in ("", name) else ""
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
        module = f" in {inside}" if (inside := _inside(source, diagnosis)) else ""
        where = f"{name}{called}{place}{code}{library}{',' if place and module else ''}{module}"
        where += "" if place or module else " in the loss"
    origin = f"; that input is {source.origin}" if source.origin else ""
    text = f"values stop being finite in {where}, in step {source.step}{remarks}{origin}"
    reader = f", which step {diagnosis.step} reads" if diagnosis.step else ""
    state = f"; the result goes into {source.state}{reader}" if source.state else ""
    return f"{text}{state}{_samples(source)}"


def _in_backward(operation: str, source: Source) -> str:
    """What is wrong in the inputs of an operation, by what its backward pass got."""
    name = re.match(r"[A-Za-z]+(?=Backward)", operation)
    poles = POLES.get(name[0]) if name else None
    count = re.match(r"\d+ of \d+", source.remarks[0])
    if poles and count:
        return f"{count[0]} of its inputs are {poles}"
    line = f" in {source.place} (`{source.code}`)" if source.place else ""
    return f"in its {source.name.strip('_')}{line}, {'; '.join(source.remarks)}"


POLES = {"Sqrt": "0", "Acos": "1 or -1", "Asin": "1 or -1", "Log": "0", "Rsqrt": "0"}
"""Operation in autograd -> the inputs where its derivative is infinite."""


def _inside(source: Source, diagnosis: Diagnosis) -> str:
    """The module of a library that calls the operation rather than the user's line, "" if none."""
    if source.module is not None:
        return source.module if source.library or not source.place else ""
    inside = diagnosis.origin == "module" and bool(source.library or not source.place)
    return _module(diagnosis) if inside else ""


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
    if source is not None and source.backward and source.place:
        return (
            f"Look at {source.place}, in your own backward pass or hook. {_stable(source)}. {fix}"
        )
    if source is not None and (source.place or source.remarks) and not source.backward:
        place = " and ".join(filter(None, (source.place, _inside(source, diagnosis))))
        grown = any("matrix products before it grow" in each for each in source.remarks)
        look = f"Look at {place}. " if place else "" if grown else "Look at the loss. "
        return f"{look}{_stable(source)}. {fix}"
    operation = re.match(r"(\w+?)Backward", diagnosis.operation or "")
    stable = known.STABLE_FORMS.get(operation[1]) if operation else None
    if stable:
        return f"Use a stable form of that operation, in fp32{EPSILON}: {stable}. {fix}"
    if diagnosis.fault.startswith("non-finite"):
        places = {"module": f"the output of {_module(diagnosis)}", "loss": "the loss"}
        place = places.get(diagnosis.origin or "", "the first non-finite value")
        return f"Look at {place}. {known.NAN_SOURCES}. {fix}"
    return " ".join(filter(None, (known.STAGE_FIXES.get(diagnosis.fault), fix)))


def _stable(source: Source) -> str:
    """The remedy for what is unusual in the inputs of the operation."""
    stable = _stable_form(source) or known.NAN_SOURCES
    in_fp32 = f", in fp32{EPSILON}" * ("1e-" in stable)
    masked = any("-inf throughout" in each for each in source.remarks)
    of_torch = masked and re.search("MultiheadAttention|Transformer", source.module or "")
    return f"{stable}{in_fp32}{TRUE_IS_IGNORED * bool(of_torch)}"


EPSILON = " (in fp16 an epsilon below 3e-8 is 0)"
TRUE_IS_IGNORED = (
    ". In key_padding_mask and in a boolean attn_mask of torch.nn True means ignored, the opposite "
    "of attention_mask in transformers: pass attention_mask == 0"
)


def _stable_form(source: Source) -> str | None:
    """The same without a default: by what made the inputs, the remarks or the operation."""
    name = source.name.strip("_")
    for text, remedy in known.REMARK_FIXES:
        if any(text in each for each in source.remarks):
            made = re.search(r" in (\S+, line \d+)", source.origin)
            return remedy.replace("{origin}", f" ({made[1]})" if made else "")
    if made_by := known.MADE_BY_FIXES.get((name, source.made_by)):
        return made_by
    for text, remedy in known.ORIGIN_FIXES.get(name, ()):
        if not source.made_by and text in source.origin:
            return remedy
    if "SpectralNorm" in (source.module or "") or source.library.startswith("spectral_norm.py"):
        return known.SPECTRAL_FIX
    return known.OPERATION_FIXES.get(name) if source.remarks else None
