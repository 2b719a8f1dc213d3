"""How cells of a table are written, by which two writers are told apart: numbers, units, dates."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Optional

from ..foreign import Foreign
from .columns import DECIMAL_COMMA, is_blank, number_of
from .relations import relation

POINT = re.compile(r"[-+]?\d+\.\d+")
UNIT = re.compile(r"(?:[€$£]\s*[\d.,]+)|(?:[-+]?\d[\d.,]*\s*(?:%|€|\$|£|kg|g|km|m|cm|mm|mi|lbs?|oz|"
                  r"min|ms|s|h|EUR|USD))")  # fmt: skip
PLAIN = re.compile(r"[-+]?\d+([.,]\d+)?")
DATES = (re.compile(r"\d{4}-\d\d?-\d\d?"), re.compile(r"\d\d?/\d\d?/\d{4}"),
         re.compile(r"\d\d?\.\d\d?\.\d{4}"), re.compile(r"\d{4}/\d\d?/\d\d?"))  # fmt: skip
LONG = 20
"""Characters of a cell that is more than a number, a unit or a date. Our own number."""


class Forms:
    """Forms of cells over the rows of a file; `records` has the columns that mix two."""

    def __init__(self) -> None:
        self._rows: Dict[str, Dict[str, List[int]]] = {}
        """Column -> form of a value -> its rows."""
        self._cells: Dict[str, int] = {}
        """Column -> texts in it, of any form."""

    def add(self, row: Foreign, number: int) -> None:
        for name, value in row.items():
            if not isinstance(value, str) or not value:
                continue
            self._cells[str(name)] = self._cells.get(str(name), 0) + 1
            form = form_of(value.strip()) if len(value) <= LONG else None
            if form is not None:
                self._rows.setdefault(str(name), {}).setdefault(form, []).append(number)

    def records(self) -> List[Dict[str, Any]]:
        """Of columns that are mostly such cells: texts may hold any of them."""
        found: List[Dict[str, Any]] = []
        for name, forms in self._rows.items():
            if 2 * sum(map(len, forms.values())) > self._cells[name]:
                found += mixed(name, forms)
        return found


def kind_of(value: Foreign) -> str:
    """Whether a number is one, or the text of one; "" for anything else."""
    if number_of(value) is None or is_blank(value):
        return ""
    return "text" if isinstance(value, str) else "number"


def form_of(value: str) -> Optional[str]:
    """How a cell is written, where that tells two writers apart."""
    if DECIMAL_COMMA.fullmatch(value):
        return "comma" if len(value.rpartition(",")[2]) != 3 else None
    if POINT.fullmatch(value):
        return "point"
    if PLAIN.fullmatch(value):
        return "plain"
    if UNIT.fullmatch(value):
        return "unit"
    date = next((n for n, each in enumerate(DATES) if each.fullmatch(value)), None)
    if date == 1:
        first, second = (int(part) for part in value.split("/")[:2])
        return "day/month" if first > 12 else "month/day" if second > 12 else "slashes"
    return None if date is None else "date %d" % date


def mixed(name: str, forms: Dict[str, List[int]]) -> Iterator[Dict[str, Any]]:
    """Records of a column in which two forms occur."""
    whole = sum(map(len, forms.values()))
    numbers = [forms.get(each, []) for each in ("comma", "point", "plain", "unit")]
    comma, point, plain, unit = numbers
    pairs = (("decimals mixed", comma, point), ("units mixed", unit, point + plain))
    for kind, one, other in pairs:
        if one and other:
            fewer = min(one, other, key=len)
            yield relation(kind, len(fewer), whole, (name,), fewer)
    slashes = {"day/month", "month/day", "slashes"}
    dates = {k: v for k, v in forms.items() if k.startswith("date") or k in slashes}
    ways = {k for k in dates if k != "slashes"}
    if len(ways | ({"slashes"} if not ways & slashes and "slashes" in dates else set())) > 1:
        fewer = min(dates.values(), key=len)
        yield relation("dates mixed", len(fewer), whole, (name,), fewer)
