"""Errors that a limit of memory, of processes or of a disk causes, as one line."""

from __future__ import annotations

import errno
import resource
from pathlib import Path

MEMORY_WORDS = ("cannot allocate memory", "failed to map segment", "can't allocate")
"""Parts of the loader's messages for a library that does not fit."""

CUT_BYTECODE = ("marshal data", "eof read where object expected")
"""What the interpreter says of a .pyc file that ends too early."""

PACKAGE = Path(__file__).parents[1]


def limit_reached(error: BaseException) -> str | None:
    """The limit that caused the error, and what to do; None if it is another error."""
    number = error.errno if isinstance(error, OSError) else None
    text = str(error).casefold()
    if "start new thread" in text or number == errno.EAGAIN:
        return _processes()
    if isinstance(error, MemoryError) or number == errno.ENOMEM:
        return _memory()
    if isinstance(error, ImportError) and any(words in text for words in MEMORY_WORDS):
        return _memory()
    if isinstance(error, (EOFError, ValueError)) and any(words in text for words in CUT_BYTECODE):
        return (
            "a file of cached bytecode is truncated, for example by a full disk: free some space "
            f"and delete the __pycache__ directories below {PACKAGE}"
        )
    return None


def address_space_is_limited() -> bool:
    """Whether a thread that is only convenient had better not be started."""
    return _soft(resource.RLIMIT_AS) is not None


def _processes() -> str:
    """Where the address space is limited, the stack of a thread may not fit into it."""
    size, limit, pids = _soft(resource.RLIMIT_AS), _soft(resource.RLIMIT_NPROC), _pids_max()
    limits = [f"ulimit -u is {limit}"] if limit is not None else []
    limits += [f"pids.max of the control group is {pids}"] if pids else []
    limits += [f"ulimit -v is {size >> 10}"] if size is not None else []
    name = "process limit" if size is None else "process limit or the address space limit"
    return (
        f"the {name} is reached: no further thread or process can be started "
        f"({', '.join(limits) or 'no limit of this process is known'}); raise the limit, or end "
        "other processes of this user"
    )


def _memory() -> str:
    size = _soft(resource.RLIMIT_AS)
    if size is None:
        return (
            "out of memory: the memory limit of the container or machine is reached; give the job "
            "more memory"
        )
    return (
        f"the address space limit is reached (ulimit -v is {size >> 10}, in KiB); raise it, for "
        "example with: ulimit -v unlimited"
    )


def _soft(kind: int) -> int | None:
    """The soft limit; None if there is none."""
    soft = resource.getrlimit(kind)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _pids_max() -> str:
    """The limit of this process's control group (v2), "" if it has none."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        group = next(line[3:] for line in lines if line.startswith("0::"))
        text = Path(f"/sys/fs/cgroup{group}/pids.max").read_text().strip()
    except (OSError, StopIteration, UnicodeDecodeError):
        return ""
    return text if text.isdecimal() else ""
