"""What is said of a check wherever it is named, listed or explained.

`Check` has it, and so has the entry of the generated index, which imports no judge.
"""

from __future__ import annotations

from typing import Protocol

from doctor._util.owner import Owner
from doctor.hardware.vendors import TARGETS

EVERYWHERE = TARGETS
"""The targets of a check that applies to every kind of device."""

FIELDS = (
    "code", "slug", "aliases", "title", "why", "passes", "notes", "warns", "fails", "fix",
    "commands", "owner", "limits", "targets", "after", "sources",
)  # fmt: skip
"""The fields of `Described`."""


class Described(Protocol):
    """The texts of a check; `doctor.judge.check.Check` says what each field means."""

    @property
    def code(self) -> str: ...
    @property
    def slug(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    @property
    def family(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def passes(self) -> tuple[str, ...]: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def warns(self) -> tuple[str, ...]: ...
    @property
    def fails(self) -> tuple[str, ...]: ...
    @property
    def fix(self) -> str: ...
    @property
    def commands(self) -> tuple[str, ...]: ...
    @property
    def owner(self) -> Owner: ...
    @property
    def limits(self) -> str: ...
    @property
    def targets(self) -> tuple[str, ...]: ...
    @property
    def after(self) -> tuple[str, ...]: ...
    @property
    def sources(self) -> tuple[str, ...]: ...
