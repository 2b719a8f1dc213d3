"""A few steps with LoRA and gradient checkpointing, enabled in one order.

{"stage": "lora", "subject": {...}, "device": "cpu", "precision": "bf16", "recipe": "amp",
 "order": "LoRA first", "reentrant": true, "save_head": false}
                                  {"lora": {doctor.facts.own_model.LoraOrder}}
"""

from __future__ import annotations

import time
from typing import Any, Dict, List

import torch

from ... import wire
from ..errors import tracebacks
from ..foreign import Foreign
from ..subject import (
    memory,
    subjects,
    timed,
    training_step,
    transformers_batch,
    transformers_library,
    transformers_model,
)
from ..subject.training_step import Training
from . import own_stages

STEPS = 3
"""lora_B starts at 0, so lora_A's gradient is 0 in the first step."""


def lora(request: Dict[str, Any]) -> Dict[str, Any]:
    """One order as a LoraOrder record; an error of the steps is part of it.

    {"lora": null} if `save_head` is set and the model has no head.
    """
    device = torch.device(request["device"])
    result: Dict[str, Any] = {"order": request["order"], "reentrant": request["reentrant"]}
    started = time.perf_counter()
    ended: Dict[str, Any] = {"how": "ok"}
    memory.free_memory(device)
    try:
        base = transformers_model.base(request["subject"], request["recipe"]).model
        modules_to_save = head_of(base) if request["save_head"] else []
        if request["save_head"] and not modules_to_save:
            return {"lora": None}
        result["modules_to_save"] = modules_to_save
        result.update(train(base, modules_to_save, request, device))
    except Exception as error:
        ended = {"how": "error", "detail": tracebacks.explained(error)}
    result["ended"] = dict(ended, seconds=time.perf_counter() - started)
    memory.free_memory(device)
    return {"lora": result, "versions": own_stages.versions()}


def train(
    base: Any, modules_to_save: List[str], request: Dict[str, Any], device: torch.device
) -> Dict[str, Any]:
    """A few steps with both enabled, and the parameters that gradients reached."""
    batch = transformers_batch.batch_for(base, request["subject"], transformers_model.SEED)
    batch = subjects.on_device(batch, device)
    model = with_lora_and_checkpointing(base, modules_to_save, request)
    calls = count_block_calls(model)
    with wire.stage("move the model to the device"):
        model = model.to(device).train()
    for weight in model.parameters():
        if weight.requires_grad and modules_to_save:  # peft keeps half precision: see NUM005
            weight.data = weight.data.float()
    subject = training_step.Subject(model, batch, subjects.model_loss)
    training = training_step.Training(subject, device, request["precision"], request["recipe"])
    stage = timed.Timed(device)
    for _ in range(STEPS):
        calls.clear()
        training.step(stage)
    return dict(gradient_coverage(training), recomputed=len(calls) > 1 if calls else None)


def with_lora_and_checkpointing(
    base: Any, modules_to_save: List[str], request: Dict[str, Any]
) -> Foreign:
    """The model with LoRA and checkpointing, enabled in the requested order."""
    rank, save = request["subject"]["lora"], modules_to_save or None
    if request["order"] == "checkpointing first":
        enable_checkpointing(base, request["reentrant"])
        return transformers_model.with_lora(base, rank, save=save)
    adapted = transformers_model.with_lora(base, rank, save=save)
    enable_checkpointing(adapted, request["reentrant"])
    return adapted


def enable_checkpointing(model: Foreign, reentrant: bool) -> None:
    """As a script does, under the name used by the installed transformers."""
    with wire.stage("enable gradient checkpointing"):
        for name in ("gradient_checkpointing_enable", "activation_checkpointing_enable"):
            enable = getattr(model, name, None)
            if enable is not None:
                enable({"use_reentrant": reentrant})
                return
        raise transformers_library.NotBuilt("this model has no gradient checkpointing to enable")


def head_of(model: Foreign) -> List[str]:
    """The name of the module that computes the logits, [] if there is none."""
    head = model.get_output_embeddings()
    names = [name for name, each in model.named_modules() if head is not None and each is head]
    return [name.rpartition(".")[2] for name in names[:1]]


def count_block_calls(model: Foreign) -> List[int]:
    """A list that grows with each forward pass of the first block: twice a step if recomputed."""
    calls: List[int] = []
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module):
            inner = next(iter(module[0].children()), None)
            if inner is not None:
                inner.register_forward_pre_hook(lambda *inputs: calls.append(1))
                break
    return calls


def gradient_coverage(training: Training) -> Dict[str, Any]:
    """The trainable parameters that no gradient reached in any step, and those not finite."""
    weights = training.weights
    adapters = {str(w.dtype) for name, w in weights.items() if "lora_" in name}
    return {
        "trainable": len(weights),
        "without_gradient": [name for name in weights if not training.reached[name]],
        "non_finite": [name for name in weights if not training.finite[name]],
        "adapter_dtypes": sorted(each.replace("torch.", "") for each in adapters),
    }
