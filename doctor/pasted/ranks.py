"""How the ranks of a job talk to each other: interfaces, adapters, addresses, and variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from doctor.facts.host import Reported
from doctor.pasted.reading import Reading

SPEED = re.compile(r"\s*Speed: (\d{2,7})Mb/s")
ETHTOOL = re.compile(r"\bethtool (?:-\S+ )?(\w[\w.-]{1,15})\b|^Settings for (\w[\w.-]{1,15}):")
USES = re.compile(r"(?:NET/Socket : Using (?:\[\d\])?|_SOCKET_IFNAME=)(\w[\w.-]{1,15})")
OVER_ADAPTERS = re.compile(r"NET/(?:IB|OFI) : Using|Using network (?:IB|AWS)")
"""The interface only brings the ranks together then."""
SEVERAL_NODES = re.compile(
    r"nnodes[= ]+[2-9]|--nodes[= ]+[2-9]|\b(?:[2-9]|\d{2,3}|two|both|three|four|eight) (?:nodes|"
    r"boxes|machines|hosts|servers)\b|multi-? ?node|(?:between|across) (?:the )?nodes|inter-?node|"
    r"\beach node\b|\bp[45]de?\b|instances\b",
    re.IGNORECASE,
)
SLOW_NETWORK = 1000
"""Mb/s."""

SET = re.compile(r"(?:export )?([A-Z][A-Z0-9_]{4,40})=['\"]?(1|true)['\"]?\s*$|"
                 r".{0,80}\b([A-Z][A-Z0-9_]{4,40}) set by environment to 1\b")  # fmt: skip
"""A line of `env` or of NCCL. Before a command on its line a variable is set for that one alone."""
SLOWING = ("CUDA_LAUNCH_BLOCKING", "PYTORCH_NO_CUDA_MEMORY_CACHING")
NVLINKS = re.compile(r"\s*GPU\d{1,3}(?:\s+\S{1,5}){0,16}?\s+NV\d{1,2}\b")
SOCKETS = re.compile(r"NET/IB : No device found|Using network Socket|Could not find: libnccl-net")
ADAPTERS = re.compile(
    r"\bmlx5_\d|ConnectX|ibstat|\bInfiniBand: |Link layer: InfiniBand|provider: efa|\bfi_info\b|"
    r"\b\d{2,3} ?G\w{0,4} IB\b|\b[HN]DR\b"
)
LOOPBACK = re.compile(r"(127\.0\.[01]\.1)\s+(\S{1,80})\s*$")
WAITS = re.compile(r"[Tt]imed out .{0,40}(?:waiting for clients|connect)|client socket has")
LOCAL = ("localhost", "localhost.localdomain")


def read(lines: list[str]) -> Reading:
    """What slows the ranks down or keeps them apart."""
    found = (*_network(lines), *_variables(lines), *_loopback(lines))
    return Reading(kinds=("ranks",), reported=found) if found else Reading()


def _network(lines: Sequence[str]) -> Iterator[Reported]:
    """A slow interface that the ranks use, as the text says elsewhere."""
    if any(map(OVER_ADAPTERS.search, lines)) or not any(map(SEVERAL_NODES.search, lines)):
        return
    used = {match for line in lines for match in USES.findall(line)}
    name = ""
    for line in lines:
        if match := ETHTOOL.search(line):
            name = match[1] or match[2]
        elif (match := SPEED.match(line)) and int(match[1]) <= SLOW_NETWORK and name in used:
            text = f"{name} runs at {match[1]} Mb/s, and the ranks talk over it"
            yield Reported(cause="network-link-slow", line=text)


def _variables(lines: Sequence[str]) -> Iterator[Reported]:
    """Variables that slow a job on this machine, and adapters that NCCL does not find."""
    matches = (match for line in lines if (match := SET.match(line)))
    names = {match[1] or match[3] for match in matches}
    for name in SLOWING:
        if name in names:
            yield Reported(cause="debugging-variable-left", line=f"{name}=1 is set")
    if "NCCL_P2P_DISABLE" in names and any(map(NVLINKS.match, lines)):
        text = "NCCL_P2P_DISABLE=1 is set, and NVLink joins the GPUs"
        yield Reported(cause="fast-links-off", line=text)
    signs = (ADAPTERS, SOCKETS, SEVERAL_NODES)
    if not all(any(map(sign.search, lines)) for sign in signs):
        return
    text = "NCCL finds no InfiniBand or EFA device, and the machine has some"
    if "NCCL_IB_DISABLE" in names:
        text = "NCCL_IB_DISABLE=1 is set, and InfiniBand is there"
    yield Reported(cause="fast-links-off", line=text)


def _loopback(lines: Sequence[str]) -> Iterator[Reported]:
    """The name of a host that is the loopback's, where ranks wait for each other."""
    if not any(map(WAITS.search, lines)):
        return
    for line in lines:
        match = LOOPBACK.match(line)
        if match and match[2] not in LOCAL:
            text = f"{match[2]} is {match[1]} here, and the other ranks wait"
            yield Reported(cause="master-address-is-loopback", line=text)
            return
