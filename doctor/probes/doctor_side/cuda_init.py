"""Starts the CUDA driver through libcuda.so.1 alone, without torch and without a context."""

from __future__ import annotations

import ctypes
import os
import stat

from .. import wire

LIBRARY = "libcuda.so.1"
NAMES = {
    1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 3: "CUDA_ERROR_NOT_INITIALIZED",
    34: "CUDA_ERROR_STUB_LIBRARY", 46: "CUDA_ERROR_DEVICE_UNAVAILABLE", 100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE", 304: "CUDA_ERROR_OPERATING_SYSTEM",
    802: "CUDA_ERROR_SYSTEM_NOT_READY", 803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", 999: "CUDA_ERROR_UNKNOWN",
}  # fmt: skip


NODES = ("nvidiactl", "nvidia-uvm")
"""Device nodes that cuInit opens besides those of the GPUs, which a scheduler may forbid one by
one.
"""
UVM = "nvidia-uvm"


def unusable_nodes(root: str) -> dict[str, str] | None:
    """Device node -> why this process cannot use it; None where the driver has none (WSL).

    A node of the UVM module that was made for another major number opens another device: the
    number is new at each load of the module, and a container keeps its node.
    """
    dev = os.path.join(root, "dev")
    try:
        names = os.listdir(dev)
    except OSError:
        return None
    if not any(name.startswith("nvidia") and name[6:] in ("0", "ctl") for name in names):
        return None
    reasons = {
        "/dev/" + name: reason(os.path.join(dev, name), uvm_major(root) if name == UVM else None)
        for name in NODES
    }
    return {node: why for node, why in reasons.items() if why}


def reason(path: str, major: int | None) -> str:
    """Why the node cannot be used; "" if it can. `major` is that of the driver, None: not known."""
    try:
        status = os.stat(path)
        if not stat.S_ISCHR(status.st_mode):
            return "is not a device node"
        if major is not None and os.major(status.st_rdev) != major:
            return "belongs to device %d, the driver's is %d" % (os.major(status.st_rdev), major)
        os.close(os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0)))
    except OSError as error:
        return "%s (%s)" % (os.strerror(error.errno or 0), error.errno)
    return ""


def uvm_major(root: str) -> int | None:
    """The major number that the kernel gave to nvidia_uvm; None: it lists no such device."""
    try:
        with open(os.path.join(root, "proc/devices"), encoding="utf-8", errors="replace") as file:
            for line in file:
                number, _, name = line.strip().partition(" ")
                if name == UVM and number.isdecimal():
                    return int(number)
    except OSError:
        pass
    return None


def query(library: object, function: str, code: int) -> str:
    """The result of cuGetErrorName or cuGetErrorString; "" if it does not know the code."""
    text = ctypes.c_char_p()
    try:
        if getattr(library, function)(code, ctypes.byref(text)) != 0 or not text.value:
            return ""
    except AttributeError:
        return ""
    return text.value.decode("utf-8", "replace")


def describe(library: object, call: str, code: int) -> str:
    """ "cuInit: CUDA_ERROR_SYSTEM_NOT_READY (802), system not yet initialized"."""
    name = NAMES.get(code) or query(library, "cuGetErrorName", code) or "CUDA error"
    text = query(library, "cuGetErrorString", code)
    return "%s: %s (%d)%s" % (call, name, code, ", " + text if text else "")


def integer(library: object, call: str) -> int:
    """The int that a call returns through its argument. Raises OSError with the library's error."""
    value = ctypes.c_int()
    with wire.stage(call):
        code = getattr(library, call)(ctypes.byref(value))
    if code != 0:
        raise OSError(code, describe(library, call, code))
    return value.value


def main(root: str = "/") -> None:
    """Load, start, count. `root` is / but in tests."""
    try:
        with wire.stage("dlopen " + LIBRARY):
            library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        wire.send(error="dlopen: %s" % error)
        return
    with wire.stage("cuInit"):
        code = library.cuInit(0)
    if code != 0:
        with wire.stage("open of the device nodes"):
            wire.send(note={"unusable_nodes": unusable_nodes(root)})
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
