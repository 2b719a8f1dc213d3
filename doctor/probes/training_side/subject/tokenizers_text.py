"""A text in the tokens of a model directory's own tokenizer.

Transformers is imported inside the functions.
"""

from __future__ import annotations

import os
from typing import List, Optional, Set

import torch

from ... import wire
from ..foreign import Foreign, observing

TEXT = (
    "A training step is repeated on this text until it is long enough. It tells nothing, "
    "and its words are there to be counted: one, two, three, four, five, six, seven. "
)
DISTINCT = 3
"""Different tokens of a row: attention over equal ones has no gradient for queries and keys, as
where a vocabulary knows no word of the text."""


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
        if not all(trains(row, length) for row in rows):
            return None
        return torch.tensor(rows, dtype=torch.long, device="cpu")


def trains(row: List[int], length: int) -> bool:
    """Whether a row is long enough, of tokens that differ."""
    return len(row) == length and len(set(row)) >= min(DISTINCT, length)


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
    """Tokens that a training reads and a model of `rows` has no embedding of.

    Of the special ones only those that the tokenizer puts around a text and that its chat template
    gives: a marker of images may be outside of a model of text.
    """
    try:
        used = {each for each in tokenizer.all_special_ids if each in _standard(tokenizer)}
        used |= set(observing.attempt(lambda: _of_chat(tokenizer), []))
        special = {at for at, each in tokenizer.added_tokens_decoder.items() if each.special}
        ids = set(tokenizer.get_vocab().values())
        return sum(at >= rows for at in (ids - special) | used)
    except Exception:
        return 0


def _standard(tokenizer: Foreign) -> Set[int]:
    names = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
    found = (observing.attribute(tokenizer, name + "_token_id") for name in names)
    return {each for each in found if isinstance(each, int)}


def _of_chat(tokenizer: Foreign) -> List[int]:
    """The tokens of a short chat."""
    chat = [{"role": "user", "content": TEXT}, {"role": "assistant", "content": TEXT}]
    rendered = tokenizer.apply_chat_template(chat, tokenize=False)
    return list(tokenizer(rendered, add_special_tokens=False)["input_ids"])
