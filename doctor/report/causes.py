"""What is printed about causes of errors, by `doctor explain`, triage and reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

from doctor._util.owner import OWNERS
from doctor._util.units import shown
from doctor.errors.cause import Cause
from doctor.errors.match import table_of
from doctor.report import addresses
from doctor.report.explain import cited, wrapped

DECIDED = "Found by: doctor triage, where the log states its settings"


MOST_ASKED = 3
"""Things that a text in words could be."""


def are_new(fixes: Sequence[str]) -> list[bool]:
    """Which of the fixes do not begin with the sentence that one before them begins with."""
    leads = [fix.partition(". ")[0] for fix in fixes]
    return [lead not in leads[:number] for number, lead in enumerate(leads)]


def proposed(text: str, causes: Sequence[Cause]) -> str:
    """The causes of a text, each with what distinguishes it; what its words only suggest, as
    questions."""
    causes = [*compress(causes, are_new([each.fix for each in causes]))]
    quoted = wrapped(shown(" ".join(text.split()), 400), "  | ")
    if causes[0].words:
        causes = causes[:MOST_ASKED]
        head = [*wrapped(_undecided(len(causes)), ""), "", *quoted]
    else:
        head = [*quoted]
        if len(causes) > 1:
            head.append(f"\n{len(causes)} causes have such a message, the most frequent first:")
    return "\n".join(head) + "\n\n" + "\n\n".join("\n".join(_proposed(each)) for each in causes)


def pages(causes: Iterable[Cause]) -> str:
    """The full text of each cause."""
    return "\n\n".join("\n".join(_page(each)) for each in causes)


def _undecided(number: int) -> str:
    which = "this, or something else" if number == 1 else f"one of these {number}, or none"
    return f"Words alone decide nothing. It could be {which}:"


def _asked(cause: Cause) -> Iterator[str]:
    """A symptom as a question: what to try, and what can decide it."""
    yield cause.id
    yield from wrapped(f"Is it this? {cause.why}", "")
    yield ""
    yield from wrapped(cause.fix, "Try: ", indent=2)
    if cause.commands:
        yield "What can decide it:"
        yield from (f"  $ {command}" for command in cause.commands)
    if cause.sources:
        yield "Sources:"
        for id in cause.sources:
            yield from cited(id)


def _proposed(cause: Cause) -> Iterator[str]:
    if cause.words:
        yield from _asked(cause)
        return
    yield f"{cause.code} {cause.id}".strip()
    yield from wrapped(cause.why, "")
    if cause.told_by:
        yield from wrapped(f"It is this one where {cause.told_by}.", "")
    yield from _remedy(cause)


def _page(cause: Cause) -> Iterator[str]:
    yield cause.id
    yield ""
    yield from wrapped(cause.why, "")
    if cause.told_by:
        yield from wrapped(f"It is this one where {cause.told_by}.", "")
    yield ""
    if cause.examples:
        yield "Messages:"
    worded = {(each.example, *each.more)[-1]: each for each in cause.wordings}
    for example in cause.examples:
        yield from wrapped(shown(example, 400), "  | ")
        if example in worded:
            yield from wrapped(worded[example].why, "  ", indent=2)
            yield from wrapped(worded[example].fix, "  Fix: ", indent=4)
            yield from (f"    $ {command}" for command in worded[example].commands)
    if cause.role == "setting":
        yield DECIDED
    yield from _remedy(cause)
    yield f"Page: {addresses.cause(table_of(cause), cause.id)}"


def _remedy(cause: Cause) -> Iterator[str]:
    yield ""
    if not cause.fix:
        return
    yield from wrapped(cause.fix, "Fix: ", indent=2)
    for command in cause.commands:
        yield f"  $ {command}"
    yield f"Fix owner: {OWNERS[cause.owner]}"
    if cause.next_check:
        yield f"Found before a run by: {cause.next_check}"
    if cause.sources:
        yield "Sources:"
        for id in cause.sources:
            yield from cited(id)
