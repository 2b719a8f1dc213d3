"""One GPU's end of the copies between GPUs, through the driver alone: doctor_side.peers INDEX.

Each GPU has a process of its own with a buffer in its memory, which the others open through CUDA's
interprocess handles and write to. The peer copies of frameworks are routed around a broken path;
stores to memory that is mapped this way are not. The owner then reads its buffer and
compares every value. Requests, one JSON line each:
    {"do": "offer"}                            {"handle": hex of the interprocess handle}
    {"do": "write", "target": index, "handle": hex, "seed": n}
                                               {"rate": bytes per second of a copy}
    {"do": "verify", "seed": n}                {"wrong": elements that differ}
Standard library only. An error carries CUDA's code and leaves the process usable.
"""

from __future__ import annotations

import array
import ctypes
import time
from typing import Any, Callable, Dict

from .. import wire

SIZE = 16 * 2**20
"""Bytes of each half of the buffer: stores of the writer's kernels go to the first, a copy by its
copy engine to the second."""
CHUNK = SIZE // 64
LAZY_PEER_ACCESS = 1
NO_PEER_ACCESS = 217
TIMED = 3
MIX = 2654435761
"""Knuth's multiplier: neighbouring chunks get words that differ in most bits."""


class Refused(Exception):
    """A CUDA call that returned an error."""

    def __init__(self, name: str, code: int, reason: str) -> None:
        self.code = code
        super().__init__("%s: %s (%d)" % (name, reason, code))


class Handle(ctypes.Structure):
    """CUipcMemHandle, which is passed by value."""

    _fields_ = [("data", ctypes.c_ubyte * 64)]


class Driver:
    """libcuda's functions; each is a stage, so that a hang can be attributed to it."""

    def __init__(self) -> None:
        with wire.stage("dlopen libcuda.so.1"):
            self._library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: object) -> None:
        """Raises Refused for any result except success."""
        with wire.stage(name):
            code = int(getattr(self._library, name)(*arguments))
        if code:
            raise Refused(name, code, self._error_name(code))

    def _error_name(self, code: int) -> str:
        text = ctypes.c_char_p()
        if self._library.cuGetErrorName(code, ctypes.byref(text)) or not text.value:
            return "CUDA error"
        return text.value.decode("ascii", "replace")


def word(seed: int, chunk: int) -> int:
    """The 32-bit value that fills a chunk."""
    return (seed * 64 + chunk + 1) * MIX % 2**32


def pattern(seed: int) -> bytes:
    """The content of both halves after a write."""
    count = CHUNK // 4
    return b"".join(word(seed, k).to_bytes(4, "little") * count for k in range(SIZE // CHUNK))


class End:
    """The context and the two buffers of one GPU: `mine` is written by others, `source` is read."""

    def __init__(self, index: int) -> None:
        self.cuda = Driver()
        self.cuda.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.device = self._device(index)
        self.cuda.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.cuda.call("cuCtxSetCurrent", context)
        self.mine, self.source = self._buffer(2 * SIZE), self._buffer(SIZE)

    def _device(self, index: int) -> ctypes.c_int:
        device = ctypes.c_int()
        self.cuda.call("cuDeviceGet", ctypes.byref(device), index)
        return device

    def _buffer(self, size: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.cuda.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def offer(self, request: Dict[str, Any]) -> Dict[str, object]:
        """The handle of this GPU's buffer, for the others."""
        handle = Handle()
        self.cuda.call("cuIpcGetMemHandle", ctypes.byref(handle), self.mine)
        return {"handle": bytes(handle.data).hex()}

    def write(self, request: Dict[str, Any]) -> Dict[str, object]:
        """Fill the buffer of another GPU from this one."""
        can = ctypes.c_int()
        target = self._device(request["target"])
        self.cuda.call("cuDeviceCanAccessPeer", ctypes.byref(can), self.device, target)
        if not can.value:
            raise Refused("cuDeviceCanAccessPeer", NO_PEER_ACCESS, "no direct access")
        handle = Handle.from_buffer_copy(bytes.fromhex(request["handle"]))
        theirs, data = ctypes.c_uint64(), pattern(request["seed"])
        self.cuda.call(
            "cuIpcOpenMemHandle_v2", ctypes.byref(theirs), handle, ctypes.c_uint(LAZY_PEER_ACCESS)
        )
        self._store(theirs.value, request["seed"])
        self.cuda.call("cuMemcpyHtoD_v2", self.source, data, ctypes.c_size_t(SIZE))
        rate = self._copy(theirs.value + SIZE)
        self.cuda.call("cuIpcCloseMemHandle", theirs)
        return {"rate": rate}

    def _store(self, address: int, seed: int) -> None:
        for k in range(SIZE // CHUNK):
            place = ctypes.c_uint64(address + k * CHUNK)
            count = ctypes.c_size_t(CHUNK // 4)
            self.cuda.call("cuMemsetD32_v2", place, ctypes.c_uint(word(seed, k)), count)
        self.cuda.call("cuCtxSynchronize")

    def _copy(self, address: int) -> float:
        began = time.perf_counter()
        for _ in range(TIMED):
            self.cuda.call(
                "cuMemcpyDtoD_v2", ctypes.c_uint64(address), self.source, ctypes.c_size_t(SIZE)
            )
        self.cuda.call("cuCtxSynchronize")
        return TIMED * SIZE / (time.perf_counter() - began)

    def verify(self, request: Dict[str, Any]) -> Dict[str, object]:
        """Count the wrong elements, and clear the buffer for the next writer."""
        size = ctypes.c_size_t(2 * SIZE)
        content = ctypes.create_string_buffer(2 * SIZE)
        self.cuda.call("cuMemcpyDtoH_v2", content, self.mine, size)
        self.cuda.call("cuMemsetD32_v2", self.mine, ctypes.c_uint(0), ctypes.c_size_t(SIZE // 2))
        self.cuda.call("cuCtxSynchronize")
        return {"wrong": count_different(content.raw, pattern(request["seed"]) * 2)}


def count_different(content: bytes, expected: bytes) -> int:
    """The number of 32-bit elements that differ."""
    wrong = 0
    for at in range(0, len(expected), CHUNK):
        if content[at : at + CHUNK] != expected[at : at + CHUNK]:
            pairs = (array.array("I", data[at : at + CHUNK]) for data in (content, expected))
            wrong += sum(a != b for a, b in zip(*pairs))
    return wrong


def main(*arguments: str) -> None:
    """Create context and buffers and report ready; then serve the requests."""
    try:
        end = End(int(arguments[0]))
    except (OSError, Refused) as error:
        code = error.code if isinstance(error, Refused) else None
        wire.send(error=str(error) if code else wire.describe(error), code=code)
        return
    wire.send(answer={"ready": True})
    handlers: Dict[str, Callable[[Dict[str, Any]], Dict[str, object]]] = {
        "offer": end.offer,
        "write": end.write,
        "verify": end.verify,
    }
    for request in wire.requests():
        try:
            wire.send(answer=handlers[request["do"]](request))
        except Refused as refused:
            wire.send(error=str(refused), code=refused.code)
