"""Links as tools list them: `nvidia-smi nvlink -s`, `ibv_devinfo`, `ibstat`, and `lspci -vv`."""

from __future__ import annotations

import re
from typing import Any

from doctor.facts.host import Hca, Reported
from doctor.facts.load import Watched
from doctor.facts.machine import Gpu
from doctor.pasted.reading import NOT_IN_REPORT, Reading, gpu_named

GPU = re.compile(r"\s*GPU (\d{1,4}): (.{3,80}?) \(UUID: (GPU-[\w-]{8,50})?")
NVLINK = re.compile(r"\s*Link (\d{1,2}): (<inactive>|[\d.]{2,8} GB/s)")
SXM = re.compile(r"\bSXM|HBM3|\bHGX\b|\bB[23]00\b|\bH200$")
"""GPUs of boards that join all of them; a bridge joins two and leaves others out."""
COUNTED = re.compile(
    r"\s*Link (\d{1,2}): (Replay|Recovery|CRC(?: (?:Flit|Data))?) Errors?: (\d{1,15})",
    re.IGNORECASE,
)
MOST_CORRECTED = 1000
"""Replays and CRC errors since the last reset; a single recovery already stopped the link."""
HCA = re.compile(
    r"\s*(?:hca_id:\s*|CA '|Infini[Bb]and device ')(\w{2,40})'?\s*(?:port \d status:\s*)?$"
)
STATE = re.compile(r"\s*[Ss]tate:\s*(?:\d: )?(?:PORT_)?([A-Za-z]{4,12})\b")
PHYSICAL = re.compile(r"\s*[Pp]hys(?:ical)?[_ ]state:\s*(?:\d: )?(\w{4,16})")
RATE = re.compile(r"\s*[Rr]ate:\s{1,12}(\d{1,4})(?:\.\d)?(?: Gb/sec.{0,20})?\s*$")
LINK = re.compile(r"\s*link (\w{2,40})/\d .{0,120}?\bstate (\w{4,12}) physical_state (\w{4,16})")
"""A port of `rdma link`."""
LEAST_OTHERS = 3
"""Ports of one rate beside which the only slower one is at fault: storage has ports of its own."""
MOST_SLOWER = 4
"""How many times slower it is, unless the text names it elsewhere too. Our own number."""
LAYER = re.compile(r"\s*[Ll]ink[_ ]layer:\s*(InfiniBand|Ethernet)")
PCI = re.compile(
    r"\s*((?:[\da-f]{4}:)?[\da-f]{2}:[\da-f]{2}\.\d) .{0,60}NVIDIA.{0,80}\[(.{3,60}?)\]"
)
OTHER_PCI = re.compile(r"\s{0,3}(?:[\da-f]{4}:)?[\da-f]{2}:[\da-f]{2}\.\d \w")
WIDTH = re.compile(r"\s*Lnk(Cap|Sta):.{0,40}Speed ([\d.]{1,4})GT/s.{0,30}Width x(\d{1,2})")
GENERATIONS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}
MOST = 1024
LISTS = re.compile(
    r".*\bport \d{1,3} ==> |\s*NIC\d{1,3}:|\s*link \w{2,40}/\d|\s*\w{2,40}\s+[\da-f]{16}\s*$|"
    r"(?:\s*\w{2,32}_\d{1,3}\b,?)+\s*$|.*\bX\b"
)
"""Lines of ibdev2netdev, `rdma link`, `ibv_devices`, `ls` and `nvidia-smi topo -m`, which name
every port."""
WORD = re.compile(r"\w+")
CLAUSE = re.compile(r"[.;](?:\s|$)|\b(?:but|while|whereas)\b", re.IGNORECASE)
UNUSED = re.compile(
    r"\bun(?:used|cabled|connected)\b|\bspare\b|\bno(?:t)? (?:in use|used|cabled|connected|"
    r"wired|needed)\b|\b(?:no|without(?: a)?) (?:cable|transceiver)\b|\bno(?:body|thing) uses\b",
    re.IGNORECASE,
)
"""What people say of a port that is down because nothing is to use it."""
ASKED_FOR = re.compile(
    r"^(?!\s*#|.{0,80}\bto set\b).{0,200}?\b(?:NCCL_IB_HCA|UCX_NET_DEVICES)=[\"']?(?!\^)(\S{3,200})"
)
NOT_USED = "NCCL_IB_DISABLE=1"
PORT_DOWN = "infiniband-port-down"


TOPOLOGY = re.compile(r"\s*GPU(\d{1,3})((?:\s+(?:X|NV\d{1,2}|PIX|PXB|PHB|NODE|SYS)(?=\s|$)){3,})")
LEAST_MESH = 3
"""GPUs that are all joined to each other: a bridge joins two and leaves others out."""
ACS = re.compile(r"\s*ACSCtl:.{0,40}\bReqRedir\+")
PEERS_HANG = re.compile(
    r"\bhang|\bstuck|then nothing|NCCL_P2P_DISABLE=1|wrong result", re.IGNORECASE
)


def read(lines: list[str]) -> Reading:
    """The first list of each tool in the lines."""
    nvlink, pci, ports = _nvlinks(lines), _pci(lines), _ports(lines)
    apart = _topology(lines)
    nvlink = apart if apart.gpus else nvlink
    errors = _errors(lines)
    redirected = _redirected(lines)
    tools = {
        "nvidia-smi nvlink": nvlink.gpus or errors,
        "lspci": pci.gpus or redirected,
        "ibv_devinfo": ports,
    }
    kinds = [kind for kind, found in tools.items() if found]
    first = nvlink if nvlink.gpus else pci
    return Reading(
        kinds=tuple(kinds),
        gpus=first.gpus,
        watched=first.watched,
        hcas=tuple(ports),
        reported=(
            *_unmanaged(ports),
            *_down(ports, lines),
            *_slow_port(lines),
            *errors,
            *redirected,
        ),
    )


def _nvlinks(lines: list[str]) -> Reading:
    """The GPUs, and of each how many links are down where others work."""
    gpus: dict[int, Gpu] = {}
    states: dict[int, dict[str, bool]] = {}
    index = None
    for line in lines:
        if match := GPU.match(line):
            index = int(match[1])
            gpus.setdefault(index, gpu_named(index, match[2], match[3]))
        elif index is not None and (match := NVLINK.match(line)):
            states.setdefault(index, {})[match[1]] = match[2] != "<inactive>"
    is_joined = any(any(up.values()) for up in states.values())
    watched = [
        _watched(gpus[number].uuid, nvlinks_down=list(up.values()).count(False))
        for number, up in states.items()
        if any(up.values()) or (is_joined and SXM.search(gpus[number].name))
    ]
    return Reading(
        gpus=tuple(gpus.values())[:MOST] if states else (), watched=tuple(watched)[:MOST]
    )


def _topology(lines: list[str]) -> Reading:
    """Of `nvidia-smi topo -m` a GPU without NVLink where all others have it to each other."""
    rows = {int(m[1]): m[2].split() for line in lines if (m := TOPOLOGY.match(line))}
    links = {gpu: {n for n, cell in enumerate(row) if cell.startswith("NV") and n in rows}
             for gpu, row in rows.items()}  # fmt: skip
    joined = {gpu for gpu, to in links.items() if to}
    apart = rows.keys() - joined
    is_mesh = all(links[gpu] >= joined - {gpu} for gpu in joined)
    if not apart or len(joined) < LEAST_MESH or not is_mesh:
        return Reading()
    counts = [int(cell[2:]) for gpu in joined for cell in rows[gpu] if cell.startswith("NV")]
    gpus = tuple(gpu_named(gpu, "") for gpu in sorted(rows))
    down = [_watched(f"GPU-{gpu}", nvlinks_down=max(counts) if gpu in apart else 0)
            for gpu in sorted(rows)]  # fmt: skip
    return Reading(gpus=gpus, watched=tuple(down))


def _redirected(lines: list[str]) -> list[Reported]:
    """ACS at a port above the GPUs, where a person reports that they do not reach each other."""
    line = next((line for line in lines if ACS.match(line)), None)
    if line is None or not any(map(PEERS_HANG.search, lines)):
        return []
    return [Reported(cause="acs-redirects-peers", line=line.strip())]


def _errors(lines: list[str]) -> list[Reported]:
    """The links with more errors than a healthy one, of `nvidia-smi nvlink -e`."""
    counts: dict[tuple[int, str], int] = {}
    index = 0
    for line in lines:
        if match := GPU.match(line):
            index = int(match[1])
        elif match := COUNTED.match(line):
            least = 0 if match[2].lower() == "recovery" else MOST_CORRECTED
            if int(match[3]) > least:
                link = index, match[1]
                counts[link] = counts.get(link, 0) + int(match[3])
    return [
        Reported(cause="nvlink-errors", line=f"NVLink {link} of GPU {gpu}: {count:,} errors")
        for (gpu, link), count in list(counts.items())[:MOST]
    ]


def _pci(lines: list[str]) -> Reading:
    """NVIDIA's GPUs with the capability and the state of their PCIe link."""
    gpus: list[Gpu] = []
    links: dict[str, dict[str, tuple[int, int]]] = {}
    address = ""
    for line in lines:
        if match := PCI.match(line):
            address = match[1]
            gpus.append(gpu_named(len(gpus), f"NVIDIA {match[2]}", bus_id=address))
        elif OTHER_PCI.match(line):
            address = ""
        elif address and (match := WIDTH.match(line)):
            found = GENERATIONS.get(match[2], 0), int(match[3])
            links.setdefault(address, {}).setdefault(match[1], found)
    watched = [
        _watched(gpu.uuid, link=links[gpu.bus_id]["Sta"], link_max=links[gpu.bus_id]["Cap"])
        for gpu in gpus[:MOST]
        if len(links.get(gpu.bus_id, ())) == 2
    ]
    return Reading(gpus=tuple(gpus)[:MOST] if watched else (), watched=tuple(watched))


def _watched(uuid: str, **stated: Any) -> Watched:
    return Watched(uuid=uuid, samples=0, mask=0, unread={"samples": NOT_IN_REPORT}, **stated)


def _ports(lines: list[str]) -> list[Hca]:
    """The state of each port, the physical one of ibstat beside it."""
    found: dict[str, dict[str, str]] = {}
    name = ""
    for line in lines:
        if match := LINK.match(line):
            found[match[1]] = {"state": match[2], "rate": match[3].capitalize()}
        elif match := HCA.match(line):
            name = match[1]
        elif name:
            for field, pattern in (("state", STATE), ("rate", PHYSICAL), ("link_layer", LAYER)):
                if match := pattern.match(line):
                    found.setdefault(name, {})[field] = (
                        match[1].upper()[:16] if (field == "state") else match[1]
                    )
    return [Hca(name=name, **fields) for name, fields in list(found.items())[:MOST]
            if "state" in fields]  # fmt: skip


def _slow_port(lines: list[str]) -> list[Reported]:
    """The only active port of InfiniBand whose rate is below that of all others, which is one."""
    rates: dict[str, int] = {}
    ethernet: set[str] = set()
    name, is_up = "", False
    for line in lines:
        if match := HCA.match(line):
            name, is_up = match[1], False
        elif match := STATE.match(line):
            is_up = match[1].lower() == "active"
        elif name and is_up and (match := RATE.match(line)):
            rates[name] = int(match[1])
        elif name and (match := LAYER.match(line)) and match[1] == "Ethernet":
            ethernet.add(name)
    # Beside InfiniBand they are those of the storage or of the host.
    rates = {port: rate for port, rate in rates.items() if port not in ethernet} or rates
    most = max(rates.values(), default=0)
    slow = {port: rate for port, rate in rates.items() if rate < most}
    others = [rate for port, rate in rates.items() if port not in slow]
    if len(slow) != 1 or len(others) < LEAST_OTHERS:
        return []
    port, rate = slow.popitem()
    if rate * MOST_SLOWER > most and port not in _words(lines):
        return []
    text = f"{port}: {rate} Gb/s, the other {len(others)} ports {most}"
    return [Reported(cause="infiniband-port-slow", line=text)]


def _unmanaged(ports: list[Hca]) -> list[Reported]:
    """Ports of InfiniBand whose link is up and that no subnet manager has given an address."""
    if any(port.state in ("ACTIVE", "LINKUP") for port in ports):
        return []  # one of several may be unused
    return [
        Reported(
            cause="infiniband-without-manager",
            line=f"{port.name} is up, and no subnet manager has initialized it",
        )
        for port in ports
        if port.state.startswith("INIT")
        and port.link_layer == "InfiniBand"
        and port.rate.lower().replace("_", "") == "linkup"
    ][:1]


def _down(ports: list[Hca], lines: list[str]) -> tuple[Reported, ...]:
    """Ports without a link beside others with one, if the text names the port outside of the list,
    and else those that the job's variables ask for: one that nobody uses is often down, and
    Ethernet beside a whole InfiniBand fabric is that of the storage or of the host."""
    down = [port for port in ports if port.state in ("DOWN", "INIT")]
    asked = () if any(NOT_USED in line for line in lines) else lines
    words = {word for line in asked if (match := ASKED_FOR.search(line))
             for word in WORD.findall(match[1])}  # fmt: skip
    if any(port.state in ("ACTIVE", "LINKUP") for port in ports):
        infiniband = [port for port in ports if port.link_layer == "InfiniBand"]
        is_fabric_up = bool(infiniband) and all(port.state == "ACTIVE" for port in infiniband)
        down = [
            port for port in down if port.rate != "Disabled"
            and (port.name in words or not is_fabric_up or port.link_layer != "Ethernet")
        ]  # fmt: skip
        words |= _words(lines)
    return tuple(
        Reported(cause=PORT_DOWN, line=f"{port.name}: {port.state} {port.rate}".strip())
        for port in down
        if port.name in words
    )


def _words(lines: list[str]) -> set[str]:
    """The words of the text outside of lists of ports and of what it calls unused."""
    prose = (line for line in lines if not HCA.match(line) and not LISTS.match(line))
    clauses = (clause for line in prose for clause in CLAUSE.split(line))
    return {word for clause in clauses if not UNUSED.search(clause)
            for word in WORD.findall(clause)}  # fmt: skip
