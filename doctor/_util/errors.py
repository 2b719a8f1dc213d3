"""Errors that a user can cause."""

from __future__ import annotations


class UserError(Exception):
    """A mistake that the user can mend: one line that says what to do, exit 2."""
