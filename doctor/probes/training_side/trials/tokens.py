"""Whether the prediction of a token depends on a later one, where labels are the next tokens."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import containers, observing
from ..subject.training_step import Subject
from . import mixing, outputs
from .outputs import Operation

LEAST = 4


def trial(subject: Subject) -> Dict[str, Any]:
    """Changes the last token of each sample and compares the predictions before it.

    An attention without any mask is named, else the module that mixes: expert-choice routing and
    norms over time, which depend on later tokens on purpose, are not.
    """
    labelled = _sequence(subject)
    tokens = _only_tokens(subject) if labelled is None else labelled
    if tokens is None:
        return _none("no tokens whose labels are the next ones")
    calls = _Calls(tokens)
    whole = outputs.forward(subject, subject.batch, calls.note)
    if labelled is None and not calls.shifted:
        return _none("no tokens whose labels are the next ones")
    found = _predictions(whole, tokens)
    if found is None:
        return _none("no prediction for each token")
    name, last = found
    changed = tokens.clone()
    changed[:, last] = torch.where(tokens[:, last] == tokens[0, 0], tokens[0, 1], tokens[0, 0])
    batch = containers.mapped(subject.batch, lambda each: changed if each is tokens else each)
    other = outputs.forward(subject, batch)
    if torch.equal(changed, tokens) or whole[name].shape != other[name].shape:
        return _none("no other token to put in its place")
    if not set(outputs.differing(whole[name], other[name], 1)) - {last}:
        return {"applies": True, "found": ""}
    if calls.open:
        operation, place = calls.open[0]
        return {"applies": True, "found": "tokens", "operation": operation, "place": place}
    length = whole[name].shape[1]
    module = mixing.module_that_mixes(subject, subject.batch, batch, length)
    return {"applies": True, "found": "positions" if module else "tokens", "operation": module}


def _none(reason: str) -> Dict[str, Any]:
    return {"applies": False, "reason": reason}


def _predictions(whole: Dict[str, torch.Tensor], tokens: torch.Tensor) -> Optional[Tuple[str, int]]:
    """The output with a prediction for all tokens, or for all but the last one, and the position
    of the last token that it reads."""
    samples, length = tokens.shape
    for name, value in whole.items():
        if value.dim() == 3 and len(value) == samples and 0 <= length - value.shape[1] <= 1:
            return name, value.shape[1] - 1
    return None


class _Calls:
    """Attention without a mask, and a loss whose labels are the next tokens."""

    def __init__(self, tokens: torch.Tensor) -> None:
        self.open: List[Operation] = []
        self.shifted = False
        self._next = tokens[:, 1:].flatten()

    def note(self, function: str, args: Any, options: Dict[str, Any], result: Any) -> None:
        if function == "scaled_dot_product_attention" and _sees_all(args, options):
            self.open.append(
                Operation("scaled_dot_product_attention without a mask", outputs.place())
            )
        masked = options.get("attn_mask") is not None or options.get("is_causal")
        if function == "multi_head_attention_forward" and not masked and args[0].shape[0] > 1:
            self.open.append(Operation("MultiheadAttention without attn_mask", outputs.place()))
        if function == "cross_entropy":
            self.shifted = self.shifted or torch.equal(args[1].flatten(), self._next)


def _only_tokens(subject: Subject) -> Optional[torch.Tensor]:
    """The only tokens of a batch without labels, which a loss may take its labels from."""
    whole = [each for each in containers.tensors(subject.batch).values() if _is_tokens(each)]
    return whole[0] if len(whole) == 1 else None


def _is_tokens(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.int64 and tensor.dim() == 2 and tensor.shape[1] >= LEAST


def _sequence(subject: Subject) -> Optional[torch.Tensor]:
    """The tokens of the batch whose labels are the next ones; of a causal model of transformers,
    whose loss shifts them, those that equal its labels."""
    whole = {
        name: each for name, each in containers.tensors(subject.batch).items() if _is_tokens(each)
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
