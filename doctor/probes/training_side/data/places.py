"""Numbers that count or point: lengths, spans of an answer, the targets of a decoder, tags of
special tokens, codes for what is missing."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers, observing
from . import cut_ends
from .documents import Tokens, host
from .inputs import image_of
from .label_maps import map_of
from .relations import Relations, relation
from .views import LABELS
from .vocabulary import Vocabulary

LENGTHS = ("lengths", "length", "seq_lengths", "seq_lens", "input_lengths", "src_lengths", "lens",
           "x_lengths", "x_len", "feature_lengths", "audio_lengths", "num_frames")  # fmt: skip
FILLED = 0.25
"""Share of the rows that end in one number, where it is what they are padded with. Our own
number."""
SEVERAL = 3
"""Different lengths of the rows without padding, which show that they are padded."""
CODES = (-99.0, -999.0, -9999.0, -99999.0, -32768.0)
WAVE, LOUD = 2000, 1000.0
"""Values of a row of sound at least, and a largest one above what sound of -1 to 1 has."""
TIME = re.compile(r"(unix_?)?(time|timestamp|date|datetime|ts)(s|_idx|_index|_id)?")
LEAST_STEPS = 4
ENDS = (0, 1, -2, -1)
FEW_TAGS, MOSTLY = 64, 0.5
"""Tags, and the share of them that are the tokens at, or after, their places. Our own numbers."""
IGNORED = -100


class Places:
    """Counts over batches; `records` has them."""

    def __init__(self, vocabulary: Vocabulary, module: Foreign) -> None:
        self._relations = Relations()
        config = observing.attribute(module, "config")
        self._of_transformers = config is not None
        self._decodes = bool(observing.attribute(config, "is_encoder_decoder", False))
        self._start = observing.attribute(config, "decoder_start_token_id")
        self._pad = observing.attribute(config, "pad_token_id")
        self._eos = vocabulary.eos
        if self._eos is None:
            self._eos = observing.attribute(config, "eos_token_id")
        self._targets: List[torch.Tensor] = []
        self._tags: List[Tuple[int, int, int, int]] = []
        """Row, place of ENDS, token and tag of the first and the last tokens of a text."""
        self._all_tags: Counter[int] = Counter()
        self._full: List[Tuple[str, int]] = []
        """Length without padding of rows whose stated length is the whole width, and the field."""

    def add(self, batch: Foreign, tokens: Optional[Tokens], first_row: int) -> None:
        named = {name: host(each) for name, each in containers.tensors(batch).items()}
        self._add_lengths(named, tokens, first_row)
        self._add_span(named, tokens, first_row)
        self._add_map(batch, first_row)
        self._add_times(named, first_row)
        labels = next((named[n] for n in LABELS if n in named), None)
        if self._decodes and labels is not None and labels.dim() == 2:
            self._targets += list(labels)
        if tokens is not None and tokens.labels is not None:
            self._add_tags(tokens, first_row)
        whole = labels is not None and not labels.is_floating_point() and labels.dim() > 1
        if self._of_transformers and labels is not None and whole:
            wrong = ((labels < 0) & (labels != IGNORED)).reshape(len(labels), -1).any(1)
            for number, each in enumerate(wrong.tolist()):
                self._relations.count("label ignored otherwise", each, first_row + number)
        rows = next((len(each) for each in named.values() if each.dim()), 0)
        for name, each in named.items():
            if each.is_floating_point() and each.dim() in (2, 3) and len(each) == rows:
                self._add_values(name, named, first_row)

    def _add_lengths(
        self, named: Dict[str, torch.Tensor], tokens: Optional[Tokens], first_row: int
    ) -> None:
        """Lengths beyond every field of the batch, and those that count the padding."""
        name = next((n for n in LENGTHS if n in named), None)
        lengths = named[name] if name is not None else None
        if name is None or lengths is None or lengths.dim() != 1 or lengths.is_floating_point():
            return
        fields = {n: e for n, e in named.items() if e.dim() > 1 and len(e) == len(lengths)}
        if not fields:
            return
        most = max(max(each.shape[1:]) for each in fields.values())
        used = used_of(fields, tokens)
        for number, length in enumerate(lengths.tolist()):
            self._relations.count("length beyond", length > most, first_row + number, name)
            if used is not None:
                counts = length == used[0] > used[1][number]
                self._relations.count("length counts padding", counts, first_row + number, name)

    def _add_span(
        self, named: Dict[str, torch.Tensor], tokens: Optional[Tokens], first_row: int
    ) -> None:
        starts, ends = named.get("start_positions"), named.get("end_positions")
        if starts is None or ends is None or tokens is None or starts.dim() != 1:
            return
        width = tokens.ids.shape[1]
        texts = [width] * len(starts) if tokens.mask is None else [
            int(torch.nonzero(each)[-1]) + 1 if bool(each.any()) else 0 for each in tokens.mask
        ]  # fmt: skip
        for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist())):
            row = first_row + number
            self._relations.count("span reversed", end < start, row)
            self._relations.count("span beyond", max(start, end) >= texts[number], row)
            self._relations.count("span lost", start == end == 0, row)

    def _add_map(self, batch: Foreign, first_row: int) -> None:
        """Whether the map of an image that is no square has its sides in another order."""
        image, found = image_of(batch), map_of(batch)
        if image is None or found is None or found.shape[1] == found.shape[2]:
            return
        sides = [n for n in image[1].shape[1:] if n not in (1, 3, 4)][-2:]
        for number in range(len(found)):
            turned = sides == list(found.shape[:0:-1])
            self._relations.count("map turned", turned, first_row + number)

    def _add_times(self, named: Dict[str, torch.Tensor], first_row: int) -> None:
        """Times of the steps of a window."""
        for name, each in named.items():
            if not TIME.fullmatch(name.split(".")[-1].lower()) or each.dim() != 2:
                continue
            if each.shape[1] < LEAST_STEPS:
                continue
            back = ((each[:, 1:] < each[:, :-1]).float().mean(1) > 0.9).tolist()
            for number, runs_back in enumerate(back):
                self._relations.count("time runs back", runs_back, first_row + number, name)

    def _add_tags(self, tokens: Tokens, first_row: int) -> None:
        """The tags of the first and the last token of each text, where labels are few classes."""
        labels = tokens.labels
        assert labels is not None
        pairs = ((labels, tokens.ids), (labels[:, :-1], tokens.ids[:, 1:]))
        alike = [float((one == other)[one >= 0].float().mean()) for one, other in pairs]
        if int(labels.max()) >= FEW_TAGS or any(each > MOSTLY for each in alike):
            return  # tokens of a small vocabulary, shifted or hidden by a mask, are no tags
        self._all_tags.update(labels[labels >= 0].tolist())
        for number, ids in enumerate(tokens.ids):
            used = tokens.mask[number] if tokens.mask is not None else torch.ones_like(ids)
            places = torch.nonzero(used)
            for end in ENDS if len(places) >= len(ENDS) else ():
                at = int(places[end])
                self._tags.append((first_row + number, end, int(ids[at]), int(labels[number, at])))

    def _add_values(self, name: str, named: Dict[str, torch.Tensor], first_row: int) -> None:
        values = named[name]
        finite = values[values.isfinite()]
        if not finite.numel():
            return
        code = next((each for each in CODES if bool((finite == each).any())), None)
        if code is not None:
            rest = finite[finite != code]
            far = len(rest) and code < float(2 * rest.min() - rest.max()) and rest.min() > code / 10
            marks = values == code
            masks = [
                e for e in named.values() if not e.is_floating_point() and e.shape == marks.shape
            ]
            if any(bool((each[marks] == 0).all()) for each in masks):
                return
            if pads(marks):
                return
            has = marks.reshape(len(values), -1).any(1)
            for number, each in enumerate(has.tolist()):
                self._relations.count(
                    "code for missing", each and bool(far), first_row + number, name
                )
        if values.dim() == 2 and values.shape[1] >= WAVE:
            loud = float(finite.max()) > LOUD and float(finite.min()) < -LOUD
            whole = loud and bool((finite == finite.round()).all())
            for number in range(len(values)):
                self._relations.count("whole waveform", whole, first_row + number, name)

    def records(self) -> List[Dict[str, Any]]:
        return [*self._relations.records(), *self._of_targets(), *self._of_tags()]

    def _of_targets(self) -> List[Dict[str, Any]]:
        """What a model of transformers with a decoder makes of its labels."""
        rows = [each for each in self._targets if len(each) > 2 and bool((each >= 0).any())]
        if not rows:
            return []
        starts = [
            n for n, e in enumerate(rows) if isinstance(self._start, int) and e[0] == self._start
        ]
        found = [relation("start twice", len(starts), len(rows), (), starts, (self._start or 0,))]
        ends = [trailing(each, self._pad) for each in rows] if isinstance(self._pad, int) else []
        padded = [n for n, each in enumerate(ends) if each > 1]
        if len(set(ends)) >= SEVERAL and not any(bool((e == IGNORED).any()) for e in rows):
            found.append(relation("target padding", len(padded), len(rows), (), padded))
        if isinstance(self._eos, int):
            open_ = [n for n, each in enumerate(rows) if not has_stop(each, self._eos)]
            found.append(relation("target without stop", len(open_), len(rows), (), open_))
            texts = [
                [t for t in e[e >= 0].tolist() if t not in (self._eos, self._pad)] for e in rows
            ]
            sizes = list(map(len, texts))
            ended = cut_ends.cut(sizes, [each[-1] if each else -1 for each in texts])
            found.append(relation("target cut", len(ended), len(rows), (), ended, (max(sizes),)))
            alike = [] if ended else cut_ends.of_one_length(sizes, texts)
            found.append(
                relation("targets end alike", len(alike), len(rows), (), (), (max(sizes),))
            )
        return [each for each in found if each["part"]]

    def _of_tags(self) -> List[Dict[str, Any]]:
        """Where all texts begin, or end, with one token, the rows in which it has a rare tag."""
        most = self._all_tags.most_common(1)
        found = []
        for end in (0, -1):
            tags = [each for each in self._tags if each[1] == end]
            if len(tags) > 1 and len({each[2] for each in tags}) == 1 and len(self._all_tags) > 2:
                odd = [each[0] for each in tags if each[3] >= 0 and each[3] != most[0][0]]
                if odd or self._are_moved(end):
                    rows = odd or [each[0] for each in tags]
                    found.append(relation("tag on special", len(rows), len(tags), (), rows))
        return found

    def _are_moved(self, end: int) -> bool:
        """Whether the special token at this end has a tag in each row, as words beside it have, and
        the ones at the other end, of which one is a word's, have none."""
        told = {at: [each[3] >= 0 for each in self._tags if each[1] == at] for at in ENDS}
        beside, others = (1, (-1, -2)) if end == 0 else (-2, (0, 1))
        tagged = all(told[end]) and any(told[beside])
        return tagged and not any(any(told[at]) for at in others)


def used_of(
    fields: Dict[str, torch.Tensor], tokens: Optional[Tokens]
) -> Optional[Tuple[int, List[int]]]:
    """The width of a field whose rows end in zeros at several places, and their lengths; None where
    a mask says what is padding."""
    if tokens is not None and tokens.mask is not None:
        return None
    for each in fields.values():
        if each.shape[1] < 4 or each.dim() > 3 or each.dtype == torch.bool:
            continue
        filled = (each != filler_of(each)).reshape(len(each), each.shape[1], -1).any(2)
        lengths = [int(torch.nonzero(row)[-1]) + 1 if bool(row.any()) else 0 for row in filled]
        if len(set(lengths)) >= min(SEVERAL, len(lengths)) and max(lengths) == each.shape[1]:
            return each.shape[1], lengths
    return None


def filler_of(field: torch.Tensor) -> float:
    """The number in which several rows end, as the logarithm of silence; 0 where there is none."""
    ends = [row.unique() for row in field[:, -1]]
    counted = Counter(float(each[0]) for each in ends if len(each) == 1)
    filler, count = counted.most_common(1)[0] if counted else (0.0, 0)
    return filler if count >= max(SEVERAL, FILLED * len(field)) else 0.0


def pads(marks: torch.Tensor) -> bool:
    """Whether the code stands behind the ends of rows alone, of several lengths."""
    each = marks.reshape(*marks.shape[:2], -1)
    steps = each.all(2)
    behind = torch.equal(steps, each.any(2)) and not bool((steps[:, :-1] & ~steps[:, 1:]).any())
    return behind and len(torch.unique(steps.sum(1))) >= SEVERAL


def trailing(values: torch.Tensor, token: int) -> int:
    other = torch.nonzero(values != token)
    return len(values) - 1 - int(other[-1]) if len(other) else len(values)


def has_stop(values: torch.Tensor, eos: int) -> bool:
    """Whether the stop is one of the last two labels that are trained: a language may follow."""
    return eos in values[values >= 0].tolist()[-2:] or bool((values == eos)[1:].any())
