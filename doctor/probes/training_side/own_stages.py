"""The user's own training: built, trained for a few steps, and what it takes.

Imported by torch_stages.py when it is asked for; standard library and torch only, Python 3.9.
    {"stage": "own", "subject": {...}, "device": "cpu", "precision": "bf16", "recipe": "amp"}
Fields of training_sections.OwnModel are told as notes, {"own": {field: value}}, as they come to be
known: what the user's code does later cannot take them back.
"""

from __future__ import annotations

import os
import re
import sys
import time
import traceback
from typing import Any, Dict, List

import torch
import wire

training_step = wire.sibling("training_step")
switches = wire.sibling("switches")
subjects = wire.sibling("subjects")

TAIL = 12
"""Lines of a traceback that are kept."""
SECRET = re.compile("TOKEN|SECRET|PASSWORD|CREDENTIAL|KEY", re.IGNORECASE)
DISTRIBUTIONS = ("transformers", "peft", "accelerate", "lightning", "pytorch_lightning")
OUR_OWN = ("NotAFactory", "NotBuilt", "Beyond", "NotPossible")
"""Errors whose text was written for the user; no traceback makes them clearer."""


def own(request: Dict[str, Any]) -> Dict[str, Any]:
    """Everything about the subject but LoRA's orders and torch.compile."""
    device = torch.device(request["device"])
    precision, recipe = request["precision"], request["recipe"]
    began = time.perf_counter()
    try:
        subject = subjects.build(request["subject"], device, recipe)
    except Exception as error:
        failed = {"how": "error", "detail": explained(error)}
        tell(built=dict(failed, seconds=time.perf_counter() - began), traceback=tail(error))
        tell(beyond=type(error).__name__ == "Beyond")
        leave_if_on(device)
        return {"done": True}
    tell(built={"how": "ok", "seconds": time.perf_counter() - began}, **counts(subject.module))
    tell(settings=settings(subject.module), batch=batch_facts(subject.batch))
    if precision == "fp16":
        tell(scalers=scalers(request["subject"], subject, device))
    stage = training_step.Timed(device)
    try:
        smoke = training_step.run(stage, lambda: subject, device, precision, recipe)
    except Exception as error:
        tell(traceback=tail(error), settings=settings(subject.module))
        wire.tell(error="%s: %s" % (stage.inside, explained(error)))
        leave_if_on(device)
        return {}
    tell(smoke=smoke, settings=settings(subject.module))
    memory = wire.sibling("memory_points")
    tell(points=memory.points(request["subject"], subject, device, precision, recipe))
    tell(**memory.saved(subject, request["subject"]))
    return {"done": True}


def tell(**fields: Any) -> None:
    wire.tell(note={"own": fields})


def leave_if_on(device: torch.device) -> None:
    """An error of CUDA sticks to the process: end it."""
    if device.type != "cpu":
        os._exit(1)


def counts(module: torch.nn.Module) -> Dict[str, Any]:
    """Parameters of the model, tied ones once, and the versions of what it was built with."""
    weights = list(module.parameters())
    return {
        "parameters": sum(weight.numel() for weight in weights),
        "trainable": sum(weight.numel() for weight in weights if weight.requires_grad),
        "versions": versions(),
    }


def versions() -> Dict[str, str]:
    """Distribution -> version, of those that are imported by now."""
    imported = [name for name in DISTRIBUTIONS if name in sys.modules]
    said = {name: getattr(sys.modules[name], "__version__", None) for name in imported}
    return {name: str(version) for name, version in said.items() if version is not None}


def settings(module: torch.nn.Module) -> Dict[str, Any]:
    """The numeric switches as they are now; none of these getters raises, whatever was set."""
    cudnn: Any = torch.backends.cudnn
    try:
        conv = cudnn.conv.fp32_precision == "tf32"
    except AttributeError:  # before torch 2.9
        conv = bool(cudnn.allow_tf32)
    return {
        "when": "after the model's code",
        "tf32_matmul": switches.tf32_matmul(torch)[0],
        "tf32_conv": conv,
        "sdp_enabled": switches.sdp_enabled(torch),
        "deterministic": bool(torch.are_deterministic_algorithms_enabled()),
        "cudnn_benchmark": bool(cudnn.benchmark),
        "attention": subjects.attention_of(module),
    }


def batch_facts(batch: Any) -> List[Dict[str, Any]]:
    """Shape, dtype and range of each tensor of the batch."""
    with wire.stage("look at the batch"):
        return [_tensor_facts(name, each) for name, each in subjects.tensors(batch).items()]


def _tensor_facts(name: str, value: torch.Tensor) -> Dict[str, Any]:
    told: Dict[str, Any] = {
        "name": name,
        "dtype": str(value.dtype).replace("torch.", ""),
        "shape": list(value.shape),
    }
    if value.is_complex() or not value.numel():
        return told
    wide = value.detach().to(torch.float64 if value.device.type == "cpu" else torch.float32)
    finite = torch.isfinite(wide)
    told["nonfinite"] = int((~finite).sum())
    if bool(finite.any()):
        told["low"] = float(wide[finite].min())
        told["high"] = float(wide[finite].max())
    return told


def scalers(spec: Dict[str, Any], subject: Any, device: torch.device) -> List[Dict[str, Any]]:
    """Whether a GradScaler takes the weights' dtype: of these, and as from_pretrained gives it."""
    halves = {torch.float16, torch.bfloat16}
    kinds = {weight.dtype for weight in subject.weights.values()}
    tried = {"the model": min(kinds & halves or kinds, key=str)}
    if spec["kind"] == "hf":
        tried["from_pretrained"] = wire.sibling("transformers_model").usual_dtype(spec["folder"])
    return [
        {"of": of, "dtype": str(dtype).replace("torch.", ""), "ended": unscaled(dtype, device)}
        for of, dtype in tried.items()
    ]


def unscaled(dtype: torch.dtype, device: torch.device) -> Dict[str, Any]:
    """How a GradScaler's unscale_ ends on one gradient of that dtype."""
    began = time.perf_counter()
    ended: Dict[str, Any] = {"how": "ok"}
    with wire.stage("unscale a gradient in %s" % dtype):
        try:
            weight = torch.ones(4, dtype=dtype, device=device, requires_grad=True)
            scaler = training_step.scaler_of(device)
            scaler.scale(weight.float().sum()).backward()
            scaler.unscale_(training_step.optimizer_of([weight], training_step.LR))
        except Exception as error:
            ended = {"how": "error", "detail": explained(error)}
    return dict(ended, seconds=time.perf_counter() - began)


def explained(error: BaseException) -> str:
    """One line of what was raised, the environment's secrets struck out."""
    ours = type(error).__name__ in OUR_OWN
    return without_secrets(str(error) if ours else wire.said(error))


def tail(error: BaseException) -> str:
    """The last lines of the traceback, without the doctor's own part of it."""
    if type(error).__name__ in OUR_OWN:
        if error.__cause__ is None:
            return ""
        error = error.__cause__
    here, entry = os.path.dirname(os.path.abspath(__file__)), error.__traceback__
    while entry is not None and entry.tb_frame.f_code.co_filename.startswith(here):
        entry = entry.tb_next
    shown = traceback.format_exception(type(error), error, entry or error.__traceback__)
    lines = [line for line in "".join(shown).splitlines() if line.strip(" ^~")]
    return without_secrets("\n".join(lines[-TAIL:]))


def without_secrets(text: str) -> str:
    for name, value in os.environ.items():
        if len(value) >= 8 and SECRET.search(name):
            text = text.replace(value, "***")
    return text
