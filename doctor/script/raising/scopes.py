"""The scopes of a file: which names each binds, and which it takes from the module."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from doctor.script.parts import parts_of

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = frozenset({*FUNCTIONS, ast.ClassDef, *COMPREHENSIONS})
BINDING = {
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global,
    ast.Nonlocal, ast.NamedExpr, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping,
    *(getattr(ast, name) for name in ("TypeAlias",) if hasattr(ast, name)),
}  # fmt: skip
"""Nodes that bind a name without a Name node, or hand it to another scope."""
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(eq=False)
class Scope:
    """The module, a class, a function or a comprehension.

    `bindings`: the nodes that bind each name.
    """

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[ast.AST]] = field(default_factory=dict)
    uses: list[ast.Name] = field(default_factory=list)
    elsewhere: set[str] = field(default_factory=set)
    """Names that `global` or `nonlocal` hands to another scope."""
    lines: dict[str, int | None] = field(default_factory=dict)
    """What `first` returned."""

    def bind(self, name: str, node: ast.AST) -> None:
        self.bindings.setdefault(name, []).append(node)

    def first(self, name: str) -> int | None:
        """The first line that binds a name, None where a call does or another scope may."""
        if name not in self.lines:
            nodes = self.bindings[name]
            given = any(isinstance(each, ast.arg | ast.Global | ast.Nonlocal) for each in nodes)
            lines = [getattr(each, "lineno", 0) for each in nodes]
            self.lines[name] = None if given else min(lines)
        return self.lines[name]

    def owner(self, name: str) -> Scope | None:
        """The scope whose variable a name is here, None for a builtin or nothing."""
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not isinstance(scope.node, ast.ClassDef)
            if visible and name in scope.bindings and name not in scope.elsewhere:
                return scope
            scope = scope.parent
        return None


@dataclass(eq=False)
class Names:
    """What the one walk writes down beside the scopes.

    `stored`: the attributes that the file assigns, of whatever object.
    """

    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    calls: list[ast.Call] = field(default_factory=list)
    stored: set[str] = field(default_factory=set)


def enclosing(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Each node around this one, the nearest first, and the part of it that holds this one."""
    part, around = node, parents.get(node)
    while around is not None:
        yield around, part
        part, around = around, parents.get(around)


def dotted(node: ast.AST) -> str:
    """a.b of a name or an attribute, "" of anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def last_name(node: ast.AST) -> str:
    """b of a.b and of b, "" of anything else."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def scopes_of(tree: ast.Module, names: Names) -> list[Scope]:
    """All scopes, the module first."""
    module = Scope(tree, None)
    found = [module]
    parents = names.parents
    parents.update(dict.fromkeys(tree.body, tree))
    waiting: list[tuple[ast.AST, Scope]] = [(each, module) for each in reversed(tree.body)]
    while waiting:
        node, scope = waiting.pop()
        if type(node) not in SCOPES:
            _plain(node, scope, module, names, waiting)
            continue
        _enter(node, scope, module)
        inner = Scope(node, scope)
        found.append(inner)
        _parameters(node, inner)
        for child, own in _children(node):
            parents[child] = node
            waiting.append((child, inner if own else scope))
        _annotate(node, parents)
    return found


def _plain(
    node: ast.AST,
    scope: Scope,
    module: Scope,
    names: Names,
    waiting: list[tuple[ast.AST, Scope]],
) -> None:
    """A node that opens no scope; the commonest kinds come first, for speed."""
    kind = type(node)
    if kind is ast.Name:
        _enter_name(node, scope, module)  # type: ignore[arg-type]
    elif kind is not ast.Constant:
        if kind is ast.Call:
            names.calls.append(node)  # type: ignore[arg-type]
        elif isinstance(node, ast.Attribute):
            if type(node.ctx) is not ast.Load:
                names.stored.add(node.attr)
        elif kind in BINDING:
            _enter(node, scope, module)
        for part in reversed(parts_of(node)):
            names.parents[part] = node
            waiting.append((part, scope))


def _children(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """The parts of a node, and whether they belong to the scope that it opens."""
    if isinstance(node, FUNCTIONS):
        body = node.body if isinstance(node.body, list) else [node.body]
        yield from ((each, True) for each in reversed(body))
        yield from ((each, False) for each in _outside(node))
    elif isinstance(node, ast.ClassDef):
        yield from ((each, True) for each in reversed(node.body))
        yield from ((each, False) for each in [*node.decorator_list, *node.bases])
        yield from ((each.value, False) for each in node.keywords)
    elif isinstance(node, COMPREHENSIONS):
        first = node.generators[0].iter
        yield from ((each, each is not first) for each in _in_comprehension(node))
    else:
        yield from ((each, True) for each in reversed(parts_of(node)))


def _annotate(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> None:
    """An annotation of a parameter belongs to the parameter, and that to the function."""
    if not isinstance(node, FUNCTIONS):
        return
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for each in (*every, arguments.vararg, arguments.kwarg):
        if each is not None:
            parents[each] = node
            if each.annotation is not None:
                parents[each.annotation] = each


def _outside(node: Function) -> Iterator[ast.expr]:
    """Decorators, defaults and annotations, which the scope around evaluates."""
    arguments = node.args
    yield from (each for each in (*arguments.defaults, *arguments.kw_defaults) if each is not None)
    if isinstance(node, ast.Lambda):
        return
    yield from node.decorator_list
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    yield from (each.annotation for each in every if each.annotation is not None)
    if node.returns is not None:
        yield node.returns


def _in_comprehension(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.comprehension):
            yield from (child.target, child.iter, *child.ifs)
        else:
            yield child


def _parameters(node: ast.AST, scope: Scope) -> None:
    if not isinstance(node, FUNCTIONS):
        return
    arguments = node.args
    for parameter in getattr(node, "type_params", None) or ():
        scope.bind(parameter.name, parameter)
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        scope.bind(each.arg, each)
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            scope.bind(extra.arg, extra)


def _enter(node: ast.AST, scope: Scope, module: Scope) -> None:
    """Write down what one node binds or uses."""
    if isinstance(node, ast.Global | ast.Nonlocal):
        scope.elsewhere.update(node.names)
        for name in node.names:
            for owner in (module,) if isinstance(node, ast.Global) else _outer(scope):
                owner.bind(name, node)
    elif isinstance(node, ast.NamedExpr):
        _around(scope).bind(node.target.id, node)
    else:
        for name in _defined(node):
            (module if name in scope.elsewhere else scope).bind(name, node)


def _enter_name(node: ast.Name, scope: Scope, module: Scope) -> None:
    if isinstance(node.ctx, ast.Load):
        scope.uses.append(node)
    elif node.id in scope.elsewhere:
        module.bind(node.id, node)
    else:
        scope.bind(node.id, node)


def _outer(scope: Scope) -> Iterator[Scope]:
    """The functions around, one of which owns a nonlocal name."""
    around = scope.parent
    while around is not None and around.parent is not None:
        yield around
        around = around.parent


def _around(scope: Scope) -> Scope:
    """The scope that a walrus binds in: that around the comprehensions."""
    while isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
        scope = scope.parent
    return scope


def _defined(node: ast.AST) -> Iterable[str]:
    """Names that a statement binds without a Name node."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import):
        return [each.asname or each.name.partition(".")[0] for each in node.names]
    if isinstance(node, ast.ImportFrom):
        return [each.asname or each.name for each in node.names]
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        return [node.name]
    if isinstance(node, ast.MatchMapping) and node.rest:
        return [node.rest]
    parameters = getattr(node, "type_params", None) or []
    return [each.name for each in parameters]
