"""Samples as the model gets them: tokens with what is done with them, images as small pictures."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any, Dict, List, Optional

import torch

from ..foreign import Foreign, containers, observing
from .documents import Tokens, text_of_row
from .inputs import image_of
from .vocabulary import Vocabulary

SIDE = 64
"""Pixels of a picture."""
MOST_TOKENS = 4096
MOST_TENSORS = 6
"""Of a batch, whose numbers are shown."""


def of_batch(
    batch: Foreign,
    tokens: Optional[Tokens],
    vocabulary: Vocabulary,
    split: str,
    row: int,
    most: int,
) -> List[Dict[str, Any]]:
    """The records Shown of the first samples of a batch."""
    if tokens is not None:
        count = min(most, len(tokens.ids))
        return [_text(tokens, vocabulary, split, row, number) for number in range(count)]
    image = image_of(batch)
    if image is None:
        return _numbers(batch, split, row, most)
    return [
        _image(value, split, row + number) for number, value in enumerate(image[1][:most].cpu())
    ]


def _text(
    tokens: Tokens, vocabulary: Vocabulary, split: str, row: int, number: int
) -> Dict[str, Any]:
    ids = tokens.ids[number][:MOST_TOKENS].tolist()
    labels = tokens.labels[number].tolist() if tokens.labels is not None else None
    low, high = text_of_row(tokens, number, vocabulary.pad)
    roles = []
    for at in range(len(ids)):
        outside = not low <= at < high
        trained = labels is not None and labels[at] >= 0
        roles.append("trained" if trained else "padding" if outside else "context")
    marks = []
    for start, end in _runs(roles):
        marks.append({
            "type": "Mark", "role": roles[start], "text": _decoded(vocabulary, ids[start:end])
        })  # fmt: skip
    if len(tokens.ids[number]) > MOST_TOKENS:
        rest = len(tokens.ids[number]) - MOST_TOKENS
        marks.append({"type": "Mark", "role": "cut", "text": "%d more tokens" % rest})
    return {"type": "Shown", "split": split, "row": row + number, "marks": marks}


def _runs(roles: List[str]) -> List[Any]:
    """Start and end of each run of one role."""
    starts = [at for at, role in enumerate(roles) if not at or roles[at - 1] != role]
    return list(zip(starts, [*starts[1:], len(roles)]))


def _decoded(vocabulary: Vocabulary, ids: List[int]) -> str:
    decode = observing.attribute(vocabulary.tokenizer, "decode")
    if decode is None:
        return " ".join(map(str, ids))
    return observing.attempt(lambda: str(decode(ids)), " ".join(map(str, ids)))


def _numbers(batch: Foreign, split: str, row: int, most: int) -> List[Dict[str, Any]]:
    """Samples of any other tensors, by their least and greatest value and the mean of each."""
    found = {name: observing.plain(each) for name, each in containers.tensors(batch).items()}
    plain = {name: each for name, each in found.items() if each.dim() and not each.is_complex()}
    count = min((len(each) for each in plain.values()), default=0)
    shown = []
    for number in range(min(most, count)):
        values: Dict[str, float] = {}
        for name, each in list(plain.items())[:MOST_TENSORS]:
            values.update(_summary(name, each[number].cpu()))
        shown.append({"type": "Shown", "split": split, "row": row + number, "values": values})
    return shown


def _summary(name: str, value: torch.Tensor) -> Dict[str, float]:
    if value.numel() == 1:
        return {name: float(value)}
    if not value.numel():
        return {}
    value = value.double()
    each = {"min": value.min(), "max": value.max(), "mean": value.mean()}
    return {"%s %s" % (name, word): float(number) for word, number in each.items()}


def _image(value: torch.Tensor, split: str, row: int) -> Dict[str, Any]:
    value = observing.plain(value).float()
    if value.shape[0] not in (1, 3, 4):
        value = value.permute(2, 0, 1)
    values = {"min": float(value.min()), "max": float(value.max()), "mean": float(value.mean())}
    return {"type": "Shown", "split": split, "row": row, "image": png(value), "values": values}


def png(image: torch.Tensor) -> str:
    """A small picture of channels x height x width in base64, stretched to the full range."""
    image = torch.nan_to_num(image[:3])
    low, high = float(image.min()), float(image.max())
    image = (image - low) / ((high - low) or 1.0)
    step = max(1, max(image.shape[1:]) // SIDE)
    small = (image[:, ::step, ::step] * 255).round().to(torch.uint8)
    if small.shape[0] != 3:
        small = small[:1].repeat(3, 1, 1)
    height, width = small.shape[1:]
    pixels = small.permute(1, 2, 0).reshape(height, width * 3).tolist()
    data = b"".join(b"\0" + bytes(line) for line in pixels)
    chunks = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    chunks += _chunk(b"IDAT", zlib.compress(data)) + _chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunks).decode()


def _chunk(name: bytes, data: bytes) -> bytes:
    body = name + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
