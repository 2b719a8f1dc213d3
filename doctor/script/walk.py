"""The tables of one file, filled in the order of evaluation."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from doctor.facts.script import (
    Arms,
    Assignment,
    Bare,
    Branch,
    Call,
    Class,
    Comparison,
    Context,
    Function,
    Import,
    Loop,
    Reference,
    Span,
    Value,
)

PARTS: dict[type[ast.AST], tuple[str, ...]] = {
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), ("body",)),
    **dict.fromkeys((ast.With, ast.AsyncWith, ast.ExceptHandler, ast.match_case), ("body",)),
    **dict.fromkeys((ast.If, ast.For, ast.AsyncFor, ast.While), ("body", "orelse")),
    **dict.fromkeys((ast.Try, ast.TryStar), ("body", "orelse", "handlers", "finalbody")),
    ast.Match: ("cases",),
}
"""Statements within each kind of statement."""
Position = Callable[[ast.AST], Span]
Exit = tuple[int, Arms, Span, tuple[int, ...]]
"""A return: its position, arms, place and loops."""


class Walk:
    """The tables of one file, filled in the order of evaluation."""

    def __init__(self, position: Position, segment: Callable[[ast.AST], str]) -> None:
        self.position = position
        self.segment = segment
        self.functions: list[Function] = []
        self.classes: list[Class] = []
        self.calls: list[Call] = []
        self.assignments: list[Assignment] = []
        self.parts: list[Assignment] = []
        self.contexts: list[Context] = []
        self.branches: list[Branch] = []
        self.loops: list[Loop] = []
        self.imports: list[Import] = []
        self.references: list[Reference] = []
        self.comparisons: list[Comparison] = []
        self.bare: list[Bare] = []
        self.identifiers: set[str] = set()
        self.aliases: dict[str, str] = {}
        self.branch_ids: dict[tuple[int, str], int] = {}
        self.returns: dict[int, list[Value]] = {}
        self.exits: dict[int, list[Exit]] = {}
        self.scope = 0
        self.owner = ""
        self.arms: Arms = ()
        self.contexts_around: tuple[int, ...] = ()
        self.loops_around: tuple[int, ...] = ()

    def collect_imports(self, body: Sequence[ast.stmt]) -> None:
        """Aliases first, so that a function may use what is imported below it.

        A later import wins, but one of a module over those of functions, and the first arm of a
        condition or a try statement over its fallbacks.
        """
        local: dict[str, str] = {}
        stack: list[tuple[Any, bool]] = [(each, False) for each in reversed(body)]
        while stack:
            node, inner = stack.pop()
            aliases = local if inner else self.aliases
            kind = type(node)
            if kind is ast.Import:
                for name in node.names:
                    root = name.name.partition(".")[0]
                    aliases[name.asname or root] = name.name if name.asname else root
            elif kind is ast.ImportFrom:
                module = "." * node.level + (node.module or "")
                for name in node.names:
                    aliases[name.asname or name.name] = f"{module}.{name.name}"
            elif kind in PARTS:
                inner = inner or kind in (ast.FunctionDef, ast.AsyncFunctionDef)
                for field in PARTS[kind]:
                    stack.extend([(each, inner) for each in reversed(getattr(node, field))])
        self.aliases = local | self.aliases

    def dotted(self, node: ast.expr) -> str:
        """The dotted name with aliases resolved, "" for another expression."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        root = self.aliases.get(node.id, node.id)
        return ".".join([root, *reversed(parts)]) if parts else root

    def record(
        self,
        name: str,
        value: Value,
        node: ast.stmt,
        *,
        augmented: bool = False,
        operator: str = "",
    ) -> None:
        if not name:
            return
        self.identifiers.add(name.rpartition(".")[2])
        self.assignments.append(self._assignment(name, value, node, augmented, operator))

    def record_part(self, name: str, value: Value, node: ast.stmt, operator: str = "") -> None:
        """What is assigned to a part of a name."""
        self.parts.append(self._assignment(name, value, node, bool(operator), operator))

    def _assignment(
        self, name: str, value: Value, node: ast.stmt, augmented: bool, operator: str
    ) -> Assignment:
        return Assignment(
            name,
            value,
            self.position(node),
            self.scope,
            len(self.calls),
            self.arms,
            self.loops_around,
            augmented,
            self.contexts_around,
            operator,
        )

    def bind(self, value: Value, names: tuple[str, ...], first: int) -> None:
        """Enter the targets into the calls that may be the value."""
        for option in (value, *value.items) if value.kind == "choice" else (value,):
            if option.kind == "call" and option.call >= first:
                call = self.calls[option.call]
                self.calls[option.call] = msgspec.structs.replace(call, targets=names)

    def noted(self, node: ast.expr) -> str:
        """The dotted name as `dotted` has it; its parts are among the identifiers."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        self.identifiers.update(parts)
        if not isinstance(node, ast.Name):
            return ""
        self.identifiers.add(node.id)
        root = self.aliases.get(node.id, node.id)
        return ".".join([root, *reversed(parts)]) if parts else root
