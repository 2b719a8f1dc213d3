"""What `doctor explain` prints of sections of the source documents."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence

from doctor import catalog
from doctor.catalog.citations import Citations, citations, find_sections, sections_about
from doctor.judge.families import FAMILIES
from doctor.judge.sources import Source, cite
from doctor.judge.sources.documents import TITLES
from doctor.judge.sources.sections import ADVICE, NARRATIVE, Advice
from doctor.prescribe.citations import settings_citing
from doctor.report import addresses
from doctor.report.explain import explain as explain_checks

WIDTH = 88
CITED = re.compile(rf"(?:document )?(?:{'|'.join(TITLES)})[:,] (?P<sections>.+)")


def find(name: str) -> tuple[Source, ...]:
    """The sections that `name` means, also as a report cites them, unless it is the name of a check
    or a family.

    Raises UserError for the number of a section that does not exist.
    """
    if cited := CITED.fullmatch(name.strip()):
        return tuple(each for part in cited["sections"].split("; ") for each in find_sections(part))
    if sections := find_sections(name):
        return sections
    key = name.strip().upper()
    if key in FAMILIES or catalog.find(name):
        return ()
    return sections_about(name)


def answer(name: str) -> str:
    """The text of `doctor explain`: of sections, or of checks.

    Raises UserError for what is neither.
    """
    if sections := find(name):
        return explain(sections)
    return explain_checks(catalog.lookup(name))


def explain(sections: Sequence[Source]) -> str:
    """The correction first, the advice, what cites it, or why it is not detectable."""
    return "\n\n".join("\n".join(_explain(section)) for section in sections)


def json_text(sections: Sequence[Source]) -> str:
    """{"sections": [...]}, with the same in fields."""
    from doctor.report.formats.json_forms import EXPLANATION

    objects = [_object(section) for section in sections]
    return json.dumps({"sections": objects, "schema": EXPLANATION}, indent=2)


def _object(section: Source) -> dict[str, object]:
    cited = citations(section)
    return {
        "id": section.id,
        "document": section.document,
        "section": section.section,
        "alias": section.alias,
        "correction": section.correction,
        "advice": _advice(section).text,
        "checks": [check.code for check in cited.checks],
        "remedies": list(cited.remedies),
        "settings": list(settings_citing(section.id)),
        "not_detectable": _not_detectable(section, cited),
    }


def _explain(section: Source) -> Iterator[str]:
    cited, settings = citations(section), settings_citing(section.id)
    yield from _wrapped(cite(section).removeprefix("document "), "")
    if section.correction:
        yield from _wrapped(f"Correction: {section.correction}", "  ")
    if advice := _advice(section).text:
        yield from _wrapped(f"Advice: {advice}", "  ")
    for check in cited.checks:
        yield f"  {check.code} {check.slug}: {check.title}"
    for remedy in cited.remedies:
        yield from _wrapped(remedy, "  ")
    if settings:
        yield from _wrapped(f"doctor prescribe: {', '.join(settings)}", "  ")
    if reason := _not_detectable(section, cited):
        yield from _wrapped(f"Not detectable: {reason}", "  ")
    yield f"  Page: {addresses.section(section.id)}"


def _advice(section: Source) -> Advice:
    return ADVICE.get(section.id, Advice(""))


def _not_detectable(section: Source, cited: Citations) -> str:
    """Why no check sees it, or what checks do not see of it; "" where they see it."""
    reason = _advice(section).not_detectable
    if reason or cited.checks or cited.remedies or settings_citing(section.id):
        return reason
    if section.id in ADVICE:
        return "no check, remedy or setting rests on it: it is advice for the reader."
    return NARRATIVE


def _wrapped(text: str, indent: str) -> Iterator[str]:
    yield textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
