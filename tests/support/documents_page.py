"""docs/documents.md: the sections of the source documents, and what rests on each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from doctor.catalog.citations import citations
from doctor.errors.causes import TABLES
from doctor.judge.sources import DOCUMENTS, Source, short_section
from doctor.judge.sources.documents import TITLES
from doctor.judge.sources.sections import ADVICE, NARRATIVE
from doctor.prescribe.citations import settings_citing
from doctor.report import addresses
from doctor.report.pages import plain

HEAD = """# Sections of the source documents

The project started from five reports on trainings that failed. They are not public; what rests on
each of their sections is listed here, with corrections where a section is wrong. Generated from the
catalogue; `doctor explain P10` prints the same for a section.
"""
TABLE_OF = {row.id: table.__name__.rpartition(".")[2] for table in TABLES for row in table.ROWS}


def page() -> str:
    """The whole page."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield HEAD.rstrip("\n")
    for document, sections in groupby(DOCUMENTS, key=lambda source: source.document):
        yield f"\n## {document}\n\n*{plain(TITLES[document])}*"
        for source in sections:
            yield from _section(source)


def _section(source: Source) -> Iterator[str]:
    number = f"{source.alias}: " if source.alias and source.alias not in source.section else ""
    yield f'\n<a id="{addresses.anchor(source.id)}"></a>\n'
    yield f"### {number}{plain(short_section(source))}"
    cited, settings = citations(source), settings_citing(source.id)
    advice = ADVICE.get(source.id)
    if advice and advice.text:
        yield f"\n{plain(advice.text)}"
    if source.correction:
        yield f"\nCorrection: {plain(source.correction)}"
    items = [f"[{c.code}](checks/{c.code}.md) {plain(c.title)}" for c in cited.checks]
    items += [_remedy(text) for text in cited.remedies]
    items += [f"`doctor prescribe`: {', '.join(settings)}"] if settings else []
    yield from ("", *(f"- {item}" for item in items)) if items else ()
    if advice and advice.not_detectable:
        yield f"\nNot detectable: {plain(advice.not_detectable)}"
    elif not items and not advice:
        yield f"\nNot detectable: {plain(NARRATIVE)}"


def _remedy(text: str) -> str:
    kind, _, name = text.partition(": ")
    if name in TABLE_OF:
        return f"{kind}: [{name}](errors/{TABLE_OF[name]}.md#{name})"
    return plain(text)
