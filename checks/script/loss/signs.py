"""Losses whose sign or denominator is wrong, read with all names of the function written out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import (
    formulas,
    lines,
    lines_of,
    render,
    returned,
    statements,
    texts_in,
    written_out,
)
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Function

MINIMIZED = re.compile(r"dice|iou|jaccard|overlap|tversky|f1|ssim")
SHARES = re.compile(r"\(\(*(?:\(2(?:\.0)?\*|2(?:\.0)?\*).*\)/\(.*\+.*\)\)(?:\.mean\([\w=,()]*\))?")
"""2 * common / sum, and its mean."""
SHARE = re.compile(
    r"\(\(?\w*inter\w*(?:\+[\w.]+\))?/\(?\w*union\w*(?:\+[\w.]+\))?\)(?:\.mean\(\))?"
)
SMOOTHED = re.compile(r"torch\.full(?:_like)?\(.*,\((?P<s>[\w.]+)/\([\w.]+-[12]\)\)")
COMPLEMENT = "Return 1 - overlap."
AXIS = re.compile(r"[=,(\[:]-\d")
BOXES = re.compile(r"(?:generalized_|complete_|distance_)?box_iou\(")
LIKELY = re.compile(r"focal|nll|neg_?log|cross_?entropy|info_?nce|nt_?xent|likelihood_?loss")
LOGARITHM = re.compile(r"log_softmax\(|logsigmoid\(|\.log_prob\(|(?:torch)?\.log\(")
OF_TORCH = re.compile(
    r"cross_entropy|nll_loss|NLLLoss|BCE|binary_cross|kl_div|Loss\(|(?<!\.)loss\("
)
"""Functions that give the negative of a logarithm, or something of another file."""
ADDED = r"(?<![a-z])(?:bce|ce|loss|cross_entropy)(?![a-z])"
NEGATED = re.compile(r"neg(?:ative)?\(|(?:mul|multiply|div)_?\([^()]*-|reciprocal\(|pow\(-")
"""A minus that is a function."""
NO_SIGN = re.compile(r"\(1(?:\.0)?-|[=,(\[:]-\d+(?![\d.]*\*)|1e-\d+|\d-\d")
"""A minus of 1 - p, of an axis, an index or a power of ten."""
AREAS = re.compile(r"\((?P<one>[\w.\[\]:,()=]+)\+(?P<two>[\w.\[\]:,()=]+)\)")
DIVIDED = re.compile(r"(?P<top>.*)/\(*(?P<name>\w*union\w*)\b")


def signs_hold(reading: Training) -> Iterator[Match]:
    for number, function in enumerate(reading.script.functions):
        named = f"{function.owner}.{function.name}".casefold()
        whole = "loss" in function.name.casefold() or function.name in ("forward", "__call__")
        if whole and "loss" in named and MINIMIZED.search(named):
            yield from _overlap(reading, number, function)
        if LIKELY.search(named) and not re.search("__init__|weight", named):
            yield from _likelihood(reading, number, function)
    yield from _unions(reading)
    yield from _precisions(reading)
    yield from _overlap_in_sum(reading)
    yield from _smoothed_truth(reading)


def _smoothed_truth(reading: Training) -> Iterator[Match]:
    """full_like(x, s / (n - 1)), and scatter_(1, target, s): the true class gets 1 - s."""
    for call in reading.named("scatter_"):
        value = call.args[2] if len(call.args) > 2 else call.keywords.get("value")
        for line in lines_of(reading, call.scope, call.receiver) if value is not None else ():
            share = SMOOTHED.search(line.text)
            if share and value is not None and value.name == share["s"]:
                yield Match(
                    call.span,
                    f"the true class gets {share['s']}: 1 - {share['s']} is meant",
                    fix=f"scatter_(1, target, 1 - {share['s']})",
                )


def _overlap_in_sum(reading: Training) -> Iterator[Match]:
    """bce + dice(p, y), where dice() of this file returns the overlap."""
    functions = {
        function.name
        for number, function in enumerate(reading.script.functions)
        if function.returns and "loss" not in function.name.casefold()
        and all(SHARES.fullmatch(text) for text, _ in returned(reading, number))
    }  # fmt: skip
    names: dict[int, list[str]] = {}
    for each in reading.assignments if functions else ():
        called = reading.call_of(each.value)
        if called is not None and called.method in functions:
            names.setdefault(each.scope, []).append(re.escape(each.target))
    for text, span, scope in reading.cached(statements) if functions else ():
        added = "|".join([*names.get(scope, ()), *(rf"{f}\([^-]*\)" for f in functions)])
        term = rf"(?:\([\w.]+\*(?:{added})\)|(?:{added}))"
        if re.fullmatch(rf"\((?:[^-]*{ADDED}[^-]*)\+{term}\)", text):
            yield Match(
                span, "the overlap is minimized: 1 minus it is the term of a loss", fix=COMPLEMENT
            )


def _overlap(reading: Training, number: int, function: Function) -> Iterator[Match]:
    """A dice loss that returns the overlap itself, and no caller turns it around."""
    if is_turned(reading, function):
        return
    as_written = (render(reading, value) for value in function.returns)
    for (text, span), short in zip(returned(reading, number), as_written, strict=True):
        boxes = BOXES.search(text) and "-" not in AXIS.sub("", text)
        if SHARES.fullmatch(text) or SHARE.fullmatch(short) or boxes:
            yield Match(span, "the overlap is minimized: a loss is 1 minus it", fix=COMPLEMENT)


def _likelihood(reading: Training, number: int, function: Function) -> Iterator[Match]:
    """A loss of logarithms of probabilities without a minus, in itself and where it is called."""
    if is_turned(reading, function):
        return
    for text, span in returned(reading, number):
        plain = NO_SIGN.sub("", text)
        if LOGARITHM.search(text) and "-" not in plain and not (
            OF_TORCH.search(text) or NEGATED.search(text)
        ):  # fmt: skip
            whole = re.fullmatch(r".*(?:\.mean|\.sum)\([\w=,()-]*\)", text) and "/" not in plain
            if (whole and "**" in text) or (whole and "log_prob(" in text):
                yield Match(
                    span,
                    "the loss is a mean of log-probabilities without a minus: it is raised",
                    fix="Return the negative: -log_prob.mean().",
                )


def is_turned(reading: Training, function: Function) -> bool:
    """1 - dice_loss(...), -nll(...), or a name of which the file takes the negative."""
    name = function.owner if function.name in ("forward", "__call__") else function.name
    table = reading.cached(_held)
    held = table.get(name, set())  # an instance, or a result; and the results of an instance
    named = {name, *held}.union(*(table.get(each, ()) for each in held))
    return not reading.cached(_negatives).isdisjoint(named)


def _held(reading: Training) -> dict[str, set[str]]:
    """Function -> names that hold what it returns."""
    table: dict[str, set[str]] = {}
    for line in reading.cached(lines):
        for name in re.findall(r"(\w+)\(", line.text):
            table.setdefault(name, set()).add(line.target)
    return table


def _negatives(reading: Training) -> set[str]:
    """Names of which a formula of the file takes the negative: f, g and x of -f(g(x))."""
    found: set[str] = set()
    texts = [text for text, _, _ in reading.cached(formulas)]
    texts += [render(reading, c.base) for c in reading.named("backward") if c.base is not None]
    for text in texts:
        for chain in re.findall(r"-\(?(?:\w+\*)?((?:[\w.]+\()*[\w.]+)", text):
            parts = chain.split("(")
            found |= {name for part in parts for name in (part, part.rpartition(".")[2])}
    return found


PRECISION = re.compile(
    r"(?:torch\.exp\((?P<a>[\w.\[\]]+)\)|(?P<b>[\w.\[\]]+)\.exp\(\))\*(?P<loss>[\w.\[\]()]*?loss\w*|\w+)\)+"
    r"\+\(?(?:0?\.5\*)?(?:(?P=a)|(?P=b))(?![\w.\[])"
)
"""exp(s) * loss + s."""


def _precisions(reading: Training) -> Iterator[Match]:
    """exp(s) * loss + s, whose minimum is at s = -inf: the weight of a task is exp(-s)."""
    for text, span, scope in (
        reading.cached(statements)
        if reading.mentions("log_var", "logvar", "log_sigma", "log_vars")
        else ()
    ):
        found = PRECISION.search(written_out(reading, scope, text)) if "+" in text else None
        name = (found["a"] or found["b"]) if found else ""
        if re.search(r"log_?(?:var|sigma)|(?:^|\.)s\b", name) and found:
            yield Match(
                span,
                f"{name} grows the loss twice: the weight of a task is exp(-{name})",
                fix=f"torch.exp(-{name}) * loss + {name}",
            )


def _unions(reading: Training) -> Iterator[Match]:
    """inter / union, where the union is the sum of both areas."""
    for text, span, scope in reading.cached(statements):
        divided = DIVIDED.match(text)
        if divided is None or not re.search(r"inter", divided["top"]) or "2*" in text:
            continue
        name = divided["name"]
        own = texts_in(reading, scope)
        sums = lines_of(reading, scope, name)
        areas = AREAS.fullmatch(sums[0].text) if len(sums) == 1 else None
        if areas is None or any(re.search(rf"\b{name}-|-\(?\w*inter", each) for each in own):
            continue
        doubled = any(re.search(r"(?<![\w.])2(?:\.0)?\*|\*2|/2|0\.5|mul\(", each) for each in own)
        parts = (areas["one"], areas["two"])
        if doubled or any(re.search(r"1e-|eps|smooth|inter", part) for part in parts):
            continue
        yield Match(
            span,
            f"{name} counts the intersection twice: it is the sum of both minus it",
            fix="union = area_a + area_b - inter",
        )
