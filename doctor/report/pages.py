"""The pages of docs/checks: one in Markdown per check, and their index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from doctor._util.owner import OWNERS
from doctor.judge.described import EVERYWHERE, Described
from doctor.judge.sources import SOURCES, Source, short_section
from doctor.report.conditions import conditions, limitations
from doctor.report.explain import markdown_table


def page(check: Described, example: str = "") -> str:
    """The full text of a check; `example` is a difference: what it reports, and the repair."""
    return "\n".join(_page(check, example)) + "\n"


def index(checks: Iterable[Described]) -> str:
    """The table of codes, each a link to its page."""
    table = re.sub(r"^\| ([A-Z]{3}\d{3}) ", r"| [\1](\1.md) ", markdown_table(checks), flags=re.M)
    origin = "Generated from the catalogue; `doctor explain CODE` prints the same text."
    return f"# Checks\n\n{origin}\n\n{table}\n"


def _page(check: Described, example: str) -> Iterator[str]:
    yield f"# {check.code} `{check.slug}`"
    yield f"\n**{plain(check.title)}.**"
    yield f"\n{plain(check.why)}"
    if check.targets != EVERYWHERE:
        yield f"\nApplies to: {', '.join(check.targets)}."
    if check.after:
        yield f"\nDepends on: {', '.join(f'[{code}]({code}.md)' for code in check.after)}."
    for heading, bullets in conditions(check):
        yield f"\n## {heading} when\n"
        yield from (f"- {plain(bullet)}" for bullet in bullets)
    yield "\n## Fix\n"
    yield plain(check.fix)
    if check.commands:
        yield "\n```sh"
        yield from check.commands
        yield "```"
    if example:
        yield "\n## Example\n"
        yield "Reported with the lines `-`, not with the lines `+`. Imports are omitted.\n"
        yield f"```diff\n{example.rstrip()}\n```"
    yield f"\nFix owner: {OWNERS[check.owner]}."
    if check.limits:
        yield "\n## Limitations\n"
        yield _sentence(plain(limitations(check.limits)))
    if check.sources:
        yield "\n## Sources\n"
    yield from (cited(SOURCES[id]) for id in check.sources)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def cited(source: Source) -> str:
    """A source as an item of a list, with its correction where it is wrong."""
    section = f", {plain(short_section(source))}" if source.section else ""
    if source.document:
        line = f"- document *{source.document}*{section} ({plain(source.title)})"
    else:
        line = f"- [{plain(source.title)}]({source.url}){section}, checked {source.checked}"
    return f"{line}\n  - correction: {plain(source.correction)}" if source.correction else line


def plain(text: str) -> str:
    """One paragraph, with the characters escaped that Markdown would interpret."""
    return re.sub(r"([\\`*_<>\[\]~])", r"\\\1", " ".join(text.split()))
