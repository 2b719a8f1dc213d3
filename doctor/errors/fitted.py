"""A row as it holds for one text: the fix for its numbers, the commands for what it names."""

from __future__ import annotations

from dataclasses import replace

from doctor.errors.cause import Cause
from doctor.errors.match import groups_of

MEMORY = "cuda-oom"
PORT = "29500"
"""torchrun's port where it is given no other."""


def fitted(cause: Cause, text: str) -> Cause:
    """The row with the fix that the numbers of an out-of-memory message give, and with commands
    for the port that the text names."""
    if cause.id == MEMORY:
        from doctor.errors.memory_numbers import describe_oom

        described = describe_oom(text)
        return replace(cause, fix=described.fix) if described else cause
    if any(PORT in command for command in cause.commands):
        port = groups_of(cause, text).get("port", PORT)
        return replace(cause, commands=tuple(each.replace(PORT, port) for each in cause.commands))
    return cause
