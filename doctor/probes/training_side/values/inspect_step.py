"""Errors in a training before its first step: in its batch and its weights.

Values are inspected on the CPU before a kernel reads them: a bad label kills a CUDA context.
"""

from __future__ import annotations

import os
import re
import traceback
from typing import Any, Dict, List, Optional, Set, Tuple

import torch
from torch.overrides import TorchFunctionMode

from ... import wire
from ...secrets import hide_secrets
from ..foreign import (
    Arguments,
    Foreign,
    Function,
    Options,
    Types,
    containers,
    observing,
    stack_frames,
)
from ..subject import subjects
from ..subject.plan import Plan
from ..subject.timed import Timed
from ..subject.training_step import Subject
from .value_origins import RESHAPING, Called, described, tensors
from .watched_modules import MOST_SHOWN, Calls, owners

IGNORED = -100
"""The label that torch's losses ignore by default."""
LABELS = re.compile(r"(^|[._])(labels?|targets?|y)$")
MASK = re.compile("mask|bias")
LISTED = 3
"""Positions of values in a remark."""


class InvalidInput(Exception):
    """A loss or an embedding is about to receive values that it does not accept."""

    computed = False
    """The code computes them: they are no values of the batch."""


def look(plan: Plan, stage: Timed) -> Dict[str, Any]:
    """Errors in batch and weights. They are noted first; a forward pass then finds values that a
    kernel would reject, and stops before it. Raises what the forward pass raises."""
    with stage("allocate"):
        subject = plan.build()
        result: Dict[str, Any] = {"bad_batch": [], "bad_index": [], "noted": []}
        result["bad_weights"] = bad_weights(subject.module)
        for name, tensor in containers.tensors(subject.batch).items():
            bad, remarks = _inspect(name, observing.plain(tensor).cpu(), _pad_id(subject.module))
            result["bad_batch"] += bad
            result["noted"] += remarks
    wire.send(note={"look": result})
    computed = plan.training(subject).autocast()
    calls = Calls(subject.module)
    origins = Called(subject.module, subject.batch, (*RESHAPING, *SELECTING))
    guard = Guard(origins)
    try:
        with stage("forward"), guard, origins, computed, calls.noted():
            forward(subject)
    except InvalidInput as error:
        result["bad_index" if error.computed else "bad_batch"].append(str(error))
    except Exception as error:
        hidden = guard.attention or subjects.is_compiled(subject.module)
        wire.send(note={"look": {"attention": hidden, "raised": raised(error)}})
        raise
    else:
        compiled = subjects.is_compiled(subject.module)
        result["uncalled"] = calls.missing(guard.weights)
        result["unread"] = [] if compiled else calls.unread(guard.weights)
        result["owners"] = owners(subject.module)
        result["attention"] = guard.attention or compiled
    return result


NO_GRAPH = re.compile("does not require grad|unused in the graph|not have been used in the graph")


def forward(subject: Subject) -> None:
    """Without a graph, which saves memory, unless the code itself computes gradients."""
    try:
        with torch.no_grad():
            subject.loss(subject.module, subject.batch)
    except RuntimeError as error:
        if not NO_GRAPH.search(str(error)):
            raise
        with torch.enable_grad():
            subject.loss(subject.module, subject.batch)


def raised(error: Exception) -> str:
    """The error, and the user's line that it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    hidden = stack_frames.HIDDEN
    users = [frame for frame in frames if not frame.filename.startswith(hidden)]
    users = [frame for frame in users if not stack_frames.is_library(frame.filename)]
    text = hide_secrets(wire.describe(error))
    if not users:
        return str(text)
    return "%s in %s, line %s" % (text, os.path.basename(users[-1].filename), users[-1].lineno)


def bad_weights(module: torch.nn.Module) -> List[str]:
    """Parameters and buffers that are not finite; a buffer that is a mask may hold -inf."""
    result = []
    parameters = [(name, each) for name, each in module.named_parameters() if nonfinite(each)]
    buffers = [each for each in module.named_buffers() if nonfinite_and_not_mask(*each)]
    own = {name for name, _ in buffers}
    for name, tensor in (*parameters, *buffers):
        bad = ~torch.isfinite(tensor.detach())
        number = int(bad.sum())
        text = "%s: %d of %d values not finite" % (name, number, tensor.numel())
        if tensor.dim() and number <= LISTED and number < tensor.numel():
            text += ", at %s" % " and ".join(map(str, bad.nonzero().tolist()))
        result.append(text + " (a buffer)" * (name in own))
    return result[:MOST_SHOWN]


def _inspect(name: str, tensor: torch.Tensor, pad: Optional[int]) -> Tuple[List[str], List[str]]:
    """Errors in a tensor of the batch, and remarks that are no errors."""
    if not tensor.numel():
        return ["%s: empty, its shape is %s" % (name, list(tensor.shape))], []
    if tensor.is_floating_point():
        if not nonfinite_and_not_mask(name, tensor):
            return [], []
        bad = ~torch.isfinite(tensor.detach())
        message = "%s: %d of %d values not finite%s"
        return [message % (name, int(bad.sum()), tensor.numel(), _whole_slices(bad))], []
    if LABELS.search(name):
        return [], _label_remarks(name, tensor, pad)
    if "mask" in name and tensor.dim() == 2:
        empty = int((tensor == 0).all(1).sum())
        message = "%s: %d of %d rows mask everything" % (name, empty, len(tensor))
        return [], [message] if empty else []
    return [], []


def _whole_slices(bad: torch.Tensor) -> str:
    """The rows, columns or other slices that these values are all of: ", all of [:, 3]"."""
    for dimension in reversed(range(bad.dim() if bad.dim() > 1 else 0)):
        counts = bad.movedim(dimension, 0).flatten(1).sum(1)
        chosen = counts.nonzero()[:, 0].tolist()
        size = bad.numel() // bad.shape[dimension]
        if len(chosen) <= LISTED and int(counts.sum()) == len(chosen) * size < bad.numel():
            return ", all of " + " and ".join("[%s%d]" % (":, " * dimension, n) for n in chosen)
    return ""


def _label_remarks(name: str, labels: torch.Tensor, pad: Optional[int]) -> List[str]:
    remarks = []
    rows = (labels == IGNORED).flatten(1).all(1) if labels.dim() > 1 else labels == IGNORED
    if rows.any() and labels.dim() > 1:
        ignored = int(rows.sum())
        remarks.append("%s: %d of %d rows hold ignored labels only" % (name, ignored, len(rows)))
    if pad is not None and labels.dim() > 1 and (labels == pad).any():
        padded = int((labels == pad).sum())
        remarks.append(
            "%s: %d of %d are the padding token %d, so the model learns to predict padding"
            % (name, padded, labels.numel(), pad)
        )
    return remarks


def _pad_id(module: torch.nn.Module) -> Optional[int]:
    inner = subjects.transformers_like(module)
    pad = observing.attribute(observing.attribute(inner, "config"), "pad_token_id")
    return pad if isinstance(pad, int) else None


def nonfinite(tensor: torch.Tensor) -> bool:
    """Whether any value is not finite."""
    floating = tensor.is_floating_point() or tensor.is_complex()
    return floating and not bool(torch.isfinite(observing.plain(tensor)).all())


def nonfinite_and_not_mask(name: str, tensor: torch.Tensor) -> bool:
    """The same, but -inf is allowed in a mask, recognized by its name or its values."""
    if not nonfinite(tensor):
        return False
    tensor = observing.plain(tensor)
    if tensor.is_complex() or torch.isnan(tensor).any() or (tensor == float("inf")).any():
        return True
    zero = tensor == 0
    is_mask = bool(zero.any()) and bool((zero | (tensor == -float("inf"))).all())
    return not (is_mask or MASK.search(name))


def _check_tokens(tokens: torch.Tensor, weight: torch.Tensor, options: Options) -> None:
    if bad := _outside(tokens, weight.shape[0]):
        message = "tokens: %d of %d values outside the vocabulary [0, %d)"
        if _are_positions(tokens):
            message = "positions: %d of %d beyond the model's length, it has %d"
        else:
            message += ": " + _values_outside(tokens, weight.shape[0])
        raise InvalidInput(message % (bad, tokens.numel(), weight.shape[0]))


def _are_positions(indices: torch.Tensor) -> bool:
    """Whether they increase by one along each sample, which a text's tokens never do."""
    return indices.dim() > 0 and indices.shape[-1] > 2 and bool((indices.diff() == 1).all())


def _check_labels(logits: torch.Tensor, labels: torch.Tensor, options: Options) -> None:
    if labels.is_floating_point() or logits.shape == labels.shape or not logits.dim():
        return
    ignored = options.get("ignore_index", IGNORED)
    counted = labels[labels != ignored]
    classes = logits.shape[1] if logits.dim() > 1 else logits.shape[0]
    if bad := _outside(counted, classes):
        message = "labels: %d of %d values outside [0, %d): %s"
        values = _values_outside(counted, classes)
        values += "; the smallest label is 1" if int(counted.min()) == 1 else ""
        raise InvalidInput(message % (bad, labels.numel(), classes, values))
    if not counted.numel() and options.get("reduction", "mean") == "mean":
        message = "labels: all %d are ignored (%d), so the loss is the mean of nothing"
        raise InvalidInput(message % (labels.numel(), ignored))


def _values_outside(values: torch.Tensor, end: int) -> str:
    values = values.detach().cpu()
    outside = sorted(set(values[(values < 0) | (values >= end)].tolist()))
    return ", ".join(map(str, outside[:3])) + ", ..." * (len(outside) > 3)


def _outside(values: torch.Tensor, end: int) -> int:
    values = values.detach().cpu()
    return int(((values < 0) | (values >= end)).sum())


ATTENTION = ("attention", "transformer_encoder")
"""Parts of the names of torch's functions that select an attention kernel."""
CHECKED = {"embedding": _check_tokens, "cross_entropy": _check_labels, "nll_loss": _check_labels}

SELECTING = ("gather", "take", "index_select", "masked_select", "where", "masked_fill", "roll",
             "cat", "stack", "narrow", "pad", "flip", "new_full", "__setitem__", "repeat",
             "as_tensor", "squeeze_", "clamp", "int", "long")  # fmt: skip
"""Functions beside RESHAPING whose values are those of their first input, or a constant of the
code."""
INDEX = {"embedding": 0, "cross_entropy": 1, "nll_loss": 1}
"""Name of a function -> the position of its index."""


class Guard(TorchFunctionMode):
    """Inspects the inputs of losses and embeddings on the CPU, before a kernel reads them.

    Raises InvalidInput. On CUDA an index out of range kills the process's context.
    """

    def __init__(self, origins: Called) -> None:
        super().__init__()
        self._origins = origins
        self.weights: Set[int] = set()
        """Ids of the parameters that a function got."""
        self.attention = False
        """Whether one of torch's attention functions was called."""

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = kwargs or {}
        name = observing.function_name(func)
        given = tensors((args, options))
        self.weights |= {id(each) for each in given if isinstance(each, torch.nn.Parameter)}
        self.attention = self.attention or any(each in name for each in ATTENTION)
        if name in CHECKED and func is not torch.embedding and len(args) > 1:
            self._check(name, args, options)
        return func(*args, **options)

    def _check(self, name: str, args: Arguments, options: Options) -> None:
        try:
            CHECKED[name](observing.plain(args[0]), observing.plain(args[1]), options)
        except InvalidInput as error:
            origin = self._origins.of(args[INDEX[name]])
            if origin is None or not origin.function:
                raise
            invalid = InvalidInput("%s; they are %s" % (error, described(origin, "")))
            invalid.computed = True
            raise invalid from None
