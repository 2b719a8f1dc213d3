"""Which attention backend torch takes first: as observed after a call, else by its rule."""

from __future__ import annotations

from packaging.version import Version

from doctor._util.records import Unknown
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Torch
from doctor.judge.switches import CUDNN_VARIABLE_SINCE, VARIABLES, Switch

MATH, FLASH, EFFICIENT, CUDNN = 0, 1, 2, 3
"""Values of torch.nn.attention.SDPBackend."""
NAMES = {MATH: "math", FLASH: "flash", EFFICIENT: "mem_efficient", CUDNN: "cudnn"}
"""Keys of Torch.sdp_enabled."""
PREFERRED_ABOVE = 91500
"""From torch 2.10 on, cuDNN comes first above this cuDNN version (pytorch#169849)."""
Switches = dict[str, bool]
"""Backend -> whether it is enabled; a backend that is not listed is."""


def first_backend(
    version: Version,
    torch: Torch,
    enabled: Switches,
    cuda: Cuda | Unknown | None,
    host: Host | Unknown,
    capability: tuple[int, int] | None,
) -> int | None:
    """The first enabled backend in torch's order: as observed, else by the rule."""
    order = cuda.sdp_priority if isinstance(cuda, Cuda) else None
    if order is None:
        front = _rule(version, torch, host, capability)
        if front is None:
            return None
        order = (front, FLASH, EFFICIENT, MATH)
    on = [backend for backend in order if enabled.get(NAMES.get(backend, ""), True)]
    return on[0] if on else None


def _rule(
    version: Version, torch: Torch, host: Host | Unknown, capability: tuple[int, int] | None
) -> int | None:
    """The first backend by torch's rule for this version; None if that cannot be determined."""
    if version.release[:3] == (2, 5, 0) or version.release[:2] >= (2, 9):
        if capability is None:
            return None
        if capability[0] not in (9, 10):
            return FLASH
    if version.release[:2] >= CUDNN_VARIABLE_SINCE:
        return _rule_since_2_10(version, torch, host, capability)
    if version.release[:3] == (2, 5, 0):
        return CUDNN
    if version.release[:2] == (2, 9) and torch.cuda != "12.8":
        return None  # whether cuDNN comes first in the other builds of 2.9 was not measured
    return FLASH


def _rule_since_2_10(
    version: Version, torch: Torch, host: Host | Unknown, capability: tuple[int, int] | None
) -> int | None:
    if deprioritized(host, version):
        return FLASH
    before_13 = (torch.cuda or "").startswith("12.")
    if before_13 and capability and capability[1] not in (0, 3):
        return FLASH
    if torch.cudnn is None or isinstance(host, Unknown):
        return None
    return CUDNN if torch.cudnn > PREFERRED_ABOVE else FLASH


def deprioritized(host: Host | Unknown, version: Version) -> bool:
    """Whether the environment puts cuDNN attention last."""
    if not isinstance(host, Host) or version.release[:2] < CUDNN_VARIABLE_SINCE:
        return False
    name, value = VARIABLES[Switch.CUDNN_SDP].split("=")
    return host.env.get(name) == value
