"""What `doctor explain` and `doctor list` print."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from doctor.judge.check import EVERYWHERE, MENDED_BY, Check
from doctor.judge.sources import SOURCES, Source, cite

WIDTH = 88


def explain(checks: Iterable[Check]) -> str:
    """Everything there is to say about each."""
    return "\n\n".join("\n".join(_explain(check)) for check in checks)


def _explain(check: Check) -> Iterator[str]:
    yield f"{check.code} {check.slug}: {check.title}"
    yield ""
    yield from _wrapped(check.why, "")
    yield ""
    for word, bullets in (("pass", check.passes), ("warn", check.warns), ("FAIL", check.fails)):
        for number, bullet in enumerate(bullets):
            yield from _wrapped(bullet, "      " if number else f"{word}  ")
    if check.limits:
        yield from _wrapped(check.limits, "A pass is no proof ")
    yield ""
    yield from _wrapped(check.fix, "Fix   ")
    for command in check.commands:
        yield f"      $ {command}"
    yield ""
    yield f"Mended by: {MENDED_BY[check.owner]}"
    if check.targets != EVERYWHERE:
        yield f"Applies to: {', '.join(check.targets)}"
    if check.after:
        yield f"Judged after: {', '.join(check.after)}"
    yield "Sources:"
    for id in check.sources:
        yield from _source(SOURCES[id])


def _source(source: Source) -> Iterator[str]:
    about = f" ({source.title})" if source.document else f", checked {source.checked}"
    yield f"  - {cite(source)}{about}"
    if source.correction:
        yield from _wrapped(f"but: {source.correction}", "    ")


def _wrapped(text: str, prefix: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.splitlines()):
        yield textwrap.fill(
            paragraph,
            WIDTH,
            initial_indent=prefix if number == 0 else " " * len(prefix),
            subsequent_indent=" " * len(prefix),
            break_long_words=False,
            break_on_hyphens=False,
        )


def table(checks: Iterable[Check]) -> str:
    """A line a check: code, slug, title."""
    return "\n".join(f"{check.code}  {check.slug:<26}  {check.title}" for check in checks)


def markdown_table(checks: Iterable[Check]) -> str:
    """The table of codes that the README shows."""
    rows = [f"| {check.code} | `{check.slug}` | {check.title} |" for check in checks]
    return "\n".join(["| code | slug | what is true when it passes |", "|---|---|---|", *rows])
