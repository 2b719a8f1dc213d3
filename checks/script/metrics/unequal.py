"""Shares of right answers per batch that are averaged, where the last batch is smaller."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rendering import formulas, render, written_out
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Span, Value

SHARE = re.compile(r"==.*\)\.(?:float|to|double)\([\w.]*\)\.mean\(\)|\.eq\(.*\.mean\(\)")
MESSAGE = "the last batch is smaller, and its accuracy counts as much as each other"
FIX = "Add up (pred == y).sum() and len(y), and divide once."


def unequal_batches(reading: Training) -> Iterator[Match]:
    """acc += (pred == y).float().mean(), and acc / len(loader), whose last batch is smaller."""
    loaders = _with_a_rest(reading)
    for each in reading.assignments if loaders else ():
        if not each.augmented or each.operator != "Add" or not each.loops:
            continue
        share = _share(reading, each, each.value, loaders)
        if "*" in share.partition("==")[0]:
            continue
        for loader in _sources(reading, each, loaders) if share else ():
            span = reading.cached(_quotients).get((each.scope, each.target, loader))
            if span is not None:
                yield Match(span, MESSAGE, "note", fix=FIX)
    yield from _of_lists(reading, loaders)


def _with_a_rest(reading: Training) -> set[str]:
    """Names of loaders of batches of several samples that keep the last one."""
    made = [c for c in reading.named("DataLoader") if len(c.targets) == 1 and not c.unpacked]
    return {call.targets[0] for call in made if _keeps_rest(reading, call)}


def _keeps_rest(reading: Training, call: Call) -> bool:
    size = evaluate.argument(reading, call, "batch_size", 1)
    literals = evaluate.literals(reading, size, call) if size is not None else {1}
    drops = call.keywords.get("drop_last")
    kept = drops is None or drops.literal is False
    whole = size is not None and "len(" in render(reading, size)
    return kept and not whole and 1 not in literals and "batch_sampler" not in call.keywords


def _sources(reading: Training, place: Assignment | Call, loaders: set[str]) -> set[str]:
    """Those of the loaders that the loop around it goes over."""
    over = reading.iterable_of(place)
    return set(over.all_names if over else ()) & loaders


def _share(reading: Training, place: Assignment | Call, value: Value, loaders: set[str]) -> str:
    """A share of right answers, of batches of an evaluation, as it is written out; "" else."""
    if not _sources(reading, place, loaders) or not reading.under_no_grad(place.contexts):
        return ""
    whole = written_out(reading, place.scope, render(reading, value))
    return whole if SHARE.search(whole) else ""


def _of_lists(reading: Training, loaders: set[str]) -> Iterator[Match]:
    """accs.append((pred == y).float().mean()), and the mean of them."""
    for call in reading.named("append") if loaders else ():
        if len(call.args) != 1 or not _share(reading, call, call.args[0], loaders):
            continue
        span = reading.cached(_means).get((call.scope, call.receiver))
        if span is not None:
            yield Match(span, MESSAGE, "note", fix=FIX)


QUOTIENT = re.compile(r"\b(?P<sum>[\w.]+)\)?/len\((?P<of>[\w.]+)\)")
MEAN = re.compile(r"sum\((?P<a>[\w.]+)\)/len\((?P=a)\)|(?:\.|^)mean\((?P<b>[\w.]+)\)")


def _quotients(reading: Training) -> dict[tuple[int, str, str], Span]:
    """Sums that are divided by a number of batches: scope, sum and loader."""
    table: dict[tuple[int, str, str], Span] = {}
    for text, span, scope in reading.cached(formulas):
        for found in QUOTIENT.finditer(text):
            table.setdefault((scope, found["sum"], found["of"]), span)
    return table


def _means(reading: Training) -> dict[tuple[int, str], Span]:
    """Lists whose mean is taken."""
    table: dict[tuple[int, str], Span] = {}
    for text, span, scope in reading.cached(formulas):
        for found in MEAN.finditer(text):
            table.setdefault((scope, found["a"] or found["b"]), span)
    return table
