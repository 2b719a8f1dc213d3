"""Phrases about a check that its page and every format share."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.judge.described import Described


def limitations(limits: str) -> str:
    """A check's `limits`, which follow "a pass does not show", as a sentence."""
    return f"a pass does not show {limits}"


def conditions(check: Described) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Headings and bullets: when the check passes, warns and fails; without those it never does."""
    for heading, bullets in (
        ("Passes", check.passes),
        ("Notes", check.notes),
        ("Warns", check.warns),
        ("Fails", check.fails),
    ):
        if bullets:
            yield heading, bullets
