"""Whether tags stand at the tokens that they belong to: a token tells the tag some places further
better than its own."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

from ..documents import Tokens
from ..relations import relation

MOST_ROWS, MOST_TAGS, LEAST_ROWS, REACH = 256, 64, 32, 2
OWN = 0.5
"""Share of the labels that are a token near by, as the next one, from which on they are no tags."""
LEAST, PART, CLEAR = 0.1, 0.4, 6.0
"""Tags that another place tells beyond the most frequent one, what the own place does of it at
most, and errors between both. Our own numbers."""


class TagPairs:
    """Rows of tokens with a label each; `records` has what is moved."""

    def __init__(self) -> None:
        self._rows: List[Dict[str, torch.Tensor]] = []

    def add(self, tokens: Tokens) -> None:
        if tokens.labels is None or tokens.foreign_labels or len(self._rows) >= MOST_ROWS:
            return
        for ids, labels in zip(tokens.ids, tokens.labels):
            self._rows.append({"ids": ids, "labels": labels})

    def records(self) -> List[Dict[str, Any]]:
        if len(self._rows) < LEAST_ROWS:
            return []
        ids = [each["ids"] for each in self._rows]
        labels = [each["labels"] for each in self._rows]
        trained = torch.cat([each[each >= 0] for each in labels])
        copied = max(copies(ids, labels, step) for step in range(-REACH, REACH + 1))
        tags = int(trained.max()) + 1 if len(trained) else 0
        if not 1 < tags <= MOST_TAGS or copied > OWN:
            return []
        size = int(max(each.max() for each in ids)) + 1
        if size > 500_000 or min(int(each.min()) for each in ids) < 0:
            return []
        gains = {step: gain_of(ids, labels, step, size, tags) for step in range(-REACH, REACH + 1)}
        best = max(gains, key=lambda step: float(gains[step].mean()))
        own, other = gains[0], gains[best]
        if best == 0 or float(other.mean()) < LEAST or own.mean() > PART * other.mean():
            return []
        apart = other - own
        errors = float(apart.mean() / (apart.std() / len(apart) ** 0.5).clamp(min=1e-9))
        if errors < CLEAR:
            return []
        text = "of the token %d place%s %s" % (
            abs(best), "s" * (abs(best) > 1), "before" if best < 0 else "behind",
        )  # fmt: skip
        numbers = (float(own.mean()), float(other.mean()))
        return [relation("tags of another place", len(ids), len(ids), (text,), (), numbers)]


def copies(ids: List[torch.Tensor], labels: List[torch.Tensor], step: int) -> float:
    pairs = [pair for i, n in zip(ids, labels) for pair in pairs_of(i, n, step)]
    same = [token == tag for token, tag in pairs]
    return sum(same) / max(1, len(same))


def gain_of(
    ids: List[torch.Tensor], labels: List[torch.Tensor], step: int, size: int, tags: int
) -> torch.Tensor:
    """By row of the second half: tags that the token so many places further tells, beyond those
    that the most frequent tag does."""
    counts: Dict[int, List[int]] = {}
    whole = [0] * tags
    half = len(ids) // 2
    for number in range(half):
        for token, tag in pairs_of(ids[number], labels[number], step):
            counts.setdefault(token, [0] * tags)[tag] += 1
            whole[tag] += 1
    usual = max(range(tags), key=lambda tag: whole[tag])
    likely = {token: max(range(tags), key=lambda tag: each[tag]) for token, each in counts.items()}
    found = []
    for number in range(half, len(ids)):
        pairs = pairs_of(ids[number], labels[number], step)
        right = sum((likely.get(token, usual) == tag) - (usual == tag) for token, tag in pairs)
        found.append(right / max(1, len(pairs)))
    return torch.tensor(found)


def pairs_of(ids: torch.Tensor, labels: torch.Tensor, step: int) -> List[Tuple[int, int]]:
    """Token and tag, at places that each step has."""
    inner = labels[REACH : len(labels) - REACH]
    moved = ids[REACH + step : len(ids) - REACH + step]
    trained = inner >= 0
    return list(zip(moved[trained].tolist(), inner[trained].tolist()))
