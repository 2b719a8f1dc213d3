"""Where a reader finds the page of a check, of a cause of errors, or of a document's section."""

from __future__ import annotations

from doctor import REPOSITORY as REPOSITORY

SITE = ""
"""The published site, such as https://OWNER.github.io/REPOSITORY; as long as there is none, pages
are those of the repository."""


def check(code: str) -> str:
    """The page of a check."""
    return _page(f"checks/{code}")


def cause(table: str, id: str) -> str:
    """The section of a cause in the page of its table."""
    return _page(f"errors/{table}", id)


def section(id: str) -> str:
    """What rests on a section of a source document, by the id of the source."""
    return _page("documents", anchor(id))


def anchor(section: str) -> str:
    """The anchor of a section by the id of its source: ps-P10 -> p10."""
    return section.removeprefix("ps-").casefold()


def _page(name: str, anchor: str = "") -> str:
    address = f"{SITE}/{name}.html" if SITE else f"{REPOSITORY}/blob/main/docs/{name}.md"
    return f"{address}#{anchor}" if anchor else address
