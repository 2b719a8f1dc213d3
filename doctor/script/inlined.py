"""A training loop that is spread over functions, as one: calls of the file's own functions replaced
by their bodies, parameters by arguments. Only what reaches a step of a training is joined.

The result is read like any file and never executed. Nodes keep the places of their source. A body
stands in a `with` of no items, so that what an early return leaves out ends with it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

STEPS = {"backward", "manual_backward", "zero_grad", "unscale_", "clip_grad_norm_"}
"""Methods that only a training has."""
HELD_OUT = ("eval", "valid", "test", "infer", "predict", "generate", "sample", "metric", "plot")
NO_GRADIENTS = ("no_grad", "inference_mode")
MOST_SITES, MOST_DEPTH, MOST_NODES = 3, 6, 6_000
"""Calls of one function, functions within each other, and nodes that are copied. Our own numbers."""
MARK = "_\u02d1"
"""Before the number of a local name that the caller has, too."""
SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)
LATE = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp,
        ast.GeneratorExp)  # fmt: skip
"""What evaluates its parts later, again or not at all."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

Node = TypeVar("Node", bound=ast.AST)
Key = tuple[str, str]
"""The class, "" for none, and the name of a function."""


def inlined(tree: ast.Module) -> ast.Module | None:
    """The tree with the functions of its training joined, None where there is nothing to join."""
    return _Joiner(tree).joined()


@dataclass(slots=True)
class _Own:
    """A function of the file."""

    node: ast.FunctionDef
    calls: list[Key] = field(default_factory=list)
    steps: bool = False
    within_loop: bool = False
    """A return stands in a loop of it."""


class _Joiner:
    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.own: dict[Key, _Own] = {}
        self.sites: Counter[Key] = Counter()
        self.left = MOST_NODES
        self.number = 0
        self.done: Counter[Key] = Counter()
        self._collect(tree.body, "")
        self.main = _Own(ast.FunctionDef("", None, tree.body, []))  # type: ignore[arg-type]
        for each, owner in [(self.main, ""), *((o, key[0]) for key, o in self.own.items())]:
            self._examine(each, owner)
        self.training = self._reach_steps()

    def _collect(self, body: Sequence[ast.stmt], owner: str) -> None:
        twice = set()
        for each in body:
            if isinstance(each, ast.FunctionDef):
                key = (owner, each.name)
                if key in self.own:
                    twice.add(key)
                self.own[key] = _Own(each)
            elif isinstance(each, ast.ClassDef) and not owner:
                self._collect(each.body, each.name)
        for key in twice:
            del self.own[key]

    def _examine(self, own: _Own, owner: str) -> None:
        skipped = DEFINITIONS if own is self.main else (ast.ClassDef,)
        for node in _within(own.node.body, skipped):
            if isinstance(node, ast.Call):
                if (key := self._called(node, owner)) is not None:
                    own.calls.append(key)
                    self.sites[key] += 1
                name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                own.steps |= name in STEPS
            elif isinstance(node, ast.For | ast.While) and not own.within_loop:
                own.within_loop = any(isinstance(n, ast.Return) for n in ast.walk(node))

    def _called(self, call: ast.Call, owner: str) -> Key | None:
        """The function of this file that a call enters for certain."""
        function = call.func
        if isinstance(function, ast.Name) and ("", function.id) in self.own:
            return "", function.id
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            key = (owner, function.attr)
            if function.value.id == "self" and owner and key in self.own:
                return key
        return None

    def _reach_steps(self) -> set[Key]:
        """Functions that train, or call one that does."""
        found = {key for key, own in self.own.items() if own.steps}
        callers: dict[Key, set[Key]] = {}
        for key, own in self.own.items():
            for called in own.calls:
                callers.setdefault(called, set()).add(key)
        waiting = list(found)
        while waiting:
            for key in callers.get(waiting.pop(), set()) - found:
                found.add(key)
                waiting.append(key)
        return found

    def joined(self) -> ast.Module | None:
        if not self.training:
            return None
        body = self._block(self.tree.body, _Caller("", _names(self.tree.body)), ())
        replaced = {
            key: self._copy(own.node, key)
            for key, own in self.own.items()
            if key in self.training and not self.done[key]
            if not any(key in other.calls for k, other in self.own.items() if k in self.training)
        }
        if not self.done:
            return None
        gone = {key for key in self.done if self.done[key] >= self.sites[key]}
        return ast.Module(_with_functions(body, replaced, gone, ""), [])

    def _copy(self, node: ast.FunctionDef, key: Key) -> ast.FunctionDef:
        copy = _clone(node, {})
        names = _names(node.body) | {each.arg for each in _arguments(node.args)}
        copy.body = self._block(node.body, _Caller(key[0], names), (key,))
        return copy

    def _block(
        self, body: Sequence[ast.stmt], caller: _Caller, around: tuple[Key, ...]
    ) -> list[ast.stmt]:
        """The statements with the calls in them replaced."""
        result: list[ast.stmt] = []
        for each in body:
            if isinstance(each, DEFINITIONS):
                result.append(each)
            elif isinstance(each, ast.If) and _starts(each):
                result.append(each)
            elif isinstance(each, SIMPLE):
                result += self._statement(each, caller, around)
            else:
                result.append(self._compound(each, caller, around))
        return result

    def _compound(self, node: ast.stmt, caller: _Caller, around: tuple[Key, ...]) -> ast.stmt:
        fields = {}
        for name, value in ast.iter_fields(node):
            if name in ("body", "orelse", "finalbody"):
                value = self._block(value, caller, around)
            elif name in ("handlers", "cases"):
                value = [self._compound(each, caller, around) for each in value]
            fields[name] = value
        return ast.copy_location(type(node)(**fields), node)

    def _statement(
        self, node: ast.stmt, caller: _Caller, around: tuple[Key, ...]
    ) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        wanted = _target(node)
        replaced: dict[int, ast.expr] = {}
        for call in _calls(node):
            key = self._called(call, caller.owner)
            if key is None or not self._joins(key, around):
                continue
            whole = getattr(node, "value", None) is call
            body = self._body(call, key, caller, around, wanted if whole else None)
            if body is not None:
                before += body.statements
                replaced[id(call)] = body.result
        if not replaced:
            return [node]
        if isinstance(node, ast.Expr) and id(node.value) in replaced:
            return before
        left = _clone(node, {}, replaced)
        same = isinstance(left, ast.Assign) and ast.dump(left.value) == ast.dump(
            _loaded(left.targets[0])
        )
        return before if same else [*before, left]

    def _joins(self, key: Key, around: tuple[Key, ...]) -> bool:
        own = self.own[key]
        name = own.node.name.casefold()
        trains = key in self.training
        held_out = any(word in name for word in HELD_OUT) and "train" not in name
        return not (
            own.within_loop
            or key in around
            or len(around) >= MOST_DEPTH
            or self.left <= 0
            or self.sites[key] > MOST_SITES
            or (held_out and not trains)
            or name.startswith("__")
            or name in ("forward", "backward")
        )

    def _body(
        self,
        call: ast.Call,
        key: Key,
        caller: _Caller,
        around: tuple[Key, ...],
        wanted: ast.expr | None,
    ) -> _Body | None:
        node = self.own[key].node
        if not _is_plain(node):
            return None
        bound = _bound(call, node.args, bool(key[0]))
        if bound is None:
            return None
        contexts = [_context(each) for each in node.decorator_list]
        if None in contexts:
            return None
        self.left -= sum(1 for _ in _within(node.body, ()))
        assigned = _names(node.body, stored=True)
        mapping: dict[str, Any] = {}
        before: list[ast.stmt] = []
        returned = node.body[-1].value if isinstance(node.body[-1], ast.Return) else None
        mapping |= _wishes(returned, wanted, assigned - bound.keys(), call)
        for name in sorted(assigned - bound.keys() - mapping.keys()):
            mapping[name] = caller.fresh(name, self)
        for name, value in bound.items():
            if name not in assigned and isinstance(value, ast.Name | ast.Attribute | ast.Constant):
                mapping[name] = value
                continue
            if not (isinstance(value, ast.Name) and value.id == name):
                mapping[name] = caller.fresh(name, self)
                target = ast.copy_location(ast.Name(mapping[name], ast.Store()), value)
                before.append(ast.copy_location(ast.Assign([target], value), value))
        body = [_clone(each, mapping) for each in node.body]
        for each in body:
            _leave(each)
        last = body.pop() if isinstance(body[-1], ast.Return) else None
        result = last.value if isinstance(last, ast.Return) and last.value else None
        inner = self._block(body, caller, (*around, key))
        result = result or ast.copy_location(ast.Constant(None), call)
        if any(isinstance(each, ast.Call) for each in ast.walk(result)):
            name = caller.fresh(f"{node.name}_result", self)
            target = ast.copy_location(ast.Name(name, ast.Store()), result)
            result_node = ast.copy_location(ast.Assign([target], result), result)
            inner += self._block([result_node], caller, (*around, key))
            result = ast.copy_location(ast.Name(name, ast.Load()), result)
        self.done[key] += 1
        items = [ast.withitem(each) for each in contexts if each]
        within = ast.copy_location(ast.With(items, inner or [ast.Pass()]), call)
        return _Body([*before, within], result)


@dataclass(slots=True)
class _Caller:
    """The function that receives the bodies, and the names that it has."""

    owner: str
    names: set[str]

    def fresh(self, name: str, joiner: _Joiner) -> str:
        if name in self.names:
            joiner.number += 1
            name = f"{name}{MARK}{joiner.number}"
        self.names.add(name)
        return name


@dataclass(slots=True)
class _Body:
    statements: list[ast.stmt]
    result: ast.expr


def _within(body: Iterable[ast.AST], skipped: tuple[type, ...]) -> Iterator[ast.AST]:
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, skipped):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def _names(body: Iterable[ast.AST], *, stored: bool = False) -> set[str]:
    return {
        node.id
        for node in _within(body, DEFINITIONS)
        if isinstance(node, ast.Name) and (not stored or isinstance(node.ctx, ast.Store))
    }


def _starts(node: ast.If) -> bool:
    """`if __name__ == "__main__": main()`: the function is read by itself."""
    named = any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))
    return named and not any(isinstance(n, ast.For | ast.While) for n in ast.walk(node))


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _is_plain(node: ast.FunctionDef) -> bool:
    """Nothing in it depends on being a function of its own."""
    if node.args.vararg or node.args.kwarg or not node.body:
        return False
    kept = (*DEFINITIONS, ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Import,
            ast.ImportFrom)  # fmt: skip
    return not any(isinstance(each, kept) for each in _within(node.body, ()))


def _context(decorator: ast.expr) -> ast.expr | None:
    """A decorator that is a context, too."""
    if not isinstance(decorator, ast.Call):
        return None
    name = ast.unparse(decorator.func).rpartition(".")[2]
    return decorator if name in NO_GRADIENTS else None


def _bound(call: ast.Call, arguments: ast.arguments, method: bool) -> dict[str, ast.expr] | None:
    """Parameters to arguments and defaults, None where a call unpacks something."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    defaults = dict(
        zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True)
    )
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            defaults[each.arg] = default
    if method:
        positional = positional[1:]
    if len(call.args) > len(positional):
        return None
    bound = dict(zip(positional, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        bound[keyword.arg] = keyword.value
    names = [*positional, *(each.arg for each in arguments.kwonlyargs)]
    if any(name not in bound and name not in defaults for name in names) or set(bound) - set(names):
        return None
    return {name: bound.get(name, defaults.get(name)) for name in names}  # type: ignore[misc]


def _wishes(
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
        and (other.id not in own or other.id == one.id)
    }


def _target(node: ast.stmt) -> ast.expr | None:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return node.targets[0]
    return node.target if isinstance(node, ast.AnnAssign) else None


def _loaded(target: ast.expr) -> ast.expr:
    return _clone(target, {}, context=ast.Load())


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls of a statement that run once, the inner ones first."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, LATE):
            yield from _calls(child)
    if isinstance(node, ast.Call):
        yield node


def _leave(node: ast.AST) -> None:
    """Returns in the middle of a body end what is around them, which is no function any more."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            for number, each in enumerate(block):
                if isinstance(each, ast.Return):
                    values = [ast.copy_location(ast.Expr(each.value), each)] if each.value else []
                    block[number:] = [*values, ast.copy_location(ast.Continue(), each)]
                    break
                _leave(each)
    for each in getattr(node, "handlers", ()):
        _leave(each)


def _clone(
    node: Node,
    mapping: Mapping[str, Any],
    replaced: Mapping[int, ast.expr] | None = None,
    context: ast.expr_context | None = None,
) -> Node:
    """A copy with names replaced by names or expressions, and some nodes by others."""
    if replaced and id(node) in replaced:
        return replaced[id(node)]  # type: ignore[return-value]
    if isinstance(node, ast.Name):
        other = mapping.get(node.id, node.id)
        if isinstance(other, ast.expr):
            return ast.copy_location(_clone(other, {}), node)  # type: ignore[return-value]
        copy: Any = ast.Name(other, context or node.ctx)
        return ast.copy_location(copy, node)
    fields: dict[str, Any] = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            value = [
                _clone(each, mapping, replaced, context) if isinstance(each, ast.AST) else each
                for each in value
            ]
        elif isinstance(value, ast.expr_context):
            value = context or value
        elif isinstance(value, ast.AST):
            value = _clone(value, mapping, replaced, context)
        fields[name] = value
    return ast.copy_location(type(node)(**fields), node)


def _with_functions(
    body: Sequence[ast.stmt], replaced: Mapping[Key, ast.FunctionDef], gone: set[Key], owner: str
) -> list[ast.stmt]:
    """The definitions that are left: joined ones instead of those that they were made of."""
    result: list[ast.stmt] = []
    for each in body:
        if isinstance(each, ast.FunctionDef):
            if (owner, each.name) not in gone:
                result.append(replaced.get((owner, each.name), each))
        elif isinstance(each, ast.ClassDef) and not owner:
            copy = ast.ClassDef(
                each.name, each.bases, each.keywords,
                _with_functions(each.body, replaced, gone, each.name) or [ast.Pass()],
                each.decorator_list,
            )  # fmt: skip
            result.append(ast.copy_location(copy, each))
        else:
            result.append(each)
    return result
