"""Error texts that people posted, and what `doctor explain` answers."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any

from paths import TESTS

from doctor._util.errors import UserError
from doctor.cli.explain.name import explain

HEAD = re.compile(
    r"(?:\A|\n\n)(?:LOG\d{3} |harmless \()?([a-z0-9]+(?:-[a-z0-9]+)+)(?:\):)?(?: .*)?$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Answer:
    """The names of the causes that are proposed, and what is printed about the first."""

    names: tuple[str, ...]
    first: str

    def is_named(self, posted: dict[str, Any]) -> bool:
        """Whether the first cause is the one of the label."""
        return bool(self.names) and self.names[0] in posted["rows"].split()

    def helps(self, posted: dict[str, Any]) -> bool:
        """Whether the right cause is first, with the remedy of the thread."""
        # Printed texts are wrapped.
        text = " ".join(self.first.split())
        return self.is_named(posted) and re.search(posted["remedy"], text) is not None


def posted_errors() -> list[dict[str, Any]]:
    posted: list[dict[str, Any]] = tomllib.loads(
        (TESTS / "corpus" / "pasted_errors.toml").read_text(encoding="utf-8")
    )["error"]
    return posted


def answer(text: str) -> Answer:
    """What `doctor explain TEXT` prints."""
    try:
        printed = explain(text)
    except UserError:
        return Answer((), "")
    if printed.startswith("no name; "):
        return Answer((), "")
    heads = list(HEAD.finditer(printed))
    if not heads:
        return Answer((), "")
    end = heads[1].start() if len(heads) > 1 else len(printed)
    return Answer(tuple(each[1] for each in heads), printed[heads[0].start() : end])
