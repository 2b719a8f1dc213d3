"""Bytes of a source file to text, lines and spans; nothing is normalized."""

from __future__ import annotations

import ast
import codecs
import io
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from doctor.facts.script import Span

LIMIT = 64 << 20
"""Maximum size of a file in bytes; notebooks hold pictures."""
CODE_LIMIT = 2 << 20
"""Maximum size of code: a syntax tree takes a hundred times as much memory."""


class Unparsable(Exception):
    """A file that cannot be read as text or parsed; `span` is the place where known."""

    def __init__(self, reason: str, span: Span = Span(1, 1)) -> None:  # noqa: B008 - immutable
        super().__init__(reason)
        self.span = span


@dataclass(frozen=True)
class Source:
    """The text of a Python file as the parser sees it.

    `cells` maps each line to a notebook's cell and the line within it, () for a plain file.
    """

    text: str
    encoding: str = "utf-8"
    bom: bool = False
    cells: tuple[tuple[int, int], ...] = field(default=(), repr=False)

    @cached_property
    def lines(self) -> list[str]:
        """Physical lines with their ends, split as the parser splits them: not at form feeds."""
        if "\r" not in self.text:
            *whole, last = self.text.split("\n")
            return [*(f"{line}\n" for line in whole), last]
        return re.split(r"(?<=\n)|(?<=\r)(?!\n)", self.text)

    @cached_property
    def _wide(self) -> frozenset[int]:
        """Lines that are not ASCII: in all others a byte is a character."""
        if self.text.isascii():
            return frozenset()
        return frozenset(n for n, line in enumerate(self.lines, 1) if not line.isascii())

    def column(self, line: int, offset: int) -> int:
        """The column from 1, in characters, of an offset in UTF-8 bytes."""
        if line not in self._wide:
            return offset + 1
        text = self.lines[line - 1]
        return len(text.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "ignore")) + 1

    def span(self, node: ast.AST) -> Span:
        """Where a node is, in a notebook relative to its cell."""
        line, offset, end_line, end_offset = placed(node)
        if not self.cells and line not in self._wide and end_line not in self._wide:
            return Span(line, offset + 1, end_line, end_offset + 1)
        return self.span_of(line, offset, end_line, end_offset)

    def span_of(self, line: int, offset: int, end_line: int, end_offset: int) -> Span:
        """The same from the parser's numbers."""
        column, end_column = self.column(line, offset), self.column(end_line, end_offset)
        if not self.cells:
            return Span(line, column, end_line, end_column)
        cell, first = self._cell(line)
        _, last = self._cell(end_line)
        return Span(first, column, last, end_column, cell)

    def _cell(self, line: int) -> tuple[int, int]:
        return self.cells[line - 1] if 0 < line <= len(self.cells) else (0, line)

    def segment(self, node: ast.AST) -> str:
        """The source of an expression with its blanks squeezed, at most a few lines of it."""
        first, offset, last, end_offset = placed(node)
        start, end = self.column(first, offset) - 1, self.column(last, end_offset) - 1
        if first == last:
            return str(self.lines[first - 1][start:end])
        parts = [self.lines[first - 1][start:], *self.lines[first : last - 1]]
        return " ".join("".join([*parts, self.lines[last - 1][:end]]).split())


def placed(node: Any) -> tuple[int, int, int, int]:
    """Line and offset of the beginning and the end of a node, whose class has them."""
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def decode(data: bytes) -> Source:
    """The text of a Python file. Raises Unparsable."""
    if len(data) > CODE_LIMIT:
        raise Unparsable(f"the file exceeds the limit of {CODE_LIMIT >> 20} MiB of code")
    if b"\0" in data:
        raise Unparsable("the file contains NUL bytes")
    bom = data.startswith(codecs.BOM_UTF8)
    try:
        encoding = _encoding(data, bom)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        reason = " ".join(str(error).split())
        raise Unparsable(f"the text cannot be decoded: {reason}") from None
    return Source(text, encoding, bom)


def _encoding(data: bytes, bom: bool) -> str:
    """As the parser finds it: by a byte order mark or a comment. Raises SyntaxError."""
    head = b"".join(data.split(b"\n", 2)[:2])
    if b"coding" not in head:
        return "utf-8-sig" if bom else "utf-8"
    import tokenize  # takes longer than reading most files

    return str(tokenize.detect_encoding(io.BytesIO(data).readline)[0])


def parse(source: Source) -> ast.Module:
    """The syntax tree; top-level await is accepted as in notebooks. Raises Unparsable."""
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree = compile(source.text, "<script>", "exec", flags, dont_inherit=True)
    except SyntaxError as error:
        raise _unparsable(error, source) from None
    except (RecursionError, MemoryError):
        raise Unparsable("the code is nested too deeply") from None
    except (ValueError, OverflowError) as error:
        raise Unparsable(f"the code cannot be parsed: {error}") from None
    assert isinstance(tree, ast.Module)
    return tree


def _unparsable(error: SyntaxError, source: Source) -> Unparsable:
    line, column = max(error.lineno or 1, 1), max(error.offset or 1, 1)
    if source.cells:
        cell, line = source._cell(min(line, len(source.cells)))
        span = Span(line, column, cell=cell)
    else:
        span = Span(line, column)
    return Unparsable(f"syntax error: {error.msg}", span)
