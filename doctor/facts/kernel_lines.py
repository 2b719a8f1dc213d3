"""Lines of the NVIDIA driver in a kernel log -> events of GPUs.

Only lines of the forms below are kept, and of them only addresses, numbers and codes: Xid lines
also contain ids and names of processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from doctor.facts.host import KernelEvent

MOST_EVENTS = 64
LOADED = re.compile(r"NVRM: loading NVIDIA UNIX")
ADDRESS = r"(?:PCI:)?(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)"
XID = re.compile(rf"NVRM: Xid \({ADDRESS}\): (?P<xid>\d{{1,4}})\b(?P<rest>.{{0,400}})")
EARLIER = re.compile(r"caused by previous Xid (\d{1,4})\b")
"""The cleanup of a process names the event that caused it, and may be the only line of it."""
ACTION = re.compile(r"recovery action changed from .{1,60} to 0x([0-9a-f])\b")
SEVERITY = re.compile(r"\b(Fatal|Nonfatal)\b")
RECOVERY, LINKS = 154, range(144, 151)
ERRORS = (
    re.compile(rf"NVRM: GPU {ADDRESS}: (?P<text>RmInitAdapter failed! \([^)\s]{{1,60}}\))"),
    re.compile(rf"NVRM: GPU {ADDRESS}: (?P<text>GPU has fallen off the bus)"),
    re.compile(rf"nvidia {ADDRESS}: (?P<text>probe with driver nvidia failed with error -\d+)"),
    re.compile(rf"NVRM: (?P<text>BAR\d is \d+M @ \w+) \({ADDRESS}\)"),
    re.compile(r"NVRM: (?P<text>The NVIDIA probe routine failed for \d+ device\(s\))"),
)
NAMED = re.compile(rf"NVRM: The NVIDIA GPU {ADDRESS}(?P<rest>.{{0,200}})")
"""The begin of a sentence over several lines."""
ENDS = {
    "fallen off the bus": "GPU has fallen off the bus",
    "not supported": "not supported by this driver, as the driver says",
}
"""How that sentence ends -> what it says."""
PROBED = re.compile("|".join((*ENDS.values(), "probe routine failed", "probe with driver")))


def events(lines: Iterable[str]) -> tuple[KernelEvent, ...]:
    """The errors in lines of a kernel log since the driver was loaded last, oldest first."""
    found: list[KernelEvent] = []
    named = ""
    for line in lines:
        if LOADED.search(line):
            found, named = _of_this_load(found), ""
            continue
        if "NVRM" not in line and "nvidia" not in line:
            continue
        sentence = NAMED.search(line)
        named = address(sentence["address"]) if sentence else named
        event = _sentence_end(named, line) if named else None
        named = "" if event else named
        event = event or _event(line)
        if event and event.action is not None:  # the last one holds
            found = [each for each in found if (each.address, each.xid) != (event.address, 154)]
        if event and event not in found and len(found) < MOST_EVENTS:
            found.append(event)
    return tuple(found)


def _of_this_load(found: list[KernelEvent]) -> list[KernelEvent]:
    """The last events where they are of a probe: it comes before the line about the load."""
    last = next(
        (n for n, event in enumerate(reversed(found)) if not PROBED.search(event.text)), None
    )
    return found if last is None else found[len(found) - last :]


def _sentence_end(named: str, line: str) -> KernelEvent | None:
    text = next((text for end, text in ENDS.items() if end in line), None)
    return KernelEvent(address=named, text=text) if text else None


def _event(line: str) -> KernelEvent | None:
    if match := XID.search(line):
        return _xid(address(match["address"]), int(match["xid"]), match["rest"])
    for pattern in ERRORS:
        if match := pattern.search(line):
            parts = match.groupdict()
            return KernelEvent(address=address(parts.get("address") or ""), text=parts["text"])
    return None


def _xid(at: str, number: int, rest: str) -> KernelEvent:
    if earlier := EARLIER.search(rest):
        return KernelEvent(address=at, xid=int(earlier[1]))
    action = ACTION.search(rest) if number == RECOVERY else None
    severity = SEVERITY.search(rest) if number in LINKS else None
    return KernelEvent(
        address=at,
        xid=number,
        action=int(action[1], 16) if action else None,
        fatal=severity[1] == "Fatal" if severity else None,
    )


def address(text: str) -> str:
    """ "00000000:3B:00" of NVML or of an Xid as sysfs spells it: "0000:3b:00.0"."""
    if not text:
        return ""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest if '.' in rest else rest + '.0'}"
