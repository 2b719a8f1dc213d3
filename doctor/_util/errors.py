"""Errors that a user can cause."""

from __future__ import annotations


class UserError(Exception):
    """A usage error: one line that states what is wrong and what to do; exit code 2."""
