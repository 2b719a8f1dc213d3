"""The code cells of a Jupyter notebook as one source, with magics blanked."""

from __future__ import annotations

import ast
import re
from typing import Any

import msgspec

from doctor.facts.script import Unreadable
from doctor.script.requirements import installed
from doctor.script.text import CODE_LIMIT, LIMIT, Source, Unparsable, parse

MAGIC = re.compile(
    r"\s*(?:[!%?]|(?:pip3?|conda) (?:un)?install\s|[\w.]+\s*=\s*[!%]|[\w.]+\?{1,2}\s*$)"
)
RUNS = re.compile(r"%(?:time|timeit|prun|memit|mprun|lprun)\s+(?:-\S+\s+(?:\d+\s+)?)*(?=[^\s-])")
"""Magics that run the rest of their line."""
NOT_PYTHON = re.compile(r"\s*%%(?!time\b|timeit\b|capture\b|prun\b)")


class _Cell(msgspec.Struct):
    cell_type: str = ""
    source: str | list[str] = ""
    input: str | list[str] = ""
    """The source in notebooks of version 3."""


class _Sheet(msgspec.Struct):
    cells: list[_Cell] = []


class _Notebook(msgspec.Struct):
    cells: list[_Cell] | None = None
    worksheets: list[_Sheet] | None = None


def read(data: bytes) -> tuple[Source, ast.Module, list[Unreadable]]:
    """Source, tree and the cells that do not parse. Raises Unparsable for another file."""
    if len(data) > LIMIT:
        raise Unparsable(f"the file exceeds the limit of {LIMIT >> 20} MiB")
    cells = [
        (number, _python(_text(cell)))
        for number, cell in enumerate(_cells(data), 1)
        if cell.cell_type == "code"
    ]
    source = _joined(cells)
    if len(source.text) > CODE_LIMIT:
        raise Unparsable(f"the code exceeds the limit of {CODE_LIMIT >> 20} MiB")
    try:
        return source, parse(source), []
    except Unparsable:
        pass
    good, unreadable = [], []
    for number, text in cells:
        try:
            parse(_joined([(number, text)]))
            good.append((number, text))
        except Unparsable as error:
            unreadable.append(Unreadable(str(error), error.span))
    source = _joined(good)
    return source, parse(source), unreadable


def pins(data: bytes) -> dict[str, str]:
    """Package -> specifier, of what the cells install."""
    cells = _cells(data) if b"install" in data else []
    return installed("\n".join(_text(cell) for cell in cells if cell.cell_type == "code"))


def _cells(data: bytes) -> list[_Cell]:
    try:
        notebook = msgspec.json.decode(data, type=_Notebook)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unparsable(f"not a notebook: {' '.join(str(error).split())}") from None
    if notebook.cells is None and notebook.worksheets is None:
        raise Unparsable("not a notebook: it has no cells")
    sheets = notebook.worksheets or []
    return notebook.cells or [cell for sheet in sheets for cell in sheet.cells]


def _text(cell: _Cell) -> str:
    source: Any = cell.source or cell.input
    return source if isinstance(source, str) else "".join(source)


def _python(text: str) -> list[str]:
    """The lines of a cell; magics and cells of other languages become comments or pass."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").split("\n")
    if lines and NOT_PYTHON.match(lines[0]):
        return ["#"] * len(lines)
    return _dedented(without_magics(lines))


def _dedented(lines: list[str]) -> list[str]:
    """IPython takes the indent of the first line from all lines."""
    first = next((line for line in lines if line.strip() and line.lstrip()[:1] != "#"), "")
    indent = first[: len(first) - len(first.lstrip())]
    return [line.removeprefix(indent) for line in lines] if indent else lines


def without_magics(lines: list[str]) -> list[str]:
    """Magics and shell commands, which a backslash continues, as pass."""
    result: list[str] = []
    continued, quotes = False, 0
    for line in lines:
        magic = continued or (MAGIC.match(line) is not None and not quotes % 2)
        result.append(("#" if continued else _line(line)) if magic else line)
        quotes += result[-1].count('"""') + result[-1].count("'''")
        continued = magic and line.rstrip().endswith("\\")
    return result


def _line(line: str) -> str:
    """What Python runs of it, in the columns where it stands."""
    indent = line[: len(line) - len(line.lstrip())]
    if runs := RUNS.match(line.lstrip()):
        return f"{indent}{'pass;'.ljust(len(runs[0]))}{line[len(indent) + len(runs[0]) :]}"
    return f"{indent}pass"


def _joined(cells: list[tuple[int, list[str]]]) -> Source:
    lines: list[str] = []
    places: list[tuple[int, int]] = []
    for number, cell in cells:
        lines += cell
        places += [(number, line) for line in range(1, len(cell) + 1)]
    return Source("\n".join(lines) + "\n", cells=tuple(places))
