"""Namespaces of Linux: a network without a route, and mounts that are read-only but for some paths.

Both need an unprivileged user namespace, which containers often forbid.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Sequence

NEW_MOUNTS, NEW_USER, NEW_NETWORK = 0x20000, 0x10000000, 0x40000000
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000
MOUNT_SETATTR = 442
AT_RECURSIVE, AT_FDCWD = 0x8000, -100
READ_ONLY = 1
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 1
"""ioctl requests of a network interface."""

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("namespace", ctypes.c_uint64),
    )


def without_network() -> None:
    """Leave the network: only the loopback interface remains. Raises OSError.

    This process keeps its user and group; it is alone in a user namespace from now on.
    """
    user, group = os.geteuid(), os.getegid()
    _checked(_libc.unshare(NEW_USER | NEW_NETWORK | NEW_MOUNTS))
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    _raise_loopback()


def read_only_but(paths: Sequence[str]) -> None:
    """Make every mount read-only except below these directories. Raises OSError.

    Needs the namespaces of `without_network`. Devices stay writable. It also refuses chmod, chown
    and utime outside, which Landlock does not.
    """
    directory = os.getcwd()
    kept = [path for path in paths if os.path.isdir(path)]
    _mount(None, "/", RECURSIVE | PRIVATE)
    for path in kept:
        _mount(path, path, BIND | RECURSIVE)
    _set_attributes("/", _MountAttributes(set=READ_ONLY))
    for path in kept:
        with contextlib.suppress(OSError):  # it was read-only before
            _set_attributes(path, _MountAttributes(clear=READ_ONLY))
    os.chdir(directory)  # through the mounts as they are now


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, GET_FLAGS, request))[1]
        fcntl.ioctl(control, SET_FLAGS, struct.pack("16sh14x", b"lo", flags | UP))


def _mount(source: str | None, target: str, flags: int) -> None:
    encoded = None if source is None else os.fsencode(source)
    _checked(_libc.mount(encoded, os.fsencode(target), None, ctypes.c_ulong(flags), None))


def _set_attributes(path: str, attributes: _MountAttributes) -> None:
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    where = ctypes.c_char_p(os.fsencode(path))
    flags = ctypes.c_uint(AT_RECURSIVE)
    directory = ctypes.c_int(AT_FDCWD)
    number = ctypes.c_long(MOUNT_SETATTR)
    _checked(_libc.syscall(number, directory, where, flags, ctypes.byref(attributes), size))


def _checked(result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
