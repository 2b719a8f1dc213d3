"""NaN and Inf in every stored value, detected by its bits."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from doctor._util.processors import usable_processors
from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.analysis.attribution import plain
from doctor.checkpoint.analysis.causal_masks import is_causal
from doctor.checkpoint.analysis.checksums import damaged_records, differing_files, unlike_lists
from doctor.checkpoint.analysis.matrices import examine_matrices
from doctor.checkpoint.analysis.nonfinite import FINITE, FORMATS, PAIRS, Tally
from doctor.checkpoint.analysis.statistics import changes, limits, measure
from doctor.checkpoint.analysis.value_ranges import Span, merge
from doctor.checkpoint.analysis.value_reader import Limits, Progress, ValueReader
from doctor.checkpoint.analysis.value_shares import MOST, MOST_LARGE, MOST_OUTLIERS, WHOLE, of_share
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, LocalDirectory
from doctor.checkpoint.layouts.file_names import NOT_WEIGHTS
from doctor.checkpoint.records import Average, Large, NonFinite, Outlier, Values
from doctor.checkpoint.tensors import Tensor

AVERAGE = re.compile(r"(?:.*[._])?(?:ema|avg|averaged?|swa|shadow|polyak)(?:[._].*)?")
"""Names of states that are averages; a teacher or a target may be another model on purpose."""

FEWEST = 2
"""Matrices that two states have in common, to be compared."""

FAR = 1e6
"""Times the rest of a matrix, from which a value is an outlier. Our own number."""

MOMENT = 1e20
"""A square of a gradient of 1e10: no further update of Adam would be larger than 0. Our own
number."""

_MASK = re.compile(r".*mask(?:ed)?(?:_bias)?|.*(?:attn|attention)_bias")
_ATTENTION = re.compile(r".*(?:attn|attention)")


def scan_values(
    directory: Directory,
    tensors: Iterable[Tensor],
    threads: int | None = None,
    progress: Progress | None = None,
    download: bool = False,
    *,
    further: Sequence[Tensor] = (),
    moments: Sequence[Tensor] = (),
    share: tuple[int, int] = WHOLE,
    neighbours: bool = True,
) -> Values | Unknown:
    """Every value of tensors that lie in `directory`, for which all their bytes are read.

    `tensors` are the model's, `further` those of other state_dicts beside it, `moments` those of
    the optimizer's state: a value is looked at once, whatever it is part of.
    `share`: which of how many; all shares together look at every value once (`join_values`).
    `neighbours`: whether the checksums of the states beside the weights are computed, too.
    `threads`: one for each processor that this process may use, unless it says otherwise.
    Unknown where numpy is missing, and for files elsewhere unless `download` allows it. Never
    raises for what is in the files: one that is cut short or changed meanwhile is a problem.
    """
    began = time.perf_counter()
    model = list(tensors)
    every = [*model, *further, *moments]
    checked = [tensor for tensor in every if tensor.dtype in FORMATS]
    if importlib.util.find_spec("numpy") is None:
        return Unknown(reason="looking at every value needs numpy, which is not installed")
    spans = merge(checked)
    if not (download or isinstance(directory, LocalDirectory)):
        total = sum(span.end - span.begin for span in spans)
        text = f"looking at every value would download {total:,} bytes"
        return Unknown(reason=f"{shown(directory.address, 300)} is not on this machine: {text}")
    count = threads or usable_processors()
    magnitudes = measure(directory, model)
    of_moments = {each: MOMENT / FAR for each in moments if each.dtype in ("F32", "BF16", "F64")}
    beyond = limits({**magnitudes.rest, **of_moments}, FAR)
    work = ValueReader(directory, spans, progress, Limits(spans, beyond, every))
    work.divide(count, share)
    matrices = examine_matrices(directory, () if share[0] else model)
    files = _files(model, spans, share)
    differing = differing_files(directory, files, count)
    return Values(
        tensors=len(checked),
        bytes=work.read,
        exempt=sum(tensor.dtype in FINITE for tensor in every),
        unchecked=_unchecked(every),
        **_summaries(directory, work.tallies),
        fp16_values=sum(tensor.elements for tensor in checked if tensor.dtype == "F16"),
        checksums=sum(not differs for differs in differing.values()),
        negative=tuple(tensor.name[:500] for tensor in work.negative)[:MOST_OUTLIERS],
        outliers=tuple(_outliers(work.largest, magnitudes.rest)),
        layers=magnitudes.table(),
        damaged_records=tuple(
            damaged_records(directory, _zips(directory, every, spans, share, neighbours))
        ),
        differing=tuple(shown(file) for file, differs in differing.items() if differs)[:MOST],
        unlike_lists=tuple(map(shown, unlike_lists(directory, files, count)))[:MOST],
        matrices=matrices.examined,
        zero_matrices=matrices.zero,
        constant=tuple(matrices.constant),
        copies=tuple(matrices.copies),
        zero_ranges=tuple(matrices.zero_ranges),
        zero_rows=matrices.zero_rows,
        averages=() if share[0] else compare_averages(directory, model, further),
        further=sum(tensor.dtype in FORMATS for tensor in further),
        moments=sum(tensor.dtype in FORMATS for tensor in moments),
        problems=tuple(work.problems()),
        threads=count,
        seconds=time.perf_counter() - began,
    )


def _unchecked(tensors: list[Tensor]) -> dict[str, int]:
    """Dtype -> the number of tensors whose values cannot be looked at."""
    dtypes = [each.dtype for each in tensors]
    unread = [dtype[:20] for dtype in dtypes if dtype not in FORMATS and dtype not in FINITE]
    return dict(Counter(unread))


def is_mask(name: str) -> bool:
    """Whether -inf is a right value for a tensor of this name."""
    *path, last = name.casefold().split(".")
    owner = path[-1] if path else ""
    return bool(_MASK.fullmatch(last) or (last == "bias" and _ATTENTION.fullmatch(owner)))


def _summaries(directory: Directory, tallies: dict[Tensor, Tally]) -> dict[str, Any]:
    """Fields of Values, from what was counted."""
    every = sorted(tallies.items(), key=lambda item: (item[0].file, item[0].begin, item[0].name))
    bad = [_nonfinite(directory, tensor, tally) for tensor, tally in every if tally.nonfinite]
    large = [(tensor, tally.large) for tensor, tally in every if tally.large]
    large.sort(key=lambda item: -item[1])
    return {
        "nonfinite": tuple(sorted(bad, key=lambda tensor: tensor.masks)[:MOST]),
        "nonfinite_tensors": sum(not tensor.masks for tensor in bad),
        "fp16_large": sum(count for _, count in large),
        "large": tuple(
            Large(name=tensor.name[:500], values=tensor.elements, large=count)
            for tensor, count in large[:MOST_LARGE]
        ),
    }


def _nonfinite(directory: Directory, tensor: Tensor, counted: Tally) -> NonFinite:
    negative = counted.nonfinite == counted.minus_inf
    pair = 2 if tensor.dtype in PAIRS else 1
    return NonFinite(
        name=tensor.name[:500],
        file=shown(tensor.file),
        dtype=tensor.dtype,
        values=tensor.elements * pair,
        nan=counted.nan,
        plus_inf=counted.plus_inf,
        minus_inf=counted.minus_inf,
        first=(counted.first or 0) // pair,
        masks=negative and (is_mask(tensor.name) or is_causal(directory, tensor)),
    )


def _outliers(
    largest: dict[Tensor, tuple[int, float]], rest: dict[Tensor, float]
) -> Iterator[Outlier]:
    named = sorted(largest.items(), key=lambda item: (item[0].file, item[0].begin))
    for tensor, (count, value) in named[:MOST_OUTLIERS]:
        if not is_mask(tensor.name):
            yield Outlier(
                name=tensor.name[:500],
                file=shown(tensor.file),
                values=count,
                largest=value,
                rest=rest.get(tensor, MOMENT),
            )


def _zips(
    directory: Directory,
    tensors: Iterable[Tensor],
    spans: list[Span],
    share: tuple[int, int],
    neighbours: bool,
) -> set[str]:
    """The same, and with the first share the states that lie beside them."""
    files = set(_files(tensors, spans, share))
    with contextlib.suppress(CheckpointError):
        if neighbours and not share[0]:
            files |= {name for name in directory.names() if NOT_WEIGHTS.fullmatch(name)}
    return files


def _files(tensors: Iterable[Tensor], spans: list[Span], share: tuple[int, int]) -> list[str]:
    """The files of these tensors whose checksums a share computes, sorted."""
    sizes: Counter[str] = Counter()
    for span in spans:
        sizes[span.file] += span.end - span.begin
    return of_share(sorted({tensor.file for tensor in tensors}), sizes.__getitem__, share)


def compare_averages(
    directory: Directory, tensors: Iterable[Tensor], further: Sequence[Tensor]
) -> tuple[Average, ...]:
    """One for each further state that is called as an average is and has the model's matrices."""
    model = {plain(tensor.name): tensor for tensor in tensors}
    states: dict[str, list[Tensor]] = {}
    for tensor in further:
        state = tensor.name.partition(".")[0]
        if AVERAGE.fullmatch(state.casefold()):
            states.setdefault(state, []).append(tensor)
    averages = []
    for state, held in states.items():
        found = changes(
            directory, held, directory, model, lambda name: plain(name.partition(".")[2])
        )
        if len(found.matrices) >= FEWEST:
            averages.append(
                Average(
                    state=state[:100],
                    matrices=len(found.matrices),
                    equal=sum(each.relative == 0 for each in found.matrices),
                    unrelated=sum(abs(each.cosine) < UNRELATED for each in found.matrices),
                    zero=sum(each.factor == 0 for each in found.matrices),
                )
            )
    return tuple(averages)


UNRELATED = 0.3
"""Cosine of what has nothing in common; random matrices have 0. Our own number."""
