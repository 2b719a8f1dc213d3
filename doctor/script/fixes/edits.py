"""Edits of bytes, and the module that they are made for."""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from doctor.facts.script import Span
from doctor.script.text import Source, decode, parse, placed


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace the bytes from `start` to `end`."""

    start: int
    end: int
    text: bytes


def apply(data: bytes, edits: Iterable[Edit]) -> bytes:
    """The file with all edits. Raises ValueError where two overlap."""
    ordered = sorted(set(edits))
    if any(one.end > other.start for one, other in pairwise(ordered)):
        raise ValueError("two fixes overlap")
    for edit in reversed(ordered):
        data = data[: edit.start] + edit.text + data[edit.end :]
    return data


class Module:
    """A parsed file whose nodes have byte positions. Raises Unparsable."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.source: Source = decode(data)
        self.tree = parse(self.source)
        if self.source.bom and self.source.encoding == "utf-8-sig":
            self._codec, self._first = "utf-8", 3
        else:
            self._codec, self._first = self.source.encoding, 0

    @cached_property
    def _starts(self) -> list[int]:
        """The byte at which each line starts."""
        starts, position = [], self._first
        for line in self.source.lines:
            starts.append(position)
            position += len(line.encode(self._codec, "surrogateescape"))
        return [*starts, position]

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def _by_span(self) -> dict[tuple[int, int, int, int], list[ast.AST]]:
        table: dict[tuple[int, int, int, int], list[ast.AST]] = {}
        for node in ast.walk(self.tree):
            if hasattr(node, "lineno"):
                span = self.source.span(node)
                key = (span.line, span.column, span.end_line, span.end_column)
                table.setdefault(key, []).append(node)
        return table

    def at(self, span: Span) -> list[ast.AST]:
        """The nodes of exactly this span, the outermost first."""
        return self._by_span.get((span.line, span.column, span.end_line, span.end_column), [])

    def offset(self, line: int, utf8_offset: int) -> int:
        """The byte in the file of a position as the parser counts it."""
        text = self.source.lines[line - 1]
        characters = self.source.column(line, utf8_offset) - 1
        before = text[:characters].encode(self._codec, "surrogateescape")
        return self._starts[line - 1] + len(before)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column from 1, in characters, of a byte in the file."""
        line = max(bisect.bisect_right(self._starts, offset) - 1, 0)
        before = self.data[self._starts[line] : offset]
        return line + 1, len(before.decode(self._codec, "replace")) + 1

    def line_start(self, line: int) -> int:
        """The byte at which a line starts."""
        return self._starts[line - 1]

    def start(self, node: ast.AST) -> int:
        return self.offset(*placed(node)[:2])

    def end(self, node: ast.AST) -> int:
        return self.offset(*placed(node)[2:])

    def text(self, node: ast.AST) -> str:
        """The source of a node as it is written."""
        return self.data[self.start(node) : self.end(node)].decode(self._codec)

    def encode(self, text: str) -> bytes:
        return text.encode(self._codec)

    def replace(self, node: ast.AST, text: str) -> Edit:
        return Edit(self.start(node), self.end(node), self.encode(text))

    def insert(self, position: int, text: str) -> Edit:
        return Edit(position, position, self.encode(text))

    @property
    def newline(self) -> str:
        """The line end of the file's first line."""
        match = re.search(r"\r\n|\n|\r", self.source.text)
        return match[0] if match else "\n"

    def indent(self, line: int) -> str:
        text = self.source.lines[line - 1]
        return text[: len(text) - len(text.lstrip(" \t"))]

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The statement around a node."""
        current: ast.AST | None = node
        while current is not None and not isinstance(current, ast.stmt):
            current = self.parents.get(current)
        return current

    @cached_property
    def _tried(self) -> list[tuple[int, int]]:
        """The bytes of each try statement that has an except, its handlers included."""
        return [
            (self.start(node), self.end(node))
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Try | ast.TryStar) and node.handlers
        ]

    def is_tried(self, position: int) -> bool:
        """Whether a byte is in a try statement that has an except."""
        return any(start <= position < end for start, end in self._tried)

    def function(self, node: ast.AST) -> ast.AST:
        """The function around a node, or the module."""
        current = self.parents.get(node)
        while current is not None and not isinstance(
            current, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        ):
            current = self.parents.get(current)
        return current or self.tree

    def line_before(self, statement: ast.stmt, text: str) -> Edit | None:
        """A line of its own above a statement that starts its line."""
        line = statement.lineno
        indent = self.indent(line)
        if self.offset(line, statement.col_offset) != self._starts[line - 1] + len(indent):
            return None
        return self.insert(self._starts[line - 1], f"{indent}{text}{self.newline}")

    def imports(self, module: str) -> str:
        """The name that `import module` binds in this file, "" if it does not."""
        for node in self.tree.body:
            if isinstance(node, ast.Import):
                for name in node.names:
                    if name.name == module or (
                        not name.asname and name.name.startswith(module + ".")
                    ):
                        return name.asname or module
        return ""


def add_keyword(module: Module, call: ast.Call, text: str) -> Edit | None:
    """An argument after the last one; on a line of its own where the last one has one."""
    present = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not present:
        close = module.end(call) - 1
        return module.insert(close, text) if module.data[close : close + 1] == b")" else None
    last = max(present, key=lambda node: (node.end_lineno, node.end_col_offset))
    position = module.end(last)
    rest = module.data[position : position + 200].decode("utf-8", "replace").lstrip(" \t")
    if rest[:1] not in (")", ",", "\n", "\r", "#"):
        return None
    line = last.lineno
    keyword = next((k for k in call.keywords if k.value is last), None)
    line = keyword.lineno if keyword is not None else line
    if line != call.lineno and module.source.lines[line - 1].lstrip().startswith(
        keyword.arg or "*" if keyword is not None else module.text(last)[:1]
    ):
        return module.insert(position, f",{module.newline}{module.indent(line)}{text}")
    return module.insert(position, f", {text}")


def calls(node: ast.AST) -> Iterator[ast.Call]:
    """All calls within a node."""
    return (each for each in ast.walk(node) if isinstance(each, ast.Call))
