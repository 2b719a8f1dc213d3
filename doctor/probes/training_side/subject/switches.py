"""torch's numeric switches, by getters that raise in no version and after no earlier setting.

Python 3.9.
"""

from __future__ import annotations

from types import ModuleType
from typing import Dict

BACKENDS = ("flash", "mem_efficient", "cudnn", "math")


def tf32_matmul(torch: ModuleType) -> bool:
    """Whether matmuls use TF32. The API fp32_precision is that of torch from 2.9 on."""
    matmul = torch.backends.cuda.matmul
    try:
        return bool(matmul.fp32_precision == "tf32")
    except (AttributeError, AssertionError):  # torch 2.1 raises the latter
        return bool(matmul.allow_tf32)


def sdp_enabled(torch: ModuleType) -> Dict[str, bool]:
    """Backend of attention -> its switch; backends that this torch lacks are omitted."""
    getters = {name: getattr(torch.backends.cuda, name + "_sdp_enabled", None) for name in BACKENDS}
    return {name: bool(getter()) for name, getter in getters.items() if getter is not None}
