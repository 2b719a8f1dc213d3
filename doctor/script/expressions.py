"""Expressions to values; calls, comparisons and references go into the tables."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import msgspec

from doctor.facts.script import Call, Comparison, Reference, Value
from doctor.script.conditions import implied
from doctor.script.values import OTHER, gather
from doctor.script.walk import Walk

OPERATORS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def value_of(walk: Walk, node: ast.expr) -> Value:
    handler = _EXPRESSIONS.get(type(node))
    return handler(walk, node) if handler is not None else _compound(walk, node)


def test_of(walk: Walk, node: ast.expr) -> Value:
    """The value of a condition, always of kind test unless it is a literal or a name."""
    value = value_of(walk, node)
    return msgspec.structs.replace(value, text=walk.segment(node))


def _constant(walk: Walk, node: ast.Constant) -> Value:
    value = node.value
    if value is None or isinstance(value, str | bool | float):
        return Value("literal", literal=value)
    if isinstance(value, int) and abs(value) < 2**63:
        return Value("literal", literal=value)
    return OTHER


def _name(walk: Walk, node: ast.Name) -> Value:
    walk.identifiers.add(node.id)
    name = walk.aliases.get(node.id)
    if name is not None:
        walk.references.append(Reference(name, walk.position(node), walk.arms))
    return Value("name", name=name or node.id)


def _attribute(walk: Walk, node: ast.Attribute) -> Value:
    if name := walk.noted(node):
        walk.references.append(Reference(name, walk.position(node), walk.arms))
        return Value("name", name=name)
    inner = value_of(walk, node.value)
    return Value("other", name=node.attr, names=inner.all_names, calls=inner.calls, items=(inner,))


def _call(walk: Walk, node: ast.Call) -> Value:
    name, receiver, receiver_call, within = _callee(walk, node.func)
    args: list[Value] = []
    unpacked: list[Value] = []
    for each in node.args:
        if isinstance(each, ast.Starred):
            unpacked.append(value_of(walk, each.value))
        else:
            args.append(value_of(walk, each))
    keywords: dict[str, Value] = {}
    for keyword in node.keywords:
        value = value_of(walk, keyword.value)
        if keyword.arg is None:
            unpacked.append(value)
        else:
            keywords[keyword.arg] = value
            walk.identifiers.add(keyword.arg)
    walk.calls.append(
        Call(
            name,
            walk.position(node),
            walk.scope,
            receiver,
            receiver_call,
            tuple(args),
            keywords,
            tuple(unpacked),
            (),
            walk.arms,
            walk.contexts_around,
            walk.loops_around,
            False,
            walk.position(node.func),
            within if within.kind in ("item", "other", "test") and within is not OTHER else None,
        )
    )
    number = len(walk.calls) - 1
    inner = [*args, *keywords.values(), *unpacked]
    calls = [number, *(call for value in inner for call in value.calls)]
    names = tuple(name for value in inner for name in value.all_names)
    if receiver_call >= 0:
        calls.append(receiver_call)
    if receiver:
        names = (receiver, *names)
    names = (*within.all_names, *names)
    return Value("call", call=number, names=names, calls=tuple(dict.fromkeys(calls)))


def _callee(walk: Walk, node: ast.expr) -> tuple[str, str, int, Value]:
    """Name, receiver, the call that the method is called on, and what else it is called on."""
    if name := walk.noted(node):
        return name, name.rpartition(".")[0], -1, OTHER
    if isinstance(node, ast.Attribute):
        inner = value_of(walk, node.value)
        if inner.kind == "call":
            return f"{walk.calls[inner.call].name}().{node.attr}", "", inner.call, inner
        receiver = inner.name if inner.kind in ("name", "item") else ""
        call = inner.call if inner.kind == "item" else -1
        return f"{receiver}[].{node.attr}", receiver, call, inner
    inner = value_of(walk, node)
    if inner.kind == "call":
        return f"{walk.calls[inner.call].name}()", "", inner.call, inner
    return (f"{inner.name}[]" if inner.kind == "item" and inner.name else ""), "", -1, inner


def _conditional(walk: Walk, node: ast.IfExp) -> Value:
    test = test_of(walk, node.test)
    arms = walk.arms
    walk.arms = (*arms, *implied(walk, node.test, True, test))
    body = value_of(walk, node.body)
    walk.arms = (*arms, *implied(walk, node.test, False, test))
    orelse = value_of(walk, node.orelse)
    walk.arms = arms
    return gather("choice", [body, orelse], extra=[test], text=test.text)


def _bool(walk: Walk, node: ast.BoolOp) -> Value:
    values = [value_of(walk, each) for each in node.values]
    return gather("test", values, text=walk.segment(node))


def _compare(walk: Walk, node: ast.Compare) -> Value:
    left = first = value_of(walk, node.left)
    values = [first]
    for operator, comparator in zip(node.ops, node.comparators, strict=True):
        right = value_of(walk, comparator)
        values.append(right)
        if (symbol := OPERATORS.get(type(operator))) is not None:
            walk.comparisons.append(
                Comparison(left, symbol, right, walk.position(node), walk.scope, len(walk.calls))
            )
        left = right
    return gather("test", values, text=walk.segment(node))


def _unary(walk: Walk, node: ast.UnaryOp) -> Value:
    value = value_of(walk, node.operand)
    if isinstance(node.op, ast.Not):
        return gather("test", [value], text=walk.segment(node))
    if isinstance(node.op, ast.USub) and isinstance(value.literal, int | float):
        return Value("literal", literal=-value.literal)
    return gather("other", [value], name=type(node.op).__name__)


def _binary(walk: Walk, node: ast.BinOp) -> Value:
    """Long chains of one operator nest to the left: they are walked without recursion."""
    operands: list[ast.expr] = []
    current: ast.expr = node
    symbol = type(node.op).__name__
    while isinstance(current, ast.BinOp) and type(current.op).__name__ == symbol:
        operands.append(current.right)
        current = current.left
    operands.append(current)
    values = [value_of(walk, each) for each in reversed(operands)]
    return gather("other", values, name=symbol)


def _sequence(walk: Walk, node: Any) -> Value:
    return gather("list", [value_of(walk, each) for each in node.elts])


def _dict(walk: Walk, node: ast.Dict) -> Value:
    keys, items, extra = [], [], []
    for key, value in zip(node.keys, node.values, strict=True):
        item = value_of(walk, value)
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            keys.append(key.value)
            items.append(item)
        else:
            extra.append(item)
    return gather("dict", items, extra=extra, keys=tuple(keys))


def _subscript(walk: Walk, node: ast.Subscript) -> Value:
    base = value_of(walk, node.value)
    index = value_of(walk, node.slice)
    name = base.name if base.kind in ("name", "item") else ""
    call = base.call if base.kind in ("call", "item") else -1
    if base.kind == "name" and isinstance(index.literal, str):
        name = f"{base.name}[{index.literal}]"
    gathered = gather("item", [base, index], name=name)
    return msgspec.structs.replace(gathered, call=call)


def _comprehension(walk: Walk, node: Any) -> Value:
    values = []
    for generator in node.generators:
        values.append(value_of(walk, generator.iter))
        values += [value_of(walk, test) for test in generator.ifs]
    parts = [node.elt] if hasattr(node, "elt") else [node.key, node.value]
    values += [value_of(walk, part) for part in parts]
    return gather("other", values, name=type(node).__name__)


def _slice(walk: Walk, node: ast.Slice) -> Value:
    parts = [node.lower, node.upper, node.step]
    none = Value("literal")
    return gather("slice", [none if each is None else value_of(walk, each) for each in parts])


def _lambda(walk: Walk, node: ast.Lambda) -> Value:
    return gather("other", [value_of(walk, node.body)], name="Lambda")


def _walrus(walk: Walk, node: ast.NamedExpr) -> Value:
    first = len(walk.calls)
    value = value_of(walk, node.value)
    name = walk.dotted(node.target)
    walk.bind(value, (name,), first)
    walk.record(name, value, node)  # type: ignore[arg-type]
    return value


def _unwrapped(walk: Walk, node: Any) -> Value:
    return value_of(walk, node.value) if node.value is not None else OTHER


def _compound(walk: Walk, node: ast.AST) -> Value:
    values = [
        value_of(walk, child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)
    ]
    return gather("other", values)


_EXPRESSIONS: dict[type[ast.expr], Callable[[Walk, Any], Value]] = {
    ast.Constant: _constant, ast.Name: _name, ast.Attribute: _attribute, ast.Call: _call,
    ast.IfExp: _conditional, ast.BoolOp: _bool, ast.Compare: _compare, ast.UnaryOp: _unary,
    ast.BinOp: _binary, ast.List: _sequence, ast.Tuple: _sequence, ast.Set: _sequence,
    ast.Dict: _dict, ast.Subscript: _subscript, ast.Slice: _slice, ast.ListComp: _comprehension,
    ast.SetComp: _comprehension, ast.GeneratorExp: _comprehension, ast.DictComp: _comprehension,
    ast.Lambda: _lambda, ast.NamedExpr: _walrus, ast.Await: _unwrapped, ast.Yield: _unwrapped,
    ast.YieldFrom: _unwrapped, ast.Starred: _unwrapped,
}  # fmt: skip
