"""Reads the driver's version and the state of every GPU through NVML.

Run under the doctor's own interpreter. A field that NVML does not return has a reason in `unread`.
Each call is a stage, so that a hang can be attributed to it, and each GPU is a note of its own, so
that a hang at the fourth GPU keeps the first three.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from .. import wire
from . import nodes

try:
    import pynvml
except ImportError as error:
    wire.send(error=wire.describe(error))
    sys.exit()

MISMATCH = 18
NO_SUCH_OBJECT = 6
UNREACHABLE = (15, 16)
"""The GPU is lost, or must be reset before it responds."""

Result = TypeVar("Result")


class Refused(Exception):
    """NVML's error in one call: its text, followed by its code, and the code."""

    def __init__(self, name: str, error: Exception) -> None:
        self.code = getattr(error, "value", None)
        reason = text(str(error)) if self.code is not None else wire.describe(error)
        self.reason = "%s (%s)" % (reason.rstrip("."), self.code) if self.code else reason
        super().__init__("%s: %s" % (name, self.reason))


def text(value: object) -> str:
    """NVML's strings are bytes in some versions of the binding."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def call(name: str, *arguments: object, where: str = "", **keywords: object) -> Any:
    """One NVML function. Raises Refused for NVML's errors and missing functions."""
    with wire.stage(name + where):
        try:
            return getattr(pynvml, name)(*arguments, **keywords)
        except Exception as error:
            refused = Refused(name, error)
    raise refused


def memory(handle: object, where: str) -> Tuple[int, int, Optional[str]]:
    """Total, used, and a remark on "used"."""
    try:
        version = pynvml.nvmlMemory_v2
        info = call("nvmlDeviceGetMemoryInfo", handle, version=version, where=where)
        return info.total, info.used, None
    except (Refused, AttributeError) as error:
        if isinstance(error, Refused) and error.code in UNREACHABLE:
            raise
        info = call("nvmlDeviceGetMemoryInfo", handle, where=where)
        return info.total, info.used, "version 1 of the call: includes the driver's reserve"


def processes(handle: object, where: str) -> int:
    """Compute processes; their ids are the host's, so only the count is useful."""
    name = "nvmlDeviceGetComputeRunningProcesses"
    try:
        return len(call(name + "_v3", handle, where=where))
    except Refused as refused:
        if refused.code in UNREACHABLE:
            raise
        return len(call(name + "_v2", handle, where=where))


def recovery_action(handle: object, where: str) -> int:
    """The driver's advice; drivers before 570 and older bindings do not know the field."""
    name = "nvmlDeviceGetFieldValues"
    field = getattr(pynvml, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
    if field is None:
        raise Refused(name, AttributeError("the binding does not know the field"))
    result = call(name, handle, [field], where=where)[0]
    if result.nvmlReturn != 0:
        raise Refused(name, pynvml.NVMLError(result.nvmlReturn))
    return int(result.value.uiVal)


def banks(histogram: Any) -> List[int]:
    """Banks of memory by the rows that they can still remap."""
    names = ("max", "high", "partial", "low", "none")
    return [int(getattr(histogram, name)) for name in names]


def sram_threshold(handle: object, where: str) -> Dict[str, object]:
    """Whether a GPU from Hopper on had more errors in SRAM than NVIDIA accepts."""
    name = "nvmlDeviceGetSramEccErrorStatus"
    status = structure(name, "c_nvmlEccSramErrorStatus_v1_t", "nvmlEccSramErrorStatus_v1")
    call(name, handle, ctypes.byref(status), where=where)
    return {"sram_threshold": bool(status.bThresholdExceeded)}


def fabric(handle: object, where: str) -> Dict[str, object]:
    """The state of the NVLink fabric."""
    name = "nvmlDeviceGetGpuFabricInfoV"
    info = structure(name, "c_nvmlGpuFabricInfo_v2_t", "nvmlGpuFabricInfo_v2")
    call(name, handle, ctypes.byref(info), where=where)
    return {"fabric": int(info.state)}


def structure(name: str, kind: str, version: str) -> Any:
    """A structure with its version, for calls that fill one."""
    try:
        filled = getattr(pynvml, kind)()
        filled.version = getattr(pynvml, version)
    except AttributeError as error:
        raise Refused(name, error) from None
    return filled


def slices(handle: object, where: str) -> List[Dict[str, object]]:
    """The MIG devices of a GPU."""
    parts: List[Dict[str, object]] = []
    for index in range(call("nvmlDeviceGetMaxMigDeviceCount", handle, where=where)):
        try:
            part = call("nvmlDeviceGetMigDeviceHandleByIndex", handle, index, where=where)
        except Refused as refused:
            if refused.code == NO_SUCH_OBJECT:
                continue
            raise
        parts.append(one_slice(part, "%s, MIG %d" % (where, index)))
    return parts


def one_slice(handle: object, where: str) -> Dict[str, object]:
    """One MIG device. Raises Refused if its UUID cannot be read."""
    part: Dict[str, object] = {"uuid": text(call("nvmlDeviceGetUUID", handle, where=where))}
    try:
        part["name"] = text(call("nvmlDeviceGetName", handle, where=where))
        part["memory_total"], part["memory_used"], _ = memory(handle, where)
    except Refused:
        pass  # the fields stay absent, which means unknown in a Slice
    return part


class Reader:
    """Fills the record of one GPU, field by field."""

    def __init__(self, index: int) -> None:
        self.where = " (GPU %d)" % index
        self.gpu: Dict[str, Any] = {"index": index, "uuid": "", "name": "", "unread": {}}

    def attempt(self, fields: Tuple[str, ...], read: Callable[[], Result]) -> Optional[Result]:
        """The result of `read`; None if NVML refuses, with the reason recorded for each field."""
        if self.gpu.get("lost"):
            return None
        try:
            return read()
        except Refused as refused:
            if refused.code in UNREACHABLE:
                self.gpu["lost"] = refused.reason
            self.gpu["unread"].update({field: refused.reason for field in fields})
            return None

    def read_field(
        self, field: str, name: str, *arguments: object, to: Callable[[Any], Any]
    ) -> None:
        """One field from one call."""
        value = self.attempt((field,), lambda: to(call(name, *arguments, where=self.where)))
        if value is not None:
            self.gpu[field] = value

    def read(self) -> Dict[str, Any]:
        """The fields of `doctor.facts.machine.Gpu`."""
        index = self.gpu["index"]
        handle = self.attempt(
            ("uuid", "name"), lambda: call("nvmlDeviceGetHandleByIndex", index, where=self.where)
        )
        if handle is not None:
            self._identity(handle)
            self._use(handle)
            self._health(handle)
        return self.gpu

    def _identity(self, handle: object) -> None:
        self.read_field("uuid", "nvmlDeviceGetUUID", handle, to=text)
        self.read_field("name", "nvmlDeviceGetName", handle, to=text)
        pci = self.attempt(
            ("bus_id", "pci_id"), lambda: call("nvmlDeviceGetPciInfo", handle, where=self.where)
        )
        if pci is not None:
            self.gpu["bus_id"], self.gpu["pci_id"] = text(pci.busId), int(pci.pciDeviceId) >> 16
        self.read_field("cores", "nvmlDeviceGetNumGpuCores", handle, to=int)
        self.read_field("vbios", "nvmlDeviceGetVbiosVersion", handle, to=text)
        self.read_field("capability", "nvmlDeviceGetCudaComputeCapability", handle, to=list)
        self.read_field("mig", "nvmlDeviceGetMigMode", handle, to=lambda mode: bool(mode[0]))
        if self.gpu.get("mig"):
            parts = self.attempt(("slices",), lambda: slices(handle, self.where))
            self.gpu["slices"] = parts or []

    def _use(self, handle: object) -> None:
        value = self.attempt(("memory_total", "memory_used"), lambda: memory(handle, self.where))
        if value is not None:
            self.gpu["memory_total"], self.gpu["memory_used"], remark = value
            if remark:
                self.gpu["unread"]["memory_reserved"] = remark
        limits = {
            "power_limit": "nvmlDeviceGetPowerManagementLimit",
            "power_limit_default": "nvmlDeviceGetPowerManagementDefaultLimit",
        }
        for field, name in limits.items():
            self.read_field(field, name, handle, to=int)
        self.read_field("compute_mode", "nvmlDeviceGetComputeMode", handle, to=int)
        self.read_field("persistence", "nvmlDeviceGetPersistenceMode", handle, to=bool)
        count = self.attempt(("processes",), lambda: processes(handle, self.where))
        if count is not None:
            self.gpu["processes"] = count
        self.read_field("display_active", "nvmlDeviceGetDisplayActive", handle, to=bool)

    def _health(self, handle: object) -> None:
        self.read_field("ecc", "nvmlDeviceGetEccMode", handle, to=lambda mode: bool(mode[0]))
        for field, kind in (("corrected", 0), ("uncorrected", 1)):
            volatile = 0
            self.read_field(field, "nvmlDeviceGetTotalEccErrors", handle, kind, volatile, to=int)
        rows = self.attempt(
            ("remap_pending", "remap_failed"),
            lambda: call("nvmlDeviceGetRemappedRows", handle, where=self.where),
        )
        if rows is not None:
            self.gpu["remap_pending"], self.gpu["remap_failed"] = bool(rows[2]), bool(rows[3])
        self.read_field("remap_banks", "nvmlDeviceGetRowRemapperHistogram", handle, to=banks)
        for field, read in (("sram_threshold", sram_threshold), ("fabric", fabric)):
            value = self.attempt((field,), functools.partial(read, handle, self.where))
            if value is not None:
                self.gpu.update(value)
        pages = "nvmlDeviceGetRetiredPagesPendingStatus"
        self.read_field("retired_pages_pending", pages, handle, to=bool)
        action = self.attempt(("recovery_action",), lambda: recovery_action(handle, self.where))
        if action is not None:
            self.gpu["recovery_action"] = action


def versions() -> Dict[str, object]:
    """Version, CUDA and confidential computing of the driver; None if NVML does not return it."""
    result: Dict[str, object] = {"version": None, "cuda_version": None, "confidential": None}
    try:
        result["version"] = text(call("nvmlSystemGetDriverVersion"))
    except Refused:
        pass  # stays None
    for name in ("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"):
        try:
            result["cuda_version"] = call(name)
            break
        except Refused:
            continue
    try:
        result["confidential"] = bool(call("nvmlSystemGetConfComputeState").ccFeature)
    except Refused:
        pass  # stays None
    return result


def library() -> Dict[str, object]:
    """Where the NVML library was loaded from, and whether that file is the host's, mounted here."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = [line.split(None, 5)[5].strip() for line in maps if "libnvidia-ml.so" in line]
    if not paths:
        return {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        points = {line.split()[4] for line in mounts}
    above = {point for point in points if "nvidia" in point and paths[0].startswith(point + "/")}
    return {"nvml_library": paths[0], "nvml_mounted": paths[0] in points or bool(above)}


def library_version() -> str:
    """ "; the library is 12.580.159" after a mismatch; "" if it cannot be read before nvmlInit."""
    try:
        return "; the NVML library is version %s" % text(call("nvmlSystemGetNVMLVersion"))
    except Refused:
        return ""


def main() -> None:
    """Start, versions, then GPU by GPU."""
    try:
        call("nvmlInit")
    except Refused as refused:
        more = ""
        if refused.code == MISMATCH:
            more = library_version()
            wire.send(note=library())
        wire.send(error=str(refused) + more, code=refused.code)
        return
    driver = versions()
    wire.send(note=driver)
    try:
        count = call("nvmlDeviceGetCount")
    except Refused as refused:
        wire.send(error=str(refused), code=refused.code)
        return
    gpus = []
    for index in range(count):
        gpus.append(Reader(index).read())
        wire.send(note={"gpu": gpus[-1]})
    known = [gpu["bus_id"] for gpu in gpus if gpu.get("bus_id")]
    if len(known) == count:
        with wire.stage("open the nodes of GPUs that are not listed"):
            driver["unlisted_gpus"] = nodes.unlisted(known)
    wire.send(answer=dict(driver, gpus=gpus))
    # Without persistence mode, the driver shuts the GPUs down when their last user ends, and starts
    # them again for torch.
    sys.stdin.buffer.read()
