"""A rule on files that belong together by their place in two lists."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment
from doctor.facts.script_machine import ScriptMachine

LISTS = {"listdir", "glob", "iterdir", "rglob", "scandir"}
ORDERS = {"sorted", "natsorted", "sort"}
Key = tuple[object, str]


def paired_unsorted(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    lists: dict[Key, Assignment] = {}
    for each in reading.script.assignments:
        names = {reading.calls[n].method for n in (each.value.call, *each.value.calls) if n >= 0}
        if each.value.kind in ("call", "other") and names & LISTS:
            lists[reading.key(each.target, each.scope)] = each
    unsorted = {key for key, each in lists.items() if not _is_sorted(reading, key, each)}
    for one, other in _read_together(reading) if unsorted else ():
        if one != other and {one, other} <= lists.keys() and {one, other} & unsorted:
            first = one if one in unsorted else other
            second = other if first == one else one
            message = f"{first[1]} and {second[1]} are paired by place, and {first[1]} is unsorted"
            yield Match(lists[first].span, message)
            return


def _is_sorted(reading: Training, key: Key, each: Assignment) -> bool:
    """sorted(...) in the assignment or a later one of the name, or name.sort()."""
    inside = {reading.calls[n].method for n in (each.value.call, *each.value.calls) if n >= 0}
    later = any(
        reading.key(call.receiver, call.scope) == key
        or any(reading.key(name, call.scope) == key for v in call.args[:1]
               for name in (v.name, *v.names) if name)
        for n in reading.methods(*ORDERS)
        for call in (reading.calls[n],)
    )  # fmt: skip
    return bool(inside & ORDERS) or later or len(reading.assigned.get(key, ())) > 1


def _read_together(reading: Training) -> Iterator[tuple[Key, Key]]:
    """zip(a, b), and a[i] beside b[i] in one function."""
    for n in reading.methods("zip"):
        call = reading.calls[n]
        keys = [reading.key(v.name, call.scope) for v in call.args if v.kind == "name"]
        yield from itertools.pairwise(keys)
    at: dict[tuple[int, str], list[Key]] = {}
    for value, _, scope in reading.expressions:
        for part in flatten([value]):
            if part.kind == "item" and [v.kind for v in part.items] == ["name", "name"]:
                place = at.setdefault((scope, part.items[1].name), [])
                place.append(reading.key(part.items[0].name, scope))
    for keys in at.values():
        yield from ((one, other) for one in keys for other in keys)


RULES = (
    Rule(
        code="SCR333",
        slug="files-paired-unsorted",
        title="Lists of files that belong together are sorted",
        severity="warn",
        find=paired_unsorted,
        why="The order of os.listdir() and glob() is that of the file system: images get masks of "
        "others, on one machine and not on the next.",
        fires=(
            "two lists of os.listdir, glob or iterdir, one of them unsorted, that are zipped or "
            "read at one index",
        ),
        fix="Sort both lists, or derive the second name from the first.",
        sources=("python-listdir",),
        needs=tuple(sorted(LISTS)),
    ),
)
