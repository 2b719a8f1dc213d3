"""Placeholder, replaced below."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.cli.lint import Lint


@dataclass(frozen=True, slots=True)
class Fixed:
    """What was fixed."""

    summary: str = ""
    refused: tuple[str, ...] = ()
    diffs: tuple[str, ...] = ()


def fix_files(result: Lint, *, unsafe: bool) -> Fixed:
    return Fixed()


def fix_text(result: Lint, *, unsafe: bool) -> Fixed:
    return Fixed()
