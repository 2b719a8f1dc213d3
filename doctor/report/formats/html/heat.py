"""Nodes by metrics as a heat map: one small square for each node, readable at 512 and at 10,000.

Squares of one colour are one path, so the page stays small. Squares that matter have a title and
are in the table below, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from doctor.facts.fleet import Fleet, NodeLine
from doctor.report.fleet import bad_nodes
from doctor.report.formats.html.markup import Markup, el, lines

STEPS = (0.8, 0.9, 0.95, 0.98, 1.02)
"""Rates by the median of the class at which the colour changes."""
MEANINGS = (
    "less than 0.8 of the class",
    "0.8 to 0.9",
    "0.9 to 0.95",
    "0.95 to 0.98",
    "like the class (± 2 %)",
    "faster",
)
PLAIN = MEANINGS.index("like the class (± 2 %)")
VERDICTS = {"return": 0, "fix": 1, "unknown": 3, "ready": PLAIN}
OUTCOMES = ("RETURN", "FIX", "slow or unlike the others", "UNKNOWN", "READY")
"""Meanings of the colours in the map of verdicts."""
MANY = 2048
"""Nodes from which the squares are smaller."""
TITLED = 300
"""Squares of one map that have titles."""


def heat_maps(fleet: object) -> Iterator[Markup]:
    """The verdicts, then a map for each metric; nothing of facts without a `Fleet`."""
    if not isinstance(fleet, Fleet) or len(fleet.nodes) < 2 or fleet.since:
        return
    order = sorted(range(len(fleet.nodes)), key=lambda index: (fleet.nodes[index].group, index))
    grid = _Grid(fleet, order)
    bad = set(bad_nodes(fleet))
    hint = (
        f"A square is a node, in the order of {_order(fleet)}, from left to right. The name on the "
        "left is that of the first node in its row."
    )
    yield el("p", hint, class_="quiet")
    yield _legend(OUTCOMES)
    verdicts = [_verdict(line, bad) for line in fleet.nodes]
    yield grid.map("Verdicts", verdicts, [line.outcome for line in fleet.nodes])
    steps = {metric.name: list(map(_step, metric.relative)) for metric in fleet.metrics}
    alike = [name for name, each in steps.items() if set(each) == {PLAIN}]
    if len(alike) < len(steps):
        yield _legend(MEANINGS)
    for metric in fleet.metrics:
        texts = ["" if value is None else f"{value:.2f}" for value in metric.relative]
        if metric.name not in alike:
            yield grid.map(metric.name, steps[metric.name], texts)
    if alike:
        yield el("p", f"All nodes are like their class (± 2 %) in: {', '.join(alike)}.")


def _order(fleet: Fleet) -> str:
    return "switches and ranks" if any(line.group for line in fleet.nodes) else "ranks and names"


def _verdict(line: NodeLine, bad: set[str]) -> int:
    return min(VERDICTS[line.outcome], 2 if line.node in bad else PLAIN)


def _step(value: float | None) -> int | None:
    """The colour of a rate; None: it was not measured."""
    if value is None:
        return None
    return sum(value >= step for step in STEPS)


def _legend(meanings: Sequence[str]) -> Markup:
    keys = [
        el("span", el("svg", _rect(0, 0, 1, f"h{n}"), class_="key", viewBox="0 0 1 1"), f" {text}")
        for n, text in enumerate(meanings)
    ]
    return el("p", keys, class_="keys quiet")


def _rect(x: int, y: int, size: int, css: str) -> Markup:
    return el("rect", x=str(x), y=str(y), width=str(size), height=str(size), class_=css)


class _Grid:
    """Squares in rows."""

    def __init__(self, fleet: Fleet, order: Sequence[int]) -> None:
        self.fleet = fleet
        self.order = order
        self.columns = 128 if len(order) > MANY else 64 if len(order) > 64 else 16
        self.size = 7 if len(order) > MANY else 12 if len(order) > 64 else 18

    def map(self, title: str, colours: Sequence[int | None], texts: Sequence[str]) -> Markup:
        """One map: the colour of each node and what its square says, in the fleet's order."""
        paths: dict[int | None, list[str]] = defaultdict(list)
        titled: list[Markup] = []
        for place, index in enumerate(self.order):
            y, x = divmod(place, self.columns)
            colour = colours[index]
            if colour is not None and colour <= 1 and len(titled) < TITLED:
                said = f"{self.fleet.nodes[index].node}: {texts[index]}"
                titled.append(self._titled(x, y, colour, said))
            else:
                paths[colour].append(f"M{x} {y}h.9v.9h-.9z")
        rows = (len(self.order) - 1) // self.columns + 1
        drawn = [
            el("path", d="".join(parts), class_="none" if colour is None else f"h{colour}")
            for colour, parts in paths.items()
        ]
        width, height = min(self.columns, len(self.order)), rows
        picture = el(
            "svg",
            drawn,
            titled,
            viewBox=f"0 0 {width} {height}",
            width=str(width * self.size),
            height=str(height * self.size),
            class_="heat",
            preserveAspectRatio="xMinYMin",
            role="img",
            aria_label=f"{title}: {len(self.order)} nodes",
        )
        names = el("pre", self._names(rows), class_="names", aria_hidden="true")
        return el(
            "figure",
            el("figcaption", title),
            el("div", names, picture, class_=f"heat-row size{self.size}"),
        )

    def _titled(self, x: int, y: int, colour: int, text: str) -> Markup:
        at = f'x="{x}" y="{y}" width=".9" height=".9" class="h{colour}"'
        return Markup(f"<rect {at}>{el('title', text)}</rect>")

    def _names(self, rows: int) -> Markup:
        """The first node of each row; of each second one where rows are narrow."""
        step = 1 if self.size > 10 else 2
        first = [self.fleet.nodes[self.order[row * self.columns]].node for row in range(rows)]
        return lines(name[-18:] if row % step == 0 else "" for row, name in enumerate(first))
