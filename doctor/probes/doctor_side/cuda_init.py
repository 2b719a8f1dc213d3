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


def told_by(library: Any, function: str, code: int) -> str:
    """cuGetErrorName or cuGetErrorString; "" where it does not know."""
    found = ctypes.c_char_p()
    try:
        if getattr(library, function)(code, ctypes.byref(found)) != 0 or not found.value:
            return ""
    except AttributeError:
        return ""
    return found.value.decode("utf-8", "replace")


def said(library: Any, call: str, code: int) -> str:
    """ "cuInit: CUDA_ERROR_SYSTEM_NOT_READY (802), system not yet initialized"."""
    name = NAMES.get(code) or told_by(library, "cuGetErrorName", code) or "CUDA error"
    text = told_by(library, "cuGetErrorString", code)
    return "%s: %s (%d)%s" % (call, name, code, ", " + text if text else "")


def integer(library: Any, call: str) -> int:
    """What a call stores in its one int. Raises OSError with the library's error."""
    value = ctypes.c_int()
    with wire.stage(call):
        code = getattr(library, call)(ctypes.byref(value))
    if code != 0:
        raise OSError(code, said(library, call, code))
    return value.value


def main() -> None:
    """Load, start, count."""
    try:
        with wire.stage("dlopen " + LIBRARY):
            library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        wire.tell(error="dlopen: %s" % error)
        return
    with wire.stage("cuInit"):
        code = library.cuInit(0)
    if code != 0:
        wire.tell(error=said(library, "cuInit", code), code=code)
        return
    try:
        version = integer(library, "cuDriverGetVersion")
        wire.tell(note={"driver_version": version})
        wire.tell(
            answer={"driver_version": version, "devices": integer(library, "cuDeviceGetCount")}
        )
    except OSError as error:
        wire.tell(error=error.strerror, code=error.errno)


main()
