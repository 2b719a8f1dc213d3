"""What a progress bar prints again of the last evaluation, while the training goes on."""

from __future__ import annotations

import re

BAR = re.compile(
    r"[|\]]\s{0,4}(\d{1,9})/\d{1,9}\s{0,4}\[|(?:^|\s)(\d{1,9})/\d{1,9}\s{1,2}\[\d{1,3}:\d"
)
"""`45%|####  | 45/100 [00:41<...`, with the number of the step in it."""


class Repeated:
    """The values of evaluations in the rows of a bar, and where it stood."""

    __slots__ = ("_at", "_last")

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._at: dict[str, int] = {}

    def fresh(self, row: str, values: dict[str, float]) -> dict[str, float]:
        """The values without those that the same bar had already: a bar that begins anew may be
        after another evaluation with the same result. What is printed behind a bar, as a dict, is
        of this step."""
        if not values or not (bar := BAR.search(row)) or "{" in row[bar.end() :]:
            return values
        at = int(bar[1] or bar[2])
        left = {}
        for name, value in values.items():
            goes_on = self._at.get(name, at) < at
            if not goes_on or self._last.get(name) != value:
                left[name] = value
            self._at[name], self._last[name] = at, value
        return left
