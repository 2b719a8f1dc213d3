"""Whether heat or power makes a GPU brake, asked of the driver's library without its binding.

The training interpreter need not have pynvml. What cannot be read is no brake.
"""

from __future__ import annotations

import ctypes
from typing import Any, Optional

BRAKES = {0x80: "the power brake", 0x40: "a hardware thermal slowdown", 0x8: "a hardware slowdown"}
"""Bits of NVML's clock event reasons by which hardware protects itself."""
REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")


class Brake:
    """The brakes of the GPU with this UUID of NVML; without one never on."""

    def __init__(self, uuid: Optional[str]) -> None:
        self._library: Any = None
        self._handle = ctypes.c_void_p()
        if not uuid:
            return
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            if library.nvmlInitWithFlags(0):
                return
            if library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self._handle)) == 0:
                self._library = library
        except (OSError, AttributeError):
            pass  # without the library, nothing is known of brakes

    def reason(self) -> str:
        """Which brake is on, "" if none is or it is not known."""
        mask = self._mask() if self._library else None
        return next((text for bit, text in BRAKES.items() if (mask or 0) & bit), "")

    def _mask(self) -> Optional[int]:
        mask = ctypes.c_ulonglong()
        for name in REASONS:
            read = getattr(self._library, name, None)
            if read is not None and read(self._handle, ctypes.byref(mask)) == 0:
                return mask.value
        return None
