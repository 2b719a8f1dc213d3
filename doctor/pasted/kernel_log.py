"""Lines of the NVIDIA driver in a pasted kernel log: which GPU, and which Xids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from msgspec.structs import replace as with_fields

from doctor.facts.host import KernelEvent, Reported
from doctor.facts.kernel_lines import LOADED, XID, address, events
from doctor.facts.load import Watched
from doctor.facts.machine import Gpu
from doctor.hardware.xids import BROKEN, BY_NUMBER, Grade
from doctor.pasted.reading import NOT_IN_REPORT, Reading, gpu_named
from doctor.pasted.smi_table import UNREAD

OTHERS = (
    re.compile(r"\bXID (\d{1,4})\b.{0,100}?\bPCI:([\dA-Fa-f]{4,8}:[\dA-Fa-f]{2}:[\dA-Fa-f]{2})\b"),
    re.compile(r"XidCriticalError: Xid=(\d{1,4}) on Device=()"),
    re.compile(
        r"^\w{3} +\d{1,2} [\d:]{8}\s+Xid (\d{1,4}) "
        r"\(PCI:([\dA-Fa-f]{4,8}:[\dA-Fa-f]{2}:[\dA-Fa-f]{2})\): "
    ),
)
"""The forms of gpud, "XID 79(GPU has fallen off the bus) detected on PCI:0000:ae:00", of
Kubernetes' device plugin, and of lists of the driver's lines with their dates, "Mar 10 21:38:13
Xid 79 (PCI:0000:46:00): ...": without one that is how a document quotes them."""
OF_DRIVER = re.compile(
    r"^(?:\[[^\]]{4,40}\] ?|\w{3} +\d{1,2} [\d:]{8} .{0,80}|\d{4}-\d\d-\d\dT\S{8,30} .{0,80}|"
    r"<?\d?>?)NVRM: \S"
)
"""Any line of the driver as the kernel prints it. Without an Xid it accuses nothing."""
OFF_BUS = 79
OFTEN = 2
"""Earlier loads of the driver with the same Xid of one GPU from which on it came back."""
UNREACHABLE = re.compile(r"fallen off the bus")
"""The GPU is lost. One that the driver did not start (RmInitAdapter, probe) may be sound: the
module, its firmware or the PCI window may be wrong."""


def add_log(reading: Reading, lines: Sequence[str]) -> Reading:
    """The reading with the events of the log, each at its GPU: one that a report lists at this
    address, the only one, or, where no report lists any, one of its own."""
    found = events(lines) or tuple(
        KernelEvent(address=address(match[2]), xid=int(match[1]))
        for line in lines
        if (match := next(filter(None, (form.search(line) for form in OTHERS)), None))
    )
    found += _came_back(lines)
    if not found:
        is_log = any(map(LOADED.search, lines)) or any(map(OF_DRIVER.search, lines))
        return replace(reading, kinds=(*reading.kinds, "kernel log")) if is_log else reading
    gpus, watched = list(reading.gpus), list(reading.watched)
    addresses = dict.fromkeys(event.address for event in found)
    if len(addresses) > 1:
        addresses.pop("", None)  # a count of failed probes repeats what an address says
    for at in addresses:
        own = [event for event in found if event.address == at]
        index = _index(gpus, at)
        if index is None:
            if reading.gpus and not _is_of_another(gpus, own):
                continue
            index = len(gpus)
            gpus.append(gpu_named(index, "", at, bus_id=at))
        gpus[index] = _state(gpus[index], at, own)
        if gpus[index].remap_pending is False:  # the GPU was reset since
            own = [event for event in own if event.xid != ROW_REMAPPED]
            found = tuple(each for each in found if each.address != at or each in own)
        xids = tuple(event.xid for event in own if event.xid is not None and not event.loads)
        if xids:
            uuid, unread = gpus[index].uuid, {"samples": NOT_IN_REPORT}
            new = Watched(uuid=uuid, samples=0, mask=0, unread=unread)
            record = next((each for each in watched if each.uuid == uuid), new)
            watched = [each for each in watched if each.uuid != uuid]
            watched.append(with_fields(record, xids=xids))
    is_broken = any(map(_is_broken, found))
    reported = [each for each in reading.reported if not is_broken or each.cause not in FOLLOWS]
    return replace(
        reading,
        kinds=(*reading.kinds, "kernel log"),
        gpus=tuple(gpus),
        watched=tuple(watched),
        kernel_events=found,
        reported=(*reported, *_of_program(found)),
    )


ROW_REMAPPED = 63
"""A row of the memory is replaced at the next reset; until then it is pending."""
FOLLOWS = ("cuda-illegal-access", "gpu-not-started")
"""What programs and the driver print of a GPU at fault that goes away under them."""


def _of_program(found: Sequence[KernelEvent]) -> tuple[Reported, ...]:
    """The first fault that a program caused, where no event is of a GPU at fault."""
    known = [xid for event in found if (xid := BY_NUMBER.get(event.xid or 0))]
    own = [xid for xid in known if xid.grade == "process" and xid.later == "check the program"]
    if not own or any(map(_is_broken, found)):
        return ()
    return (Reported(cause="xid-of-program", line=f"Xid {own[0].number}: {own[0].meaning}"),)


def _is_of_another(gpus: Sequence[Gpu], own: Sequence[KernelEvent]) -> bool:
    """Whether the events are of a GPU of this machine that the list lacks: a list without addresses
    ends at a GPU that does not answer, one with addresses lacks a lost GPU alone."""
    grades: tuple[Grade, ...] = ("link", *BROKEN)
    if any(gpu.address for gpu in gpus):
        grades = ("lost",)
    return any(_is_broken(each, grades) for each in own)


def _is_broken(event: KernelEvent, grades: Sequence[Grade] = BROKEN) -> bool:
    """Whether the event leaves a GPU at fault: no list of GPUs need have it then."""
    xid = BY_NUMBER.get(event.xid or 0)
    return bool(UNREACHABLE.search(event.text) or (xid and xid.grade in grades and not event.loads))


def _came_back(lines: Sequence[str]) -> tuple[KernelEvent, ...]:
    """Xids of broken hardware that several loads of the driver before the last one had: a reset did
    not end them. A bug report has the same lines from several logs."""
    seen: dict[str, int] = {}
    """The text of the line from the Xid on -> the load in which it is first."""
    at: dict[tuple[str, int], set[int]] = {}
    load = 0
    for line in lines:
        if "NVRM" not in line:
            continue
        load += bool(LOADED.search(line))
        match = XID.search(line)
        number = int(match["xid"]) if match else 0
        if match and number in BY_NUMBER and BY_NUMBER[number].grade in BROKEN:
            first = seen.setdefault(match[0], load)
            at.setdefault((address(match["address"]), number), set()).add(first)
    earlier = {key: len(loads) for key, loads in at.items() if load not in loads}
    return tuple(
        KernelEvent(address=address, xid=number, loads=loads)
        for (address, number), loads in earlier.items()
        if loads >= OFTEN
    )


def _index(gpus: Sequence[Gpu], at: str) -> int | None:
    same = next((number for number, gpu in enumerate(gpus) if gpu.address == at), None)
    return 0 if same is None and len(gpus) == 1 and not gpus[0].bus_id else same


def _state(gpu: Gpu, at: str, own: Sequence[KernelEvent]) -> Gpu:
    """The GPU, with what the log says of its state where no report does."""
    text = next((event.text for event in own if UNREACHABLE.search(event.text)), "")
    if any(event.xid == OFF_BUS for event in own):
        text = "Xid 79: GPU has fallen off the bus"
    action = next((event.action for event in reversed(own) if event.action is not None), None)
    fields = {name: getattr(gpu, name) for name in gpu.__struct_fields__}
    fields["bus_id"] = gpu.bus_id or at
    if not (gpu.bus_id or gpu.name or gpu.lost):
        fields["uuid"] = at  # its report states no number
    if text:
        known = f"{gpu.lost}; " if gpu.lost and UNREAD not in gpu.lost else ""
        fields["lost"] = f"{known}the kernel log says: {text}"
    elif gpu.lost and UNREAD in gpu.lost and any(map(_is_broken, own)):
        fields["lost"] = None  # readings that fail are what the event leads to
    if action is not None and gpu.recovery_action is None:
        fields["recovery_action"] = action
    return Gpu(**fields)
