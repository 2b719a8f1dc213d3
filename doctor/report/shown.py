"""Samples that --show asked for: the same marks in lines for people and in HTML.

The text is that of the data: everything that is invisible or moves the cursor is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator

from doctor._util.units import visible
from doctor.facts.data import Data, Mark, Shown, Split
from doctor.report.line import Line
from doctor.report.report import Report

MARKS = {
    "trained": ("[+", "+]", "bold green"),
    "context": ("", "", ""),
    "padding": ("[_", "_]", "dim"),
    "cut": ("[/", "/]", "dim"),
}
"""Before, after and style of each role: read without colour, and in a copy."""
LEGEND = "[+trained+]  not trained  [_padding_]  [/left out/]"
LONGEST = 2000
"""Characters of a piece."""


def samples_of(report: Report) -> tuple[Shown, ...]:
    data = report.facts.data
    return data.shown if isinstance(data, Data) else ()


def shown_lines(report: Report, *, quiet: bool = False) -> Iterator[Line]:
    """The samples, one after the other; below what was read of each split, unless quiet."""
    samples = samples_of(report)
    if not samples:
        return
    yield Line()
    yield Line("samples", "", "bold")
    for line in () if quiet else overviews(report):
        yield Line("  ", line)
    if any(sample.marks for sample in samples):
        yield Line("  ", LEGEND, "dim", "dim")
    for sample in samples:
        yield Line(f"  {title(sample)}  ", "" if sample.marks else values(sample))
        for mark in sample.marks:
            before, after, style = MARKS[mark.role]
            for piece in pieces(mark):
                yield Line("    | ", f"{before}{piece}{after}", "", style)


WIDTH = 40
"""Characters of the longest bar."""


def overviews(report: Report) -> list[str]:
    """What was read of each split: lengths, classes and rows that were dropped, as lines."""
    data = report.facts.data
    splits = data.splits if isinstance(data, Data) and data.shown else ()
    return [line for split in splits for line in overview(split)]


def overview(split: Split) -> Iterator[str]:
    name = visible(split.name)
    for text, lengths in (("tokens", split.lengths), ("tokens before the cut", split.uncut)):
        if lengths is not None:
            yield (f"{name}, {text} of a document: median {lengths.p50:,}, p95 {lengths.p95:,}, "
                   f"longest {lengths.longest:,}")  # fmt: skip
            yield from bars({f"up to {end:,}": count for end, count in lengths.histogram if count})
    if split.mixing is not None and split.mixing.counts:
        yield f"{name}, samples of a class, {split.mixing.classes:,} classes in all"
        yield from bars({visible(each): count for each, count in split.mixing.counts.items()})
    if split.labels is not None and split.labels.dropped:
        yield f"{name}, rows without a label that are left out: {split.labels.dropped:,}"


def bars(counts: dict[str, int]) -> Iterator[str]:
    wide, most = max(map(len, counts), default=0), max([1, *counts.values()])
    for name, count in counts.items():
        yield f"  {name:>{wide}} {'#' * round(WIDTH * count / most)} {count:,}"


def pieces(mark: Mark) -> list[str]:
    """The lines of a piece; its line ends are written as such, too."""
    *lines, last = text(mark).split("\n")
    return [*(f"{line}\\n" for line in lines), *([last] if last else [])]


def title(sample: Shown) -> str:
    return f"{visible(sample.split)}, {'line' if sample.lines else 'row'} {sample.row:,}"


def values(sample: Shown) -> str:
    return ", ".join(f"{visible(name)} {float(value):.4g}" for name, value in sample.values.items())


def text(mark: Mark) -> str:
    """The text with its line ends; "::" would be a command to a CI system."""
    cut = mark.text[:LONGEST] + "..." * (len(mark.text) > LONGEST)
    return "\n".join(visible(line) for line in cut.split("\n")).replace("::", ": :")
