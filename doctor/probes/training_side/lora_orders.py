"""LoRA and gradient checkpointing in one order of the two, for a few steps.

Imported by torch_stages.py when it is asked for; standard library and torch only, Python 3.9.
    {"stage": "lora", "subject": {...}, "device": "cpu", "precision": "bf16", "recipe": "amp",
     "order": "LoRA first", "reentrant": true, "save_head": false}
                                      {"lora": {training_sections.LoraOrder}}
"""

from __future__ import annotations

import time
from typing import Any, Dict, List

import torch
import wire

training_step = wire.sibling("training_step")
transformers_model = wire.sibling("transformers_model")
subjects = wire.sibling("subjects")
own_stages = wire.sibling("own_stages")

STEPS = 3
"""lora_B starts at 0, so that lora_A's gradient is 0 in the first step."""


def lora(request: Dict[str, Any]) -> Dict[str, Any]:
    """One order, as LoraOrder has it; what the steps raise is part of it.

    {"lora": null} where the head was to be trained whole and the model has none.
    """
    device = torch.device(request["device"])
    told: Dict[str, Any] = {"order": request["order"], "reentrant": request["reentrant"]}
    began = time.perf_counter()
    ended: Dict[str, Any] = {"how": "ok"}
    training_step.freed(device)
    try:
        base = transformers_model.base(request["subject"], request["recipe"]).model
        saved = head_of(base) if request["save_head"] else []
        if request["save_head"] and not saved:
            return {"lora": None}
        told["modules_to_save"] = saved
        told.update(trained(base, saved, request, device))
    except Exception as error:
        ended = {"how": "error", "detail": own_stages.explained(error)}
    told["ended"] = dict(ended, seconds=time.perf_counter() - began)
    training_step.freed(device)
    return {"lora": told, "versions": own_stages.versions()}


def trained(
    base: Any, saved: List[str], request: Dict[str, Any], device: torch.device
) -> Dict[str, Any]:
    """A few steps with both switched on, and what they reached."""
    batch = transformers_model.batch_for(base, request["subject"], transformers_model.SEED)
    batch = subjects.on_device(batch, device)
    model = both(base, saved, request)
    calls = counted(model)
    with wire.stage("move the model to the device"):
        model = model.to(device).train()
    for weight in model.parameters():
        if weight.requires_grad and saved:  # peft leaves them in half precision: see NUM005
            weight.data = weight.data.float()
    subject = subjects.Subject(model, batch, subjects.called)
    training = training_step.Training(subject, device, request["precision"], request["recipe"])
    stage = training_step.Timed(device)
    for _ in range(STEPS):
        calls.clear()
        training.step(stage)
    return dict(reached(training), recomputed=len(calls) > 1 if calls else None)


def both(base: Any, saved: List[str], request: Dict[str, Any]) -> Any:
    """The model with LoRA and checkpointing, switched on in the order asked for."""
    rank, save = request["subject"]["lora"], saved or None
    if request["order"] == "checkpointing first":
        enable_checkpointing(base, request["reentrant"])
        return transformers_model.with_lora(base, rank, save=save)
    adapted = transformers_model.with_lora(base, rank, save=save)
    enable_checkpointing(adapted, request["reentrant"])
    return adapted


def enable_checkpointing(model: Any, reentrant: bool) -> None:
    """As a script does, by the name that this version of transformers has for it."""
    with wire.stage("enable gradient checkpointing"):
        for name in ("gradient_checkpointing_enable", "activation_checkpointing_enable"):
            enable = getattr(model, name, None)
            if enable is not None:
                enable({"use_reentrant": reentrant})
                return
        raise transformers_model.NotBuilt("this model has no gradient checkpointing to enable")


def head_of(model: Any) -> List[str]:
    """The name of the module that gives the logits, [] where there is none."""
    head = model.get_output_embeddings()
    names = [name for name, each in model.named_modules() if head is not None and each is head]
    return [name.rpartition(".")[2] for name in names[:1]]


def counted(model: torch.nn.Module) -> List[int]:
    """Grows with each forward pass through the first block: twice a step where it is recomputed."""
    calls: List[int] = []
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module):
            inner = next(iter(module[0].children()), None)
            if inner is not None:
                inner.register_forward_pre_hook(lambda *given: calls.append(1))
                break
    return calls


def reached(training: Any) -> Dict[str, Any]:
    """Which trainable parameters a gradient reached in any of the steps."""
    weights = training.weights
    adapters = {str(w.dtype) for name, w in weights.items() if "lora_" in name}
    return {
        "trainable": len(weights),
        "without_gradient": [name for name in weights if not training.reached[name]],
        "non_finite": [name for name in weights if not training.finite[name]],
        "adapter_dtypes": sorted(each.replace("torch.", "") for each in adapters),
    }
