"""Whom a loss takes for a negative: items that the user has, or the positive of another row; and
what a step of an environment leaves as it was."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Dict, List, Optional, Set, Tuple

import torch

from ..foreign import Foreign, containers, observing
from .documents import host
from .mixing import bytes_of
from .relations import Relations, relation
from .targets import Source, as_batch, items_of
from .views import LABELS

MOST_PAIRS, MOST_BATCHES = 100_000, 2_000
"""Pairs of a user and an item, and batches, that are read."""
USERS = re.compile(
    r"(user|users|customer|member|reader|visitor|session|query|u)(_?(id|ids|idx|no))?"
)
ITEMS = re.compile(r"(item|items|movie|product|track|song|article|book|news|i)(_?(id|ids|idx|no))?")
GOOD = re.compile(r"(pos|positive|positives)(_?(item|items|movie|product|i))?(_?(id|ids|idx))?")
BAD = re.compile(r"(neg|negative|negatives)(_?(item|items|movie|product|i|j))?s?(_?(id|ids|idx))?")
ASKING = re.compile(r"(query|anchor|question|q|src|source|sentence_?1|text_?a)(s)?")
FOUND = re.compile(r"(passage|positive|pos|doc|document|answer|context|key|p|target|sentence_?2|"
                   r"text_?b)(s)?")  # fmt: skip
RETRIEVED = re.compile(r"(query|anchor|q|passage|positive|pos|doc|document|key|p)s?[_.]")
"""Names of a search alone: a question may have several answers, and a sentence translations."""
TOKENS = re.compile(r"[_.](input_ids|ids|tokens)$")
BEFORE = re.compile(r"(next|new)_(obs|observations?|states?|s|x)|(obs|observations?|states?)_(next|"
                    r"new|2)|s2|s_prime")  # fmt: skip
NEGATIVE = re.compile(r"neg|label")

Named = Dict[str, torch.Tensor]


class InBatch:
    """Counts over batches whose other rows are negatives."""

    def __init__(self, masked: bool = False) -> None:
        """`masked`: the source looks for equal rows, which are no negatives then."""
        self._relations = Relations()
        self._masked = masked

    def add(self, batch: Foreign, first_row: int) -> None:
        named = {name: host(each) for name, each in containers.tensors(batch).items()}
        self._add_step(named, first_row)
        found = None if self._masked else asked_and_found(named)
        if found is None or not numbers_its_rows(named):
            return
        query, positive = (keys_of(named[name]) for name in found)
        retrieves = all(RETRIEVED.match(each.lower()) for each in found)
        asked: Dict[bytes, Set[bytes]] = {}
        answers: Dict[bytes, Set[bytes]] = {}
        for one, other in zip(positive, query):
            asked.setdefault(one, set()).add(other)
            answers.setdefault(other, set()).add(one)
        for number, (one, other) in enumerate(zip(positive, query)):
            # The same pair twice is a repeated row.
            again = len(asked[one]) > 1 or (retrieves and len(answers[other]) > 1)
            self._relations.count("positive of another", again, first_row + number, found[1])

    def _add_step(self, named: Named, first_row: int) -> None:
        """A state and the one after it, in one batch."""
        for name, after in named.items():
            before = before_of(name, named)
            if before is None or named[before].shape != after.shape or not after.dim():
                continue
            equal = (named[before] == after).reshape(len(after), -1).all(1)
            for number, each in enumerate(equal.tolist()):
                self._relations.count("step changes nothing", each, first_row + number, name)

    def records(self) -> List[Dict[str, Any]]:
        return self._relations.records()


def before_of(name: str, named: Named) -> Optional[str]:
    """The state before a next one: obs of next_obs, s of s2; the first of five in a tuple."""
    plain = name.lower()
    if BEFORE.fullmatch(plain):
        stems = re.split(r"_?(?:next|new|prime)_?|_?2$", plain)
        wanted = next((each for each in stems if each), "")
        return next((n for n in named if n.lower() == wanted), None)
    flat = len(named) in (5, 6) and all(re.fullmatch(r"\[\d\]", each) for each in named)
    return "[0]" if flat and name == "[3]" and named["[0]"].dim() > 1 else None


def asked_and_found(named: Named) -> Optional[Tuple[str, str]]:
    """The tokens of queries, and those of what each should find, where no negatives are given."""
    tokens = [n for n, each in named.items() if each.dim() == 2 and not each.is_floating_point()]
    plain = {TOKENS.sub("", n.lower()): n for n in tokens if TOKENS.search(n.lower())}
    one = next((n for short, n in plain.items() if ASKING.fullmatch(short)), None)
    other = next((n for short, n in plain.items() if FOUND.fullmatch(short)), None)
    if one is None or other is None or len(named[one]) != len(named[other]):
        return None
    return None if any(re.match("neg", each.lower()) for each in named) else (one, other)


def numbers_its_rows(named: Named) -> bool:
    """Whether the label of a row is its own place in the batch, or there are no labels."""
    labels = next((named[name] for name in LABELS if name in named), None)
    return labels is None or (labels.dim() == 1 and labels.tolist() == list(range(len(labels))))


def keys_of(rows: torch.Tensor) -> List[bytes]:
    return [bytes_of(each) for each in rows]


def negatives(source: Source, first: Foreign) -> List[Dict[str, Any]]:
    """Sampled negatives that are positives of the same user elsewhere in the split."""
    if source.kind != "loader" or roles_of(first) is None:
        return []
    good: Dict[int, Set[int]] = {}
    bad: List[Tuple[int, int]] = []
    read = 0
    for number, batch in enumerate(items_of(source)):
        roles = roles_of(batch)
        if roles is None or number >= MOST_BATCHES or read >= MOST_PAIRS:
            break
        for user, item in zip(roles[0].tolist(), roles[1].tolist()):
            good.setdefault(user, set()).add(item)
        bad += zip(roles[2].tolist(), roles[3].tolist())
        read += len(roles[0]) + len(roles[2])
    users = Counter(user for user, _ in bad)
    if not bad or len(users) < 2:
        return []
    hit = [n for n, (user, item) in enumerate(bad) if item in good.get(user, ())]
    return [relation("negative is positive", len(hit), len(bad))] if hit else []


def roles_of(batch: Foreign) -> Optional[Tuple[torch.Tensor, ...]]:
    """User and item of positives, and of negatives; None where a batch has no such fields."""
    named = {n.lower(): host(e) for n, e in containers.tensors(as_plain(batch)).items()}
    whole = {n: e for n, e in named.items() if not e.is_floating_point()}
    user = next((each for n, each in whole.items() if USERS.fullmatch(n)), None)
    if user is None or user.dim() != 1:
        return None
    good = next((e for n, e in whole.items() if GOOD.fullmatch(n)), None)
    bad = next((e for n, e in whole.items() if BAD.fullmatch(n)), None)
    if good is not None and bad is not None and good.shape == user.shape and len(bad) == len(user):
        drawn = bad.reshape(len(user), -1)
        return user, good, user.repeat_interleave(drawn.shape[1]), drawn.reshape(-1)
    item = next((each for n, each in whole.items() if ITEMS.fullmatch(n)), None)
    label = next((named[n] for n in LABELS if n in named), None)
    if item is None or label is None or item.shape != user.shape or label.shape != user.shape:
        return None
    if not bool(((label == 0) | (label == 1)).all()):
        return None
    return user[label == 1], item[label == 1], user[label == 0], item[label == 0]


def as_plain(batch: Foreign) -> Foreign:
    return observing.attempt(lambda: as_batch(batch), batch) if not containers.tensors(
        batch) else batch  # fmt: skip
