"""What relations between fields, rows, passes and splits mean: one row for each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from doctor._util.units import listed, shown
from doctor.checks.data.cited import cited
from doctor.checks.data.seen import observed, rows, share
from doctor.facts.data_rows import Relation, RelationKind
from doctor.judge.check import Verdict, fail, note


@dataclass(frozen=True, slots=True)
class Meaning:
    """The sentence of a relation, with {fields}, {names[0]}, or {first}, {second}, {third} and
    {others} of them, and {0}, {1} for its numbers."""

    text: str
    fix: str
    least: float = 0.05
    """Share from which on it is a warning, below that it is nothing. Our own numbers."""
    noted: bool = False
    """It may be meant: a note."""
    noted_below: bool = False
    """Below that share it is a note."""
    broken: bool = False
    """The training ends at the first such row: a failure."""
    by_row: bool = False
    """A row has it by itself, so that some of few rows are enough for a warning."""
    single: bool = False
    """It holds for the whole or not at all, and has no share."""
    explained: bool = False
    """Its numbers are what is explained: below 0 that is nothing."""


Meanings = Mapping[RelationKind, Meaning]


def verdicts(relations: Iterable[Relation], meanings: Meanings) -> list[Verdict]:
    """Those of the relations that have a meaning here, and hold often enough."""
    known = [(each, meanings[each.kind]) for each in relations if each.kind in meanings]
    return [
        _verdict(each, meaning)
        for each, meaning in known
        if meaning.noted_below or _is_often(each, meaning)
    ]


def _is_often(relation: Relation, meaning: Meaning) -> bool:
    return relation.part >= meaning.least * relation.whole


def _verdict(relation: Relation, meaning: Meaning) -> Verdict:
    return replace(_judged(relation, meaning), sources=cited(relation.kind))


def _judged(relation: Relation, meaning: Meaning) -> Verdict:
    numbers = [
        "nothing" if meaning.explained and each < 0 else _number(each)
        for each in map(float, relation.numbers)
    ]
    fields = [shown(each) for each in relation.fields]
    names = [*fields, "another column", "another column"]  # a facts file may name fewer
    text = meaning.text.format(*numbers, names=names, fields=listed(fields, 4), **_places(relation))
    split = f"{shown(relation.split)}: " if relation.split else ""
    if meaning.single:
        text = split + text
        return note(text, fix=meaning.fix) if meaning.noted else observed(text, 64, fix=meaning.fix)
    whole = split + share(relation.part, relation.whole, text)
    where = f": {rows(relation.rows, relation.lines)}" if relation.rows else ""
    if meaning.noted or not _is_often(relation, meaning):
        return note(f"{whole}{where}", fix=meaning.fix)
    if meaning.broken:
        return fail(f"{whole}{where}", fix=meaning.fix)
    faulty = relation.part if meaning.by_row else 0
    return observed(f"{whole}{where}", relation.whole, faulty=faulty, fix=meaning.fix)


def _places(relation: Relation) -> dict[str, str]:
    """The first three fields, and those behind the first."""
    each = [shown(one) for one in relation.fields]
    return {
        "first": each[0] if each else "",
        "second": each[1] if len(each) > 1 else "",
        "third": each[2] if len(each) > 2 else "",
        "others": listed(each[1:], 3),
    }


def _number(value: float) -> str:
    """ "16,000", "0.2175"."""
    whole = value.is_integer() and abs(value) < 1e7
    return f"{value:,.0f}" if whole else f"{value:.4g}"
