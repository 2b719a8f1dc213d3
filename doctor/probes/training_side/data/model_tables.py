"""What batches may index, as the model says: its tables, its classes, the blank of a CTC loss."""

from __future__ import annotations

import re
from typing import Optional, Tuple

import torch

from ..foreign import Foreign, observing
from .vocabulary import Vocabulary, special_ids

CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification", "ForAudioClassification")
POSITIONS = re.compile(r"(^|\.)(position_embeddings|wpe|embed_positions)$")
Table = Optional[Tuple[int, str]]
"""The entries of a table that batches index, and whose it is; None where neither is known."""


def entries_of(module: Foreign, vocabulary: Vocabulary) -> Table:
    """Rows of the table that token ids index, and whose it is; None if neither is known."""
    get = observing.attribute(module, "get_input_embeddings")
    table = observing.attempt(get, None) if callable(get) else None
    count = observing.attribute(table, "num_embeddings")
    if observing.has(observing.attribute(module, "config"), "vocab_size"):
        return (count, "the model's embedding") if isinstance(count, int) and count > 1 else None
    if module is not None or vocabulary.tokenizer is None:
        return None
    size = observing.attempt(lambda: len(vocabulary.tokenizer), 0)
    return (max(size, 1 + max(special_ids(vocabulary.tokenizer), default=0)), "the tokenizer")


def classes_of(module: Foreign) -> Table:
    """The classes of a classifier of transformers; None of any other model."""
    if not type(module).__name__.endswith(CLASSIFIERS):
        return None
    config = observing.attribute(module, "config")
    count = observing.attribute(config, "num_labels")
    return (count, "the model's classes") if isinstance(count, int) and count > 1 else None


def positions_of(module: Foreign) -> Table:
    """The table of positions that are learned, of a model of one stack; RoBERTa's begins later."""
    config = observing.attribute(module, "config")
    if config is None or observing.attribute(config, "is_encoder_decoder", False):
        return None
    for name, each in module.named_modules() if isinstance(module, torch.nn.Module) else ():
        if isinstance(each, torch.nn.Embedding) and POSITIONS.search(name):
            first = observing.attribute(each, "offset", 0) or 1 + (each.padding_idx or -1)
            return each.num_embeddings - first, "the model's table of positions"
    return None


def types_of(module: Foreign) -> Table:
    count = observing.attribute(observing.attribute(module, "config"), "type_vocab_size")
    return (count, "the model's table of types") if isinstance(count, int) and count > 0 else None


def blank_of(criterion: Foreign, module: Foreign) -> Optional[int]:
    """The class that a CTC loss reserves for no letter."""
    inner = list(module.modules()) if isinstance(module, torch.nn.Module) else []
    losses = [each for each in (criterion, *inner) if isinstance(each, torch.nn.CTCLoss)]
    if losses:
        return int(losses[0].blank)
    if type(module).__name__.endswith("ForCTC"):
        blank = observing.attribute(observing.attribute(module, "config"), "pad_token_id")
        return blank if isinstance(blank, int) else None
    return None
