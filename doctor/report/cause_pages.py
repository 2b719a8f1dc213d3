"""The pages of docs/errors: one in Markdown per table of causes, with an anchor for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from doctor._util.owner import OWNERS
from doctor.errors.cause import BY_WORDING, Cause
from doctor.errors.retired import RETIRED
from doctor.judge.sources import SOURCES
from doctor.report.causes import DECIDED
from doctor.report.pages import cited, plain


def page(title: str, causes: Iterable[Cause]) -> str:
    """The causes of a table."""
    return f"# {plain(title)}\n\n{sections(causes)}"


def sections(causes: Iterable[Cause]) -> str:
    """A section for each cause, with anchors of its older ids; a check refers to its page."""
    return "\n".join("\n".join(_section(cause)) + "\n" for cause in causes)


def index(tables: Iterable[tuple[str, str]]) -> str:
    """The tables, each with its title."""
    rows = [f"- [{plain(title)}]({name}.md)" for name, title in tables]
    origin = (
        "Generated from the table of errors; `doctor explain ID` prints the same text, and "
        "`doctor explain TEXT` the causes that have such a message."
    )
    return "\n".join(("# Errors", "", origin, "", *rows, ""))


def _section(cause: Cause) -> Iterator[str]:
    yield f"## {cause.id}\n"
    if older := [id for id, row in RETIRED.items() if row == cause.id]:
        yield "".join(f'<a id="{id}"></a>' for id in older) + "\n"
    if cause.code:
        yield f"A check reports it in logs: [{cause.code}](../checks/{cause.code}.md).\n"
    yield plain(cause.why)
    if cause.told_by:
        yield f"\nIt is this one where {plain(cause.told_by)}."
    yield from _wordings(cause)
    if cause.role == "setting":
        yield f"\n{DECIDED}."
    if not cause.fix:
        return
    if cause.fix != BY_WORDING:
        yield f"\nFix: {plain(cause.fix)}"
    yield from _commands(cause.commands)
    yield f"\nFix owner: {OWNERS[cause.owner]}."
    of_wordings = (each for wording in cause.wordings for each in wording.sources)
    if sources := dict.fromkeys((*cause.sources, *of_wordings)):
        yield ""
        yield from (cited(SOURCES[id]) for id in sources)


def _wordings(cause: Cause) -> Iterator[str]:
    """The examples, and those with a fix of their own apart."""
    worded = {example for each in cause.wordings for example in (each.example, *each.more)}
    if general := [each for each in cause.examples if each not in worded]:
        yield from _messages(general)
    for each in cause.wordings:
        yield from _messages([each.example, *each.more])
        yield f"\n{plain(each.why)}\n\nFix: {plain(each.fix)}"
        yield from _commands(each.commands)


def _messages(examples: Iterable[str]) -> Iterator[str]:
    yield "\n```text"
    yield from examples
    yield "```"


def _commands(commands: tuple[str, ...]) -> Iterator[str]:
    if commands:
        yield "\n```sh"
        yield from commands
        yield "```"
