"""Base records of the facts: a tagged section, Unknown, and how a call ended."""

from __future__ import annotations

from typing import Literal

import msgspec

Number = float | Literal["nan", "inf", "-inf"]
"""A float that may be non-finite; `float(number)` reads all of them."""

How = Literal["ok", "error", "signal", "timeout", "budget"]
"""timeout: the call's own deadline passed. budget: the time of the whole run was over."""


class Section(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """A part of the facts; tagged, so that it can be in a union with Unknown."""


class Unknown(Section, frozen=True, kw_only=True):
    """It could not be read. Never the same as "no" or 0."""

    reason: str


class Ended(Section, frozen=True, kw_only=True):
    """How a call into a library or a child process ended."""

    how: How
    detail: str = ""
    """The last error line, the signal's name, or the call that timed out."""
    seconds: float = 0.0
    code: int | None = None
    """The library's own error code, where it has one."""

    @property
    def ok(self) -> bool:
        return self.how == "ok"
