"""Python source to `Script` facts: one walk over the syntax tree, in the order of evaluation."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from doctor.facts.script import (
    Arms,
    Bare,
    Branch,
    Class,
    Context,
    Function,
    Import,
    Loop,
    Parameter,
    Span,
    Value,
)
from doctor.script.conditions import implied
from doctor.script.expressions import test_of, value_of
from doctor.script.values import element
from doctor.script.walk import Walk

EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def walk_module(walk: Walk, body: Sequence[ast.stmt]) -> None:
    """Walk a whole module."""
    walk.collect_imports(body)
    walk.functions.append(Function("", Span()))
    block(walk, body)
    for number, returns in walk.returns.items():
        exits = walk.exits[number]
        walk.functions[number] = msgspec.structs.replace(
            walk.functions[number],
            returns=tuple(returns),
            exits=tuple((position, arms) for position, arms, _, _ in exits),
            exit_spans=tuple(span for _, _, span, _ in exits),
            exit_loops=tuple(loops for _, _, _, loops in exits),
        )


def block(walk: Walk, body: Sequence[ast.stmt]) -> None:
    """Statements in order; after an arm that leaves the block, the rest is the other arm."""
    arms = walk.arms
    for statement in body:
        handler = _STATEMENTS.get(type(statement))
        if handler is not None:
            handler(walk, statement)
        elif type(statement) is ast.Break:
            place = (walk.position(statement), walk.scope, walk.arms, walk.loops_around)
            walk.bare.append(Bare("break", *place))
        elif isinstance(statement, ast.Delete):
            place = (walk.position(statement), walk.scope, walk.arms, walk.loops_around)
            walk.bare += [Bare(f"del {walk.dotted(t.value)}[]", *place)
                          for t in statement.targets if isinstance(t, ast.Subscript)]  # fmt: skip
            _children(walk, statement)
        elif type(statement) not in (ast.Pass, ast.Global, ast.Nonlocal, *EXITS[2:]):
            _children(walk, statement)
        if isinstance(statement, ast.If):
            walk.arms += _left_over(walk, statement)
    walk.arms = arms


def _left_over(walk: Walk, statement: ast.If) -> Arms:
    leaves = [bool(part) and isinstance(part[-1], EXITS) for part in _arms_of(statement)]
    if leaves[0] == leaves[1]:
        return ()
    arms = implied(walk, statement.test, not leaves[0])
    for branch, _ in arms:
        walk.branches[branch] = msgspec.structs.replace(walk.branches[branch], guard=True)
    return arms


def _if(walk: Walk, node: ast.If) -> None:
    arms = walk.arms
    outer = arms
    while True:
        value = test_of(walk, node.test)
        walk.arms = (*arms, *implied(walk, node.test, True, value))
        block(walk, node.body)
        arms = (*arms, *implied(walk, node.test, False, value))
        walk.arms = arms
        if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            node = node.orelse[0]
            continue
        block(walk, node.orelse)
        walk.arms = outer
        return


def _try(walk: Walk, node: Any) -> None:
    arms = walk.arms
    branch = len(walk.branches)
    walk.branches.append(Branch("try"))
    for number, part in enumerate([node.body, *(h.body for h in node.handlers)]):
        walk.arms = (*arms, (branch, number))
        block(walk, part)
    walk.arms = arms
    block(walk, node.orelse)
    block(walk, node.finalbody)


def _match(walk: Walk, node: ast.Match) -> None:
    subject = value_of(walk, node.subject)
    arms = walk.arms
    branch = len(walk.branches)
    walk.branches.append(Branch("match", subject))
    for number, case in enumerate(node.cases):
        walk.arms = (*arms, (branch, number))
        block(walk, case.body)
    walk.arms = arms


def _loop(walk: Walk, node: ast.For | ast.AsyncFor | ast.While) -> None:
    loops = walk.loops_around
    number = len(walk.loops)
    if isinstance(node, ast.While):
        walk.loops.append(Loop("while", walk.scope))
        walk.loops_around = (*loops, number)
        value_of(walk, node.test)
    else:
        iterable = value_of(walk, node.iter)
        target = walk.dotted(node.target)
        targets = tuple(each.id for each in ast.walk(node.target) if isinstance(each, ast.Name))
        walk.loops.append(Loop("for", walk.scope, iterable, target, targets))
        walk.loops_around = (*loops, number)
    block(walk, node.body)
    walk.loops_around = loops
    block(walk, node.orelse)


def _with(walk: Walk, node: ast.With | ast.AsyncWith) -> None:
    within = walk.contexts_around
    for item in node.items:
        value = value_of(walk, item.context_expr)
        target = walk.dotted(item.optional_vars) if item.optional_vars is not None else ""
        walk.contexts_around = (*walk.contexts_around, len(walk.contexts))
        span = walk.position(item.context_expr)
        walk.contexts.append(Context(value, span, walk.scope, target))
    block(walk, node.body)
    walk.contexts_around = within


def _function(walk: Walk, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    decorators = tuple(value_of(walk, each) for each in node.decorator_list)
    parameters = tuple(_parameters(walk, node.args))
    walk.identifiers.add(node.name)
    saved = (walk.scope, walk.owner, walk.arms, walk.contexts_around, walk.loops_around)
    number = len(walk.functions)
    walk.functions.append(
        Function(
            node.name,
            walk.position(node),
            parent=saved[0],
            owner=saved[1],
            parameters=parameters,
            decorators=decorators,
            accepts_any=node.args.kwarg is not None,
        )
    )
    walk.scope, walk.arms, walk.contexts_around, walk.loops_around = number, (), (), ()
    block(walk, node.body)
    walk.scope, walk.owner, walk.arms, walk.contexts_around, walk.loops_around = saved


def _parameters(walk: Walk, arguments: ast.arguments) -> list[Parameter]:
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    defaults: list[ast.expr | None] = [None] * missing + list(arguments.defaults)
    pairs = [*zip(positional, defaults, strict=True)]
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [
        Parameter(
            each.arg,
            value_of(walk, default) if default is not None else None,
            walk.dotted(each.annotation) if each.annotation is not None else "",
        )
        for each, default in pairs
    ]


def _class(walk: Walk, node: ast.ClassDef) -> None:
    for decorator in node.decorator_list:
        value_of(walk, decorator)
    bases = tuple(walk.dotted(base) for base in node.bases)
    for base in node.bases:
        value_of(walk, base)
    saved, walk.owner = walk.owner, node.name
    first = len(walk.assignments)
    block(walk, node.body)
    walk.owner = saved
    fields = {
        each.target: each.value for each in walk.assignments[first:] if each.scope == walk.scope
    }
    walk.classes.append(Class(node.name, bases, fields))


def _return(walk: Walk, node: ast.Return) -> None:
    if node.value is not None:
        walk.returns.setdefault(walk.scope, []).append(value_of(walk, node.value))
        place = (len(walk.calls), walk.arms, walk.position(node), walk.loops_around)
        walk.exits.setdefault(walk.scope, []).append(place)


def _import(walk: Walk, node: ast.Import | ast.ImportFrom) -> None:
    module = ""
    if isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "") + "."
    for name in node.names:
        span = walk.position(name)
        alias = name.asname or name.name
        walk.imports.append(Import(module + name.name, alias, span, walk.arms))
        walk.identifiers.update((module + name.name).split("."))


def _assign(walk: Walk, node: ast.Assign) -> None:
    targets = [name for target in node.targets for name in _targets(walk, target)]
    names = tuple(name for name, _ in targets)
    first = len(walk.calls)
    value = value_of(walk, node.value)
    walk.bind(value, names, first)
    for name, number in targets:
        walk.record(name, element(value, number), node)
    for target in node.targets:
        parts = (
            enumerate(target.elts) if isinstance(target, ast.Tuple | ast.List) else [(-1, target)]
        )
        for number, part in parts:
            if isinstance(part, ast.Subscript):
                _changed_part(walk, part, element(value, number), node)
                if value.literal == -100:
                    walk.identifiers.add("ignored_labels")


def _changed_part(
    walk: Walk, target: ast.Subscript, value: Value, node: ast.stmt, operator: str = ""
) -> None:
    """boxes[:, 2:] is assigned: `boxes[]` is among the identifiers, and it is a part, as is
    totals[0], and the sums["loss"] of sums["loss"] += x."""
    base = value_of(walk, target).items[0]
    if base.kind == "name" or (base.kind == "item" and base.name):  # target["boxes"][:, 2:]
        walk.identifiers.add(f"{base.name}[]")
        key = target.slice.value if isinstance(target.slice, ast.Constant) else None
        if operator or not isinstance(key, str):
            walk.record_part("".join(walk.segment(target).split()), value, node, operator)


def _annotated(walk: Walk, node: ast.AnnAssign) -> None:
    name = walk.dotted(node.target)
    walk.identifiers.add(name.rpartition(".")[2])
    if node.value is None:
        return
    first = len(walk.calls)
    value = value_of(walk, node.value)
    walk.bind(value, (name,) if name else (), first)
    walk.record(name, value, node)


def _augmented(walk: Walk, node: ast.AugAssign) -> None:
    value = value_of(walk, node.value)
    if isinstance(node.target, ast.Subscript):
        _changed_part(walk, node.target, value, node, type(node.op).__name__)
    name = walk.dotted(node.target)
    walk.record(name, value, node, augmented=True, operator=type(node.op).__name__)


def _expression(walk: Walk, node: ast.Expr) -> None:
    value = value_of(walk, node.value)
    if type(node.value) is ast.Attribute and value.kind == "name":
        position = walk.position(node)
        walk.bare.append(Bare(value.name, position, walk.scope, walk.arms, walk.loops_around))
    last = value.kind == "call" and value.call == len(walk.calls) - 1
    _thaw(walk, node, value)
    alone = [value] if last else value.items if type(node.value) is ast.Tuple else ()
    for each in alone:
        if each.kind == "call":
            call = walk.calls[each.call]
            walk.calls[each.call] = msgspec.structs.replace(call, statement=True)


def _thaw(walk: Walk, node: ast.Expr, value: Value) -> None:
    """p.requires_grad_(False) of `for p in model.parameters()` sets p.requires_grad."""
    call = walk.calls[value.call] if value.kind == "call" else None
    loop = walk.loops[walk.loops_around[-1]] if walk.loops_around else None
    if call is None or loop is None or call.name.rpartition(".")[2] != "requires_grad_":
        return
    over = loop.iterable.calls if loop.iterable is not None else ()
    if call.receiver in loop.targets and any("parameters" in walk.calls[n].name for n in over):
        given = call.args[0] if call.args else Value("literal", literal=True)
        walk.record(f"{call.receiver}.requires_grad", given, node)


def _targets(walk: Walk, node: ast.expr) -> list[tuple[str, int]]:
    """Assigned names, each with its index in a tuple, -1 for a single one."""
    if isinstance(node, ast.Tuple | ast.List):
        return [
            (name, number)
            for number, each in enumerate(node.elts)
            for name, _ in ([] if isinstance(each, ast.Tuple | ast.List) else _targets(walk, each))
        ]
    if isinstance(node, ast.Subscript):
        base = walk.dotted(node.value)
        index, negative = node.slice, False
        if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub):
            index, negative = index.operand, True
        key = index.value if isinstance(index, ast.Constant) else None
        key = -key if negative and isinstance(key, int) else key
        return [(f"{base}[{key}]", -1)] if base and isinstance(key, str | int) else []
    name = walk.dotted(node)
    return [(name, -1)] if name else []


def _children(walk: Walk, node: ast.AST) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            value_of(walk, child)


def _arms_of(statement: ast.If) -> tuple[Sequence[ast.stmt], Sequence[ast.stmt]]:
    return statement.body, statement.orelse


_STATEMENTS: dict[type[ast.stmt], Callable[[Walk, Any], None]] = {
    ast.If: _if, ast.For: _loop, ast.AsyncFor: _loop, ast.While: _loop, ast.With: _with,
    ast.AsyncWith: _with, ast.Try: _try, ast.TryStar: _try, ast.Match: _match,
    ast.FunctionDef: _function, ast.AsyncFunctionDef: _function, ast.ClassDef: _class,
    ast.Return: _return, ast.Import: _import, ast.ImportFrom: _import, ast.Assign: _assign,
    ast.AnnAssign: _annotated, ast.AugAssign: _augmented, ast.Expr: _expression,
}  # fmt: skip
