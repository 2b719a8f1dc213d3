"""Tags of the pieces of a word: where some of them are of an entity and some are not, or the tags
end before the text does, they are the tags of other words."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Tuple

from ..foreign import Foreign
from .documents import Tokens
from .relations import Relations
from .vocabulary import Vocabulary, special_ids

FEW_TAGS, MOST_PIECES = 64, 0.7
"""Tags, and the share of the tokens of a row that go on with a word. Our own numbers."""
SPACES = ("\u0120", "\u2581")
"""What begins a word in vocabularies of bytes, and in those of SentencePiece."""
Piece = Tuple[bool, int]
"""Whether it goes on with a word, and its tag."""


class PieceTags:
    """Rows of pieces with tags; `records` has the words with two kinds of tags."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokenizer = vocabulary.tokenizer
        self._rows: List[Tuple[int, List[Piece]]] = []
        self._tags: Counter[int] = Counter()
        self._relations = Relations()

    def add(self, tokens: Tokens, first_row: int) -> None:
        labels = tokens.labels
        if labels is None or self._tokenizer is None or not 0 < int(labels.max()) < FEW_TAGS:
            return
        if bool(((labels == tokens.ids) | (labels < 0)).all()):
            return  # tokens of a small vocabulary
        special = special_ids(self._tokenizer)
        for number, (ids, tags) in enumerate(zip(tokens.ids.tolist(), labels.tolist())):
            words = [token not in special for token in ids]
            self._relations.count("tags end early", ends_early(words, tags), first_row + number)
            names: Foreign = self._tokenizer.convert_ids_to_tokens(ids)
            goes_on = continuing(names)
            if sum(goes_on) > MOST_PIECES * len(names):
                continue  # a vocabulary that does not mark where words begin
            self._rows.append((first_row + number, list(zip(goes_on, tags))))
            self._tags.update(tag for tag in tags if tag >= 0)

    def records(self) -> List[Dict[str, Any]]:
        """Most tokens are of no entity."""
        relations = self._relations
        if len(self._tags) < 3:
            return relations.records()
        none = self._tags.most_common(1)[0][0]
        for row, pieces in self._rows:
            for word in words_of(pieces):
                trained = [tag for tag in word if tag >= 0]
                if len(trained) > 1 and any(tag != none for tag in trained):
                    relations.count("tags cross words", none in trained, row)
        return relations.records()


def ends_early(words: List[bool], tags: List[int]) -> bool:
    """Whether all tokens up to one in the text have a tag, and none behind it; `words`: tokens that
    are not special, which have none and may part what is tagged from its context."""
    count, begins = sum(tag >= 0 for tag in tags), words.index(True) if any(words) else 0
    end = begins + count
    tagged = count > 0 and all(tag >= 0 for tag in tags[begins:end])
    return tagged and all(words[begins : end + 1]) and end < len(words)


def continuing(names: List[str]) -> List[bool]:
    """Which tokens go on with the word of the one before."""
    spaced = any(each.startswith(SPACES) for each in names)
    found = []
    for number, name in enumerate(names):
        before = names[number - 1] if number else ""
        begins = not spaced or name.startswith(SPACES)
        joined = not begins and name[:1].isalnum() and before[-1:].isalnum()
        found.append((name.startswith("##") and name[2:3].isalnum()) or joined)
    return found


def words_of(pieces: List[Piece]) -> List[List[int]]:
    """The tags of each word of several pieces."""
    words: List[List[int]] = []
    for goes_on, tag in pieces:
        if goes_on and words:
            words[-1].append(tag)
        else:
            words.append([tag])
    return [each for each in words if len(each) > 1]
