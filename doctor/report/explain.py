"""What `doctor explain` and `doctor list` print."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby

from doctor._util.owner import OWNERS
from doctor.judge.described import EVERYWHERE, Described
from doctor.judge.families import FAMILIES
from doctor.judge.sources import SOURCES, cite
from doctor.report import addresses
from doctor.report.conditions import conditions, limitations

WIDTH = 88
LISTED = (
    "A title is what holds when the check passes. `doctor list GPU` prints a part of this list, "
    "`doctor explain GPU003` a check."
)


def explain(checks: Iterable[Described]) -> str:
    """The full text of each check."""
    return "\n\n".join("\n".join(_explain(check)) for check in checks)


def _explain(check: Described) -> Iterator[str]:
    yield f"{check.code} {check.slug}: {check.title}"
    yield ""
    yield from wrapped(check.why, "")
    for heading, bullets in conditions(check):
        yield ""
        yield f"{heading} when:"
        for bullet in bullets:
            yield from wrapped(bullet, "  - ")
    yield ""
    yield from wrapped(check.fix, "Fix: ", indent=2)
    for command in check.commands:
        yield f"  $ {command}"
    yield ""
    yield f"Fix owner: {OWNERS[check.owner]}"
    if check.limits:
        yield from wrapped(limitations(check.limits), "Limitations: ", indent=2)
    if check.targets != EVERYWHERE:
        yield f"Applies to: {', '.join(check.targets)}"
    if check.after:
        yield f"Depends on: {', '.join(check.after)}"
    yield "Sources:"
    for id in check.sources:
        yield from cited(id)
    yield f"Page: {addresses.check(check.code)}"


def cited(id: str) -> Iterator[str]:
    """A source, with its correction where it is wrong."""
    source = SOURCES[id]
    details = f" ({source.title})" if source.document else f", checked {source.checked}"
    yield f"  - {cite(source)}{details}"
    if source.correction:
        yield from wrapped(f"correction: {source.correction}", "    ")


def columns() -> int:
    """Columns of a text: `WIDTH`, or those of a narrower terminal."""
    if not sys.stdout.isatty():
        return WIDTH
    return min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)


def wrapped(
    text: str, prefix: str, indent: int | None = None, width: int | None = None
) -> Iterator[str]:
    """Lines of at most `width` columns, those of the terminal if None; later ones are indented, by
    the prefix's width if None. Quoted text has its bar on every line."""
    quoted = prefix.endswith("| ")
    margin = prefix if quoted else " " * (len(prefix) if indent is None else indent)
    for number, paragraph in enumerate(text.splitlines()):
        yield textwrap.fill(
            paragraph,
            width or columns(),
            initial_indent=margin if number else prefix,
            subsequent_indent=margin,
            break_long_words=False,
            break_on_hyphens=False,
        )


def table(checks: Iterable[Described]) -> str:
    """One line per check: code, slug, title."""
    return "\n".join(f"{check.code}  {check.slug:<26}  {check.title}" for check in checks)


def listing(checks: Iterable[Described]) -> str:
    """The checks below the names of their families: code, slug, title."""
    lines: list[str] = []
    for family, group in groupby(checks, key=lambda check: check.family):
        members = list(group)
        width = max(len(check.slug) for check in members)
        lines += ["", f"{family}: {FAMILIES[family]}"]
        lines += [line for check in members for line in _row(check, width)]
    return "\n".join([*lines[1:], "", *wrapped(LISTED, "")])


def _row(check: Described, width: int) -> Iterator[str]:
    """One line; on a terminal as many as its title needs."""
    prefix = f"  {check.code}  {check.slug:<{width}}  "
    if sys.stdout.isatty():
        yield from wrapped(check.title, prefix, width=shutil.get_terminal_size().columns)
    else:
        yield prefix + check.title


def markdown_table(checks: Iterable[Described]) -> str:
    """The table of codes in docs/checks/README.md."""
    rows = [f"| {check.code} | `{check.slug}` | {check.title} |" for check in checks]
    return "\n".join(["| code | slug | true when the check passes |", "|---|---|---|", *rows])
