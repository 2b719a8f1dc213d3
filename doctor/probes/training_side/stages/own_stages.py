"""The user's own training: built, trained for a few steps, and measured.

    {"stage": "prepare", "subject": {...}}
    {"stage": "own", "subject": {...}, "device": "cpu", "precision": "bf16", "recipe": "amp"}
Fields of doctor.facts.own_model.OwnModel are sent as notes, {"own": {field: value}}, as soon as
they are known, so that a later crash of the user's code does not lose them.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional

import torch

from ... import wire
from ..data import step
from ..errors import tracebacks
from ..foreign import Foreign, containers, observing
from ..repetition import repeat_step
from ..subject import (
    build,
    ineffective,
    optimizers,
    plan,
    subjects,
    switches,
    timed,
    training_step,
    transformers_model,
    tying,
    unregistered,
)
from ..subject.timed import Timed
from ..subject.training_step import Subject
from ..trials import forked
from . import memory_points as memory
from . import more_steps as more
from . import plain_pass

DISTRIBUTIONS = ("transformers", "peft", "accelerate", "lightning", "pytorch_lightning")


def prepare(request: Dict[str, Any]) -> None:
    """Import what the subject needs; an error is left to the stage that needs it."""
    dump_stacks(request.get("limit"))
    try:
        transformers_model.prepare(request["subject"])
    except Exception:
        return
    finally:
        faulthandler.cancel_dump_traceback_later()


def own(request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Everything about the subject except the LoRA orders and torch.compile."""
    device = torch.device(request["device"])
    precision, recipe = request["precision"], request["recipe"]
    dump_stacks(request.get("limit"))
    started = time.perf_counter()
    try:
        subject = build.build(request["subject"], device, recipe)
    except Exception as error:
        note_failed_build(error, time.perf_counter() - started)
        note_whole(request["subject"])
        exit_unless_cpu(device)
        return {"done": True}
    plan.mark(subject.module)
    note(built={"how": "ok", "seconds": time.perf_counter() - started}, **counts(subject.module))
    observe_built(subject)
    if precision == "fp16":
        note(scalers=scalers(request["subject"], subject, device))
    stage = timed.Timed(device)
    training: List[Any] = []
    begun = time.perf_counter()
    try:
        smoke = training_step.run(
            stage, lambda: subject, device, precision, recipe, on_start=training.append
        )
    except Exception as error:
        note(traceback=tracebacks.tail(error), settings=settings(subject.module))
        note_failed_step(error, subject.module, training, stage, time.perf_counter() - begun)
        note_whole(request["subject"])
        wire.send(error="%s: %s" % (stage.inside, tracebacks.explained(error)))
        exit_unless_cpu(device)
        return None
    note(smoke=smoke, settings=settings(subject.module))
    observe_trained(subject, training[0])
    observe(trend=lambda: more.trend(subject, device, precision, recipe, smoke))
    measure(request, subject, device)
    return {"done": True}


def observe_built(subject: Subject) -> None:
    """What the model and its batch show before any step."""
    note(settings=settings(subject.module))
    observe(batch=lambda: batch_facts(subject.batch))
    observe(ineffective=lambda: ineffective.ineffective(subject.module))
    observe(untied=lambda: tying.untied(subject.module))
    observe(of_defaults=lambda: tying.of_defaults(subject.module))


def observe_trained(subject: Subject, training: Any) -> None:
    """What the judged steps left."""
    note(changed_batch=training.kept.changed if subject.fixed else [])
    note(turned_off=", ".join(sorted(training.turned_off)[:3]))
    observe(unregistered=lambda: unregistered.unregistered(subject))
    observe(of_loss=lambda: unregistered.of_loss(subject))


def measure(request: Dict[str, Any], subject: Subject, device: torch.device) -> None:
    """What further passes show: changed batches, no autocast, memory."""
    if request.get("trials"):
        with wire.stage("try changed batches in a copy of the process"):
            observe(trials=lambda: forked.run(subject, device))
    if request.get("assumed"):
        if asked := plain_pass.half_asked(request["subject"]):
            note(half_asked=asked)
        observe(without_autocast=lambda: plain_pass.ended(subject))
    points = memory.measure_points(
        request["subject"], subject, device, request["precision"], request["recipe"]
    )
    note(points=points)
    note(**memory.saved(subject, request["subject"]))
    # The last one: it draws other weights.
    observe(data=lambda: step.of_batch(subject.module, subject.loss, subject.batch))


def note_failed_build(error: Exception, seconds: float) -> None:
    ended = {"how": "error", "detail": tracebacks.explained(error), "seconds": seconds}
    note(built=ended, traceback=tracebacks.tail(error))
    note(raised=tracebacks.scene(error))
    note(beyond=type(error).__name__ == "Unsupported")


def note_failed_step(
    error: Exception, module: torch.nn.Module, training: List[Any], stage: Timed, seconds: float
) -> None:
    """What the traceback shows, and a repetition; `training` is empty before it starts."""
    fields = tracebacks.scene(error, module)
    note(raised=fields)  # a repetition may crash
    if training and fields:
        more = repeat_step.observe(training[0], stage.inside, error, seconds)
        note(raised=tracebacks.joined(fields, more))


def note_whole(spec: Dict[str, Any]) -> None:
    """Whether a model directory has the same error with all its layers."""
    if spec["kind"] == "hf":
        observe(whole_error=lambda: transformers_model.whole_error(spec))


def dump_stacks(limit: Any) -> None:
    """Write the Python stacks to stderr at a crash, and every `limit` seconds."""
    stderr = os.dup(2)  # the user's code may close or redirect its own
    faulthandler.enable(file=stderr, all_threads=False)
    if limit:
        faulthandler.dump_traceback_later(float(limit), repeat=True, file=stderr)


def note(**fields: Foreign) -> None:
    wire.send(note={"own": fields})


def observe(**fields: Callable[[], Any]) -> None:
    """The same of what observations return; without those in which the user's objects raise."""
    for name, read in fields.items():
        value = observing.attempt(read, observing.ABSENT)
        if value is not observing.ABSENT:
            note(**{name: value})


def exit_unless_cpu(device: torch.device) -> None:
    """A CUDA error persists in its process, so end it."""
    if device.type != "cpu":
        os._exit(1)


def counts(module: torch.nn.Module) -> Dict[str, Any]:
    """Parameters of the model, tied ones once, and the versions of the libraries it uses."""
    weights = list(module.parameters())
    return {
        "parameters": sum(weight.numel() for weight in weights),
        "trainable": sum(weight.numel() for weight in weights if weight.requires_grad),
        "versions": versions(),
    }


def versions() -> Dict[str, str]:
    """Distribution -> version, of the imported ones."""
    imported = [name for name in DISTRIBUTIONS if name in sys.modules]
    named = {name: observing.attribute(sys.modules[name], "__version__") for name in imported}
    return {name: str(version) for name, version in named.items() if version is not None}


def settings(module: torch.nn.Module) -> Dict[str, Any]:
    """The current numeric switches; these getters never raise, whatever was set."""
    return {
        "when": "after the model's code",
        "tf32_matmul": switches.tf32_matmul(torch),
        "sdp_enabled": switches.sdp_enabled(torch),
        "deterministic": bool(torch.are_deterministic_algorithms_enabled()),
        "attention": subjects.attention_of(module),
    }


def batch_facts(batch: Foreign) -> List[Dict[str, Any]]:
    """Shape, dtype and range of each tensor of the batch."""
    with wire.stage("look at the batch"):
        return [_tensor_facts(name, each) for name, each in containers.tensors(batch).items()]


def _tensor_facts(name: str, value: torch.Tensor) -> Dict[str, Any]:
    facts: Dict[str, Any] = {
        "name": name,
        "dtype": str(value.dtype).replace("torch.", ""),
        "shape": list(value.shape),
    }
    if value.is_complex() or not value.numel():
        return facts
    wide = observing.plain(value).to(torch.float64 if value.device.type == "cpu" else torch.float32)
    finite = torch.isfinite(wide)
    facts["nonfinite"] = int((~finite).sum())
    if bool(finite.any()):
        facts["low"] = float(wide[finite].min())
        facts["high"] = float(wide[finite].max())
    return facts


def scalers(spec: Dict[str, Any], subject: Subject, device: torch.device) -> List[Dict[str, Any]]:
    """Whether a GradScaler accepts the dtype of these weights, and from_pretrained's default."""
    halves = {torch.float16, torch.bfloat16}
    kinds = {weight.dtype for weight in subject.weights.values()}
    dtypes = {"the model": min(kinds & halves or kinds, key=str)}
    if spec["kind"] == "hf":
        dtypes["from_pretrained"] = transformers_model.usual_dtype(spec["directory"])
    return [
        {"of": of, "dtype": str(dtype).replace("torch.", ""), "ended": unscaled(dtype, device)}
        for of, dtype in dtypes.items()
    ]


def unscaled(dtype: torch.dtype, device: torch.device) -> Dict[str, Any]:
    """How a GradScaler's unscale_ ends on one gradient of that dtype."""
    started = time.perf_counter()
    ended: Dict[str, Any] = {"how": "ok"}
    with wire.stage("unscale a gradient in %s" % dtype):
        try:
            weight = torch.ones(4, dtype=dtype, device=device, requires_grad=True)
            scaler = training_step.scaler_of(device)
            training_step.backpropagate(scaler.scale(weight.float().sum()))
            optimizer: Foreign = optimizers.optimizer_of([weight], training_step.LR)
            scaler.unscale_(optimizer)
        except Exception as error:
            ended = {"how": "error", "detail": tracebacks.explained(error)}
    return dict(ended, seconds=time.perf_counter() - started)
