"""A row as it holds for one text: the fix for its numbers and names, the commands for its port, and
what the message itself asks for."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor._util.secrets import hide_secrets
from doctor.errors.cause import Cause
from doctor.errors.decided import decided
from doctor.errors.match import groups_of, holds
from doctor.errors.said import sentence

MEMORY = "cuda-oom"
PORT = "29500"
"""torchrun's port where it is given no other."""
ADVICE = re.compile(
    r"(?:^|[.!?:;,)\]'\"`] |\n)[ \t]{0,8}((?:please(?! (?:report|file|open|raise))|"
    r"try|consider|hint:|make sure|use|set|pass|"
    r"install|increase|you (?:can(?!['\u2019])|must|should|need|have)|to fix|did you mean|"
    r"check)\b[^\n]{4,240}?)(?:[.!?](?=\s|$)|$)",
    re.IGNORECASE | re.MULTILINE,
)
"""The first sentence of a message that asks for something."""


def fitted(cause: Cause, text: str) -> Cause:
    """The row with the fix that the numbers and names of the message give, and with commands for
    the port that it names; rows of sentences repeat what the message asks for."""
    cause = worded(cause, text)
    if cause.id == MEMORY:
        from doctor.errors.memory_numbers import describe_oom

        described = describe_oom(text)
        return replace(cause, fix=described.fix) if described else cause
    if (found := decided(text)) and found[0] == cause.id and found[1]:
        return replace(cause, fix=f"{found[1]} {cause.fix}")
    if said := sentence(cause.id, text):
        return replace(cause, fix=f"{hide_secrets(said)} {cause.fix}")
    if cause.quotes and (advice := ADVICE.search(text)):
        said = hide_secrets(advice[1].strip())
        return replace(cause, fix=f'{cause.fix} The message itself says: "{said}".')
    if any(PORT in command for command in cause.commands):
        port = groups_of(cause, text).get("port", PORT)
        return replace(cause, commands=tuple(each.replace(PORT, port) for each in cause.commands))
    return cause


def worded(cause: Cause, text: str) -> Cause:
    """The row with the reason and the fix for the wording of the text."""
    own = (each for each in cause.wordings if holds(each.message, text))
    wording = next(own, None)
    if wording is None:
        return cause
    return replace(
        cause,
        why=wording.why,
        fix=wording.fix,
        commands=wording.commands or cause.commands,
        owner=wording.owner or cause.owner,
        sources=wording.sources or cause.sources,
    )
