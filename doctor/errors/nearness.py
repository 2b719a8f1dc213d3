"""Which symptoms a longer text of a person is nearest to, by the words that it shares with rows.

The cosine of weighted words (Salton and Buckley 1988, https://doi.org/10.1016/0306-4573(88)90021-0)
of the text and of a row: its phrases, examples, reason and fix. Words of few rows weigh most.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator

from doctor.errors.cause import Cause
from doctor.errors.words import FAMILIES, rows, symptoms, told_sentences

PHRASE = 0.05
"""What each group of words of a phrase adds."""
BESIDE = 0.75
"""Share of the first row's nearness from which on further rows are named."""
FEWEST = 0.25
"""From which nearness on a row is named. Our own number: of 158 longer texts of the corpus that
were answered rightly 150 reach it, and answers to texts that nobody had learned from mostly misled
below it. Many texts that tell of no fault are as near without a phrase."""
EXAMPLE = 3
"""How often a word of an example counts."""

_WORD = re.compile(r"[a-z][a-z0-9]+")
_ENDING = re.compile(r"(?:ing|ed|es|s|ly)$")
_COMMON = re.compile(
    r"(?:the|an?|is|are|was|were|it|i|my|to|of|in|on|and|or|for|with|that|this|at|be|by|as|but|"
    r"from|if|so|do|does|did|have|has|had|what|how|why|you|your|we|our|me|not?|any|there|then|when|"
    r"after|all|can|will|would|just|only|same|one|two|gets?|got)"
)
_MARKS = str.maketrans("|>_$", "    ")


def likeliest(text: str, most: int) -> tuple[Cause, ...]:
    """At most so many symptoms of which a phrase is in the text, the nearest first; () where none
    is near. Linear in the text; 0.02 s for the words of all rows."""
    terms = _terms(" ".join(told_sentences(text)))
    near = [(_shared(terms, row.id) + PHRASE * groups, row) for groups, row in symptoms(text)]
    near.sort(key=lambda pair: -pair[0])
    first = near[0][0] if near else 0.0
    if first < FEWEST:
        return ()
    return tuple(row for value, row in near if value >= BESIDE * first)[:most]


def _terms(text: str) -> Counter[str]:
    plain = text.lower().translate(_MARKS)
    found = (each for each in _WORD.findall(plain) if not _COMMON.fullmatch(each))
    return Counter(_ENDING.sub("", each) for each in found)


def _shared(terms: Counter[str], id: str) -> float:
    """The cosine of the text and a row."""
    rarity, vectors = _vectors()
    length = _length({each: rarity[each] for each in terms if each in rarity}) or 1.0
    return sum(rarity[each] * vectors[id][each] for each in terms if each in vectors[id]) / length


@functools.cache
def _vectors() -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The weight of each word, and the words of each row, of length 1."""
    counts = {row.id: _words_of(row) for row in rows()}
    holders = Counter(each for count in counts.values() for each in count)
    rarity = {each: math.log((len(counts) + 1) / number) for each, number in holders.items()}
    vectors = {}
    for id, count in counts.items():
        vector = {each: (1 + math.log(n)) * rarity[each] for each, n in count.items()}
        length = _length(vector)
        vectors[id] = {each: value / length for each, value in vector.items()}
    return rarity, vectors


def _words_of(row: Cause) -> Counter[str]:
    count: Counter[str] = Counter()
    for group in (each for phrase in row.words for each in phrase.split()):
        if not group.startswith("!"):
            count.update(set(_terms(" ".join(_spelled(group)))))
    for example in row.examples:
        count.update({each: EXAMPLE * number for each, number in _terms(example).items()})
    count.update(_terms(row.why))
    count.update(_terms(row.fix))
    return count


def _spelled(group: str) -> Iterator[str]:
    """The words of a group, of a family its words."""
    for each in re.split(r"[|>]", group):
        yield FAMILIES[each[1:]] if each.startswith("@") else each


def _length(vector: dict[str, float]) -> float:
    return math.sqrt(sum(value * value for value in vector.values()))
