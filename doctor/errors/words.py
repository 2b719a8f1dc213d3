"""From what people say of a training to the symptoms that they mean.

A phrase of a row is groups of words: each group must be in the text, in any order; `a>b` asks for
an order. Of a group one word is enough, as its beginning (`fall` is also falls and falling), with
`$` as a whole word, `_` for a space; `@name` is a family of words, `!` excludes a sentence and
`!!` a text.
"""

from __future__ import annotations

import functools
import re
from importlib import import_module

from doctor.errors.cause import Cause

FAMILIES = {
    "loss": "loss|losses|cross_entropy|crossentropy|bce|perplexity|nll",
    "eval": "val$|valid|eval|test$|tests|testing|dev_set|held",
    "not": "not$|no$|never|without|cannot|cant$|doesnt|dont|isnt|wont|didnt|hardly|barely"
    "|fails|refus",
    "fall": "decreas|fall|fell$|drop|goes_down|go_down|going_down|went_down|declin|converg|minimi",
    "rise": "increas|ris$|rise|rising|rose$|grow|grew|goes_up|go_up|going_up|went_up|climb|creep"
    "|explod|blow|shoot|skyrocket",
    "same": "same$|stuck|constant|flat$|plateau|stagnat|stay|remain|unchang|stops_at|hover",
    "hang": "hang|hung$|stuck|freez|froze|stall|deadlock|stands_still|nothing_happens|"
    "never_finish|never_ends|never_returns|not_continue|not_proceed|waits_forever",
    "oom": "oom$|out_of_memory|out_of_vram|memory_error",
    "memory": "memory|vram|gpu_ram",
    "bad": "wors|bad$|badly|poor|terribl|wrong|random$|garbage|gibberish|nonsense|differ|low$|lower"
    "|degrad|untrained|useless|lousy",
    "slow": "slow|sluggish|longer|as_long$|half_as_fast|half_the_speed|doubled|doubles|two_rates",
    "alike": "alike|identical|same|similar|equal|duplicate|indistinguish",
    "zero": "0$|0.0$|0.00$|0.000$|0.0000$|zero",
}
LONGEST = 1_500
"""Characters of a text in words; the longest question without a message. Our own number."""
GAP = 40
"""Characters between two groups that are given in order."""

_MESSAGE = re.compile(
    r"\w(?:Error|Exception|Interrupt)\b|\wWarning:|"
    r"\b(?:error|exception|fatal|warning|warn|failed|info)\b\s?[:\[]|"
    r"^\s*\w+(?:\.\w+){1,8}: |(?-i:^\s*\w*[a-z][A-Z]\w*: )|"
    r'Traceback \(|^\s*(?:File "|[\[{<$])|(?:\bGiB\b.{0,80}){2}|\bdifferences? between\b',
    re.IGNORECASE | re.MULTILINE,
)
"""What a text has that a program printed, or that asks for no fault."""
_QUOTED = re.compile(
    r"(?:\w[:=]\s?(?:\d|nan\b).{0,80}){2}|\w/\w+/\w|\w\(\w+[=,]", re.IGNORECASE | re.DOTALL
)
"""Metrics, settings, paths and code, which people put into their sentences, too."""
_PERSON = re.compile(
    r"\b(?-i:I)\b|\b(?:i'?m|my|we|our|me|anyone|anybody|someone|please|thanks|thx|hi|hello)\b",
    re.IGNORECASE,
)
SEVERAL = 16
"""Words of one sentence that tells as much as several do. Our own number."""
PROSE = 8
"""Words of the sentences without such, of a person who quotes some. Our own number."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n")
_WISH = re.compile(
    r"\W*(?:(?:is it|would it be) possible to|where (?:do|can) (?:i|you|one)|who (?:can|has)|"
    r"(?:do|does) (?:someone|somebody|anyone|anybody) (?:know (?:a|an|of)\b|have a\b)|"
    r"i would like to know how many|what does .{1,60} do\b|what is the (?:difference|best)|"
    r"i (?:have read (?:that|about)|know that)\b|"
    r"(?:we|i) (?:plan|want|intend) to (?:buy|rent)|can (?:i|we) (?:train|use|run) two\b)",
    re.IGNORECASE,
)
"""A sentence that asks for a thing, or for knowledge, and tells of no fault."""
_OTHER_THAN = re.compile(r"\bnot (zero|nan|none|empty|negative|constant)\b", re.IGNORECASE)
_COUNTED = re.compile(
    r"\b(rank|step|device|gpu|node|worker|layer|epoch) 0\b(?![%.]\d?)", re.IGNORECASE
)
"""The first of several, which is no value of 0."""
_AT_VALUE = re.compile(
    r"(\b(?:loss|losses|accuracy|acc|auc|f1|score|reward|iou|perplexity|util|utili[sz]ation|usage|"
    r"throughput)\b[^.!?]{0,40}?)\bstuck(?= (?:at|around|near) (?:(?:about|exactly|roughly) )?"
    r"(?:~|(?!(?:100|9\d|0) ?%)\d))",
    re.IGNORECASE,
)
"""What is stuck at a value stays the same; a program that is stuck hangs."""
_CONTENT = re.compile(
    r"\b(?:is|'s) (?:fine|ok|okay) for (?:me|us)\b|\bam happy with\b|"
    r"\bis what (?:we|i) (?:had )?expected\b|"
    r"\b(?:only|just) want(?:ed)? to (?:report|document|share|thank)\b",
    re.IGNORECASE,
)
"""Somebody tells that nothing is wrong."""
_YET = re.compile(r"\b(?:why|reason|bug|problem|issue|but|wrong|fails?)\b", re.IGNORECASE)
"""A fault follows all the same."""


_RATE = re.compile(
    r"(?<![\w.])(\d{1,5}(?:\.\d{1,4})?) ?(s/it|it/s|(?:samples|images|tokens|steps|iters?)/s\w*|"
    r"s(?:ec(?:ond)?s?)?|min(?:ute)?s?|hours?|h)(?!\w)",
    re.IGNORECASE,
)
FARTHER = 1.3
"""From which ratio on two times or rates of one thing are told because they differ. Our own."""
_LOSS = re.compile(
    r"\bloss\w*\b[^.!?]{0,40}?\bfrom (\d{1,5}(?:\.\d{1,6})?) ?(?:up |down )?"
    r"to (\d{1,5}(?:\.\d{1,6})?)",
    re.IGNORECASE,
)
_LOW = re.compile(r"(?<![\w.-])(?:[1-5]?\d ?- ?)?[1-5]?\d ?%")


def is_said(text: str) -> bool:
    """Whether a text is the words of a person."""
    if len(text) > LONGEST or _MESSAGE.search(text):
        return False
    if not _QUOTED.search(text):
        return True
    plain = [each for each in _SENTENCE.split(text) if not _QUOTED.search(each)]
    return bool(_PERSON.search(text)) and sum(len(each.split()) for each in plain) >= PROSE


def is_prose(text: str) -> bool:
    """Whether a text is several sentences of a person."""
    return is_said(text) and bool(_PERSON.search(text)) and _has_sentences(text)


def is_long(text: str) -> bool:
    """Whether a text in words is several sentences, or one as long as several."""
    return is_said(text) and (_has_sentences(text) or len(text.split()) >= SEVERAL)


def _has_sentences(text: str) -> bool:
    return len(_SENTENCE.split(text.strip())) > 1


@functools.lru_cache(maxsize=1)
def symptoms(text: str) -> tuple[tuple[int, Cause], ...]:
    """The symptoms that the text tells of, with their numbers of groups, the most first."""
    sentences = _sentences(text)
    found = [(told, row) for row in rows() if (told := _told(row, sentences))]
    return tuple(sorted(found, key=lambda pair: -pair[0]))


def is_told(row: Cause, text: str) -> bool:
    """Whether the text is of one of the row's phrases."""
    return is_said(text) and bool(_told(row, _sentences(text)))


def told_sentences(text: str) -> tuple[str, ...]:
    """The sentences that may tell of a fault."""
    if _CONTENT.search(text) and not _YET.search(text):
        return ()
    plain = _OTHER_THAN.sub(r"non\1", re.sub(r"n['’]t\b", " not", text))
    plain = _AT_VALUE.sub(r"\1remains", _COUNTED.sub(r"\1_0", plain))
    sentences = _SENTENCE.split(plain.strip())
    return tuple(each for each in sentences if _YET.search(each) or not _WISH.match(each))


def _sentences(text: str) -> tuple[str, ...]:
    """These, with words for what their numbers say."""
    told = told_sentences(text)
    near = [" ".join(told[max(at - 1, 0) : at + 2]) for at in range(len(told))]
    return tuple(each + _figures(each, around) for each, around in zip(told, near, strict=True))


def _figures(sentence: str, near: str) -> str:
    """What the numbers of a sentence say, in words that phrases can ask for."""
    words = ""
    if _RATE.search(sentence) and any(
        max(values) >= FARTHER * min(values) > 0 for values in _rates(near) if values
    ):
        words += " two_rates"
    if change := _LOSS.search(sentence):
        before, now = float(change[1]), float(change[2])
        words += " loss_stays" if 0.95 * before <= now <= 1.05 * before else ""
        words += " loss_rises" if now >= FARTHER * before > 0 else ""
    return words + (" low_percent" if _LOW.search(sentence) else "")


def _rates(text: str) -> tuple[list[float], list[float]]:
    """The times and the rates of a text; a time in seconds."""
    times, rates = [], []
    for value, unit in _RATE.findall(text):
        if "/" in unit and not unit.startswith("s/"):
            rates.append(float(value))
        else:
            times.append(float(value) * {"m": 60, "h": 3600}.get(unit[0].lower(), 1))
    return times, rates


def _told(row: Cause, sentences: tuple[str, ...]) -> int:
    return max((_groups(phrase, sentences) for phrase in row.words), default=0)


def _groups(phrase: str, sentences: tuple[str, ...]) -> int:
    """How many groups of the phrase one sentence has, if it has all; one of three or more may
    stand in the next or the last one. Words that are further apart tell of different things."""
    groups = [each for each in phrase.split() if not each.startswith("!")]
    excluded = [each for each in phrase.split() if each.startswith("!")]
    if any(_expression(each[1:]).search(sentence)
           for each in excluded if each.startswith("!!") for sentence in sentences):  # fmt: skip
        return 0
    size = sum(each.count(">") + 1 for each in groups)
    most = 0
    for at, sentence in enumerate(sentences):
        missing = [each for each in groups if not _expression(each).search(sentence)]
        if len(missing) > (len(groups) > 2):
            continue
        near = " ".join(sentences[max(at - 1, 0) : at + 2]) if missing else sentence
        if all(_expression(each).search(near) for each in missing) and not any(
            _expression(each).search(near) for each in excluded
        ):
            most = max(most, size - len(missing))
    return most


@functools.cache
def _expression(group: str) -> re.Pattern[str]:
    steps = (f"(?:{_one_of(each)})" for each in group.removeprefix("!").split(">"))
    return re.compile(rf"[^\n]{{0,{GAP}}}?".join(steps), re.IGNORECASE)


def _one_of(words: str) -> str:
    named = (FAMILIES[each[1:]] if each.startswith("@") else each for each in words.split("|"))
    return "|".join(map(_beginning, "|".join(named).split("|")))


def _beginning(word: str) -> str:
    end = r"(?!\w|\.\d)" if word.endswith("$") else ""
    spaced = re.escape(word.removesuffix("$")).replace("_", r"[\s_-]{1,2}")
    start = r"(?<![\w.])" if word[0].isdigit() else r"(?<!\w)"
    return rf"{start}{spaced}{end}"


@functools.cache
def rows() -> tuple[Cause, ...]:
    """All symptoms, those that say more about a thing first."""
    names = (
        "policy", "metrics", "inputs", "loss", "memory", "speed", "slowness", "model", "kinds",
        "data",
    )  # fmt: skip
    tables = (import_module(f"doctor.errors.tables.symptoms_{each}") for each in names)
    return tuple(row for table in tables for row in table.ROWS)
