"""torch in the training interpreter: its import first, then the requested stages.

    python torch_stages.py FD

First, without a request: the note {"version": Python's, "pip": true}, and once torch is imported
the answer {"torch": {machine.Torch}}. Records are those of doctor.facts. Then one JSON line on
stdin per request, one answer each:
    {"stage": "devices"}              {"cuda": {machine.Cuda}}; no kernel is launched
    {"stage": "kernel", "index": 0}   {"kernel": {machine.Ended}}
    {"stage": "libraries"}            {"libraries": {...}, "sdp_priority": [...],
                                       "cudnn": 91900, "cudnn_error": null}
    {"stage": "smoke", "device": "cuda:0", "precision": "bf16", "recipe": "amp", "subject": {...}}
                                      {"smoke": {training.Smoke}}, and a note per step; the subject
                                      as subjects.py describes it, the small model by default
    {"stage": "attempt", "change": "math", ...}
                                      {"attempt": {"smoke": {...}} or {"not_possible": "reason"}};
                                      the rest of the request as above, and changes.py
    {"stage": "look"}, {"stage": "walk"}, {"stage": "anomaly", "step": 1}
                                      {"look": {...}} of inspect_step.py, the others of
                                      follow_step.py
    {"stage": "trace", "step": 1}     {"trace": {...}} of first_nonfinite.py
    {"stage": "load", "device": "cuda:0"}           {"load": fields of load.Load}
    {"stage": "host copies", "device": "cuda:0"}    {"load": its fields about the host}
    {"stage": "reduce", "device": "cuda:0", "backend": "nccl", "rank": 0, "ranks": 2,
     "store": path, "within": seconds, "notes": seconds}
                                      {"reduce": {"wrong": elements, "rate": bytes per second}}
    {"stage": "attention", ...}       {"cut_short": ""}, and the notes of attention_trial.py
    {"stage": "own"}, {"stage": "lora"}, {"stage": "compiled"}
                                      the user's own training: own_stages.py, lora_orders.py,
                                      compiled_step.py
A CUDA error persists in its process: after one this probe answers and exits. Start a new process
for the remaining stages.
Standard library and torch only, Python 3.9, run by path; nothing is imported before torch that
torch does not import itself.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import os
import platform
import re
import sys
import time
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple

import wire

LIBRARY = re.compile(r"(^|/)lib(cudnn(_\w+)?|cublas(Lt)?|nccl|nvJitLink)\.so(\.[\d.]+)?$")
DIAGNOSIS_STAGES = ("attempt", "look", "walk", "anomaly", "trace")
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


def interpreter() -> Dict[str, Any]:
    """What is known before torch is imported, and needed if that fails."""
    # importlib.util.find_spec("pip") makes setuptools switch its distutils off, which breaks
    # torch.compile before Python 3.12.
    pip = importlib.machinery.PathFinder.find_spec("pip") is not None
    return {"version": platform.python_version(), "pip": pip}


def import_torch() -> Any:
    """torch, or the end of this process with the import's last error line reported."""
    try:
        with wire.stage("import torch"):
            import torch
    except BaseException as error:
        import traceback

        traceback.print_exc()
        wire.send(error=wire.describe(error))
        os._exit(1)
    return torch


def build(torch: Any) -> Dict[str, Any]:
    """doctor.facts.machine.Torch without a CUDA call: cuDNN's version comes with the libraries."""
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
    """doctor.facts.machine.Cuda: torch.cuda.init and the properties of each visible device."""
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


def _device(torch: Any, index: int) -> Dict[str, Any]:
    properties = torch.cuda.get_device_properties(index)
    return {
        "index": index,
        "uuid": _uuid(properties, index, bool(torch.version.hip)),
        "name": properties.name,
        "capability": [properties.major, properties.minor],
        "memory_total": properties.total_memory,
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


def kernel(torch: Any, index: int) -> Dict[str, Any]:
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


def libraries(torch: Any) -> Dict[str, Any]:
    """The libraries mapped after a matmul and an attention call, and those that could be found."""
    with wire.stage("matmul and attention on cuda:0"):
        used = _use(torch)
    with wire.stage("cuDNN's version"):
        version, error = _cudnn(torch)
    with wire.stage("LD_LIBRARY_PATH"):
        files = {"loaded": _loaded(), "offered": _offered(), "used": used}
    order = None
    if used["how"] == "ok" and hasattr(torch._C, "_get_sdp_priority_order"):
        # Only now: torch moves cuDNN up at its first attention call on CUDA.
        order = [int(backend) for backend in torch._C._get_sdp_priority_order()]
    return {
        "libraries": files,
        "sdp_priority": order,
        "cudnn": version,
        "cudnn_error": error,
    }


def _use(torch: Any) -> Dict[str, Any]:
    start = time.perf_counter()
    failure: Optional[Exception] = None
    try:
        major = torch.cuda.get_device_properties(0).major
        dtype = torch.bfloat16 if major >= 8 or torch.version.hip else torch.float16
        x = torch.ones(1, 1, 128, 64, device="cuda:0", dtype=dtype)
        attended = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        torch.matmul(x[0, 0], attended[0, 0].t()).sum().item()
    except Exception as error:
        failure = error
    return ended(start, failure)


def _cudnn(torch: Any) -> Tuple[Optional[int], Optional[str]]:
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


def smoke(torch: Any, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """The smoke step; an error is reported with its stage."""
    device = torch.device(request["device"])
    precision, recipe = request["precision"], request["recipe"]
    training, subjects = wire.sibling("training_step"), wire.sibling("subjects")
    stage = training.Timed(device)
    spec = request.get("subject", {"kind": "small"})
    try:
        make = functools.partial(subjects.build, spec, device, recipe)
        return {"smoke": training.run(stage, make, device, precision, recipe)}
    except Exception as error:
        _report_error(stage, device, error)
    return None


def diagnose(torch: Any, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """One stage of the diagnosis; an error is reported with its stage."""
    changes, follow = wire.sibling("changes"), wire.sibling("follow_step")
    plan, name = changes.read_plan(request), request["stage"]
    stage = wire.sibling("training_step").Timed(plan.device)
    stages: Dict[str, Callable[[], Any]] = {
        "attempt": lambda: {"smoke": changes.attempt(stage, plan, request["change"])},
        "look": lambda: follow.inspect_step.look(plan, stage),
        "walk": lambda: follow.walk(plan, stage),
        "anomaly": lambda: follow.anomaly(plan, stage, request["step"]),
        "trace": lambda: wire.sibling("first_nonfinite").trace(plan, stage, request["step"]),
    }
    try:
        return {name: stages[name]()}
    except changes.NotPossible as reason:
        return {name: {"not_possible": str(reason)}}
    except changes.Stale:
        return {name: {"stale": True}}
    except Exception as error:
        _report_error(stage, plan.device, error)
    return None


def _report_error(stage: Any, device: Any, error: Exception) -> None:
    """Report it; a CUDA error persists in its process, so end that."""
    wire.send(error="%s: %s" % (stage.inside, wire.describe(error)))
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
        **dict.fromkeys(DIAGNOSIS_STAGES, lambda request: diagnose(torch, request)),
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
            wire.send(error=wire.describe(error))
            continue
        if answer is not None:
            wire.send(answer=answer)
            _exit_if_broken(answer)
    sys.exit(0)


def _exit_if_broken(answer: Dict[str, Any]) -> None:
    """A CUDA error persists in its process, so end it."""
    used = answer.get("libraries", {}).get("used", {"how": "ok"})
    if answer.get("kernel", used)["how"] == "error":
        os._exit(1)


if __name__ == "__main__":
    wire.send(note=interpreter())
    imported = import_torch()
    wire.send(answer={"torch": build(imported)})
    serve(imported)
