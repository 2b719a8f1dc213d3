"""Samples that --show asked for, with the marks of the text, and images as small pictures."""

from __future__ import annotations

import re

from doctor.facts.data import Shown
from doctor.report.formats.html.markup import Markup, el
from doctor.report.report import Report
from doctor.report.shown import LEGEND, MARKS, overviews, samples_of, text, title, values

POLICY = "img-src data:; "
BASE64 = re.compile(r"[A-Za-z0-9+/=]{1,200000}")


def has_images(report: Report) -> bool:
    return any(sample.image for sample in samples_of(report))


def pieces(report: Report) -> list[Markup]:
    """The samples, below a line that explains the marks."""
    samples = samples_of(report)
    if not samples:
        return []
    counted = "\n".join(overviews(report))
    return [
        *([el("pre", counted, class_="sample")] if counted else []),
        el("p", LEGEND, class_="quiet"),
        *map(_sample, samples),
    ]


def _sample(sample: Shown) -> Markup:
    if sample.image:
        return el("figure", _image(sample), el("figcaption", f"{title(sample)}: {values(sample)}"))
    parts = [
        el("span", f"{before}{text(mark)}{after}", class_=f"mark-{mark.role}")
        for mark in sample.marks
        for before, after, _ in (MARKS[mark.role],)
    ]
    return el("figure", el("figcaption", title(sample)), el("pre", *parts, class_="sample"))


def _image(sample: Shown) -> Markup:
    if not BASE64.fullmatch(sample.image):
        return el("p", "the picture is not valid", class_="quiet")
    return Markup(
        f'<img alt="row {sample.row}" src="data:image/png;base64,{sample.image}" width="128">'
    )
