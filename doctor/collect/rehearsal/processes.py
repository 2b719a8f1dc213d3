"""The processes that descend from one."""

from __future__ import annotations

import contextlib
import os


def descendants(ancestor: int) -> list[tuple[int, str]]:
    """Processes below this one that are not zombies, with their names."""
    parents: dict[int, tuple[int, str, str]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError, ValueError):
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    text = file.read()
                name = text[text.index("(") + 1 : text.rindex(")")]
                state, parent = text[text.rindex(")") + 2 :].split()[:2]
                parents[int(entry)] = int(parent), state, name
    found = {ancestor}
    while more := {pid for pid, (parent, _, _) in parents.items() if parent in found} - found:
        found |= more
    found.discard(ancestor)
    return [(pid, parents[pid][2]) for pid in sorted(found) if parents[pid][1] not in "ZX"]
