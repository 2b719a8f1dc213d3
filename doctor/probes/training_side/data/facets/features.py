"""Generic numbers of any input: values of columns, areas of images, bands of signals, counts of
tokens."""

from __future__ import annotations

from typing import Dict, List, Optional

import torch
from torch.nn import functional

from .tables import Table

COLUMNS, STEPS, HASHED, BANDS, SEGMENTS, AREAS = 256, 96, 256, 24, 16, 4
"""Columns and values that are taken as they are, counts of tokens, bands and segments of a signal,
and areas along a side of an image."""
SIDE = 48
"""Pixels that an image is reduced to."""
PRIME = 2654435761
FAR = 8.0
"""Spreads beyond which a value counts as this far."""
NEAR = 0.6
"""Of the distance of two rows, that of neighbours in a series at most. Our own number."""


def of_table(table: Table) -> Dict[str, torch.Tensor]:
    """Rows x numbers of each input that has some."""
    found = {}
    for name, each in table.inputs.items():
        made = of_field(each, table.text)
        if made is not None and made.shape[1]:
            found[name] = made
    return found


def kind_of(value: torch.Tensor) -> str:
    """ "image", "tokens", "column", "columns", "signal", "series" or ""."""
    if value.dim() == 4 and (value.shape[1] <= 4 or value.shape[3] <= 4):
        return "image" if min(value.shape[1:]) <= 4 < sorted(value.shape[1:])[1] else ""
    if value.is_complex() or not value.numel():
        return ""
    if not value.is_floating_point():
        if value.dim() == 3 and value.dtype is torch.uint8:
            return "image"
        return {1: "column", 2: "tokens"}.get(value.dim(), "")
    if value.dim() == 2:
        return "columns" if value.shape[1] <= COLUMNS else "signal"
    return {1: "column", 3: "series"}.get(value.dim(), "")


def of_field(value: torch.Tensor, mask: Optional[torch.Tensor] = None) -> Optional[torch.Tensor]:
    kind = kind_of(value)
    if kind == "tokens":
        return of_tokens(value, mask)
    plain = torch.nan_to_num(value.float(), 0.0, 0.0, 0.0) if kind else value
    if kind == "image":
        return of_images(channels_first(plain))
    if kind == "column":
        return plain[:, None]
    if kind == "columns":
        return plain
    if kind == "signal":
        return of_signals(plain[:, None])
    if kind == "series":
        flat = plain.flatten(1)
        return flat if flat.shape[1] <= STEPS else of_signals(shorter_first(plain))
    return None


def channels_first(value: torch.Tensor) -> torch.Tensor:
    if value.dim() == 3:
        return value[:, None]
    return value if value.shape[1] <= 4 else value.permute(0, 3, 1, 2)


def shorter_first(value: torch.Tensor) -> torch.Tensor:
    """Rows x channels x steps, the channels being fewer."""
    made = value if value.shape[1] <= value.shape[2] else value.transpose(1, 2)
    return made[:, :32]


def of_images(value: torch.Tensor) -> torch.Tensor:
    """Means of areas, spreads of channels, and how fine the structure is along both sides."""
    if max(value.shape[2:]) > SIDE:
        value = functional.adaptive_avg_pool2d(value, SIDE)
    areas = functional.adaptive_avg_pool2d(value, AREAS).flatten(1)
    spread = value.flatten(2).std(2)
    grey = value.mean(1)
    fine = [
        (grey - grey.roll(step, axis)).abs().mean((1, 2)) for step in (1, 2, 4) for axis in (1, 2)
    ]
    return torch.cat([areas, spread, torch.stack(fine, 1)], 1)


def of_signals(value: torch.Tensor) -> torch.Tensor:
    """Rows x channels x steps: means and spreads of segments, and the strength of bands."""
    means = functional.adaptive_avg_pool1d(value, min(SEGMENTS, value.shape[2])).flatten(1)
    sizes = functional.adaptive_avg_pool1d(value.abs(), min(SEGMENTS, value.shape[2])).flatten(1)
    short = value[:, :, :4096].mean(1)
    power = torch.fft.rfft(short - short.mean(1, keepdim=True), dim=1).abs()
    count = min(BANDS, power.shape[1])
    edges = torch.logspace(0, 1, count + 1).sub(1).div(9).mul(power.shape[1]).long()
    bands = [power[:, a : max(a + 1, b)].mean(1) for a, b in zip(edges, edges[1:])]  # noqa: RUF007 - of Python 3.10
    return torch.cat([means, sizes, torch.stack(bands, 1).clamp(min=1e-6).log()], 1)


def of_tokens(value: torch.Tensor, mask: Optional[torch.Tensor]) -> torch.Tensor:
    """Counts of hashed tokens, the first and the last one, and the length of the text."""
    text = value != 0 if mask is None or mask.shape != value.shape else mask != 0
    hashed = (value.long() * PRIME) % 104729 % HASHED
    counts = torch.zeros(len(value), HASHED).scatter_add_(1, hashed, text.float())
    length = text.float().sum(1, keepdim=True)
    return torch.cat([counts / length.clamp(min=1).sqrt(), length], 1)


def of_series(made: torch.Tensor) -> bool:
    """Whether each row resembles the next one more than others, as the frames of a recording do:
    then a target of another row may be meant."""
    if len(made) < 3:
        return False
    near = (made[1:] - made[:-1]).norm(dim=1)
    far = torch.cdist(made[::2], made[1::2])
    return float(near.median()) < NEAR * float(far.median())


def standard(made: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """Of mean 0 and spread 1 in the rows of `by`, without what is constant there."""
    spread = by.std(0)
    used = spread > 1e-6 * by.abs().amax(0).clamp(min=1e-6)
    scaled = (made[:, used] - by[:, used].mean(0)) / spread[used]
    return scaled.clamp(-FAR, FAR)


def joined(each: Dict[str, torch.Tensor], names: List[str]) -> torch.Tensor:
    """All fields side by side, none heavier than another by its width alone."""
    return torch.cat([each[name] / max(1, each[name].shape[1]) ** 0.5 for name in names], 1)
