"""Landlock: from now on this process and its children write only below some paths.

Enforced by the kernel, without privileges, from Linux 5.13 on. Reading is never restricted, and
neither are chmod, chown and utime, for which Landlock has no rule.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Sequence

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of the system calls, the same on every architecture."""
VERSION_FLAG = 1
PATH_BENEATH = 1
NO_NEW_PRIVS = 38
"""PR_SET_NO_NEW_PRIVS"""

WRITE_FILE = 1 << 1
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE = sum(1 << bit for bit in range(6, 13))
"""Character devices, directories, files, sockets, pipes, block devices, links."""
REFER, TRUNCATE = 1 << 13, 1 << 14
FILE_RIGHTS = WRITE_FILE | TRUNCATE
"""Those that apply to a file rather than to what is below a directory."""
SCOPE_SIGNALS = 1 << 1

REFER_SINCE, TRUNCATE_SINCE, SCOPES_SINCE = 2, 3, 6
"""Versions of the interface."""

_libc = ctypes.CDLL(None, use_errno=True)


class LandlockError(OSError):
    """The kernel refused."""


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_fs", ctypes.c_uint64),
        ("handled_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """Of the kernel's interface; 0 where it has none or it is switched off."""
    return max(0, int(_libc.syscall(CREATE_RULESET, None, 0, VERSION_FLAG)))


def restrict_writes(paths: Iterable[str], devices: Sequence[str] = ()) -> int:
    """Restrict this thread and what it starts; the version of the interface.

    `paths` may be written, created in and removed from; `devices` may only be opened for writing.
    Signals reach only processes that are restricted alike, where the kernel can (version 6).
    Paths that do not exist are left out. Raises LandlockError.
    """
    found = version()
    if not found:
        raise LandlockError(ctypes.get_errno(), "the kernel has no Landlock")
    rights = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE
    rights |= REFER if found >= REFER_SINCE else 0
    rights |= TRUNCATE if found >= TRUNCATE_SINCE else 0
    ruleset = _Ruleset(rights, 0, SCOPE_SIGNALS if found >= SCOPES_SINCE else 0)
    size = ctypes.sizeof(ruleset) if found >= SCOPES_SINCE else 8
    descriptor = _call(CREATE_RULESET, ctypes.byref(ruleset), size, 0)
    try:
        for path in paths:
            _allow(descriptor, path, rights if os.path.isdir(path) else rights & FILE_RIGHTS)
        for path in devices:
            _allow(descriptor, path, rights & FILE_RIGHTS)
        if _libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0):
            raise LandlockError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        _call(RESTRICT_SELF, descriptor, 0)
    finally:
        os.close(descriptor)
    return found


def _allow(ruleset: int, path: str, rights: int) -> None:
    with contextlib.suppress(FileNotFoundError, PermissionError, NotADirectoryError):
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = _PathBeneath(rights, parent)
            _call(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
        finally:
            os.close(parent)


def _call(number: int, *arguments: object) -> int:
    """Raises LandlockError."""
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(_libc.syscall(number, *wide))
    if result < 0:
        error = ctypes.get_errno()
        raise LandlockError(error, os.strerror(error))
    return result
