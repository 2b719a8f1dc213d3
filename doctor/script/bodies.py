"""What becomes of the body of a function that is read at the place of its call."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from doctor.script.parts import parts_of

NO_GRADIENTS = ("no_grad", "inference_mode")
LATE = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp,
        ast.GeneratorExp)  # fmt: skip
"""What evaluates its parts later, again or not at all."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
KEPT = (*DEFINITIONS, ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Import,
        ast.ImportFrom)  # fmt: skip
"""What makes a body more than its statements."""
Node = TypeVar("Node", bound=ast.AST)


def within(body: Iterable[ast.AST], skipped: tuple[type, ...]) -> Iterator[ast.AST]:
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, skipped):
            continue
        yield node
        waiting += parts_of(node)


def names(body: Iterable[ast.AST], *, stored: bool = False) -> set[str]:
    return {
        node.id
        for node in within(body, DEFINITIONS)
        if isinstance(node, ast.Name) and (not stored or isinstance(node.ctx, ast.Store))
    }


def arguments(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def is_plain(node: ast.FunctionDef) -> bool:
    """Nothing in it depends on being a function of its own."""
    if node.args.vararg or node.args.kwarg or not node.body:
        return False
    return not any(isinstance(each, KEPT) for each in within(node.body, ()))


def context(decorator: ast.expr) -> ast.expr | None:
    """A decorator that is a context, too."""
    if not isinstance(decorator, ast.Call):
        return None
    name = ast.unparse(decorator.func).rpartition(".")[2]
    return decorator if name in NO_GRADIENTS else None


def bound(call: ast.Call, arguments: ast.arguments, method: bool) -> dict[str, ast.expr] | None:
    """Parameters to arguments and defaults, None where a call unpacks something."""
    positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    keywords = [each.arg for each in arguments.kwonlyargs]
    first = len(positional) - len(arguments.defaults)
    values = dict(zip(positional[first:], arguments.defaults, strict=True))
    pairs = zip(keywords, arguments.kw_defaults, strict=True)
    values |= {name: default for name, default in pairs if default is not None}
    if method:
        positional = positional[1:]
    unpacked = any(isinstance(each, ast.Starred) for each in call.args)
    if unpacked or len(call.args) > len(positional):
        return None
    values |= dict(zip(positional, call.args, strict=False))
    values |= {each.arg or "": each.value for each in call.keywords}
    return values if values.keys() == {*positional, *keywords} else None


def chosen(body: Sequence[ast.stmt], mapping: Mapping[str, object]) -> Iterator[ast.stmt]:
    """Without the arms that a constant argument leaves out: `if train:` where it is False."""
    known = {
        name: value.value
        for name, value in mapping.items()
        if isinstance(value, ast.Constant)
        and (value.value is None or isinstance(value.value, bool))
    }
    for each in body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            truth = _truth(each.value, known)
            if truth is not None and not isinstance(each.value, ast.Constant):
                known[each.targets[0].id] = truth
        if isinstance(each, ast.If) and (truth := _truth(each.test, known)) is not None:
            yield from chosen(each.body if truth else each.orelse, mapping)
        elif isinstance(each, ast.For | ast.While | ast.With) and known:
            fields = dict(ast.iter_fields(each))
            inner = {**mapping, **{n: ast.Constant(v) for n, v in known.items()}}
            fields["body"] = list(chosen(each.body, inner)) or [ast.Pass()]
            yield ast.copy_location(type(each)(**fields), each)
        else:
            yield each


def _truth(test: ast.expr, known: Mapping[str, bool | None]) -> bool | None:
    """Whether a test of a known name holds."""
    if isinstance(test, ast.Name) and test.id in known:
        return bool(known[test.id])
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(test.operand, known)
        return None if inner is None else not inner
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name):
        other = test.comparators[0]
        if test.left.id in known and isinstance(other, ast.Constant) and other.value is None:
            is_none = known[test.left.id] is None
            return is_none if isinstance(test.ops[0], ast.Is | ast.Eq) else not is_none
    return None


def wishes(
    returned: ast.expr | None, wanted: ast.expr | None, own: set[str], call: ast.Call
) -> dict[str, str]:
    """Local names that are returned, to the names that the caller gives them."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(returned, ast.Tuple) and isinstance(wanted, ast.Tuple):
        pairs = list(zip(returned.elts, wanted.elts, strict=False))
    elif returned is not None and wanted is not None:
        pairs = [(returned, wanted)]
    passed = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    return {
        one.id: other.id
        for one, other in pairs
        if isinstance(one, ast.Name)
        and isinstance(other, ast.Name)
        and one.id in own
        and other.id not in passed
        and other.id != "_"
        and (other.id not in own or other.id == one.id)
    }


def calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls of a statement that run once, the inner ones first."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, LATE):
            yield from calls(child)
    if isinstance(node, ast.Call):
        yield node


def _used(value: ast.expr) -> ast.stmt:
    """A statement of the value that does not discard a call's result: a caller has it."""
    held = ast.copy_location(ast.List([value], ast.Load()), value)
    return ast.copy_location(ast.Expr(held), value)


def leave(node: ast.AST) -> None:
    """Returns in the middle of a body end what is around them, which is no function any more."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            for number, each in enumerate(block):
                if isinstance(each, ast.Return):
                    values = [_used(each.value)] if each.value else []
                    block[number:] = [*values, ast.copy_location(ast.Continue(), each)]
                    break
                leave(each)
    for each in node.handlers if isinstance(node, (ast.Try, ast.TryStar)) else ():
        leave(each)


def clone(
    node: Node,
    mapping: Mapping[str, Any],
    replaced: Mapping[int, ast.expr] | None = None,
    context: ast.expr_context | None = None,
) -> Node:
    """A copy with names replaced by names or expressions, and some nodes by others."""
    copy: Any
    if replaced and id(node) in replaced:
        copy = replaced[id(node)]
        return copy  # type: ignore[no-any-return]
    if isinstance(node, ast.Name):
        other = mapping.get(node.id, node.id)
        named = isinstance(other, str)
        copy = ast.Name(other, context or node.ctx) if named else clone(other, {})
        return ast.copy_location(copy, node)  # type: ignore[no-any-return]
    fields: dict[str, object] = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            value = [
                clone(each, mapping, replaced, context) if isinstance(each, ast.AST) else each
                for each in value
            ]
        elif isinstance(value, ast.expr_context):
            value = context or value
        elif isinstance(value, ast.AST):
            value = clone(value, mapping, replaced, context)
        fields[name] = value
    return ast.copy_location(type(node)(**fields), node)
