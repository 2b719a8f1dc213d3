"""What tools show of links and the network: versions of NCCL, packet sizes, addresses, errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import median

from doctor.facts.host import Reported

NCCL = re.compile(r"^([\w.-]{1,60}):\d{1,8}:\d{1,8} \[\d{1,3}\] .{0,40}NCCL version "
                  r"(\d\.\d{1,2}\.\d{1,2})")  # fmt: skip
LINK = re.compile(r"\d{1,4}: ([a-z][\w.@-]{1,20}): <[A-Z,_-]{2,80}> mtu (\d{3,5})\b")
LARGE = re.compile(r"\bping\b.{0,60}-M do\b.{0,60}-s (\d{4,5})|\bping\b.{0,60}-s (\d{4,5}).{0,60}"
                   r"-M do\b")  # fmt: skip
REFUSED = re.compile(r"100(?:\.0)?% packet loss|[Mm]essage too long|Frag(?:mentation)? needed")
USUAL = 1472
"""Bytes that fit a packet of 1500."""
SMALL = 1500
"""The MTU of a network without jumbo frames."""
REPLIES = 10
"""Lines in which the answer to a ping stands."""

BRIDGE = r"(?:docker|virbr|br-|veth|cni|flannel|cali|tun|lo)"
BOOTSTRAP = re.compile(rf"Bootstrap ?: Using (?:\[\d\])?({BRIDGE}[\w.-]{{0,14}}):")
BRIEF = re.compile(r"\s*([a-z][\w.-]{1,14})(?:@\S{1,14})?\s+UP\s+(\d{1,3}(?:\.\d{1,3}){3})/\d")
OFFERED = re.compile(r"\[\d\]([a-z][\w.-]{1,14}):\d{1,3}(?:\.\d{1,3}){3}<0>")
"""Interfaces that `ip -br addr`, and NCCL, list with an address."""

GID = re.compile(
    r"\s*(\w{3,20})\s+\d\s+(\d{1,3})\s+([\da-f]{4}(?::[\da-f]{4}){7})\s+.{0,40}?v[12]\b"
)
ASKED = re.compile(r"NCCL_IB_GID_INDEX(?:=| set by environment to )(\d{1,3})\b")
LOCAL = "fe80:"

COUNTER = re.compile(
    r"(SymbolErrorCounter|LinkErrorRecoveryCounter|LinkDownedCounter|PortRcvErrors|"
    r"LocalLinkIntegrityErrors):\.{2,40}(\d{1,12})$"
)
MOST = {"SymbolErrorCounter": 1000, "LinkErrorRecoveryCounter": 10, "LinkDownedCounter": 20,
        "PortRcvErrors": 1000, "LocalLinkIntegrityErrors": 10}  # fmt: skip
"""Errors since the counters were cleared that a healthy link has, after reboots of either end. Our
own numbers."""

FAILED = re.compile(
    r"onnect\w{0,12}:? .{0,60}(?:refused|timed out|No route|failed)|collective operation timeout"
)
HELPS = re.compile(
    r"NCCL_P2P_DISABLE=1\W{0,3} (?:it |that |this )?(?:makes? it (?:work|run)|works|helps|fixes|"
    r"solves|runs|is fine|goes through)|(?:works?|runs?|fine|ok|trains?|passes) (?:only )?"
    r"(?:with|when|after|if) (?:I set |setting |export )?NCCL_P2P_DISABLE=1",
    re.IGNORECASE,
)
HANGS = re.compile(r"\bhangs?\b|\bstuck\b|\bfreez|deadlock|wrong|garbage|NaN", re.IGNORECASE)

RESULTS = re.compile(r"\W{0,4}Out of bounds values : [1-9]\d{0,9} FAILED")
COPIES = re.compile(r"Running (host_to_device|device_to_host)_memcpy")
ROW = re.compile(r"\s*\d{1,2}((?:\s+\d{1,4}\.\d{1,3}){3,32})\s*$")
SLOW = 0.5
"""Share of the other GPUs' rate; two sockets differ by a third. Our own number."""


def read(lines: Sequence[str]) -> Iterator[Reported]:
    """What keeps nodes apart or slows them down."""
    yield from _versions(lines)
    yield from _packets(lines)
    yield from _addresses(lines)
    yield from _interfaces(lines)
    yield from _counters(lines)
    yield from _peers(lines)
    yield from _copies(lines)
    for line in lines:
        if "Out of bounds" in line and RESULTS.match(line):
            yield Reported(cause="collective-results-wrong", line=line.strip())


def _versions(lines: Sequence[str]) -> Iterator[Reported]:
    """NCCL's version on each host."""
    found = {match[1]: match[2] for line in lines if (match := NCCL.match(line))}
    if len(set(found.values())) > 1:
        each = ", ".join(f"{version} on {host}" for host, version in list(found.items())[:4])
        yield Reported(cause="nccl-versions-differ", line=f"NCCL {each}")


def _packets(lines: Sequence[str]) -> Iterator[Reported]:
    """Packets that are too large for a part of the way."""
    for number, line in enumerate(lines):
        match = LARGE.search(line) if "ping" in line else None
        size = int(match[1] or match[2]) if match else 0
        replies = lines[number + 1 : number + REPLIES]
        if size > USUAL and any(map(REFUSED.search, replies)):
            sizes: dict[str, set[str]] = {}
            for found in filter(None, map(LINK.search, lines)):
                sizes.setdefault(found[1], set()).add(found[2])
            if sizes and max(int(each) for some in sizes.values() for each in some) <= SMALL:
                return  # nobody asks for larger packets
            name = next((name for name, each in sizes.items() if len(each) > 1), "")
            shown = f"; {name} has MTU {' here, '.join(sorted(sizes[name]))} there" if name else ""
            text = f"packets of {size} bytes do not reach the peer{shown}"
            yield Reported(cause="network-packets-too-large", line=text)
            return


def _addresses(lines: Sequence[str]) -> Iterator[Reported]:
    """A GID that NCCL is told to use, and that is one of the link alone."""
    asked = {match[1] for line in lines for match in ASKED.finditer(line)}
    for line in lines:
        match = GID.match(line)
        if match and match[2] in asked and match[3].startswith(LOCAL) and len(asked) == 1:
            text = (
                f"NCCL_IB_GID_INDEX={match[2]} is {match[3]} of {match[1]}, an address of the link"
            )
            yield Reported(cause="roce-address-wrong", line=f"{text} alone")
            return


def _interfaces(lines: Sequence[str]) -> Iterator[Reported]:
    """NCCL offers the address of a bridge, and one other interface has an address."""
    used = next((match[1] for line in lines if (match := BOOTSTRAP.search(line))), None)
    if used is None or not any(map(FAILED.search, lines)):
        return
    listed = {match[1] for line in lines if (match := BRIEF.match(line))}
    listed = listed or {name for line in lines for name in OFFERED.findall(line)}
    others = [name for name in listed if not re.match(BRIDGE, name)]
    if len(others) == 1:
        text = f"NCCL offers the address of {used} to other nodes, which {others[0]} joins"
        yield Reported(cause="network-interface-wrong", line=text)


def _counters(lines: Sequence[str]) -> Iterator[Reported]:
    """Counters of perfquery and ibqueryerrors above what a healthy link has."""
    matches = filter(None, (COUNTER.search(line.strip()) for line in lines if ":.." in line))
    found = [f"{m[1]} {int(m[2]):,}" for m in matches if int(m[2]) > MOST[m[1]]]
    if found:
        text = f"errors of an InfiniBand port: {', '.join(found[:4])}"
        yield Reported(cause="infiniband-errors", line=text)


def _peers(lines: Sequence[str]) -> Iterator[Reported]:
    """A person says that the GPUs only work together without peer-to-peer access."""
    line = next((line for line in lines if "P2P_DISABLE" in line and HELPS.search(line)), None)
    if line and any(map(HANGS.search, lines)):
        yield Reported(cause="peer-access-fails", line=line.strip()[:300])


def _copies(lines: Sequence[str]) -> Iterator[Reported]:
    """nvbandwidth: one GPU whose copies are far slower than those of the others."""
    for number, line in enumerate(lines):
        match = COPIES.search(line)
        rows = filter(None, map(ROW.match, lines[number + 1 : number + 5])) if match else ()
        rates = next(([float(each) for each in row[1].split()] for row in rows), [])
        usual = median(rates) if rates else 0.0
        slow = [gpu for gpu, rate in enumerate(rates) if rate < SLOW * usual]
        if match and len(slow) == 1:
            text = f"GPU {slow[0]}: {match[1]} copies at {rates[slow[0]]:g} GB/s, others {usual:g}"
            yield Reported(cause="gpu-copies-slow", line=text)
            return
