"""Interpreters in which something is wrong with torch, or with a stage of a probe."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import preloaded
import pytest

HOOK = """
import builtins, os, signal, sys, time
plain = builtins.__import__
def hooked(name, *rest, **named):
    module = plain(name, *rest, **named)
    wire = sys.modules.get("_doctor_probes.wire")
    if hasattr(wire, "received") and not hasattr(wire, "hooked"):  # its last function
        wire.hooked, send, requests = True, wire.send, wire.requests
        def sending(**message):
            send(**message)
            entered(message.get("enter"))
        def spoiled(received):
            for number, request in enumerate(received):
                torch = sys.modules.get("torch")
                if number == 0 and torch is not None:
                    spoil(torch)
                yield request
        wire.send, wire.requests = sending, lambda: spoiled(requests())
    return module
def entered(stage):
    pass
def spoil(torch):
    pass
builtins.__import__ = hooked
"""


def python(
    folder: Path, code: str, modules: tuple[str, ...] = preloaded.TORCH, **variables: str
) -> str:
    """An interpreter that defines `entered(stage)` or `spoil(torch)` anew before any probe.

    It does not see the fake drivers of LD_LIBRARY_PATH, which a fork could not load.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(HOOK + code)
    path = folder / "python"
    start = f'PYTHONPATH={folder} exec {preloaded.python(modules, **variables)} "$@"'
    path.write_text(f"#!/bin/bash\nunset LD_LIBRARY_PATH\n{start}\n")
    path.chmod(0o755)
    return str(path)


def marked(name: str) -> list[str]:
    """Command lines of live processes with a variable in their environment, this one left out."""
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if name.encode() not in (folder / "environ").read_bytes():
                continue
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if int(folder.name) != os.getpid():
            lines.append(line)
    return lines


def left(name: str) -> list[str]:
    """The marked processes that do not end; [] as soon as there are none."""
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: not marked(name))
    return marked(name)


PATIENCE = 240.0
"""Seconds that a test waits for what takes milliseconds on an idle machine."""


@contextlib.contextmanager
def clock_stopped_until(condition: Callable[[], object]) -> Iterator[None]:
    """Deadlines of this process begin when the condition is true, as when a child hangs.

    However slow the machine is, the child has then reached the place where it hangs.
    """
    real, stopped = time.monotonic, time.monotonic()
    resumed: list[float] = []

    def monotonic() -> float:
        if not resumed and (condition() or real() > stopped + PATIENCE):
            resumed.append(real())
        return stopped + (real() - resumed[0] if resumed else 0.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", monotonic)
        yield


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until the condition is true. Raises TimeoutError if it does not become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not true within {seconds:g} s")
        time.sleep(0.02)
