"""Counts over documents: labels, stops, starts, lengths."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers
from .documents import Document, host, quantiles
from .views import LABELS
from .vocabulary import Vocabulary

IGNORED = -100
OFFSETS = (-1, 0, 1, 2)
SAME = 0.9
"""Share of trained labels that are tokens of the row itself, at one offset, where the row's own
tokens are trained; masked language models keep a tenth of theirs."""
ENDING = 4
"""Trained labels at the end of an answer among which its stop is: a template may add a newline."""
MOST_ROWS = 5
LEAST_PROMPT = 4
"""Tokens of a prompt, so that an answer does not begin with them by chance."""
NO_TOKENIZER = "no tokenizer is in the target; --tokenizer DIR names one"
NO_STOPS = (
    "the tokens at which generation stops are not known: the target has neither a model nor a "
    "tokenizer (--tokenizer DIR names one)"
)
FEW = 4
"""Documents that are shorter than the longest, to conclude how answers end."""


class OtherLabels:
    """Labels that are not of the tokens' shape: of a decoder, of sound, or one class a row."""

    def __init__(self) -> None:
        self.rows = self.ignored = 0
        self.first: List[int] = []

    def add(self, batch: Foreign, first_row: int) -> None:
        value = labels_in(batch)
        if value is None or value.is_floating_point() or not value.dim():
            return
        ignored = (host(value) == IGNORED).reshape(len(value), -1).all(1)
        self.rows += len(value)
        self.ignored += int(ignored.sum())
        found = [first_row + int(row) for row in torch.nonzero(ignored)]
        self.first = (self.first + found)[:MOST_ROWS]

    def record(self) -> Optional[Dict[str, Any]]:
        if not self.rows:
            return None
        return {
            "type": "Labels",
            "objective": "other tokens",
            "documents": self.rows,
            "unlabelled": self.ignored,
            "rows": self.first,
        }


def labels_in(batch: Foreign) -> Optional[torch.Tensor]:
    """The labels of a batch by their name."""
    if not containers.is_mapping(batch):
        return None
    found = next((batch[name] for name in LABELS if name in batch), None)
    return found if isinstance(found, torch.Tensor) and found.numel() else None


def lengths(documents: List[Document]) -> Optional[Dict[str, Any]]:
    return quantiles([len(each.ids) for each in documents]) if documents else None


class LabelCounts:
    """Counts over documents as they come; `record` has them.

    `most_compared`: positions whose neighbours are compared, in all, to tell what the labels are.
    """

    def __init__(self, most_compared: float = float("inf")) -> None:
        self._most_compared = most_compared
        self.documents = self.tokens = self.trained = self.prompts = self.inverted = 0
        self.compared = self.same = self.longest = self.twice = 0
        self.shortest: Optional[int] = None
        self.matches = dict.fromkeys(OFFSETS, 0)
        self.empty: List[Tuple[int, int]] = []
        """Row and length of documents without a trained label."""
        self.ignored = 0
        """What the labels are that are not trained; 0 until one was seen."""
        self._alone = 0
        """Trained labels between others that are not."""
        self._tokens: Counter[int] = Counter()

    def add(self, document: Document) -> None:
        """Nothing if it has no labels of its own shape."""
        ids, values = document.ids, document.labels
        if values is None:
            return
        length, trained = len(ids), document.trained
        count = int(trained.sum())
        self.documents += 1
        self.tokens += length
        self.trained += count
        self.longest = max(self.longest, length)
        self.shortest = length if self.shortest is None else min(self.shortest, length)
        if not self.ignored and count < length:
            self.ignored = int(values.min())
        if not count:
            self.empty.append((document.row, length))
            return
        self.prompts += has_prompt(document)
        self.inverted += is_inverted(document)
        self.twice += trains_prompt_again(document)
        self.same += int(((values == ids) & trained).sum())
        self._alone += int((trained[1:-1] & ~trained[:-2] & ~trained[2:]).sum())
        self._tokens.update(values[trained].tolist())
        self._add_offsets(ids, values, trained)

    def _add_offsets(self, ids: torch.Tensor, values: torch.Tensor, trained: torch.Tensor) -> None:
        """Trained positions whose neighbouring tokens all differ, and those of each offset."""
        if len(ids) < 5 or self.compared >= self._most_compared:
            return
        inner = slice(1, len(ids) - 2)
        windows = [ids[1 + k : len(ids) - 2 + k] for k in OFFSETS]
        differ = trained[inner].clone()
        for i, one in enumerate(windows):
            for other in windows[i + 1 :]:
                differ &= one != other
        self.compared += int(differ.sum())
        for k, window in zip(OFFSETS, windows):
            self.matches[k] += int(((values[inner] == window) & differ).sum())

    def record(self) -> Optional[Dict[str, Any]]:
        """The record Labels; None where no document has labels of its own shape."""
        if not self.documents:
            return None
        shorter = self.shortest != self.longest
        return {
            "type": "Labels",
            "objective": "next token" if self._are_own() else "other tokens",
            "documents": self.documents,
            "unlabelled": len(self.empty),
            "rows": [row for row, _ in self.empty[:MOST_ROWS]],
            "full": sum(shorter and length == self.longest for _, length in self.empty),
            "tokens": self.tokens,
            "trained": self.trained,
            "compared": self.compared,
            "matches": {str(k): number for k, number in self.matches.items() if number},
            "prompts": self.prompts,
            "inverted": self.inverted,
            "twice": self.twice,
            "ignored": self.ignored if self.ignored < 0 else -100,
        }

    def _are_own(self) -> bool:
        """Whether the labels are the rows' tokens, also where too few tell at which offset."""
        if self._are_of_one_token():
            return False
        if not self.compared:
            return self.trained > 0 and self.same >= SAME * self.trained
        return max(self.matches.values()) >= SAME * self.compared

    def _are_of_one_token(self) -> bool:
        """Whether the labels stand apart and are mostly one token, as that of the mask."""
        most = max(self._tokens.values(), default=0)
        return 2 * most > self.trained and 2 * self._alone > self.trained


def labels(documents: List[Document]) -> Optional[Dict[str, Any]]:
    """The record Labels of documents."""
    counts = LabelCounts()
    for each in documents:
        counts.add(each)
    return counts.record()


def has_prompt(document: Document) -> bool:
    """Its first two tokens are not trained, and later ones are."""
    trained = document.trained
    return bool(trained.any()) and len(trained) > 2 and not bool(trained[:2].any())


def is_inverted(document: Document) -> bool:
    """Its first tokens are trained, and its last ones are not."""
    trained = document.trained
    return len(trained) > 5 and bool(trained[1:3].all()) and not bool(trained[-3:].any())


def trains_prompt_again(document: Document) -> bool:
    """Whether the trained part begins with the prompt, but for its first and its last token."""
    trained = torch.nonzero(document.trained)
    begins = int(trained[0]) if len(trained) else 0
    prompt = document.ids[1 : begins - 1]
    if len(prompt) < LEAST_PROMPT:
        return False
    after = [document.ids[begins + skipped :][: len(prompt)] for skipped in (0, 1)]
    return any(torch.equal(each, prompt) for each in after)


def contains(ids: torch.Tensor, part: Optional[List[int]]) -> bool:
    return bool(part) and len(places(ids, part or [])) > 0


def places(ids: torch.Tensor, part: List[int]) -> torch.Tensor:
    """Where the part begins in the row."""
    if len(ids) < len(part):
        return ids[:0]
    windows = ids.unfold(0, len(part), 1)
    return torch.nonzero((windows == torch.tensor(part)).all(1))[:, 0]


def stops(
    documents: List[Document], vocabulary: Vocabulary, marker: List[int]
) -> Optional[Dict[str, Any]]:
    """The record Stops, over documents with a prompt, else over chats, which have the marker of an
    answer; None where there is neither."""
    answers = [each for each in documents if each.labels is not None and has_prompt(each)]
    chats = [each for each in documents if _is_whole(each, marker)] if marker else []
    if not answers and not chats:
        return stops_of_whole(documents, vocabulary)
    if not vocabulary.stops:
        return {"type": "Unknown", "reason": NO_STOPS}
    if not answers:
        return _stops_of_chats(chats, marker, vocabulary)
    stopped = [_last_labels(each, ENDING) & set(vocabulary.stops) for each in answers]
    at_limit = _at_limit(answers, [bool(each) for each in stopped])
    cut = at_limit if _others_stop(answers, [bool(each) for each in stopped]) else 0
    ends: Dict[str, int] = {}
    for each, stop in zip(answers, stopped):
        last = next(iter(_last_labels(each, 1)))
        names = [t for t in _last_labels(each, ENDING) if vocabulary.is_special(t)] or [last]
        if not stop and vocabulary.is_special(names[0]):
            name = vocabulary.name(names[0])
            ends[name] = ends.get(name, 0) + 1
    return {
        "type": "Stops",
        "answers": len(answers),
        "stopped": sum(bool(each) for each in stopped),
        "at_limit": at_limit,
        "cut": cut,
        "generation": [vocabulary.name(each) for each in vocabulary.stops],
        "source": vocabulary.source,
        "stated": vocabulary.stated,
        "ends": ends,
        "masked_ends": sum(
            not stop and _next_token(each) in vocabulary.stops
            for each, stop in zip(answers, stopped)
        ),
    }


def _is_whole(document: Document, marker: List[int]) -> bool:
    """Whether it is a chat whose tokens are trained from the first ones on."""
    if document.labels is None or is_inverted(document) or not bool(document.trained[:3].any()):
        return False
    return contains(document.ids, marker)


def _stops_of_chats(
    chats: List[Document], marker: List[int], vocabulary: Vocabulary
) -> Dict[str, Any]:
    trained = [_trains_stop(each, marker, vocabulary) for each in chats]
    return {
        "type": "Stops",
        "answers": 0,
        "stopped": 0,
        "generation": [vocabulary.name(each) for each in vocabulary.stops],
        "source": vocabulary.source,
        "stated": vocabulary.stated,
        "chats": sum(each is not None for each in trained),
        "untrained": sum(each is False for each in trained),
    }


def stops_of_whole(documents: List[Document], vocabulary: Vocabulary) -> Optional[Dict[str, Any]]:
    """The same of documents that are trained from their first token on, without a chat's marker:
    those that end with a stop, and rows of one length that never hold one."""
    whole = [each for each in documents if each.labels is not None and len(each.ids) > ENDING]
    whole = [each for each in whole if bool(each.trained[:ENDING].any())]
    if not whole or not vocabulary.stops:
        return None
    ended = [each for each in whole if int(each.ids[-1]) in vocabulary.stops]
    one_length = len({len(each.ids) for each in whole}) == 1
    stops = torch.tensor([*vocabulary.stops, *filter(None, [vocabulary.bos])])
    unended = [each for each in whole if not bool(torch.isin(each.ids, stops).any())]
    return {
        "type": "Stops",
        "answers": 0,
        "stopped": 0,
        "generation": [vocabulary.name(each) for each in vocabulary.stops],
        "source": vocabulary.source,
        "stated": vocabulary.stated,
        "whole": len(whole),
        "unended": len(unended) if one_length else 0,
        "tokens": sum(len(each.ids) for each in whole),
        "chats": len(ended),
        "untrained": sum(not _trains_last(each) for each in ended),
    }


def _trains_last(document: Document) -> bool:
    """Whether its last token is a label, at its own place or at the one before."""
    assert document.labels is not None
    return bool((document.labels[-2:] == document.ids[-1]).any())


def _trains_stop(document: Document, marker: List[int], vocabulary: Vocabulary) -> Optional[bool]:
    """Whether the stop of the last answer is a label, at its own place or at the one before; None
    where no stop follows."""
    ids, labels = document.ids, document.labels
    assert labels is not None
    begin = int(places(ids, marker)[-1]) + len(marker)
    stops = torch.nonzero(torch.isin(ids[begin:], torch.tensor(vocabulary.stops)))
    if not len(stops):
        return None
    at = begin + int(stops[0])
    return bool((labels[max(0, at - 1) : at + 1] == ids[at]).any())


def _last_labels(document: Document, count: int) -> Any:
    """The last trained labels."""
    assert document.labels is not None
    return set(document.labels[document.trained][-count:].tolist())


def _next_token(document: Document) -> Optional[int]:
    """The token behind the last trained one."""
    last = int(torch.nonzero(document.trained)[-1])
    rest = torch.cat([document.ids[last + 1 :], document.after[:1]])
    return int(rest[0]) if len(rest) else None


def _at_limit(answers: List[Document], stopped: List[bool]) -> int:
    """Answers as long as the longest and trained to their end without a stop, of several."""
    longest = max(len(each.ids) for each in answers)
    found = sum(
        len(each.ids) == longest and not stop and bool(each.trained[-1])
        for each, stop in zip(answers, stopped)
    )
    return found if found > 1 else 0


def _others_stop(answers: List[Document], stopped: List[bool]) -> bool:
    """Whether nearly all answers that are shorter than the longest have a stop."""
    longest = max(len(each.ids) for each in answers)
    shorter = [stop for each, stop in zip(answers, stopped) if len(each.ids) < longest]
    return len(shorter) >= FEW and sum(shorter) >= SAME * len(shorter)


def starts(documents: List[Document], vocabulary: Vocabulary) -> Optional[Dict[str, Any]]:
    """The record Starts; None where the tokenizer has no token of its own for the beginning."""
    bos = vocabulary.bos
    if bos is None and vocabulary.tokenizer is None:
        bos = doubled(documents)
        if bos is None:
            return {"type": "Unknown", "reason": NO_TOKENIZER}
    if bos is None or bos == vocabulary.eos:
        return None
    twice = [each.row for each in documents if each.ids[:2].tolist() == [bos, bos]]
    return {
        "type": "Starts",
        "documents": len(documents),
        "token": vocabulary.name(bos),
        "twice": len(twice),
        "rows": twice[:MOST_ROWS],
    }


def doubled(documents: List[Document]) -> Optional[int]:
    """The token with which all documents begin twice, and which stands nowhere else in them."""
    firsts = {tuple(each.ids[:2].tolist()) for each in documents}
    if len(documents) < FEW or len(firsts) != 1 or len(set(next(iter(firsts)))) != 1:
        return None
    token = int(documents[0].ids[0])
    elsewhere = any(len(each.ids) < 3 or bool((each.ids[2:] == token).any()) for each in documents)
    return None if elsewhere else token
