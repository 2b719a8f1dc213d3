"""Whether the prediction of a token depends on a later one, where labels are the next tokens."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from ..foreign import containers, observing
from ..subject.training_step import Subject
from . import outputs
from .outputs import Operation

LEAST = 4


def trial(subject: Subject) -> Dict[str, Any]:
    """Changes the last token of each sample and compares the predictions before it.

    Only an attention without any mask is named: expert-choice routing and norms over time depend on
    later tokens on purpose.
    """
    tokens = _sequence(subject)
    if tokens is None:
        return {"applies": False, "reason": "no tokens whose labels are the next ones"}
    open_: List[Operation] = []

    def note(function: str, args: Any, options: Dict[str, Any], result: Any) -> None:
        if function == "scaled_dot_product_attention" and _sees_all(args, options):
            open_.append(Operation("scaled_dot_product_attention without a mask", outputs.place()))
        masked = options.get("attn_mask") is not None or options.get("is_causal")
        if function == "multi_head_attention_forward" and not masked and args[0].shape[0] > 1:
            open_.append(Operation("MultiheadAttention without attn_mask", outputs.place()))

    length = tokens.shape[1]
    changed = tokens.clone()
    changed[:, -1] = torch.where(tokens[:, -1] == tokens[0, 0], tokens[0, 1], tokens[0, 0])
    whole = outputs.forward(subject, subject.batch, note)
    batch = containers.mapped(subject.batch, lambda each: changed if each is tokens else each)
    other = outputs.forward(subject, batch)
    shape = tuple(tokens.shape)
    logits = [
        name
        for name, value in whole.items()
        if value.dim() == 3 and tuple(value.shape[:2]) == shape and name in other
    ]
    if not logits or bool((changed == tokens).all()):
        return {"applies": False, "reason": "no prediction for each token"}
    moved = outputs.differing(whole[logits[0]], other[logits[0]], 1)
    if not set(moved) - {length - 1}:
        return {"applies": True, "found": ""}
    operation, place = open_[0] if open_ else Operation("", "")
    return {"applies": True, "found": "tokens", "operation": operation, "place": place}


def _sequence(subject: Subject) -> Optional[torch.Tensor]:
    """The tokens of the batch whose labels are the next ones; of a causal model of transformers,
    whose loss shifts them, those that equal its labels."""
    whole = {
        name: each
        for name, each in containers.tensors(subject.batch).items()
        if each.dtype == torch.int64 and each.dim() == 2 and each.shape[1] >= LEAST
    }
    causal = any(
        type(each).__name__.endswith(("ForCausalLM", "LMHeadModel"))
        for each in subject.module.modules()
    )
    config = observing.attribute(subject.module, "config")
    causal = causal and not observing.attribute(config, "is_encoder_decoder", False)
    for name, tokens in whole.items():
        for other, labels in whole.items():
            if (
                name == other
                or tokens.shape != labels.shape
                or bool((tokens == tokens[0, 0]).all())
            ):
                continue
            if bool((labels[:, :-1] == tokens[:, 1:]).all()):
                return tokens
            if causal and "label" in other and bool((labels == tokens).all()):
                return tokens
    return None


def _sees_all(args: Any, options: Dict[str, Any]) -> bool:
    mask = options.get("attn_mask", args[3] if len(args) > 3 else None)
    causal = options.get("is_causal", args[5] if len(args) > 5 else False)
    return mask is None and not causal and args[0].shape[-2] == args[1].shape[-2] > 1
