"""Which AMD GPUs PyTorch's ROCm wheels have code for.

ROCm runs a kernel on exactly the architectures that it was compiled for, by their gfx names.
"""

from __future__ import annotations

import re

from doctor.facts.interpreter import Torch

_FIRST = frozenset({"gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030", "gfx1100"})
_SINCE_6_0 = _FIRST | {"gfx942", "gfx1101", "gfx1102", "gfx1200", "gfx1201"}
_SINCE_6_4 = _SINCE_6_0 | {"gfx950", "gfx1103", "gfx1150", "gfx1151"}
_BY_ROCM = (((0, 0), _FIRST), ((6, 0), _SINCE_6_0), ((6, 4), _SINCE_6_4))
"""From which ROCm on -> the most that a wheel of PyTorch for it has code for: PYTORCH_ROCM_ARCH in
.ci/docker/manywheel/build.sh of pytorch/builder and of releases up to 2.13. Some wheels have less.
"""

_OVERRIDES = (("gfx103", "10.3.0"), ("gfx110", "11.0.0"), ("gfx115", "11.0.0"))
"""Beginning of a gfx name -> the value of HSA_OVERRIDE_GFX_VERSION with which users run code of its
family; see pytorch/pytorch issues 103973 and 164346."""

_WHEEL = re.compile(r"\+rocm(\d+)\.(\d+)(\.\d+)?$")
_GFX = re.compile(r"\bgfx(\d{1,2}\d[0-9a-f])\b")


def gfx_in(name: str) -> str | None:
    """The gfx name in a text such as "AMD Radeon RX 5700 XT (gfx1010:xnack-)"."""
    match = _GFX.search(name)
    return match[0] if match else None


def wheel_codes(version: str) -> frozenset[str] | None:
    """The most that this wheel may have code for; None for a build that is not PyTorch's own.

    AMD's wheels for ROCm 7 and newer name three parts of its version.
    """
    match = _WHEEL.search(version)
    if match is None or (match[3] and int(match[1]) >= 7):
        return None
    rocm = int(match[1]), int(match[2])
    return next(codes for since, codes in reversed(_BY_ROCM) if rocm >= since)


def rocm_of(torch: Torch) -> tuple[int, int]:
    """The ROCm that torch was built for."""
    match = re.match(r"(\d+)\.(\d+)", torch.hip or "")
    return (int(match[1]), int(match[2])) if match else (0, 0)


def first_rocm(gfx: str) -> tuple[int, int] | None:
    """The ROCm from which on wheels of PyTorch have code for it; None: no wheel has."""
    return next((since for since, codes in _BY_ROCM if gfx in codes), None)


def override(gfx: str) -> str | None:
    """The command that makes ROCm run the code of a similar GPU; None: nobody reports that."""
    version = next((value for start, value in _OVERRIDES if gfx.startswith(start)), None)
    return f"export HSA_OVERRIDE_GFX_VERSION={version}" if version else None
