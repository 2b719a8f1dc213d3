"""Averages of the weights beside them (EMA): whether they follow the model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from doctor.checkpoint.analysis.attribution import plain
from doctor.checkpoint.analysis.statistics import changes
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.records import Average
from doctor.checkpoint.tensors import Tensor

AVERAGE = re.compile(r"(?:.*[._])?(?:ema|avg|averaged?|swa|shadow|polyak)(?:[._].*)?")
"""Names of states that are averages; a teacher or a target may be another model on purpose."""

FEWEST = 2
"""Matrices that two states have in common, to be compared."""


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
