"""One Python file or notebook to a `Script`."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from doctor.facts.script import Launch, Raising, Script, Span, Unreadable
from doctor.script import suppressions
from doctor.script.inlined import inlined
from doctor.script.raising.read import raising
from doctor.script.statements import walk_module
from doctor.script.text import Source, Unparsable, decode, parse
from doctor.script.walk import Walk


class Searchable(Protocol):
    """What `relevant` is: an expression, or several."""

    def search(self, data: bytes, /) -> object:
        """True or a match where it occurs."""


def read_python(
    path: str,
    data: bytes,
    *,
    launches: tuple[Launch, ...] = (),
    requirements: Mapping[str, str] | None = None,
    relevant: Searchable | None = None,
) -> Script:
    """The facts of a Python file; one that cannot be parsed has `unreadable` and nothing else.

    A file in which `relevant` does not occur is only parsed.
    """
    try:
        with warnings.catch_warnings():  # invalid escapes and the like of the file
            warnings.simplefilter("ignore")
            source, tree, unreadable = _parsed(data)
    except Unparsable as error:
        return Script(path=path, kind="python", unreadable=(Unreadable(str(error), error.span),))
    if relevant is not None and not relevant.search(data):
        comments = suppressions.read(source)
        return Script(path=path, kind="python", suppressions=comments, unreadable=unreadable)
    script = _script(path, "python", source, tree, launches, requirements)
    if not unreadable:
        return script
    return msgspec.structs.replace(script, unreadable=unreadable)


def _refused(tree: ast.Module) -> tuple[Unreadable, ...]:
    """What the parser accepts and the compiler does not: a keyword given twice, a lost return."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            compile(tree, "<script>", "exec", flags, dont_inherit=True)
    except SyntaxError as error:
        place = Span(error.lineno or 1, error.offset or 1)
        return (Unreadable(f"syntax error: {error.msg}", place),)
    except (ValueError, RecursionError, MemoryError):
        return ()
    return ()


def _parsed(data: bytes) -> tuple[Source, ast.Module, tuple[Unreadable, ...]]:
    """Source and tree; an exported notebook's `!pip install` is reported and passed over."""
    source = decode(data)
    try:
        return source, parse(source), ()
    except Unparsable as error:
        from doctor.script.notebook import without_magics

        lines = source.text.split("\n")
        python = without_magics(lines)
        if python == lines:
            raise
        replaced = Source("\n".join(python), source.encoding, source.bom)
        return replaced, parse(replaced), (Unreadable(str(error), error.span),)


def read_notebook(path: str, data: bytes) -> Script:
    """The facts of a notebook's code cells; cells that cannot be parsed are `unreadable`."""
    from doctor.script import notebook

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source, tree, unreadable = notebook.read(data)
    except Unparsable as error:
        return Script(path=path, kind="notebook", unreadable=(Unreadable(str(error), error.span),))
    script = _script(path, "notebook", source, tree, (), notebook.pins(data))
    return msgspec.structs.replace(script, unreadable=(*script.unreadable, *unreadable))


def _script(
    path: str,
    kind: Any,
    source: Source,
    tree: ast.Module,
    launches: tuple[Launch, ...],
    requirements: Mapping[str, str] | None,
) -> Script:
    try:
        script = _walked(path, kind, source, tree, launches, requirements)
        if kind == "python":
            found, refused = _raising(tree, source)
            script = msgspec.structs.replace(script, raising=found, unreadable=refused)
        joined = inlined(tree, script)
        if joined is not None:
            other = _walked(path, kind, source, joined, launches, requirements, ast.unparse)
            script = msgspec.structs.replace(script, inlined=other)
    except RecursionError:
        reason = Unreadable("the code is nested too deeply", Span(1, 1))
        return Script(path=path, kind=kind, unreadable=(reason,))
    return msgspec.structs.replace(script, suppressions=suppressions.read(source))


def _raising(
    tree: ast.Module, source: Source
) -> tuple[tuple[Raising, ...], tuple[Unreadable, ...]]:
    """What raises, and what is refused; a name that a comment declares for pyflakes is bound out
    of sight."""
    found, may_be_refused = raising(tree, source.span)
    lines = source.text.split("\n") if found else []
    remaining = tuple(
        each
        for each in found
        if each.kind != "name" or "noqa: F821" not in "".join(lines[each.span.line - 1 :][:1])
    )
    return remaining, _refused(tree) if may_be_refused else ()


def _walked(
    path: str,
    kind: Any,
    source: Source,
    tree: ast.Module,
    launches: tuple[Launch, ...],
    requirements: Mapping[str, str] | None,
    segment: Callable[[ast.AST], str] | None = None,
) -> Script:
    walk = Walk(source.span, segment or source.segment)
    walk_module(walk, tree.body)
    return Script(
        path=path,
        kind=kind,
        functions=tuple(walk.functions),
        classes=tuple(walk.classes),
        calls=tuple(walk.calls),
        assignments=tuple(walk.assignments),
        parts=tuple(walk.parts),
        contexts=tuple(walk.contexts),
        branches=tuple(walk.branches),
        loops=tuple(walk.loops),
        imports=tuple(walk.imports),
        references=tuple(walk.references),
        comparisons=tuple(walk.comparisons),
        bare=tuple(walk.bare),
        identifiers=frozenset(walk.identifiers),
        launches=launches,
        requirements=dict(requirements or {}),
    )
