"""Errors that a user can cause."""

from __future__ import annotations


class UserError(Exception):
    """A usage error: one line that states what is wrong and what to do; exit code 2."""


def reason_of(error: BaseException) -> str:
    """What the system says of it, else its own text, else its class."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
