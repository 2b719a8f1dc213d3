"""What a log states about its run, as the facts have it."""

from __future__ import annotations

from doctor._util.records import Section


class Setting(Section, frozen=True):
    """A setting of a run, where a line states it."""

    name: str
    """Canonical: a key of `doctor.log.stated.names.SETTINGS`, or gpu, gpu_memory (bytes), method,
    family."""
    text: str
    """The value as the log has it."""
    number: float | None = None
    """The value, where it is a number: bytes and seconds; 1 for true, 0 for false and None."""
    path: str = ""
    line: int = 0
