"""torch in the training interpreter: its import first, then the requested stages.

First, without a request: the note {"version": Python's, "pip": true, "packages": [...]}, the note
{"torch_path": file} if the import failed, and once torch is imported the answer {"torch":
{machine.Torch}}. Records are those of doctor.facts. Then one JSON line on
stdin per request, one answer each:
    {"stage": "devices"}              {"cuda": {machine.Cuda}}; no kernel is launched
    {"stage": "kernel", "index": 0}   {"kernel": {machine.Ended}}
    {"stage": "libraries", "precision": "bf16"}
                                      {"libraries": {...}, "sdp_priority": [...],
                                       "cudnn": 91900, "cudnn_error": null}
    {"stage": "smoke", "device": "cuda:0", "precision": "bf16", "recipe": "amp", "subject": {...}}
                                      {"smoke": {training.Smoke}}, and a note per step; the subject
                                      as subject/build.py describes it, the small model by default
    {"stage": "attempt", "change": "math", ...}
                                      {"attempt": {"smoke": {...}} or {"not_possible": "reason"}};
                                      the rest of the request as above, and changes.py
    {"stage": "look"}, {"stage": "walk"}, {"stage": "anomaly", "step": 1}
                                      {"look": {...}} of inspect_step.py, the others of
                                      follow_step.py
    {"stage": "trace", "step": 1}     {"trace": {...}} of first_nonfinite.py
    {"stage": "load", "device": "cuda:0", "uuid": NVML's or null}
                                      {"load": fields of load.Load}
    {"stage": "host copies", "device": "cuda:0"}    {"load": its fields about the host}
    {"stage": "memory test", "device": "cuda:0", "uuid": the same, "within": seconds}
                                      {"memory_test": fields of load.MemoryTest}
    {"stage": "reduce", "device": "cuda:0", "backend": "nccl", "rank": 0, "ranks": 2,
     "store": path, "within": seconds, "notes": seconds}
                                      {"reduce": {"wrong": elements, "rate": bytes per second}}
    {"stage": "attention", ...}       {"cut_short": ""}, and the notes of attention_trial.py
    {"stage": "prepare", "subject": {...}}
                                      no answer: imports what the subject needs, ahead of "own"
    {"stage": "own"}, {"stage": "lora"}, {"stage": "compiled"}
                                      the user's own training: own_stages.py, lora_orders.py,
                                      compiled_step.py
A CUDA error persists in its process: after one this probe answers and exits. Start a new process
for the remaining stages.
Nothing is imported before torch that torch does not import itself.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import importlib.machinery
import os
import platform
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NoReturn, Optional

from ... import wire
from ..foreign import Foreign

if TYPE_CHECKING:
    from ..subject.timed import Timed

DIAGNOSIS_STAGES = ("attempt", "look", "walk", "anomaly", "trace", "cuts")
NOT_PYTORCH = "is not an installed PyTorch"
DISTRIBUTION = re.compile(r"([A-Za-z0-9][\w.]*)-([\w.+!]+)\.dist-info$")
NVIDIA = re.compile(r"nvidia-[a-z]+-cu\d\d==")


def interpreter() -> Dict[str, Any]:
    """What is known before torch is imported, and needed if that fails."""
    # importlib.util.find_spec("pip") makes setuptools switch its distutils off, which breaks
    # torch.compile before Python 3.12.
    pip = importlib.machinery.PathFinder.find_spec("pip") is not None
    installed = distributions()
    nvidia = [each for each in installed if NVIDIA.match(each)]
    version = platform.python_version()
    return {"version": version, "pip": pip, "packages": nvidia, "installed": installed}


def distributions() -> List[str]:
    """Installed distributions, "nvidia-nccl-cu12==2.27.3", by the names of their directories."""
    found = set()
    for entry in sys.path:
        try:
            names = os.listdir(entry or ".")
        except OSError:
            continue
        found |= {match.groups() for match in map(DISTRIBUTION.match, names) if match}
    return ["%s==%s" % (name.replace("_", "-"), version) for name, version in sorted(found)]


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """No garbage collection in the meantime: it takes a sixth of the import, and finds nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()  # into the oldest generation: the next collection of young objects is short
        gc.enable()


def import_torch() -> ModuleType:
    """torch, or the end of this process with the import's last error line reported."""
    try:
        with wire.stage("import torch"), _without_collections():
            import torch

            if not hasattr(torch, "_C"):
                raise ImportError(_not_pytorch(torch))
    except BaseException as error:
        import traceback

        traceback.print_exc()
        spec = importlib.machinery.PathFinder.find_spec("torch")
        if spec is not None and spec.origin is not None:
            wire.send(note={"torch_path": spec.origin})
        stray = "" if isinstance(error, ImportError) and NOT_PYTORCH in str(error) else _stray()
        wire.send(error=wire.describe(error) + (stray and "; %s %s" % (stray, NOT_PYTORCH)))
        os._exit(1)
    return torch


def _not_pytorch(module: ModuleType) -> str:
    """Why the module that was imported cannot be PyTorch."""
    if getattr(module, "__file__", None) is None:  # a directory without __init__.py
        return "No module named 'torch', but a directory %s" % next(iter(module.__path__))
    return "%s %s" % (module.__file__, NOT_PYTORCH)


def _stray() -> str:
    """The file that `import torch` takes, "" if it is one of PyTorch's or none."""
    spec = importlib.machinery.PathFinder.find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    directory, name = os.path.split(spec.origin)
    package = name == "__init__.py" and os.path.exists(os.path.join(directory, "version.py"))
    return "" if package else spec.origin


def build(torch: ModuleType) -> Dict[str, Any]:
    """doctor.facts.interpreter.Torch without a CUDA call: the libraries have cuDNN's version."""
    flags = getattr(torch._C, "_cuda_getArchFlags", str)()
    from ..subject import switches

    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "archs": (flags or "").split(),
        "tf32_matmul": switches.tf32_matmul(torch),
        "sdp_enabled": switches.sdp_enabled(torch),
        "mps": bool(torch.backends.mps.is_available()),
    }


def smoke(torch: ModuleType, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """The smoke step; an error is reported with its stage."""
    from ..subject.build import build
    from ..subject.timed import Timed
    from ..subject.training_step import run

    device = torch.device(request["device"])
    precision, recipe = request["precision"], request["recipe"]
    stage = Timed(device)
    spec = request.get("subject", {"kind": "small"})
    try:
        make = functools.partial(build, spec, device, recipe)
        return {"smoke": run(stage, make, device, precision, recipe)}
    except Exception as error:
        _report_error(stage, device, error)
    return None


def diagnose(torch: ModuleType, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """One stage of the diagnosis; an error is reported with its stage."""
    from ..gradients.gradient_cuts import cuts
    from ..subject.plan import Stale, read_plan
    from ..subject.subjects import NotPossible
    from ..subject.timed import Timed
    from ..values import first_nonfinite, follow_step, inspect_step
    from . import changes

    plan, name = read_plan(request), request["stage"]
    stage = Timed(plan.device)
    stages: Dict[str, Callable[[], Any]] = {
        "attempt": lambda: {"smoke": changes.attempt(stage, plan, request["change"])},
        "look": lambda: inspect_step.look(plan, stage),
        "walk": lambda: follow_step.walk(plan, stage),
        "anomaly": lambda: follow_step.anomaly(plan, stage, request["step"]),
        "cuts": lambda: cuts(
            plan, stage, request["names"], request.get("small", False), request.get("absent", False)
        ),
        "trace": lambda: first_nonfinite.trace(plan, stage, request["step"]),
    }
    try:
        return {name: stages[name]()}
    except NotPossible as reason:
        return {name: {"not_possible": str(reason)}}
    except Stale:
        return {name: {"stale": True}}
    except Exception as error:
        _report_error(stage, plan.device, error)
    return None


def _report_error(stage: Timed, device: Foreign, error: Exception) -> None:
    """Report it; a CUDA error persists in its process, so end that."""
    wire.send(error="%s: %s" % (stage.inside, wire.describe(error)))
    if device.type != "cpu":
        os._exit(1)


def cuda(torch: ModuleType, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    from . import cuda_stages

    if request["stage"] == "devices":
        return cuda_stages.devices(torch)
    if request["stage"] == "kernel":
        return cuda_stages.kernel(torch, request["index"])
    return cuda_stages.libraries(torch, request.get("precision", ""))


def load(torch: ModuleType, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    from ..load import load

    device, uuid = torch.device(request["device"]), request.get("uuid")
    return {"load": load.run(device, uuid) if request["stage"] == "load" else load.run_host(device)}


def memory_test(torch: ModuleType, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    from ..load import memory_test

    device = torch.device(request["device"])
    return {"memory_test": memory_test.run(device, request["within"], request.get("uuid"))}


def reduce(torch: ModuleType, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    from ..load import all_reduce

    return {"reduce": all_reduce.run(request)}


Stage = Callable[[Any, Dict[str, Any]], Optional[Dict[str, Any]]]


def of(module: str, function: str) -> Stage:
    """A function of a module that is imported when the stage is requested."""

    def run(torch: ModuleType, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        answer: Optional[Dict[str, Any]]
        answer = getattr(importlib.import_module(module, __package__), function)(request)
        return answer

    return run


STAGES: Dict[str, Stage] = {
    "smoke": smoke,
    **dict.fromkeys(("devices", "kernel", "libraries"), cuda),
    "prepare": of(".own_stages", "prepare"),
    "own": of(".own_stages", "own"),
    "lora": of(".lora_orders", "lora"),
    "compiled": of(".compiled_step", "compiled"),
    **dict.fromkeys(DIAGNOSIS_STAGES, diagnose),
    "attention": of("..attention.attention_trial", "run"),
    **dict.fromkeys(("load", "host copies"), load),
    "memory test": memory_test,
    "reduce": reduce,
}
"""Each imports its modules itself, because these import torch."""


def serve(torch: ModuleType) -> NoReturn:
    """Answer requests until stdin ends."""
    for request in wire.requests():
        try:
            answer = STAGES[request["stage"]](torch, request)
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


def main() -> None:
    wire.send(note=interpreter())
    imported = import_torch()
    wire.send(answer={"torch": build(imported)})
    serve(imported)
