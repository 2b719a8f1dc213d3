"""Charts of the HTML report: SVG bars beside tables with the same numbers.

The bars are decorative; the tables hold everything that a screen reader needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from packaging.version import InvalidVersion, Version

from doctor._util.units import count, counted, gb, gib
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
SECONDS_SHOWN = 1.0
"""Nobody asks where less than this went."""
DTYPES: tuple[Literal["bf16", "fp16"], ...] = ("bf16", "fp16")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a bar, with its size as text."""

    name: str
    size: float
    text: str
    css: str = ""


def memory(facts: Facts) -> Markup | None:
    """The training's memory on the GPU with the least free memory; None where it is unknown."""
    plan = plan_of(facts)
    if not isinstance(plan, Plan):
        return None
    pieces = [
        Piece(name, size, gib(size), "s9" if name == "free" else f"s{KINDS.index(name)}")
        for name, size in plan.bar
    ]
    if plan.need > plan.free:
        pieces[-1] = Piece("missing", 0, gib(plan.need - plan.free), "over")
    if plan.activations is None:
        pieces.insert(-1, Piece("activations", 0, "unknown", f"s{KINDS.index('activations')}"))
    sharding = f", each of {plan.shards} shards" if plan.shards > 1 else ""
    caption = (
        f"{count(plan.size.parameters)} parameters ({plan.size.basis}){sharding}: "
        f"{gib(plan.free)} {plan.where}"
    )
    total = max(plan.free, plan.need)
    return _stacked("memory", caption, pieces, total, plan.free) if total > 0 else None


def dtypes(checkpoint: Checkpoint) -> Markup | None:
    """Bytes of the checkpoint by dtype, or its tensors where bytes were not summed."""
    text: Callable[[float], str] = gb if checkpoint.contents.shares else _tensors
    sizes: dict[str, int] = {} if checkpoint.contents.shares else checkpoint.contents.dtypes
    for share in checkpoint.contents.shares:
        sizes[share.dtype] = sizes.get(share.dtype, 0) + share.bytes
    if not sizes:
        return None
    pieces = [
        Piece(dtype, size, text(size), f"s{number % COLOURS}")
        for number, (dtype, size) in enumerate(sorted(sizes.items(), key=lambda pair: -pair[1]))
    ]
    caption = (
        f"{checkpoint.layout}, {counted(checkpoint.contents.tensors, 'tensor')}, "
        f"{count(checkpoint.contents.parameters)} parameters"
    )
    return _stacked("dtype", caption, pieces, sum(sizes.values()))


def _tensors(number: float) -> str:
    return counted(round(number), "tensor")


def _stacked(
    head: str, caption: str, pieces: Sequence[Piece], total: float, mark: float | None = None
) -> Markup:
    starts = accumulate((piece.size for piece in pieces), initial=0.0)
    rects = [
        _rect(piece.css, start / total, piece.size / total)
        for piece, start in zip(pieces, starts, strict=False)
        if piece.size
    ]
    if mark is not None and mark < total:
        rects.append(_rect("over", mark / total, 0.006))
    rows = [
        el(
            "tr",
            el("th", _key(piece.css), piece.name, scope="row"),
            el("td", piece.text, class_="number"),
            el("td", f"{piece.size / total:.0%}" if piece.size else "", class_="number"),
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


def bar(share: float) -> Markup:
    """A bar below a number of a table; `share` of the widest, 0 to 1."""
    return el("svg", _rect("s0", 0, min(share, 1)), class_="line", aria_hidden="true")


def _rect(css: str, start: float, width: float, height: str = "100%") -> Markup:
    return el("rect", class_=css, x=f"{start:.2%}", width=f"{width:.2%}", height=height)


def _key(css: str) -> Markup:
    return el("svg", _rect(css, 0, 1), class_="key", aria_hidden="true")


def _column(name: str) -> Markup:
    return el("th", name, scope="col", class_="number")


def table(
    caption: str,
    heads: Iterable[Markup],
    rows: Iterable[Markup],
    css: str = "",
    *,
    hidden: bool = False,
) -> Markup:
    """A table that scrolls horizontally where the page is narrow.

    `hidden`: its caption is the heading above it, and is for screen readers only.
    """
    element = el(
        "table",
        el("caption", el("span", caption, class_="away" if hidden else "")),
        el("thead", heads),
        el("tbody", rows),
        class_=css,
    )
    return el("div", element, class_="scroll", role="region", aria_label=caption, tabindex="0")


def trial(attention: Attention, torch: str) -> Markup:
    """A row per case, a column per backend and dtype, judged as the checks do for that torch."""
    trials = {(each.case, each.backend, each.dtype): each for each in attention.trials}
    listed = dict.fromkeys(each.backend for each in attention.trials)
    ran = {each.backend for each in attention.trials if each.refused is None}
    backends = [backend for backend in listed if backend in ran]
    refusing = ", ".join(backend for backend in listed if backend not in ran)
    heads = (
        el("tr", el("th", "case", scope="col", rowspan="2"), map(_backend, backends)),
        el("tr", (el("th", dtype, scope="col") for _ in backends for dtype in DTYPES)),
    )
    rows = [
        el(
            "tr",
            el("th", case.name, scope="row"),
            (
                _cell(trials.get((case.name, backend, dtype)), case, attention, torch)
                for backend in backends
                for dtype in DTYPES
            ),
        )
        for case in attention.cases
    ]
    omitted = f"; refused in every case: {refusing}" if refusing else ""
    omitted += f"; cut short: {attention.cut_short}" if attention.cut_short else ""
    caption = (
        f"Attention on {attention.device}: largest relative error of output and gradients against "
        f"float64{omitted}"
    )
    return table(caption, heads, rows, "trial")


def _backend(name: str) -> Markup:
    return el("th", name, scope="colgroup", colspan=str(len(DTYPES)))


def _cell(trial: Trial | None, case: AttentionCase, attention: Attention, torch: str) -> Markup:
    if trial is None:
        return el("td", "not tried", class_="none")
    if trial.refused is not None:
        return el("td", "refuses", class_="none", title=trial.refused)
    default = attention.defaults.get(f"{case.name}/{trial.dtype}") == trial.backend
    mark = el("strong", "default: ") if default else ""
    version = parsed_version(torch)
    correct = not defect(trial, case, version, strict=True, device=attention.device)
    return el("td", mark, _outcome(trial, correct), class_="good" if correct else "bad")


def _outcome(trial: Trial, correct: bool) -> str:
    """The result in a few words; NUM003 has the details."""
    if not trial.ended.ok:
        return "failed: " + one_line(trial.ended.detail or trial.ended.how, 40)
    bad = [name for name, number in trial.nonfinite.items() if number]
    if bad:
        return f"not finite: {', '.join(bad)}"
    word = "ran" if correct else "wrong"
    worst = max((float(error) for error in trial.errors.values()), default=None)
    return word if worst is None else f"{word}, {worst:.2%}"


def parsed_version(torch: str) -> Version:
    """torch's version; one that cannot be parsed counts as new, so it gets no allowance."""
    try:
        return Version(torch)
    except InvalidVersion:
        return Version("99")


def timings(report: Report) -> list[Markup]:
    """Duration of the observations behind the checks, and of each stage of the training step."""
    timed = [f for f in report.findings if f.verdict.seconds > 0]
    total = max([report.facts.seconds, *(f.verdict.seconds for f in timed)])
    charts: list[Markup] = []
    if total < SECONDS_SHOWN:
        return charts
    if timed:
        rows = [
            _timed(f"{f.check.code} {f.check.slug}", 0.0, f.verdict.seconds, total) for f in timed
        ]
        caption = f"Seconds per check, of {total:.1f} s in all; some ran at the same time"
        charts.append(table(caption, _timed_heads("check"), rows))
    smoke = report.facts.smoke
    if isinstance(smoke, Smoke) and any(stage.ended.seconds for stage in smoke.stages):
        durations = [stage.ended.seconds for stage in smoke.stages]
        rows = [
            _timed(stage.name, start, stage.ended.seconds, sum(durations))
            for stage, start in zip(smoke.stages, accumulate(durations, initial=0.0), strict=False)
        ]
        caption = f"Stages of the training step on {smoke.device}"
        charts.append(table(caption, _timed_heads("stage"), rows))
    return charts


def _timed_heads(name: str) -> tuple[Markup, ...]:
    bars = el("th", "timeline" if name == "stage" else "duration", scope="col")
    return (el("tr", el("th", name, scope="col"), _column("seconds"), bars),)


def _timed(name: str, start: float, seconds: float, total: float) -> Markup:
    bar = _rect("s0", start / total, max(seconds / total, 0.004))
    return el(
        "tr",
        el("th", name, scope="row"),
        el("td", f"{seconds:.2f}", class_="number"),
        el("td", el("svg", bar, class_="line", aria_hidden="true"), class_="wide"),
    )
