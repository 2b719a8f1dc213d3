"""Samples the clocks event reasons of GPUs until it is told to stop: clocks.py FD UUID...

The calls are no stages here: nobody reads the pipe while the smoke step runs.
"""

from __future__ import annotations

import select
import sys
from typing import Any, Dict, List

import wire

try:
    import pynvml
except ImportError as error:
    wire.tell(error=wire.said(error))
    sys.exit()

EVERY = 0.05
FUNCTIONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")


def handle_of(uuid: str) -> Any:
    """The GPU's handle; of a MIG device the GPU that it is a slice of."""
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    if uuid.startswith("MIG-"):
        return pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    return handle


class Watched:
    """One GPU and what was sampled of it; a sample that NVML refused is none."""

    def __init__(self, uuid: str) -> None:
        self.seen: Dict[str, Any] = {"uuid": uuid, "samples": 0, "mask": 0}
        try:
            self._handle = handle_of(uuid)
        except Exception:
            self._handle = None  # zero samples say it

    def sample(self) -> None:
        """The reasons of this moment, by the function's new name or its old one."""
        for name in FUNCTIONS if self._handle is not None else ():
            try:
                self.seen["mask"] |= int(getattr(pynvml, name)(self._handle))
                self.seen["samples"] += 1
                return
            except Exception:  # noqa: S112 - not in this driver, or not supported: no sample
                continue


def stopped(seconds: float) -> bool:
    """Wait that long at most for a request; the end of stdin ends the probe."""
    if not select.select([sys.stdin.buffer], [], [], seconds)[0]:
        return False
    if not sys.stdin.buffer.readline():
        sys.exit()
    return True


def main(uuids: List[str]) -> None:
    """Sample at once, then about twenty times a second."""
    with wire.stage("nvmlInit"):
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            wire.tell(error="nvmlInit: %s" % error, code=error.value)
            return
    watched = [Watched(uuid) for uuid in uuids]
    wire.tell(answer={"ready": True})
    while not stopped(EVERY):
        for gpu in watched:
            gpu.sample()
    wire.tell(answer={"watched": [gpu.seen for gpu in watched]})


main(sys.argv[2:])
