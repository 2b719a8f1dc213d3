"""CUDA in torch: the devices, a kernel on each, and the libraries that are mapped afterwards."""

from __future__ import annotations

import ctypes
import os
import re
import time
from types import ModuleType
from typing import Any, Dict, List, Optional, Tuple

from ... import wire

LIBRARY = re.compile(r"(^|/)lib(cudnn(_\w+)?|cublas(Lt)?|nccl|nvJitLink)\.so(\.[\d.]+)?$")
COUNT = 4096
SUM_OF_ODD_NUMBERS = COUNT * COUNT
"""1 + 3 + ... over COUNT numbers; every partial sum is exact in fp32."""


def ended(start: float, error: Optional[BaseException] = None) -> Dict[str, Any]:
    """The record of how a call that started then ended."""
    seconds = time.perf_counter() - start
    if error is None:
        return {"how": "ok", "seconds": seconds}
    code = getattr(error, "error_code", None)
    record = {"how": "error", "detail": wire.describe(error), "seconds": seconds}
    return dict(record, code=code) if isinstance(code, int) else record


def devices(torch: ModuleType) -> Dict[str, Any]:
    """doctor.facts.interpreter.Cuda: torch.cuda.init and the properties of each visible device."""
    start = time.perf_counter()
    failure: Optional[Exception] = None
    with wire.stage("torch.cuda.init"):
        try:
            torch.cuda.init()
        except Exception as error:
            failure = error
    started = ended(start, failure)
    if failure is not None:
        return {"cuda": {"started": started}}
    gpus = []
    for index in range(torch.cuda.device_count()):
        with wire.stage("properties of cuda:%d" % index):
            gpus.append(_device(torch, index))
    return {"cuda": {"started": started, "gpus": gpus}}


def _device(torch: ModuleType, index: int) -> Dict[str, Any]:
    properties = torch.cuda.get_device_properties(index)
    gfx = str(getattr(properties, "gcnArchName", "")) if torch.version.hip else ""
    return {
        "index": index,
        "uuid": _uuid(properties, index, bool(torch.version.hip)),
        "name": properties.name,
        "gfx": gfx.split(":")[0] or None,
        "capability": [properties.major, properties.minor],
        "memory_total": properties.total_memory,
        "units": int(properties.multi_processor_count),
        "integrated": bool(getattr(properties, "is_integrated", False)),
    }


def _uuid(properties: Any, index: int, hip: bool) -> Optional[str]:
    """As NVML spells it. The driver's value comes first: only its newer call knows MIG slices."""
    uuid = None if hip else _uuid_of_driver(index)
    if uuid is None and hasattr(properties, "uuid"):
        uuid = str(properties.uuid)
    if not uuid or uuid.startswith(("GPU-", "MIG-")):
        return uuid or None
    return ("MIG-" if " MIG " in properties.name else "GPU-") + uuid


def _uuid_of_driver(index: int) -> Optional[str]:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        device, data = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        if cuda.cuDeviceGet(ctypes.byref(device), index) or cuda.cuDeviceGetUuid_v2(data, device):
            return None
    except (OSError, AttributeError):
        return None
    digits = bytes(data).hex()
    return "-".join(digits[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))


def kernel(torch: ModuleType, index: int) -> Dict[str, Any]:
    """Whether a kernel runs on that GPU and returns the correct result."""
    start = time.perf_counter()
    failure: Optional[Exception] = None
    with wire.stage("kernel on cuda:%d" % index):
        try:
            numbers = torch.arange(COUNT, device="cuda:%d" % index, dtype=torch.float32)
            result = (numbers * 2 + 1).sum().item()
            if result != SUM_OF_ODD_NUMBERS:
                failure = ValueError("the sum came back as %r, not %d" % (result, COUNT * COUNT))
        except Exception as error:
            failure = error
    return {"kernel": ended(start, failure)}


def libraries(torch: ModuleType, precision: str = "") -> Dict[str, Any]:
    """The libraries mapped after a matmul and an attention call, and those that could be found.

    `precision`: "fp16" for a job that trains in it; else bf16 where the GPU has it.
    """
    with wire.stage("matmul and attention on cuda:0"):
        used = _use(torch, precision)
    with wire.stage("cuDNN's version"):
        version, error = _cudnn(torch)
    with wire.stage("LD_LIBRARY_PATH"):
        files = {"loaded": _loaded(), "offered": _offered(), "used": used}
    order = None
    if used["how"] == "ok" and hasattr(torch._C, "_get_sdp_priority_order"):
        # Only now: torch moves cuDNN up at its first attention call on CUDA.
        order = [int(backend) for backend in torch._C._get_sdp_priority_order()]
    return {"libraries": files, "sdp_priority": order, "cudnn": version, "cudnn_error": error}


def _use(torch: ModuleType, precision: str) -> Dict[str, Any]:
    start = time.perf_counter()
    failure: Optional[Exception] = None
    try:
        major = torch.cuda.get_device_properties(0).major
        has_bf16 = major >= 8 or torch.version.hip
        dtype = torch.bfloat16 if has_bf16 and precision != "fp16" else torch.float16
        # The layout of small_model.py, with gradients: cuDNN has its plan for the smoke step.
        x = torch.ones(2, 160, 3, 2, 64, device="cuda:0", dtype=dtype, requires_grad=True)
        q, k, v = x.permute(2, 0, 3, 1, 4)
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.matmul(q[0, 0], attended[0, 0].t()).sum().item()
    except Exception as error:
        failure = error
    return ended(start, failure)


def _cudnn(torch: ModuleType) -> Tuple[Optional[int], Optional[str]]:
    try:
        return torch.backends.cudnn.version(), None
    except Exception as error:
        return None, wire.describe(error)


def _loaded() -> List[str]:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        paths = {line.rstrip("\n").split(" ", 5)[-1].strip() for line in maps}
    return _printable(path for path in paths if LIBRARY.search(path))


def _offered() -> List[str]:
    paths = set(re.split(r"[ :]+", os.environ.get("LD_PRELOAD", "")))
    directories = os.environ.get("LD_LIBRARY_PATH")
    for directory in directories.split(":") if directories else ():
        try:
            paths.update(
                os.path.join(directory, name) for name in os.listdir(directory or os.curdir)
            )
        except OSError:
            continue
    return _printable(os.path.realpath(path) for path in paths if LIBRARY.search(path))


def _printable(paths: Any) -> List[str]:
    return sorted({os.fsencode(path).decode("utf-8", "replace") for path in paths})
