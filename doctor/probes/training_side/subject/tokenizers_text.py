"""A text in the tokens of a model directory's own tokenizer.

Transformers is imported inside the functions.
"""

from __future__ import annotations

import os
from typing import List, Optional

import torch

from ... import wire
from ..foreign import Foreign

TEXT = (
    "A training step is repeated on this text until it is long enough. It tells nothing, "
    "and its words are there to be counted: one, two, three, four, five, six, seven. "
)


def tokenized(directory: str, batch: int, length: int, seed: int) -> Optional[torch.Tensor]:
    """A text in the directory's own tokens; None if no tokenizer can be loaded."""
    tokenizer = tokenizer_of(directory)
    if tokenizer is None:
        return None
    with wire.stage("tokenize a text"):
        rows = []
        for row in range(batch):
            at = (seed + 7 * row) % len(TEXT)
            text, copies = TEXT[at:] + TEXT[:at], 1
            tokens: List[int] = []
            while len(tokens) < length and copies <= 64 * length:
                tokens, copies = tokenizer(text * copies)["input_ids"], 2 * copies
            rows.append(tokens[:length])
        if any(len(row) < length for row in rows):
            return None
        return torch.tensor(rows, dtype=torch.long, device="cpu")


def tokenizer_of(directory: str) -> Foreign:
    """The directory's tokenizer, None if it has none or it cannot be loaded."""
    files = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
    if not any(os.path.isfile(os.path.join(directory, name)) for name in files):
        return None
    with wire.stage("load the tokenizer"):
        try:
            import transformers

            return transformers.AutoTokenizer.from_pretrained(
                directory, local_files_only=True, trust_remote_code=False
            )
        except Exception:
            return None


def outside(tokenizer: Foreign, rows: int) -> int:
    """Tokens of its vocabulary that a model of `rows` has no embedding of, without added ones: a
    marker of images may be outside of a model of text."""
    try:
        added = set(tokenizer.added_tokens_decoder)
        return sum(at >= rows and at not in added for at in tokenizer.get_vocab().values())
    except Exception:
        return 0
