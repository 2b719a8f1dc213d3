"""`doctor explain`: a name of the catalogue, a section of a document, the contract of --model, or a
pasted text."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from doctor._util.errors import UserError
from doctor.errors.retired import current

if TYPE_CHECKING:
    from doctor.cli.explain.text import Explained
    from doctor.errors.cause import Cause
    from doctor.judge.described import Described
    from doctor.judge.index import Entry
    from doctor.judge.sources import Source

Format = Literal["plain", "markdown", "json"]
STDIN = "-"
NAMES = re.compile(r"[\w\s,-]+")
"""Text that may consist of codes and slugs."""
LONGEST = 1 << 20
"""Bytes of a text that are read."""


def explain(name: str, format: Format = "plain") -> str:
    """What `doctor explain NAME` prints. Raises UserError with the nearest names.

    `name` may be several codes or slugs.
    """
    text = _stdin() if name == STDIN else name
    is_message = name == STDIN or _is_message(text)
    if checks := _by_code_or_slug(text):
        return _checks(checks, format)
    if causes := _causes(name):
        return causes_text(causes, format)
    # The catalogue takes longer to import than all that a message of a known class needs.
    if is_message and (answer := _explained(text, format)):
        return answer
    from doctor import catalog
    from doctor.judge.names import is_name
    from doctor.report import documents, own_model

    if name.strip().casefold() in own_model.NAMES:
        return own_model.text(format)
    if name != STDIN and (sections := documents.find(name)):
        return _sections(sections, name, format)
    words = name.replace(",", " ").split()
    if words and all(is_name(word, catalog.CHECKS) for word in words):
        return _checks(tuple(check for word in words for check in catalog.lookup(word)), format)
    if not is_message and (answer := _explained(text, format)):
        return answer
    from doctor.cli.explain.text import explain_fragment, explain_nearest

    return _answer(explain_fragment(text) or explain_nearest(text, is_message), format)


def _causes(name: str) -> tuple[Cause, ...]:
    """The causes that ids name, without those that are checks; () if a word is no id."""
    words = name.casefold().replace(",", " ").split()
    if not all("-" in word for word in words):
        return ()
    from doctor.errors.index import ENTRIES
    from doctor.errors.match import row

    ids = [current(word) for word in words]
    causes = tuple(map(row, ids)) if set(ids) <= ENTRIES.keys() else ()
    return tuple(each for each in causes if not each.code)


def causes_text(
    causes: tuple[Cause, ...], format: Format, checks: tuple[Described, ...] = ()
) -> str:
    """The pages of causes, and of checks beside them."""
    from doctor.report import cause_pages
    from doctor.report import causes as pages

    if format == "json":
        from doctor.report.formats import json

        return json.render_explained(checks, causes)
    if format == "markdown":
        parts = (cause_pages.sections(causes), _checks(checks, format) if checks else "")
        return "\n".join(filter(None, parts))
    return pages.pages(causes)


def listed(names: Sequence[str], format: Format = "plain") -> str:
    """What `doctor list NAME ...` prints. Raises UserError for a name that no check begins with."""
    from doctor.judge.index import entries
    from doctor.judge.names import beginning_with
    from doctor.report import explain

    checks = beginning_with(names, entries())
    if format == "json":
        from doctor.report.formats import json

        return json.render_checks(checks)
    return explain.listing(checks) if format == "plain" else explain.markdown_table(checks)


def _explained(text: str, format: Format) -> str:
    """The answer for a text of a known class; empty for others."""
    if format == "plain":
        from doctor.cli.explain.line import explain_line

        if answer := explain_line(text):
            return answer
    from doctor.cli.explain.text import explain_text

    explained = explain_text(text)
    return _answer(explained, format) if explained else ""


def _answer(explained: Explained, format: Format) -> str:
    if format == "plain":
        return explained.answer()
    if not explained.causes:
        return _checks(explained.checks, format)
    return causes_text(explained.causes, format, explained.checks)


def _is_message(text: str) -> bool:
    """Whether it looks like a part of a message, and not like the name of a section."""
    return len(text.split()) > 2 or bool(re.search(r"[^\w\s-]|[a-z][A-Z]|^Killed$", text.strip()))


def _stdin() -> str:
    """The text to explain. Raises UserError."""
    if sys.stdin.isatty():
        raise UserError("- (stdin) is a terminal; pipe the text into the command")
    return sys.stdin.buffer.read(LONGEST).decode("utf-8", "replace")


def _by_code_or_slug(text: str) -> tuple[Entry, ...]:
    """The checks that the words name, () unless each of them is a whole code or slug."""
    if not NAMES.fullmatch(text):  # a message: the index takes longer to read than its answer
        return ()
    from doctor.judge.index import entries
    from doctor.judge.names import names_of

    words = [current(word) for word in text.replace(",", " ").casefold().split()]
    by_name = {name.casefold(): each for each in entries() for name in names_of(each)}
    return tuple(by_name[word] for word in words) if set(words) <= by_name.keys() else ()


def _sections(sections: tuple[Source, ...], name: str, format: Format) -> str:
    """The sections; for programs the checks that an alias (U28) stands for, where there are any."""
    from doctor import catalog
    from doctor.report import documents

    stands_for_checks = bool(catalog.find(name))
    if format == "json" and not stands_for_checks:
        return documents.json_text(sections)
    if format == "plain" or not stands_for_checks:
        return documents.explain(sections)
    return _checks(catalog.lookup(name), format)


def _checks(checks: tuple[Described, ...], format: Format) -> str:
    if format == "json":
        from doctor.report.formats import json

        return json.render_checks(checks)
    if format == "markdown":
        from doctor.report import pages

        return "\n".join(pages.page(check) for check in checks)
    from doctor.report import explain

    return explain.explain(checks)
