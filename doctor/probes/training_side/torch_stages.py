"""torch in the training interpreter: its import first, then the stages it is asked for.

    python torch_stages.py FD

The import is answered unasked: {"version": Python's, "torch": {sections.Torch}}. After it, one
JSON line on stdin per request, one answer each:
    {"stage": "devices"}              {"cuda": {sections.Cuda}}; no kernel is launched
    {"stage": "kernel", "index": 0}   {"kernel": {sections.Ended}}
    {"stage": "libraries"}            {"libraries": {...}, "sdp_priority": [...],
                                       "cudnn": 91900, "cudnn_error": null}
    {"stage": "smoke", "device": "cuda:0", "precision": "bf16", "recipe": "amp", "subject": {...}}
                                      {"smoke": {sections.Smoke}}, and a note per step; the subject
                                      as subjects.py describes it, the small model by default
    {"stage": "attempt", "change": "math", ...}
                                      {"attempt": {"smoke": {...}} or {"not_possible": "reason"}};
                                      the rest of the request as above, and changes.py
    {"stage": "look"}, {"stage": "walk"}, {"stage": "anomaly", "step": 1}
                                      {"look": {...}} of inspect_step.py, the others of
                                      follow_step.py
    {"stage": "load", "device": "cuda:0"}           {"load": fields of card_sections.Load}
    {"stage": "host copies", "device": "cuda:0"}    {"load": its fields about the host}
    {"stage": "reduce", "device": "cuda:0", "backend": "nccl", "rank": 0, "ranks": 2,
     "store": path, "within": seconds} {"reduce": {"wrong": elements, "rate": bytes per second}}
    {"stage": "attention", ...}       {"cut_short": ""}, and the notes of attention_trial.py
    {"stage": "own"}, {"stage": "lora"}, {"stage": "compiled"}
                                      the user's own training: own_stages.py, lora_orders.py,
                                      compiled_step.py
CUDA errors stick to a process. So after one it answers and ends: start a new one for what is left.
Standard library and torch only, Python 3.9, run by path; nothing is imported before torch that
torch does not import itself.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import platform
import re
import sys
import time
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple

import wire

LIBRARY = re.compile(r"(^|/)lib(cudnn(_\w+)?|cublas(Lt)?|nccl|nvJitLink)\.so(\.[\d.]+)?$")
SOUGHT = ("attempt", "look", "walk", "anomaly")
COUNT = 4096
SUM_OF_ODD_NUMBERS = COUNT * COUNT
"""1 + 3 + ... over COUNT numbers; every partial sum is exact in fp32."""


def ended(began: float, error: Optional[BaseException] = None) -> Dict[str, Any]:
    """sections.Ended of a call that began then."""
    spent = time.perf_counter() - began
    if error is None:
        return {"how": "ok", "seconds": spent}
    code = getattr(error, "error_code", None)
    told = {"how": "error", "detail": wire.said(error), "seconds": spent}
    return dict(told, code=code) if isinstance(code, int) else told


def interpreter() -> Dict[str, Any]:
    """What is known before torch is imported, and needed if that fails."""
    pip = importlib.util.find_spec("pip") is not None
    return {"version": platform.python_version(), "pip": pip}


def import_torch() -> Any:
    """torch, or the end of this process with the import's last error line told."""
    try:
        with wire.stage("import torch"):
            import torch
    except BaseException as error:
        import traceback

        traceback.print_exc()
        wire.tell(error=wire.said(error))
        os._exit(1)
    return torch


def build(torch: Any) -> Dict[str, Any]:
    """sections.Torch, without a CUDA call: cuDNN's version is asked for with the libraries."""
    flags = getattr(torch._C, "_cuda_getArchFlags", str)()
    switches = wire.sibling("switches")
    tf32, api = switches.tf32_matmul(torch)
    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "archs": (flags or "").split(),
        "tf32_matmul": tf32,
        "tf32_api": api,
        "sdp_enabled": switches.sdp_enabled(torch),
        "mps": bool(torch.backends.mps.is_available()),
    }


def devices(torch: Any) -> Dict[str, Any]:
    """sections.Cuda: torch.cuda.init and the properties of each visible device."""
    began = time.perf_counter()
    failed: Optional[Exception] = None
    with wire.stage("torch.cuda.init"):
        try:
            torch.cuda.init()
        except Exception as error:
            failed = error
    started = ended(began, failed)
    if failed is not None:
        return {"cuda": {"started": started}}
    gpus = []
    for index in range(torch.cuda.device_count()):
        with wire.stage("properties of cuda:%d" % index):
            gpus.append(_device(torch, index))
    return {"cuda": {"started": started, "gpus": gpus}}


def _device(torch: Any, index: int) -> Dict[str, Any]:
    seen = torch.cuda.get_device_properties(index)
    return {
        "index": index,
        "uuid": _uuid(seen, index, bool(torch.version.hip)),
        "name": seen.name,
        "capability": [seen.major, seen.minor],
        "memory_total": seen.total_memory,
        "integrated": bool(getattr(seen, "is_integrated", False)),
    }


def _uuid(seen: Any, index: int, hip: bool) -> Optional[str]:
    """As NVML spells it. The driver is asked first: only its newer call knows MIG slices."""
    said = None if hip else _uuid_of_driver(index)
    if said is None and hasattr(seen, "uuid"):
        said = str(seen.uuid)
    if not said or said.startswith(("GPU-", "MIG-")):
        return said or None
    return ("MIG-" if " MIG " in seen.name else "GPU-") + said


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


def kernel(torch: Any, index: int) -> Dict[str, Any]:
    """Whether a kernel runs on that GPU and its result comes back right."""
    began = time.perf_counter()
    failed: Optional[Exception] = None
    with wire.stage("kernel on cuda:%d" % index):
        try:
            numbers = torch.arange(COUNT, device="cuda:%d" % index, dtype=torch.float32)
            result = (numbers * 2 + 1).sum().item()
            if result != SUM_OF_ODD_NUMBERS:
                failed = ValueError("the sum came back as %r, not %d" % (result, COUNT * COUNT))
        except Exception as error:
            failed = error
    return {"kernel": ended(began, failed)}


def libraries(torch: Any) -> Dict[str, Any]:
    """Which files are mapped once a matmul and an attention call ran, and which are offered."""
    with wire.stage("matmul and attention on cuda:0"):
        used = _use(torch)
    with wire.stage("cuDNN's version"):
        version, refused = _cudnn(torch)
    with wire.stage("LD_LIBRARY_PATH"):
        found = {"loaded": _loaded(), "offered": _offered(), "used": used}
    order = None
    if used["how"] == "ok" and hasattr(torch._C, "_get_sdp_priority_order"):
        # Only now: torch moves cuDNN up at its first attention call on CUDA.
        order = [int(backend) for backend in torch._C._get_sdp_priority_order()]
    return {
        "libraries": found,
        "sdp_priority": order,
        "cudnn": version,
        "cudnn_error": refused,
    }


def _use(torch: Any) -> Dict[str, Any]:
    began = time.perf_counter()
    failed: Optional[Exception] = None
    try:
        major = torch.cuda.get_device_properties(0).major
        dtype = torch.bfloat16 if major >= 8 or torch.version.hip else torch.float16
        x = torch.ones(1, 1, 128, 64, device="cuda:0", dtype=dtype)
        seen = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        torch.matmul(x[0, 0], seen[0, 0].t()).sum().item()
    except Exception as error:
        failed = error
    return ended(began, failed)


def _cudnn(torch: Any) -> Tuple[Optional[int], Optional[str]]:
    try:
        return torch.backends.cudnn.version(), None
    except Exception as error:
        return None, wire.said(error)


def _loaded() -> List[str]:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        paths = {line.rstrip("\n").split(" ", 5)[-1].strip() for line in maps}
    return _printable(path for path in paths if LIBRARY.search(path))


def _offered() -> List[str]:
    found = set(re.split(r"[ :]+", os.environ.get("LD_PRELOAD", "")))
    folders = os.environ.get("LD_LIBRARY_PATH")
    for folder in folders.split(":") if folders else ():
        try:
            found.update(os.path.join(folder, name) for name in os.listdir(folder or os.curdir))
        except OSError:
            continue
    return _printable(os.path.realpath(path) for path in found if LIBRARY.search(path))


def _printable(paths: Any) -> List[str]:
    return sorted({os.fsencode(path).decode("utf-8", "replace") for path in paths})


def smoke(torch: Any, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """The smoke step; what it raises is told with the stage it came from."""
    device = torch.device(request["device"])
    precision, recipe = request["precision"], request["recipe"]
    training, subjects = wire.sibling("training_step"), wire.sibling("subjects")
    stage = training.Timed(device)
    spec = request.get("subject", {"kind": "small"})
    try:
        make = functools.partial(subjects.build, spec, device, recipe)
        return {"smoke": training.run(stage, make, device, precision, recipe)}
    except Exception as error:
        _raised(stage, device, error)
    return None


def seek(torch: Any, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """One look for the cause of a fault; what it raises is told with the stage it came from."""
    changes, follow = wire.sibling("changes"), wire.sibling("follow_step")
    asked, name = changes.plan(request), request["stage"]
    stage = wire.sibling("training_step").Timed(asked.device)
    looks: Dict[str, Callable[[], Any]] = {
        "attempt": lambda: {"smoke": changes.attempt(stage, asked, request["change"])},
        "look": lambda: follow.inspect_step.look(asked, stage),
        "walk": lambda: follow.walk(asked, stage),
        "anomaly": lambda: follow.anomaly(asked, stage, request["step"]),
    }
    try:
        return {name: looks[name]()}
    except changes.NotPossible as reason:
        return {name: {"not_possible": str(reason)}}
    except changes.Stale:
        return {name: {"stale": True}}
    except Exception as error:
        _raised(stage, asked.device, error)
    return None


def _raised(stage: Any, device: Any, error: Exception) -> None:
    """Tell it; a CUDA error sticks to the process."""
    wire.tell(error="%s: %s" % (stage.inside, wire.said(error)))
    if device.type != "cpu":
        os._exit(1)


def serve(torch: Any) -> NoReturn:
    """Answer requests until stdin ends."""
    stages: Dict[str, Callable[[Dict[str, Any]], Optional[Dict[str, Any]]]] = {
        "devices": lambda request: devices(torch),
        "kernel": lambda request: kernel(torch, request["index"]),
        "libraries": lambda request: libraries(torch),
        "smoke": lambda request: smoke(torch, request),
        "own": lambda request: wire.sibling("own_stages").own(request),
        "lora": lambda request: wire.sibling("lora_orders").lora(request),
        "compiled": lambda request: wire.sibling("compiled_step").compiled(request),
        **dict.fromkeys(SOUGHT, lambda request: seek(torch, request)),
        "attention": lambda request: wire.sibling("attention_trial").run(request),
        "load": lambda request: {"load": wire.sibling("load").run(torch.device(request["device"]))},
        "host copies": lambda request: {
            "load": wire.sibling("load").run_host(torch.device(request["device"]))
        },
        "reduce": lambda request: {"reduce": wire.sibling("all_reduce").run(request)},
    }
    for request in wire.requests():
        try:
            answer = stages[request["stage"]](request)
        except Exception as error:
            wire.tell(error=wire.said(error))
            continue
        if answer is not None:
            wire.tell(answer=answer)
            _leave_if_broken(answer)
    sys.exit(0)


def _leave_if_broken(answer: Dict[str, Any]) -> None:
    """End a process that a CUDA error sticks to."""
    used = answer.get("libraries", {}).get("used", {"how": "ok"})
    if answer.get("kernel", used)["how"] == "error":
        os._exit(1)


if __name__ == "__main__":
    wire.send(note=interpreter())
    imported = import_torch()
    wire.tell(answer={"torch": build(imported)})
    serve(imported)
