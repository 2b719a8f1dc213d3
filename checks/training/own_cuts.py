"""Where the path from a parameter to the loss ends, in words, and what to do there."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from doctor.checks.training import cut_fixes as known
from doctor.facts.diagnosis import Cut
from doctor.facts.training import Parameter, Smoke

MOST = 3
"""Places in a summary."""

CLAUSES = {
    "detached": "the path to the loss ends at {name} in {where}",
    "number": "the path to the loss ends at {name} in {where}, which returns numbers without graph",
    "no_grad": "the path to the loss ends in {where}: {name} runs under torch.no_grad()",
    "indices": "the path to the loss ends at {name} in {where}: indices, integers and comparisons "
    "have no gradient",
    "constant": "the path to the loss ends at {name} in {where}, whose result has no graph",
    "unused": "nothing was seen to use the result of {name} in {where}",
    "zero": "the gradient becomes 0 in {name}, of {where}",
    "none": "the backward pass of {name}, of {where}, returns None for it",
    "small": "the gradient shrinks in {name}, of {where}",
    "replaced": "the forward pass replaces it by a new parameter",
    "hook": "the hook {name} on it, in {where}, makes its gradient 0",
    "result hook": "a hook on the result of {where} makes it 0: {name}",
    "cancelled": "gradients that are not 0 add up to 0 in {name}, of {where}",
}
"""Kind of a cut -> what was observed."""

NO_LINE = "a library"


def clause(cuts: Sequence[Cut]) -> str:
    """What was observed about the parameters without a gradient, "" if nothing was."""
    names: dict[tuple[str, str], list[str]] = {}
    remarks: dict[tuple[str, str], list[str]] = {}
    for cut in cuts:
        key = cut.kind, _where(cut)
        name = f"{cut.remark}, {cut.name}," if cut.remark == "sample()" else cut.name
        for texts, text in ((names, name), (remarks, cut.remark.replace("sample()", ""))):
            together = texts.setdefault(key, [])
            together += [] if text in together or not text else [text]
    return "; ".join(_sentence(*key, names[key], remarks[key]) for key in list(names)[:MOST])


def _where(cut: Cut) -> str:
    """The line with its code, and the module of torch that it calls."""
    line = f"{cut.place}{f' (`{cut.code}`)' if cut.code else ''}"
    return ", in ".join(filter(None, (line, cut.module))) or NO_LINE


def _sentence(kind: str, where: str, names: Sequence[str], remarks: Sequence[str]) -> str:
    if kind == "result hook" and where == NO_LINE:
        return f"a hook on the backward pass makes it 0: {', '.join((*names, *remarks))}"
    observed = f": {', '.join(remarks)}" if remarks else ""
    return f"{CLAUSES[kind].format(name=', '.join(names), where=where)}{observed}"


def fix(cuts: Sequence[Cut]) -> str:
    """The remedy for the first kinds of cuts, as sentences; "" if there are none.

    A factor of 0 that
    another operation made follows from it."""
    causes = [each for each in cuts if ", the result of" not in each.remark] or cuts
    if any(each.kind == "indices" for each in causes):  # a codebook's loss detaches on purpose
        causes = [each for each in causes if each.kind != "detached"]
    return " ".join(dict.fromkeys(f"{_fix(each)}." for each in causes[:MOST]))


def layers_of_zeros(without: Sequence[Parameter], observed: str) -> str:
    """A sentence for parameters of 0 that were seen to stop the gradient: two factors, as in LoRA,
    of which one may be 0, or layers that an initialization made 0, one after the other of which
    would stop it."""
    if known.RANDOM not in observed:
        return ""
    matrices = [each.name for each in without if (each.dimensions or 0) > 1]
    others = [name for name in matrices if name not in observed]
    if len(matrices) < 3 or not others:
        return " Of two parameters that multiply each other, as A and B of LoRA, one may be 0."
    more = ", ..." * (len(others) > MOST)
    return (
        f" If one initialization made all layers 0 ({', '.join(others[:MOST])}{more}), change it "
        "for each of them."
    )


def pairs_of_zeros(without: Sequence[Parameter], observed: str) -> str:
    """The remedy where each module has two such matrices, as A and B of LoRA; "" elsewhere."""
    matrices = [each.name for each in without if (each.dimensions or 0) > 1]
    held: dict[str, list[str]] = defaultdict(list)
    for name in matrices:
        held[name.rpartition(".")[0]].append(name)
    if known.RANDOM not in observed or {len(each) for each in held.values()} != {2}:
        return ""
    one, other = next(iter(held.values()))
    more = f", in {len(held)} modules" * (len(held) > 1)
    return (
        f"Draw one of {one} and {other}, which multiply each other{more}, at random where it is "
        "made (torch.nn.init.kaiming_uniform_), as A of LoRA, and leave the other at 0."
    )


def _fix(cut: Cut) -> str:
    place = cut.module or cut.place or "the library"
    operation = re.sub(r"Backward\d*$", "", cut.name)
    if special := _observed(cut) or _special(cut, cut.place or place):
        return special
    if cut.kind == "small":
        return f"Look at {place}: {_small(operation)}"
    if cut.kind != "zero":
        name = operation if cut.kind == "none" else cut.name
        by_name = {
            key: next(text for names, text in table if re.fullmatch(names, cut.name))
            for key, table in (("numbers", known.NUMBERS), ("indices", known.INDICES))
        }
        return known.FIXES[cut.kind].format(name=name, place=cut.place or place, **by_name)
    return _of_zero(cut, place, operation)


def _observed(cut: Cut) -> str:
    """The remedy for a hook with a variable of zeros, or for the states of a recurrent layer."""
    if cut.kind in ("hook", "result hook") and known.ZERO_VARIABLE in cut.remark:
        where = f"{cut.name} in {cut.place}" if cut.kind == "hook" and cut.place else cut.name
        return known.ZERO_IN_HOOK.format(name=where)
    if (part := known.LEFT_OUT.search(cut.remark)) and re.search(r"\((LSTM|GRU|RNN)\)", cut.module):
        return known.DIRECTIONS.format(place=part[1])
    if cut.kind == "zero" and _of_zero_state(cut):
        return known.STATE.format(place=cut.place or cut.module or "the library")
    return ""


def _of_zero_state(cut: Cut) -> bool:
    """Whether it is the initial state of 0 of a recurrent layer that its weights multiply."""
    if not cut.parameters or not all(known.OF_STATE.fullmatch(name) for name in cut.parameters):
        return False
    fused = re.search("Rnn|Lstm|Gru", cut.name) and not cut.remark
    return bool(fused or known.ZERO_STATE.fullmatch(cut.origin))


def _special(cut: Cut, place: str) -> str:
    """The remedy of one function or form of code, "" if there is none of its own."""
    if cut.name == "CheckpointFunction":
        return known.REENTRANT
    if cut.remark == "sample()":
        return known.SAMPLED.format(place=place)
    if cut.kind == "detached" and known.THROUGH.search(cut.code):
        return known.OWN_LOSS.format(place=cut.place)
    if cut.kind in ("constant", "indices", "no_grad") and cut.name in known.BY_NAME:
        return known.BY_NAME[cut.name].format(place=place)
    return ""


def _of_zero(cut: Cut, place: str, operation: str) -> str:
    """What to do about an operation that makes a gradient 0, by what was observed in its inputs."""
    if "Dropout" in cut.module:
        return f"Look at {place}: its probability is 1, which drops everything"
    if cut.origin and not cut.origin_place and not cut.origin.startswith("the parameter"):
        return known.EMPTY_DATA.format(name=cut.origin)
    if cut.origin and cut.origin_place:
        made = next((text for names, text in known.ORIGINS if re.fullmatch(names, cut.origin)), "")
        return f"Look at {cut.origin_place}: {made or known.ZEROED.format(name=cut.origin)}"
    if part := known.LEFT_OUT.search(cut.remark):
        place = part[1]
    if reason := next((text for part, text in known.REMARKS if part in cut.remark), None):
        return f"Look at {place}: {reason.format(name=_parameter(cut.remark))}"
    reason = next(
        (text for names, text in known.ZEROS if re.fullmatch(f"(?:{names})", operation)), known.ZERO
    )
    return f"Look at {place}: {reason}"


def parameter_of_zero(cut: Cut) -> str:
    """The parameter that is 0 throughout and makes the gradient 0; "" where it is no such cut."""
    found = known.PARAMETER.search(cut.origin or cut.remark) if cut.kind == "zero" else None
    return "" if found is None or found[1] else found[2]


def _parameter(remark: str) -> str:
    """The parameter of 0 that a remark names, or the layer whose result is 0 because of it."""
    found = known.PARAMETER.search(remark)
    if found and found[1] and found[2].endswith((".weight", ".bias")):
        return f"the weight of {found[2].rpartition('.')[0]}"
    return found[2] if found else "that parameter"


def _small(operation: str) -> str:
    """What to do about an operation that makes a gradient a million times smaller."""
    saturating = "Sigmoid|Tanh|Softmax|LogSoftmax|Erf|Gelu|Silu|Softplus|Elu"
    if re.fullmatch(saturating, operation):
        return "it is saturated: normalize its inputs, so that they are near 0"
    return "remove the tiny factor, or divide by the count once and not twice"


def fix_of_zero_loss(cuts: Sequence[Cut]) -> str:
    """The remedy for a loss and gradients of exactly 0."""
    hinge = [c for c in cuts if re.match("(Relu|ReLU|Clamp|Threshold)", c.name)]
    return SATISFIED.format(place=hinge[0].place or "the loss") if hinge else fix(cuts)


SATISFIED = (
    "Look at {place}: the loss is cut off at 0 for every sample. Check the sign of what it "
    "compares; if all samples satisfy a margin, take a larger margin or harder samples."
)


def of_zero_loss(steps: Smoke) -> tuple[Cut, ...]:
    """The cuts that explain a loss and gradients of exactly 0."""
    diagnosis = steps.diagnosis
    return diagnosis.cuts if diagnosis and diagnosis.fault == "zero loss" else ()


def of(cuts: Sequence[Cut], parameters: Sequence[Parameter]) -> list[Cut]:
    """The cuts that concern these parameters, those of the most parameters first."""
    names = {each.name for each in parameters}
    concerned = [c for c in cuts if c.kind in CLAUSES and names.intersection(c.parameters)]
    return sorted(concerned, key=lambda each: -len(each.parameters))
