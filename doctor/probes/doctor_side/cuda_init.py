"""Starts the CUDA driver through libcuda.so.1 alone, without torch and without a context."""

from __future__ import annotations

import ctypes
from typing import Any

import wire

LIBRARY = "libcuda.so.1"
NAMES = {
    1: "CUDA_ERROR_INVALID_VALUE",
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    34: "CUDA_ERROR_STUB_LIBRARY",
    46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
    100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE",
    304: "CUDA_ERROR_OPERATING_SYSTEM",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    999: "CUDA_ERROR_UNKNOWN",
}


def query(library: Any, function: str, code: int) -> str:
    """The result of cuGetErrorName or cuGetErrorString; "" if it does not know the code."""
    text = ctypes.c_char_p()
    try:
        if getattr(library, function)(code, ctypes.byref(text)) != 0 or not text.value:
            return ""
    except AttributeError:
        return ""
    return text.value.decode("utf-8", "replace")


def describe(library: Any, call: str, code: int) -> str:
    """ "cuInit: CUDA_ERROR_SYSTEM_NOT_READY (802), system not yet initialized"."""
    name = NAMES.get(code) or query(library, "cuGetErrorName", code) or "CUDA error"
    text = query(library, "cuGetErrorString", code)
    return "%s: %s (%d)%s" % (call, name, code, ", " + text if text else "")


def integer(library: Any, call: str) -> int:
    """The int that a call returns through its argument. Raises OSError with the library's error."""
    value = ctypes.c_int()
    with wire.stage(call):
        code = getattr(library, call)(ctypes.byref(value))
    if code != 0:
        raise OSError(code, describe(library, call, code))
    return value.value


def main() -> None:
    """Load, start, count."""
    try:
        with wire.stage("dlopen " + LIBRARY):
            library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        wire.send(error="dlopen: %s" % error)
        return
    with wire.stage("cuInit"):
        code = library.cuInit(0)
    if code != 0:
        wire.send(error=describe(library, "cuInit", code), code=code)
        return
    try:
        version = integer(library, "cuDriverGetVersion")
        wire.send(note={"driver_version": version})
        wire.send(
            answer={"driver_version": version, "devices": integer(library, "cuDeviceGetCount")}
        )
    except OSError as error:
        wire.send(error=error.strerror, code=error.errno)


main()
