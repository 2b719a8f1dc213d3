"""The texts of every check without the code that judges: `index.json`, which `.ci/update` writes.

`doctor list`, `doctor explain CODE` and the shell's completion read it: to import all checks takes
them several times as long as what they do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from doctor._util.owner import Owner
from doctor.judge.described import FIELDS, Described

JUDGED = ("required", "also", "returns", "leads")
"""Fields of `Check` beside its texts that are needed without its judge."""
FILE = Path(__file__).with_suffix(".json")


class Entry(NamedTuple):
    """A check without its judge: the fields of `FIELDS` and `JUDGED`."""

    code: str
    slug: str
    aliases: tuple[str, ...]
    title: str
    why: str
    passes: tuple[str, ...]
    notes: tuple[str, ...]
    warns: tuple[str, ...]
    fails: tuple[str, ...]
    fix: str
    commands: tuple[str, ...]
    owner: Owner
    limits: str
    targets: tuple[str, ...]
    after: tuple[str, ...]
    sources: tuple[str, ...]
    required: Any = "never"
    also: tuple[Any, ...] = ()
    returns: bool = False
    leads: bool = False

    @property
    def family(self) -> str:
        """The three letters of the code."""
        return self.code[:3]


@cache
def entries() -> tuple[Entry, ...]:
    """Every check, in display order."""
    return tuple(map(_entry, json.loads(FILE.read_text("utf-8"))))


def _entry(item: dict[str, Any]) -> Entry:
    fields: Any = {key: tuple(v) if isinstance(v, list) else v for key, v in item.items()}
    return Entry(**fields | {"owner": Owner(item["owner"])})


def text(checks: Iterable[Described]) -> str:
    """The content of `index.json` for these checks, one check to a line."""
    fields = (*FIELDS, *JUDGED)
    rows = ({field: getattr(check, field) for field in fields} for check in checks)
    lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    return "[\n" + ",\n".join(lines) + "\n]\n"
