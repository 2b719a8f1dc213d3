"""What is wrong with a training before its first step: its batch, and its weights.

Imported by torch_stages.py when it is asked for; standard library and torch only, Python 3.9.
Values are looked at on the CPU before a kernel is given them: a bad label kills a CUDA context.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

import torch
import wire
from torch.overrides import TorchFunctionMode

subjects = wire.sibling("subjects")

IGNORED = -100
"""The label that torch's losses leave out by default."""
LABELS = re.compile(r"(^|[._])(labels?|targets?|y)$")
MASK = re.compile("mask|bias")
SHOWN = 8


class Spoiled(Exception):
    """The values that a loss or an embedding is about to be given are not ones it can take."""


def look(asked: Any, stage: Any) -> Dict[str, Any]:
    """What is wrong with batch and weights; what one look tells is noted, then a forward pass is
    stopped where it would give a kernel what that cannot take. What it raises passes through."""
    with stage("allocate"):
        subject = asked.build()
        found: Dict[str, List[str]] = {"bad_batch": [], "noted": []}
        found["bad_weights"] = bad_weights(subject.module)
        for name, tensor in subjects.tensors(subject.batch).items():
            bad, noted = _looked_at(name, tensor.detach().cpu(), _pad_id(subject.module))
            found["bad_batch"] += bad
            found["noted"] += noted
    wire.tell(note={"look": found})
    computed = asked.training(subject).autocast()
    try:
        with stage("forward"), torch.no_grad(), Guard(), computed:
            subject.loss(subject.module, subject.batch)
    except Spoiled as error:
        found["bad_batch"].append(str(error))
    return found


def bad_weights(module: torch.nn.Module) -> List[str]:
    """Parameters and buffers that are not finite; a buffer that is a mask may hold -inf."""
    found = []
    parameters = [(name, each) for name, each in module.named_parameters() if spoiled(each)]
    buffers = [each for each in module.named_buffers() if spoiled_and_no_mask(*each)]
    for name, tensor in (*parameters, *buffers):
        bad = int((~torch.isfinite(tensor.detach())).sum())
        found.append("%s: %d of %d values not finite" % (name, bad, tensor.numel()))
    return found[:SHOWN]


def _looked_at(name: str, tensor: torch.Tensor, pad: Optional[int]) -> Tuple[List[str], List[str]]:
    """What is wrong with a tensor of the batch, and what is odd about it."""
    if not tensor.numel():
        return ["%s: empty, its shape is %s" % (name, list(tensor.shape))], []
    if tensor.is_floating_point():
        bad = int((~torch.isfinite(tensor)).sum()) if spoiled_and_no_mask(name, tensor) else 0
        said = "%s: %d of %d values not finite" % (name, bad, tensor.numel())
        return [said] if bad else [], []
    if LABELS.search(name):
        return [], _odd_labels(name, tensor, pad)
    if "mask" in name and tensor.dim() == 2:
        empty = int((tensor == 0).all(1).sum())
        said = "%s: %d of %d rows mask everything" % (name, empty, len(tensor))
        return [], [said] if empty else []
    return [], []


def _odd_labels(name: str, labels: torch.Tensor, pad: Optional[int]) -> List[str]:
    odd = []
    rows = (labels == IGNORED).flatten(1).all(1) if labels.dim() > 1 else labels == IGNORED
    if rows.any() and labels.dim() > 1:
        ignored = int(rows.sum())
        odd.append("%s: %d of %d rows hold ignored labels only" % (name, ignored, len(rows)))
    if pad is not None and labels.dim() > 1 and (labels == pad).any():
        padded = int((labels == pad).sum())
        odd.append(
            "%s: %d of %d are the padding token %d, which is then learned"
            % (name, padded, labels.numel(), pad)
        )
    return odd


def _pad_id(module: torch.nn.Module) -> Optional[int]:
    inner = subjects.transformers_like(module)
    pad = getattr(inner.config, "pad_token_id", None) if inner is not None else None
    return pad if isinstance(pad, int) else None


def spoiled(tensor: torch.Tensor) -> bool:
    """Whether some value is not finite."""
    floating = tensor.is_floating_point() or tensor.is_complex()
    return floating and not bool(torch.isfinite(tensor.detach()).all())


def spoiled_and_no_mask(name: str, tensor: torch.Tensor) -> bool:
    """The same, where -inf may stand in what is a mask by its name or by its values."""
    if not spoiled(tensor):
        return False
    if tensor.is_complex() or torch.isnan(tensor).any() or (tensor == float("inf")).any():
        return True
    zero = tensor == 0
    is_mask = bool(zero.any()) and bool((zero | (tensor == -float("inf"))).all())
    return not (is_mask or MASK.search(name))


def _check_tokens(tokens: torch.Tensor, weight: torch.Tensor, given: Dict[str, Any]) -> None:
    if bad := _outside(tokens, weight.shape[0]):
        said = "tokens: %d of %d values outside the vocabulary [0, %d)"
        if _are_positions(tokens):
            said = "positions: %d of %d beyond the model's length, it has %d"
        raise Spoiled(said % (bad, tokens.numel(), weight.shape[0]))


def _are_positions(indices: torch.Tensor) -> bool:
    """Whether they count up by one along each sample, as no text's tokens do."""
    return indices.dim() > 0 and indices.shape[-1] > 2 and bool((indices.diff() == 1).all())


def _check_labels(logits: torch.Tensor, labels: torch.Tensor, given: Dict[str, Any]) -> None:
    if labels.is_floating_point() or logits.shape == labels.shape or not logits.dim():
        return
    ignored = given.get("ignore_index", IGNORED)
    counted = labels[labels != ignored]
    classes = logits.shape[1] if logits.dim() > 1 else logits.shape[0]
    if bad := _outside(counted, classes):
        said = "labels: %d of %d values outside [0, %d)"
        raise Spoiled(said % (bad, labels.numel(), classes))
    if not counted.numel() and given.get("reduction", "mean") == "mean":
        said = "labels: all %d are ignored (%d), so the loss is the mean of nothing"
        raise Spoiled(said % (labels.numel(), ignored))


def _outside(values: torch.Tensor, end: int) -> int:
    values = values.detach().cpu()
    return int(((values < 0) | (values >= end)).sum())


CHECKED = {"embedding": _check_tokens, "cross_entropy": _check_labels, "nll_loss": _check_labels}


class Guard(TorchFunctionMode):
    """Looks at what losses and embeddings are given, on the CPU, before a kernel does.

    Raises Spoiled. On CUDA an index out of range kills the process's context.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        given = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in CHECKED and func is not torch.embedding and len(args) > 1:
            CHECKED[name](args[0], args[1], given)
        return func(*args, **given)
