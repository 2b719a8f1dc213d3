"""A file without the definitions that nothing reaches which runs: a factory beside many others."""

from __future__ import annotations

import ast

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def without_unreached(data: bytes, factory: str) -> bytes:
    """The same lines, but empty ones for functions and classes of the file that neither the
    factory nor a statement of the file leads to. A file that cannot be parsed stays as it is."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return data
    defined = {each.name: each for each in tree.body if isinstance(each, Definition)}
    statements = [each for each in tree.body if not isinstance(each, Definition)]
    reached: set[str] = set()
    names = {factory, *(name for each in statements for name in _names(each))}
    while new := (names & set(defined)) - reached:
        reached |= new
        names = {name for each in new for name in _names(defined[each])}
    lines = data.splitlines(keepends=True)
    for name, each in defined.items():
        if name not in reached and each.end_lineno is not None:
            first = min([each.lineno, *(one.lineno for one in each.decorator_list)])
            lines[first - 1 : each.end_lineno] = [b"\n"] * (each.end_lineno - first + 1)
    return b"".join(lines)


def _names(node: ast.AST) -> set[str]:
    """Every name and attribute in it, which may be one of the file's."""
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
