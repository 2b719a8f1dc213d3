"""The batch of a training step whose model is at hand, as `doctor run` has it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import torch

from ..foreign import Foreign
from . import documents, offsets, split_look, targets, vocabulary


def of_batch(
    module: torch.nn.Module, loss: Callable[[Any, Any], torch.Tensor], batch: Foreign
) -> Optional[Dict[str, Any]]:
    """The record Data of one batch of tokens with labels; None of any other. The weights of the
    module are random afterwards."""
    tokens = documents.tokens_of(batch)
    if tokens is None or tokens.labels is None:
        return None
    known = vocabulary.of_objects(None, module, None, "")
    split = split_look.SplitLook(targets.Source("train", "loader", [batch]), known, module, "")
    for each in split.reading.batches_of(1, 1.0):
        split.add(each)
    return {
        "type": "Data",
        "target": "the batch of the step",
        "opened": {"type": "Ended", "how": "ok"},
        "splits": [split.record()],
        "offset": offsets.record(module, loss, batch, tokens),
    }
