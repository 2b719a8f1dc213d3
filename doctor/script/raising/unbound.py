"""Names that nothing binds, or that are used before anything does."""

from __future__ import annotations

import ast
import builtins
import difflib
import re
from collections.abc import Callable, Iterator

from doctor.facts.script import Raising, Span
from doctor.script.raising.scopes import COMPREHENSIONS, FUNCTIONS, Scope, enclosing

KNOWN = frozenset(dir(builtins)) | {
    "__file__", "__path__", "__class__", "__module__", "__qualname__", "__annotations__",
    "__builtins__", "__builtin__", "__dict__", "WindowsError", "get_ipython", "display", "In",
    "Out", "_", "reveal_type", "exit", "quit", "dbutils", "spark", "sc", "profile", "anext",
    "aiter", "EncodingWarning", "ExceptionGroup", "BaseExceptionGroup", "PythonFinalizationError",
}  # fmt: skip
"""Names that Python in a later version, IPython, Databricks and profilers bind."""
DYNAMIC = {"exec", "execfile", "globals", "read_base", "builtins", "__builtin__"}
"""Where one of these occurs, names may be bound by a text."""
OPEN = ("NameError", "UnboundLocalError", "Exception", "BaseException")
VERSIONS = re.compile(
    r"version|PY_?[23]|TYPE_CHECKING|six\.|__name__ in|__name__ == (?!.__main__)", re.IGNORECASE
)
"""A test of versions, or of a module that another one executes."""


def unbound(
    scopes: list[Scope], parents: dict[ast.AST, ast.AST], span: Callable[[ast.AST], Span]
) -> Iterator[Raising]:
    """One for each name, at its first use."""
    module = scopes[0]
    if is_open(scopes) or _reaches_itself(module, parents):
        return
    seen: set[str] = set()
    lazy = _postponed(module)
    for scope in scopes:
        for use in scope.uses:
            name = use.id
            owner = scope.owner(name)
            early = owner is scope and _is_early(scope, use, parents)
            absent = owner is None and name not in module.bindings and name not in KNOWN
            if name in seen or not (early or absent) or _is_spared(use, parents, lazy):
                continue
            seen.add(name)
            nearest = "" if early else _nearest(name, scope)
            yield Raising("early" if early else "name", name, span(use), nearest=nearest)


def exported(module: Scope, span: Callable[[ast.AST], Span]) -> Iterator[Raising]:
    """Names of `__all__` that the file does not bind: `from x import *` raises."""
    if "__getattr__" in module.bindings or is_open([module]):
        return
    for node in module.node.body if isinstance(module.node, ast.Module) else ():
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.List | ast.Tuple):
            continue
        if [each.id for each in node.targets if isinstance(each, ast.Name)] != ["__all__"]:
            continue
        for item in node.value.elts:
            name = item.value if isinstance(item, ast.Constant) else None
            if isinstance(name, str) and name not in module.bindings and name not in KNOWN:
                yield Raising("exported", name, span(item))


def _reaches_itself(module: Scope, parents: dict[ast.AST, ast.AST]) -> bool:
    """vars() and locals() of the module, sys.modules[__name__]: names may be set as a key."""
    return any(
        (use.id == "__name__" and isinstance(around, ast.Subscript))
        or (use.id in ("vars", "locals") and isinstance(around, ast.Call) and not around.args)
        for use in module.uses
        for around in [parents.get(use)]
    )


def is_open(scopes: list[Scope]) -> bool:
    """A star import, or code in a text, may bind any name."""
    if "*" in {name for scope in scopes for name in scope.bindings}:
        return True
    return any(use.id in DYNAMIC for scope in scopes for use in scope.uses) or any(
        each.name in DYNAMIC
        for scope in scopes
        for nodes in scope.bindings.values()
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names
    )


def _postponed(module: Scope) -> bool:
    """Annotations are not evaluated."""
    return any(
        isinstance(node, ast.ImportFrom) and node.module == "__future__"
        for node in module.bindings.get("annotations", ())
    )


def _is_spared(use: ast.Name, parents: dict[ast.AST, ast.AST], lazy: bool) -> bool:
    """In a try statement that expects it, under a test of versions, or in an annotation."""
    for node, child in enclosing(use, parents):
        if isinstance(node, ast.Try | ast.If | ast.IfExp) and _is_expected(node, child, use.id):
            return True
        if isinstance(node, ast.With) and _suppresses(node):
            return True
        if isinstance(node, ast.Delete) or _is_annotation(node, child, parents, lazy):
            return True
    return False


def _is_expected(node: ast.Try | ast.If | ast.IfExp, child: ast.AST, name: str) -> bool:
    """A handler is for it, or a test decides whether it is there."""
    if isinstance(node, ast.Try):
        return child in node.body and _expects(node)
    if child is node.test:
        return False
    text = ast.unparse(node.test)
    known = text in ("False", "0") or repr(name) in text
    return known or VERSIONS.search(text) is not None


def _suppresses(node: ast.With) -> bool:
    """contextlib.suppress(NameError), pytest.raises(NameError)."""
    return any(name in ast.unparse(item) for item in node.items for name in OPEN)


def _is_annotation(
    node: ast.AST, child: ast.AST, parents: dict[ast.AST, ast.AST], lazy: bool
) -> bool:
    """One that Python does not evaluate."""
    if isinstance(node, ast.AnnAssign):
        return child is node.annotation and (lazy or _in_function(node, parents))
    if isinstance(node, ast.arg):
        return lazy
    return (
        lazy and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and child is node.returns
    )


def _expects(node: ast.Try) -> bool:
    return any(
        handler.type is None or any(name in ast.unparse(handler.type) for name in OPEN)
        for handler in node.handlers
    )


def _in_function(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    for around, _ in enclosing(node, parents):
        if isinstance(around, (*FUNCTIONS, ast.ClassDef)):
            return isinstance(around, FUNCTIONS)
    return False


def _is_early(scope: Scope, use: ast.Name, parents: dict[ast.AST, ast.AST]) -> bool:
    """Every statement that binds the name comes behind this one, and no loop leads back."""
    module = isinstance(scope.node, ast.Module)
    if isinstance(scope.node, (*COMPREHENSIONS, ast.ClassDef)) or (module and use.id in KNOWN):
        return False
    first, bindings = scope.first(use.id), scope.bindings[use.id]
    if first is None or first < use.lineno:
        return False
    statement = _statement(use, parents)
    if statement is None:
        return False
    own = {id(_statement(each, parents)) for each in bindings}
    if id(statement) in own and not isinstance(statement, ast.Assign):
        return False
    if id(statement) in own and any(
        isinstance(each, ast.NamedExpr) for each in ast.walk(statement)
    ):
        return False
    if first == statement.lineno and id(statement) not in own:
        return False
    return not _in_loop(use, parents)


def _statement(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.stmt | None:
    if isinstance(node, ast.stmt):
        return node
    outer = (around for around, _ in enclosing(node, parents))
    return next((each for each in outer if isinstance(each, ast.stmt)), None)


def _in_loop(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    for around, _ in enclosing(node, parents):
        if isinstance(around, ast.For | ast.AsyncFor | ast.While):
            return True
        if isinstance(around, (*FUNCTIONS, ast.ClassDef)):
            return False
    return False


def _nearest(name: str, scope: Scope) -> str:
    """A name of this place that differs by a slip."""
    names: set[str] = set()
    around: Scope | None = scope
    while around is not None:
        names |= around.bindings.keys()
        around = around.parent
    return next(iter(difflib.get_close_matches(name, sorted(names), 1, 0.8)), "")
