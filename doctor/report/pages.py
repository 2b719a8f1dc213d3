"""A page of Markdown for each check, as docs/checks holds them, and their index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from doctor.judge.check import EVERYWHERE, MENDED_BY, Check
from doctor.judge.sources import SOURCES, Source, short_section
from doctor.report.explain import markdown_table


def page(check: Check) -> str:
    """Everything there is to say about a check."""
    return "\n".join(_page(check)) + "\n"


def index(checks: Iterable[Check]) -> str:
    """The table of codes, each a link to its page."""
    table = re.sub(r"^\| ([A-Z]{3}\d{3}) ", r"| [\1](\1.md) ", markdown_table(checks), flags=re.M)
    said = "Generated from the catalogue; `doctor explain CODE` prints the same."
    return f"# Checks\n\n{said}\n\n{table}\n"


def _page(check: Check) -> Iterator[str]:
    yield f"# {check.code} `{check.slug}`"
    yield f"\n**{_plain(check.title)}.**"
    yield f"\n{_plain(check.why)}"
    yield "\n| | |\n|---|---|"
    told = {
        "pass": "; ".join(check.passes),
        "warn": "; ".join(check.warns),
        "fail": "; ".join(check.fails),
        "a pass does not prove": check.limits,
        "mended by": MENDED_BY[check.owner],
        "applies to": "" if check.targets == EVERYWHERE else ", ".join(check.targets),
        "judged after": ", ".join(f"[{code}]({code}.md)" for code in check.after),
    }
    for name, text in told.items():
        if text:
            linked = text if name == "judged after" else _plain(text)
            yield f"| {name} | {linked.replace('|', chr(92) + '|')} |"
    yield "\n## Remedy\n"
    yield _plain(check.fix)
    if check.commands:
        yield "\n```sh"
        yield from check.commands
        yield "```"
    yield "\n## Sources\n"
    yield from (_cited(SOURCES[id]) for id in check.sources)


def _cited(source: Source) -> str:
    section = f", {_plain(short_section(source))}" if source.section else ""
    if source.document:
        line = f"- document *{source.document}*{section} ({_plain(source.title)})"
    else:
        line = f"- [{_plain(source.title)}]({source.url}){section}, checked {source.checked}"
    return f"{line}\n  - true instead: {_plain(source.correction)}" if source.correction else line


def _plain(text: str) -> str:
    """Words that Markdown would take for its own marks, escaped; one paragraph."""
    return re.sub(r"([\\`*_<>\[\]~])", r"\\\1", " ".join(text.split()))
