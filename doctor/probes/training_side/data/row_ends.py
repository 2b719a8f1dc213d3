"""Where the rows begin and end: their stops and starts."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Optional

import torch

from ..foreign import Foreign, observing
from .documents import Document
from .labels import MOST_ROWS, SAME, has_prompt, is_inverted
from .vocabulary import Vocabulary

ENDING = 4
"""Trained labels at the end of an answer among which its stop is: a template may add a newline."""
NO_TOKENIZER = "no tokenizer is in the target; --tokenizer DIR names one"
NO_STOPS = (
    "the tokens at which generation stops are not known: the target has neither a model nor a "
    "tokenizer (--tokenizer DIR names one)"
)
MOST_CLASSES = 10
"""Different ends of texts that are the names of classes. Our own number."""
HEADER = 4
"""Tokens of such a header, behind the one for the beginning."""
FEW = 4
"""Documents that are shorter than the longest, to conclude how answers end."""


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
    every = at_limit == len(answers) and not any(stopped)
    cut = at_limit if _others_stop(answers, [bool(each) for each in stopped]) else 0
    return {
        **_no_answers(vocabulary),
        "answers": len(answers),
        "stopped": sum(bool(each) for each in stopped),
        "at_limit": at_limit,
        "whole": len(answers) if every else 0,
        "open": begun_alike(answers, vocabulary.bos) if every else 0,
        "limit": max(len(each.ids) for each in answers) if every else 0,
        "cut": cut,
        "ends": ends_of([a for a, stop in zip(answers, stopped) if not stop], vocabulary),
        "masked_ends": sum(
            not stop and _next_token(each) in vocabulary.stops
            for each, stop in zip(answers, stopped)
        ),
    }


def ends_of(answers: List[Document], vocabulary: Vocabulary) -> Dict[str, int]:
    """The special tokens with which answers end, and how many do."""
    ends: Counter[str] = Counter()
    for each in answers:
        special = [t for t in _last_labels(each, ENDING) if vocabulary.is_special(t)]
        if special:
            ends[vocabulary.name(special[0])] += 1
    return dict(ends)


def _is_whole(document: Document, marker: List[int]) -> bool:
    """Whether it is a chat whose tokens are trained from the first ones on."""
    if document.labels is None or is_inverted(document) or not bool(document.trained[:3].any()):
        return False
    return contains(document.ids, marker)


def _no_answers(vocabulary: Vocabulary) -> Dict[str, Any]:
    """The record Stops, over no answers."""
    return {
        "type": "Stops",
        "answers": 0,
        "stopped": 0,
        "generation": [vocabulary.name(each) for each in vocabulary.stops],
        "source": vocabulary.source,
        "stated": vocabulary.stated,
    }


def _stops_of_chats(
    chats: List[Document], marker: List[int], vocabulary: Vocabulary
) -> Dict[str, Any]:
    trained = [_trains_stop(each, marker, vocabulary) for each in chats]
    ends = {} if any(each is not None for each in trained) else ends_of(chats, vocabulary)
    if max(ends.values(), default=0) >= SAME * len(chats):  # all are whole: none is cut
        return {**_no_answers(vocabulary), "answers": len(chats), "stopped": 0, "ends": ends}
    return {
        **_no_answers(vocabulary),
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
    longest = max(len(each.ids) for each in whole)
    one_length = all(len(each.ids) == longest for each in whole)
    known = [*vocabulary.stops, *(filter(None, [vocabulary.bos]) if one_length else ())]
    unended = [each for each in whole if not bool(torch.isin(each.ids, torch.tensor(known)).any())]
    return {
        **_no_answers(vocabulary),
        "whole": len(whole),
        "unended": len(unended) if one_length else 0,
        "open": begun_alike(unended, vocabulary.bos),
        "limit": longest if all(len(each.ids) == longest for each in unended) else 0,
        "tokens": sum(len(each.ids) for each in whole),
        "chats": len(ended),
        "untrained": sum(not _trains_last(each) for each in ended),
    }


def begun_alike(documents: List[Document], bos: Optional[int]) -> int:
    """How many begin with the same few tokens, as with the header of an instruction; 0 where they
    end alike, too, as with a stop that is a text, or with one of a few classes."""
    ends = Counter(tuple(each.ids[-2:].tolist()) for each in documents)
    classes = {tuple(each.ids[-ENDING:].tolist()) for each in documents}
    alike = max(ends.values(), default=0) >= SAME * len(documents)
    if alike or len(classes) <= MOST_CLASSES:
        return 0
    firsts = [each.ids[: HEADER + 1].tolist() for each in documents]
    begins = Counter(tuple(each[each[0] == bos :][:HEADER]) for each in firsts)
    return max(begins.values(), default=0)


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


def starts(
    documents: List[Document], vocabulary: Vocabulary, otherwise: bool = False
) -> Optional[Dict[str, Any]]:
    """The record Starts; None where the tokenizer has no token of its own for the beginning.
    `otherwise`: documents may begin otherwise, as by a template."""
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
        "without": 0 if otherwise else lacking(documents, bos, vocabulary.tokenizer),
        "rows": twice[:MOST_ROWS],
    }


def lacking(documents: List[Document], bos: int, tokenizer: Foreign) -> int:
    """Documents without the token, where the tokenizer adds it and none has it; none of rows of one
    length, which begin within a text."""
    one = observing.attempt(lambda: tokenizer("a")["input_ids"][0], None)
    several = len({len(each.ids) for each in documents}) > 1
    absent = one == bos and several and not any(bool((each.ids == bos).any()) for each in documents)
    return len(documents) if absent else 0


def doubled(documents: List[Document]) -> Optional[int]:
    """The token with which all documents begin twice, and which stands nowhere else in them."""
    firsts = {tuple(each.ids[:2].tolist()) for each in documents}
    if len(documents) < FEW or len(firsts) != 1 or len(set(next(iter(firsts)))) != 1:
        return None
    token = int(documents[0].ids[0])
    elsewhere = any(len(each.ids) < 3 or bool((each.ids[2:] == token).any()) for each in documents)
    return None if elsewhere else token
