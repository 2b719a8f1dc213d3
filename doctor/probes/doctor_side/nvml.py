"""Asks NVML for the driver's version and for every GPU; what it would not tell has a reason.

Run under the doctor's own interpreter. Each call is a stage, so that a hang has a name, and each
GPU is a note of its own, so that a hang at the fourth keeps the first three.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import wire

try:
    import pynvml
except ImportError as error:
    wire.tell(error=wire.said(error))
    sys.exit()

MISMATCH = 18
NOT_FOUND = 6
UNREACHABLE = (15, 16)
"""The GPU is lost, or has to be reset before it answers."""


class Refused(Exception):
    """NVML's error to one call: its words, with its code in the end, and the code."""

    def __init__(self, name: str, error: Exception) -> None:
        self.code = getattr(error, "value", None)
        reason = text(str(error)) if self.code is not None else wire.said(error)
        self.reason = "%s (%s)" % (reason.rstrip("."), self.code) if self.code else reason
        super().__init__("%s: %s" % (name, self.reason))


def text(value: Any) -> str:
    """NVML's strings are bytes in some versions of the binding."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def call(name: str, *arguments: Any, where: str = "", **keywords: Any) -> Any:
    """One NVML function. Raises Refused for NVML's errors and for what the binding lacks."""
    with wire.stage(name + where):
        try:
            return getattr(pynvml, name)(*arguments, **keywords)
        except Exception as error:
            refused = Refused(name, error)
    raise refused


def memory(handle: Any, where: str) -> Tuple[int, int, Optional[str]]:
    """Total, used, and what is to be said of "used"."""
    try:
        version = pynvml.nvmlMemory_v2
        info = call("nvmlDeviceGetMemoryInfo", handle, version=version, where=where)
        return info.total, info.used, None
    except (Refused, AttributeError) as error:
        if getattr(error, "code", None) in UNREACHABLE:
            raise
        info = call("nvmlDeviceGetMemoryInfo", handle, where=where)
        return info.total, info.used, "version 1 of the call: the driver's reserve is in it"


def processes(handle: Any, where: str) -> int:
    """Compute processes; their ids are the host's, so only the count is of use."""
    name = "nvmlDeviceGetComputeRunningProcesses"
    try:
        return len(call(name + "_v3", handle, where=where))
    except Refused as refused:
        if refused.code in UNREACHABLE:
            raise
        return len(call(name + "_v2", handle, where=where))


def recovery_action(handle: Any, where: str) -> int:
    """The driver's advice; drivers before 570 and older bindings do not know the field."""
    name = "nvmlDeviceGetFieldValues"
    field = getattr(pynvml, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
    if field is None:
        raise Refused(name, AttributeError("the binding does not know the field"))
    found = call(name, handle, [field], where=where)[0]
    if found.nvmlReturn != 0:
        raise Refused(name, pynvml.NVMLError(found.nvmlReturn))
    return int(found.value.uiVal)


def slices(handle: Any, where: str) -> List[Dict[str, Any]]:
    """The MIG devices of a GPU."""
    found: List[Dict[str, Any]] = []
    for index in range(call("nvmlDeviceGetMaxMigDeviceCount", handle, where=where)):
        try:
            part = call("nvmlDeviceGetMigDeviceHandleByIndex", handle, index, where=where)
        except Refused as refused:
            if refused.code == NOT_FOUND:
                continue
            raise
        found.append(one_slice(part, "%s, MIG %d" % (where, index)))
    return found


def one_slice(handle: Any, where: str) -> Dict[str, Any]:
    """One MIG device; it is worth nothing without its UUID."""
    part: Dict[str, Any] = {"uuid": text(call("nvmlDeviceGetUUID", handle, where=where))}
    try:
        part["name"] = text(call("nvmlDeviceGetName", handle, where=where))
        part["memory_total"], part["memory_used"], _ = memory(handle, where)
    except Refused:
        pass  # the fields stay absent, which is what Slice means by unknown
    return part


class Reader:
    """Fills the record of one GPU, field by field."""

    def __init__(self, index: int) -> None:
        self.where = " (GPU %d)" % index
        self.gpu: Dict[str, Any] = {"index": index, "uuid": "", "name": "", "unread": {}}

    def ask(self, fields: Tuple[str, ...], read: Callable[[], Any]) -> Any:
        """What `read` answers; None, and the reason beside each field, where NVML refuses."""
        if self.gpu.get("lost"):
            return None
        try:
            return read()
        except Refused as refused:
            if refused.code in UNREACHABLE:
                self.gpu["lost"] = refused.reason
            self.gpu["unread"].update({field: refused.reason for field in fields})
            return None

    def take(self, field: str, name: str, *arguments: Any, to: Callable[[Any], Any]) -> None:
        """One field from one call."""
        got = self.ask((field,), lambda: to(call(name, *arguments, where=self.where)))
        if got is not None:
            self.gpu[field] = got

    def read(self) -> Dict[str, Any]:
        """The record of `sections.Gpu`."""
        index = self.gpu["index"]
        handle = self.ask(
            ("uuid", "name"), lambda: call("nvmlDeviceGetHandleByIndex", index, where=self.where)
        )
        if handle is not None:
            self._identity(handle)
            self._use(handle)
            self._health(handle)
        return self.gpu

    def _identity(self, handle: Any) -> None:
        self.take("uuid", "nvmlDeviceGetUUID", handle, to=text)
        self.take("name", "nvmlDeviceGetName", handle, to=text)
        self.take("bus_id", "nvmlDeviceGetPciInfo", handle, to=lambda pci: text(pci.busId))
        self.take("capability", "nvmlDeviceGetCudaComputeCapability", handle, to=list)
        self.take("mig", "nvmlDeviceGetMigMode", handle, to=lambda mode: bool(mode[0]))
        if self.gpu.get("mig"):
            found = self.ask(("slices",), lambda: slices(handle, self.where))
            self.gpu["slices"] = found or []

    def _use(self, handle: Any) -> None:
        got = self.ask(("memory_total", "memory_used"), lambda: memory(handle, self.where))
        if got is not None:
            self.gpu["memory_total"], self.gpu["memory_used"], said = got
            if said:
                self.gpu["unread"]["memory_reserved"] = said
        self.take("compute_mode", "nvmlDeviceGetComputeMode", handle, to=int)
        count = self.ask(("processes",), lambda: processes(handle, self.where))
        if count is not None:
            self.gpu["processes"] = count

    def _health(self, handle: Any) -> None:
        self.take("ecc", "nvmlDeviceGetEccMode", handle, to=lambda mode: bool(mode[0]))
        for field, kind in (("corrected", 0), ("uncorrected", 1)):
            volatile = 0
            self.take(field, "nvmlDeviceGetTotalEccErrors", handle, kind, volatile, to=int)
        rows = self.ask(
            ("remap_pending", "remap_failed"),
            lambda: call("nvmlDeviceGetRemappedRows", handle, where=self.where),
        )
        if rows is not None:
            self.gpu["remap_pending"], self.gpu["remap_failed"] = bool(rows[2]), bool(rows[3])
        pages = "nvmlDeviceGetRetiredPagesPendingStatus"
        self.take("retired_pages_pending", pages, handle, to=bool)
        action = self.ask(("recovery_action",), lambda: recovery_action(handle, self.where))
        if action is not None:
            self.gpu["recovery_action"] = action


def versions() -> Dict[str, Any]:
    """The driver's version and the CUDA that it runs; None where NVML would not tell."""
    found: Dict[str, Any] = {"version": None, "cuda_version": None}
    try:
        found["version"] = text(call("nvmlSystemGetDriverVersion"))
    except Refused:
        pass  # None says it
    for name in ("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"):
        try:
            found["cuda_version"] = call(name)
            break
        except Refused:
            continue
    return found


def library_version() -> str:
    """ "; the library is 12.580.159" after a mismatch, as far as it answers before its start."""
    try:
        return "; the NVML library is version %s" % text(call("nvmlSystemGetNVMLVersion"))
    except Refused:
        return ""


def main() -> None:
    """Start, versions, then GPU by GPU."""
    try:
        call("nvmlInit")
    except Refused as refused:
        more = library_version() if refused.code == MISMATCH else ""
        wire.tell(error=str(refused) + more, code=refused.code)
        return
    told = versions()
    wire.tell(note=told)
    try:
        count = call("nvmlDeviceGetCount")
    except Refused as refused:
        wire.tell(error=str(refused), code=refused.code)
        return
    gpus = []
    for index in range(count):
        gpus.append(Reader(index).read())
        wire.tell(note={"gpu": gpus[-1]})
    wire.tell(answer=dict(told, gpus=gpus))


main()
