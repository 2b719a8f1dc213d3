"""Charts of the HTML report: bars of SVG beside tables that hold the same numbers.

A bar is for the eye alone; who cannot see it, or its colours, has the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from packaging.version import InvalidVersion, Version

from doctor._util.units import count, gb, gib
from doctor.checkpoint.records import Checkpoint
from doctor.facts.facts import Facts
from doctor.facts.load import Attention, AttentionCase, Trial
from doctor.facts.memory.plan import KINDS, Plan, plan_of
from doctor.facts.training import Smoke
from doctor.judge.attention_gates import defect
from doctor.report.formats.html.markup import Markup, el
from doctor.report.phrases import one_line
from doctor.report.report import Report

COLOURS = 5
DTYPES: tuple[Literal["bf16", "fp16"], ...] = ("bf16", "fp16")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a whole, with the number as people read it."""

    name: str
    size: float
    said: str
    css: str = ""


def memory(facts: Facts) -> Markup | None:
    """What the training takes of the memory that is free on its fullest GPU; None: not known."""
    found = plan_of(facts)
    if not isinstance(found, Plan):
        return None
    pieces = [
        Piece(name, size, gib(size), "s9" if name == "free" else f"s{KINDS.index(name)}")
        for name, size in found.bar
    ]
    if found.need > found.free:
        pieces[-1] = Piece("missing", 0, gib(found.need - found.free), "over")
    if found.activations is None:
        pieces.insert(-1, Piece("activations", 0, "not known", f"s{KINDS.index('activations')}"))
    spread = f", each of {found.shards} shards" if found.shards > 1 else ""
    caption = (
        f"{count(found.size.parameters)} parameters ({found.size.basis}){spread}: "
        f"{gib(found.free)} {found.where}"
    )
    whole = max(found.free, found.need)
    return _stacked("memory", caption, pieces, whole, found.free) if whole > 0 else None


def dtypes(found: Checkpoint) -> Markup | None:
    """Bytes of the checkpoint by dtype, or its tensors where bytes were not summed."""
    said: Callable[[float], str] = gb if found.shares else _tensors
    sizes: dict[str, int] = {} if found.shares else found.dtypes
    for share in found.shares:
        sizes[share.dtype] = sizes.get(share.dtype, 0) + share.bytes
    if not sizes:
        return None
    pieces = [
        Piece(dtype, size, said(size), f"s{number % COLOURS}")
        for number, (dtype, size) in enumerate(sorted(sizes.items(), key=lambda pair: -pair[1]))
    ]
    caption = f"{found.layout}, {found.tensors:,} tensors, {count(found.parameters)} parameters"
    return _stacked("dtype", caption, pieces, sum(sizes.values()))


def _tensors(number: float) -> str:
    return f"{number:,.0f} tensors"


def _stacked(
    head: str, caption: str, pieces: Sequence[Piece], whole: float, mark: float | None = None
) -> Markup:
    starts = accumulate((piece.size for piece in pieces), initial=0.0)
    rects = [
        _rect(piece.css, start / whole, piece.size / whole)
        for piece, start in zip(pieces, starts, strict=False)
        if piece.size
    ]
    if mark is not None and mark < whole:
        rects.append(_rect("over", mark / whole, 0.006))
    rows = [
        el(
            "tr",
            el("th", _key(piece.css), piece.name, scope="row"),
            el("td", piece.said, class_="number"),
            el("td", f"{piece.size / whole:.0%}" if piece.size else "", class_="number"),
        )
        for piece in pieces
    ]
    heads = (el("tr", el("th", head, scope="col"), _column("size"), _column("share")),)
    return el(
        "figure",
        el("svg", rects, class_="stack", aria_hidden="true"),
        table(caption, heads, rows),
        class_="chart",
    )


def _rect(css: str, start: float, width: float, height: str = "100%") -> Markup:
    return el("rect", class_=css, x=f"{start:.2%}", width=f"{width:.2%}", height=height)


def _key(css: str) -> Markup:
    return el("svg", _rect(css, 0, 1), class_="key", aria_hidden="true")


def _column(name: str) -> Markup:
    return el("th", name, scope="col", class_="number")


def table(caption: str, heads: Iterable[Markup], rows: Iterable[Markup], css: str = "") -> Markup:
    """A table that scrolls by itself where the page is narrow."""
    made = el(
        "table",
        el("caption", el("span", caption)),
        el("thead", heads),
        el("tbody", rows),
        class_=css,
    )
    return el("div", made, class_="scroll", role="region", aria_label=caption, tabindex="0")


def trial(found: Attention, torch: str) -> Markup:
    """Each backend in each dtype on each case, in words, as the checks judge it for that torch."""
    seen = {(each.case, each.backend, each.dtype): each for each in found.trials}
    named = dict.fromkeys(each.backend for each in found.trials)
    ran = {each.backend for each in found.trials if each.refused is None}
    backends = [backend for backend in named if backend in ran]
    silent = ", ".join(backend for backend in named if backend not in ran)
    heads = (
        el("tr", el("th", "case", scope="col", rowspan="2"), map(_backend, backends)),
        el("tr", (el("th", dtype, scope="col") for _ in backends for dtype in DTYPES)),
    )
    rows = [
        el(
            "tr",
            el("th", case.name, scope="row"),
            (
                _cell(seen.get((case.name, backend, dtype)), case, found, torch)
                for backend in backends
                for dtype in DTYPES
            ),
        )
        for case in found.cases
    ]
    more = f"; refused in every case: {silent}" if silent else ""
    more += f"; cut short: {found.cut_short}" if found.cut_short else ""
    caption = (
        f"Attention on {found.device}: largest relative error of output and gradients against "
        f"float64{more}"
    )
    return table(caption, heads, rows, "trial")


def _backend(name: str) -> Markup:
    return el("th", name, scope="colgroup", colspan=str(len(DTYPES)))


def _cell(one: Trial | None, case: AttentionCase, found: Attention, torch: str) -> Markup:
    if one is None:
        return el("td", "not tried", class_="none")
    if one.refused is not None:
        return el("td", "refuses", class_="none", title=one.refused)
    first = found.defaults.get(f"{case.name}/{one.dtype}") == one.backend
    mark = el("strong", "default: ") if first else ""
    well = not defect(one, case, released(torch), strict=True)
    return el("td", mark, _outcome(one, well), class_="good" if well else "bad")


def _outcome(one: Trial, well: bool) -> str:
    """In a few words; what is wrong is told at length by the check."""
    if not one.ended.ok:
        return "failed: " + one_line(one.ended.detail or one.ended.how, 40)
    bad = [name for name, number in one.nonfinite.items() if number]
    if bad:
        return f"not finite: {', '.join(bad)}"
    word = "ran" if well else "wrong"
    worst = max((float(error) for error in one.errors.values()), default=None)
    return word if worst is None else f"{word}, {worst:.2%}"


def released(torch: str) -> Version:
    """A version that cannot be read is a new one: it gets no allowance."""
    try:
        return Version(torch)
    except InvalidVersion:
        return Version("99")


def timings(report: Report) -> list[Markup]:
    """What the observations behind the checks took, and the training step stage by stage."""
    slow = [f for f in report.findings if f.verdict.seconds > 0]
    whole = max([report.facts.seconds, *(f.verdict.seconds for f in slow)])
    charts = []
    if slow and whole > 0:
        rows = [
            _timed(f"{f.check.code} {f.check.slug}", 0.0, f.verdict.seconds, whole) for f in slow
        ]
        caption = f"Seconds behind each check, of {whole:.1f} s; several ran at the same time"
        charts.append(table(caption, _timed_heads("check"), rows))
    smoke = report.facts.smoke
    if isinstance(smoke, Smoke) and any(stage.ended.seconds for stage in smoke.stages):
        spent = [stage.ended.seconds for stage in smoke.stages]
        rows = [
            _timed(stage.name, start, stage.ended.seconds, sum(spent))
            for stage, start in zip(smoke.stages, accumulate(spent, initial=0.0), strict=False)
        ]
        caption = f"The training step on {smoke.device}, one stage after the other"
        charts.append(table(caption, _timed_heads("stage"), rows))
    return charts


def _timed_heads(name: str) -> tuple[Markup, ...]:
    when = el("th", "when" if name == "stage" else "how long", scope="col")
    return (el("tr", el("th", name, scope="col"), _column("seconds"), when),)


def _timed(name: str, start: float, seconds: float, whole: float) -> Markup:
    bar = _rect("s0", start / whole, max(seconds / whole, 0.004))
    return el(
        "tr",
        el("th", name, scope="row"),
        el("td", f"{seconds:.2f}", class_="number"),
        el("td", el("svg", bar, class_="line", aria_hidden="true"), class_="wide"),
    )
