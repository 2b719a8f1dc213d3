"""One verdict of what was observed of each GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from doctor.facts.views import JobGpu
from doctor.judge.check import Verdict
from doctor.judge.combine import worst

Named = tuple[int | None, str]
"""A GPU's index, None where it is not known, and its name or UUID."""


def named(gpu: JobGpu) -> Named:
    if gpu.nvml and gpu.nvml.unnumbered:
        return None, gpu.label
    return gpu.index, gpu.name


def of_each(found: Iterable[tuple[Named, Verdict]], *, partly_shown: bool = False) -> Verdict:
    """The worst of verdicts whose summaries leave the GPU out.

    GPUs with equal verdicts share one sentence: "GPUs 0-6 (NVIDIA H100): no errors reported".
    """
    equal: dict[Verdict, list[Named]] = {}
    for gpu, verdict in found:
        equal.setdefault(verdict, []).append(gpu)
    return worst(
        *(
            replace(verdict, summary=f"{', '.join(_names(gpus))}: {verdict.summary}")
            for verdict, gpus in equal.items()
        ),
        partly_shown=partly_shown,
    )


def _names(gpus: list[Named]) -> Iterator[str]:
    for name in dict.fromkeys(name for _, name in gpus):
        indices = sorted({index for index, each in gpus if each == name and index is not None})
        if not indices:
            yield name
        else:
            yield f"GPU{'s' if len(indices) > 1 else ''} {_ranges(indices)} ({name})"


def _ranges(indices: list[int]) -> str:
    """0-3, 5 of 0, 1, 2, 3, 5; indices ascend."""
    starts = [0, *(n for n, (a, b) in enumerate(pairwise(indices), 1) if b != a + 1)]
    runs = [indices[a:b] for a, b in zip(starts, [*starts[1:], len(indices)], strict=True)]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
