"""One entry of the bibliography."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CHECKED = "2026-11-20"


@dataclass(frozen=True, slots=True)
class Source:
    """A section of a source document, or a public address with the date it was checked.

    `document` is the file name of a source document without its ending, "" for an address.
    `alias` is the short name by which `doctor explain` finds the codes that cite it.
    `correction` says what is true where the cited text is wrong or too strong.
    """

    id: str
    title: str
    section: str = ""
    url: str = ""
    document: str = ""
    alias: str = ""
    correction: str = ""
    checked: str = CHECKED


def thread(
    repository: str,
    number: int,
    title: str,
    kind: Literal["issues", "pull"] = "issues",
    *,
    checked: str = CHECKED,
) -> Source:
    """An issue or, with kind="pull", a pull request; its id is like "pytorch-127176"."""
    name = repository.split("/")[1].lower().replace("_", "-")
    address = f"https://github.com/{repository}/{kind}/{number}"
    return Source(f"{name}-{number}", title, f"#{number}", address, checked=checked)


def page(id: str, title: str, section: str, address: str) -> Source:
    """A page of a manual, or a file of a library."""
    return Source(id, title, section, address, checked="2026-11-23")
