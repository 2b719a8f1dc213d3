"""Watches GPUs through NVML until {"stop": true} arrives: doctor_side.watch SECONDS UUID...

{"look": true} gets what was sampled so far, and the watch goes on.
Counters are read before and after, and their difference is reported; in between, clocks,
temperature and the PCIe link are sampled and the driver's Xid events are recorded. A field that
NVML does not return is absent and has a reason in `unread`. Samples are not stages, because the
parent does not read the pipe while the steps run.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, Callable, Dict, List, Optional, TypeVar

from .. import wire

try:
    import pynvml
except ImportError as error:
    wire.send(error=wire.describe(error))
    sys.exit()

LAST_EVENTS_MS = 100
"""An Xid may be delivered some time after its cause."""
EVENTS = 64
"""The most Xids recorded for one GPU; a failing GPU can send them without end."""
REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
LINKS = getattr(pynvml, "NVML_NVLINK_MAX_LINKS", 18)
LINK_COUNTERS = (0, 1, 2)
"""Replay, recovery and CRC (flit) errors of an NVLink, up to its fourth generation."""
LINK_FIELDS = (
    "MALFORMED_PACKET_ERRORS",
    "BUFFER_OVERRUN_ERRORS",
    "LOCAL_LINK_INTEGRITY_ERRORS",
    "LINK_RECOVERY_EVENTS",
)
"""Counters of the fifth generation that stay 0 on a link that works. Symbols and packets that were
received wrongly are not among them: the link corrects or repeats these."""
SINGLE = ("temperature", "clock")
"""Samples of one value."""
CORRECTED, UNCORRECTED, VOLATILE = 0, 1, 0

Result = TypeVar("Result")


def handle_of(uuid: str) -> object:
    """The handle of the GPU; for a MIG device, of the GPU that it is a slice of."""
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    if uuid.startswith("MIG-"):
        return pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    return handle


def address(handle: Any) -> Optional[int]:
    return ctypes.cast(handle, ctypes.c_void_p).value


def reason(error: Exception) -> str:
    """NVML's text with its code, as in `nvml.py`."""
    code = getattr(error, "value", None)
    return "%s (%s)" % (str(error).rstrip("."), code) if code is not None else wire.describe(error)


def temperature(handle: object) -> int:
    """Degrees Celsius; the second call replaces the first, which CUDA 14 is to remove."""
    try:
        return int(pynvml.nvmlDeviceGetTemperature(handle, 0))
    except Exception as error:
        try:
            return int(pynvml.nvmlDeviceGetTemperatureV(handle, 0))
        except Exception:
            raise error from None


class Watched:
    """One GPU and the fields of `doctor.facts.load.Watched`."""

    def __init__(self, uuid: str) -> None:
        self.unread: Dict[str, str] = {}
        self.record: Dict[str, Any] = {"uuid": uuid, "samples": 0, "mask": 0, "unread": self.unread}
        self.handle = self._attempt("samples", lambda: handle_of(uuid))
        self._before = self._counters()
        self._read_field("link_max", self._link_max)

    def _attempt(self, field: str, read: Callable[[], Result]) -> Optional[Result]:
        try:
            return read()
        except Exception as error:
            self.unread[field] = reason(error)
            return None

    def _read_field(self, field: str, read: Callable[[], Any]) -> None:
        if self.handle is not None:
            value = self._attempt(field, read)
            if value is not None:
                self.record[field] = value

    def _link_max(self) -> List[int]:
        handle = self.handle
        generation = pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)
        return [int(generation), int(pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle))]

    def _counters(self) -> Dict[str, int]:
        """The counters; one that cannot be read is absent."""
        if self.handle is None:
            return {}
        ecc, handle = pynvml.nvmlDeviceGetTotalEccErrors, self.handle
        read: Dict[str, Callable[[], int]] = {
            "uncorrected": lambda: int(ecc(handle, UNCORRECTED, VOLATILE)),
            "corrected": lambda: int(ecc(handle, CORRECTED, VOLATILE)),
            "remapped_rows": lambda: sum(pynvml.nvmlDeviceGetRemappedRows(handle)[:2]),
            "pcie_replays": lambda: int(pynvml.nvmlDeviceGetPcieReplayCounter(handle)),
            "nvlink_errors": self._link_errors,
        }
        counts = {field: self._attempt(field, counter) for field, counter in read.items()}
        return {field: count for field, count in counts.items() if count is not None}

    def _links(self) -> List[bool]:
        """Whether each NVLink is active. Raises NVML's error if there is none."""
        links: List[bool] = []
        for link in range(LINKS):
            try:
                links.append(bool(pynvml.nvmlDeviceGetNvLinkState(self.handle, link)))
            except pynvml.NVMLError:
                if not links:
                    raise
                break
        if not any(links):
            raise LookupError("no NVLink is active")
        return links

    def _link_errors(self) -> int:
        links = [link for link, active in enumerate(self._links()) if active]
        try:
            return sum(
                int(pynvml.nvmlDeviceGetNvLinkErrorCounter(self.handle, link, counter))
                for link in links
                for counter in LINK_COUNTERS
            )
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_NOT_SUPPORTED:
                raise
            return sum(map(self._link_fields, links))

    def _link_fields(self, link: int) -> int:
        """The same of an NVLink of the fifth generation. Raises NVML's error."""
        names = ("NVML_FI_DEV_NVLINK_COUNT_" + name for name in LINK_FIELDS)
        fields = [(getattr(pynvml, name), link) for name in names]
        total = 0
        for each in pynvml.nvmlDeviceGetFieldValues(self.handle, fields):
            if each.nvmlReturn:
                raise pynvml.NVMLError(each.nvmlReturn)
            is_short = each.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
            total += int(each.value.uiVal if is_short else each.value.ullVal)
        return total

    def sample(self) -> None:
        """Record why the clock changes, temperature, PCIe link and clock."""
        if self.handle is None:
            return
        for name in REASONS:
            mask = self._attempt("samples", functools.partial(self._reasons, name))
            if mask is not None:
                self.record["mask"] |= mask
                self.record["samples"] += 1
                break
        self._highest("temperature", lambda: [temperature(self.handle)])
        self._highest("link", self._link)
        self._highest("clock", self._clock)

    def _reasons(self, name: str) -> int:
        return int(getattr(pynvml, name)(self.handle))

    def _link(self) -> List[int]:
        generation = pynvml.nvmlDeviceGetCurrPcieLinkGeneration(self.handle)
        return [int(generation), int(pynvml.nvmlDeviceGetCurrPcieLinkWidth(self.handle))]

    def _clock(self) -> List[int]:
        return [int(pynvml.nvmlDeviceGetClockInfo(self.handle, pynvml.NVML_CLOCK_SM))]

    def _highest(self, field: str, read: Callable[[], List[int]]) -> None:
        values = None if field in self.unread else self._attempt(field, read)
        if values is not None:
            before = self.record.get(field, [0] * len(values))
            self.record[field] = [max(pair) for pair in zip(before, values)]

    def finish(self) -> Dict[str, object]:
        """The record, with the differences of the counters."""
        after = self._counters()
        for field in self._before.keys() & after.keys():
            self.record[field] = max(0, after[field] - self._before[field])
        self._read_field("nvlinks_down", lambda: self._links().count(False))
        return self.so_far()

    def so_far(self) -> Dict[str, object]:
        """The record of the samples."""
        single = {name: self.record[name][0] for name in SINGLE if name in self.record}
        unread = dict(self.unread)
        if self.record["samples"]:
            unread.pop("samples", None)
        return dict(self.record, **single, unread=unread)


class Events:
    """The Xid events of all watched GPUs, through one set; no root is needed."""

    def __init__(self, watched: List[Watched]) -> None:
        self._by_address: Dict[Optional[int], List[Watched]] = {}
        self._set: object = None
        try:
            self._set = pynvml.nvmlEventSetCreate()
            kind = pynvml.nvmlEventTypeXidCriticalError
        except Exception as error:
            for gpu in watched:
                gpu.unread["xids"] = reason(error)
            return
        for gpu in watched:
            self._register(gpu, kind)

    def _register(self, gpu: Watched, kind: int) -> None:
        if gpu.handle is None:
            return
        try:
            pynvml.nvmlDeviceRegisterEvents(gpu.handle, kind, self._set)
        except Exception as error:
            gpu.unread["xids"] = reason(error)
            return
        gpu.record["xids"] = []
        self._by_address.setdefault(address(gpu.handle), []).append(gpu)

    def read(self, wait_ms: int = 0) -> None:
        """Record the events that arrived; wait at most that long for the first."""
        for _ in range(EVENTS if self._by_address else 0):
            try:
                event = pynvml.nvmlEventSetWait(self._set, wait_ms)
            except Exception as error:
                self._close(error)
                return
            wait_ms = 0
            for gpu in self._by_address.get(address(event.device), ()):
                if len(gpu.record["xids"]) < EVENTS:
                    gpu.record["xids"].append(int(event.eventData))

    def _close(self, error: Exception) -> None:
        """Ignore a timeout; after any other error no more events are read."""
        if getattr(error, "value", None) == pynvml.NVML_ERROR_TIMEOUT:
            return
        for gpus in self._by_address.values():
            for gpu in gpus:
                gpu.unread["xids"] = reason(error)
                if not gpu.record["xids"]:
                    del gpu.record["xids"]
        self._by_address = {}


def started() -> bool:
    """Whether NVML starts; why it does not is sent."""
    with wire.stage("nvmlInit"):
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            wire.send(error="nvmlInit: %s" % error, code=error.value)
            return False
    return True


def main(seconds: str, *uuids: str) -> None:
    """Counters, then samples with `seconds` between them, then the counters again."""
    every = float(seconds)
    if not started():
        return
    with wire.stage("counters before"):
        watched = [Watched(uuid) for uuid in uuids]
        events = Events(watched)
    wire.send(answer={"ready": True})
    while "stop" not in (request := wire.received(every)):
        for gpu in watched:
            gpu.sample()
        events.read()
        if "look" in request:
            wire.send(answer={"watched": [gpu.so_far() for gpu in watched]})
    with wire.stage("counters after"):
        events.read(LAST_EVENTS_MS)
        records = [gpu.finish() for gpu in watched]
    wire.send(answer={"watched": records})
