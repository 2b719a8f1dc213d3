"""A training loop that is spread over functions, as one: calls of the file's own functions replaced
by their bodies, parameters by arguments. Only what reaches a step of a training is joined.

The result is read like any file and never executed. Nodes keep the places of their source. A body
stands in a `with` of no items, so that what an early return leaves out ends with it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from doctor.facts.script import Script
from doctor.script import bodies, containers

STEPS = {"backward", "manual_backward", "zero_grad", "unscale_", "clip_grad_norm_"}
"""Methods that only a training has."""
HELD_OUT = ("eval", "valid", "test", "infer", "predict", "generate", "sample", "metric", "plot")
MOST_SITES, MOST_DEPTH, MOST_NODES = 3, 6, 6_000
"""Calls of one function, functions within each other, nodes that are copied. Our own numbers."""
MARK = "_\u02d1"
"""Before the number of a local name that the caller has, too."""
SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)
Key = tuple[str, str]
"""The class, "" for none, and the name of a function."""


def inlined(tree: ast.Module, script: Script) -> ast.Module | None:
    """The tree with the functions of its training joined, None where there is nothing to join.

    `script` is what was read of it: most files have neither a step nor a container of objects.
    """
    joined = _Joiner(tree).joined() if not STEPS.isdisjoint(script.identifiers) else None
    if not containers.may_hold(script):
        return joined
    plain = containers.spread(joined or tree)
    return joined if plain is tree else plain


def as_written(message: str) -> str:
    """A message with the names of the file instead of those that were made of them."""
    message = re.sub(rf"{MARK}\d+", "", message)
    return re.sub(rf"\.{containers.MARK}(\w+)", r'["\1"]', message)


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
        skipped = bodies.DEFINITIONS if own is self.main else (ast.ClassDef,)
        for node in bodies.within(own.node.body, skipped):
            if isinstance(node, ast.Call):
                if (key := self._called(node, owner)) is not None:
                    own.calls.append(key)
                    self.sites[key] += 1
                name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                own.steps |= name in STEPS
            elif isinstance(node, ast.For | ast.While) and not own.within_loop:
                own.within_loop = any(isinstance(n, ast.Return) for n in bodies.within([node], ()))

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
        body = self._block(self.tree.body, _Caller("", bodies.names(self.tree.body)), ())
        wanted = [key for key in self.own if key in self.training or self._makes_trained(key)]
        callers = {key for k in wanted for key in self.own[k].calls}
        replaced: dict[Key, ast.FunctionDef] = {}
        for key in sorted(wanted, key=lambda key: key in callers):
            if not self.done[key] and not any(
                map(bodies.context, self.own[key].node.decorator_list)
            ):
                replaced[key] = self._copy(self.own[key].node, key)
        if not self.done:
            return None
        gone = {key for key in self.done if self.done[key] >= self.sites[key]}
        return ast.Module(_with_functions(body, replaced, gone, ""), [])

    def _makes_trained(self, key: Key) -> bool:
        """__init__ of a class that trains, with the methods that it is spread over."""
        return key[1] == "__init__" and any(key[0] == owner for owner, _ in self.training)

    def _copy(self, node: ast.FunctionDef, key: Key) -> ast.FunctionDef:
        copy = bodies.clone(node, {})
        names = bodies.names(node.body) | {each.arg for each in bodies.arguments(node.args)}
        copy.body = self._block(node.body, _Caller(key[0], names), (key,))
        return copy

    def _block(
        self, body: Sequence[ast.stmt], caller: _Caller, around: tuple[Key, ...]
    ) -> list[ast.stmt]:
        """The statements with the calls in them replaced."""
        result: list[ast.stmt] = []
        for each in body:
            if isinstance(each, bodies.DEFINITIONS) or (isinstance(each, ast.If) and _starts(each)):
                result.append(each)
            elif isinstance(each, SIMPLE):
                result += self._statement(each, caller, around)
            else:
                result.append(self._compound(each, caller, around))
        return result

    def _compound(self, node: ast.stmt, caller: _Caller, around: tuple[Key, ...]) -> ast.stmt:
        items = node.items if isinstance(node, ast.With) else ()
        if any(bodies.context(each.context_expr) for each in items):
            return node
        fields: dict[str, Any] = {}
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
        for call in bodies.calls(node):
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
        left = bodies.clone(node, {}, replaced)
        same = isinstance(left, ast.Assign) and ast.dump(left.value) == ast.dump(
            bodies.clone(left.targets[0], {}, context=ast.Load())
        )
        return before if same else [*before, *self._statement(left, caller, around)]

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
        values = bodies.bound(call, node.args, bool(key[0])) if bodies.is_plain(node) else None
        contexts = [bodies.context(each) for each in node.decorator_list]
        if values is None or None in contexts:
            return None
        self.left -= sum(1 for _ in bodies.within(node.body, ()))
        self.done[key] += 1
        before, mapping = self._mapping(call, node, values, caller, wanted)
        body = [bodies.clone(each, mapping) for each in bodies.chosen(node.body, mapping)]
        for each in body:
            bodies.leave(each)
        last = body.pop() if body and isinstance(body[-1], ast.Return) else None
        given = last.value if isinstance(last, ast.Return) else None
        result = given or ast.copy_location(ast.Constant(None), call)
        if contexts and any(isinstance(each, ast.Call) for each in ast.walk(result)):
            target = wanted or ast.Name(caller.fresh(f"{node.name}_result", self), ast.Store())
            ast.copy_location(target, call)
            body.append(ast.copy_location(ast.Assign([target], result), result))
            result = bodies.clone(target, {}, context=ast.Load())
        inner = body if contexts else self._block(body, caller, (*around, key))
        items = [ast.withitem(each) for each in contexts if each]
        joined = ast.copy_location(ast.With(items, inner or [ast.Pass()]), call)
        return _Body([*before, joined], result)

    def _mapping(
        self,
        call: ast.Call,
        node: ast.FunctionDef,
        values: Mapping[str, ast.expr],
        caller: _Caller,
        wanted: ast.expr | None,
    ) -> tuple[list[ast.stmt], dict[str, object]]:
        """What the names of a body become, and the parameters that need a name of their own."""
        assigned = bodies.names(node.body, stored=True)
        last = node.body[-1]
        returned = last.value if isinstance(last, ast.Return) else None
        mapping: dict[str, Any] = {}
        mapping |= bodies.wishes(returned, wanted, assigned - values.keys(), call)
        for name in sorted(assigned - values.keys() - mapping.keys()):
            mapping[name] = caller.fresh(name, self)
        before: list[ast.stmt] = []
        for name, value in values.items():
            known = isinstance(value, ast.Constant) and isinstance(value.value, bool | None)
            if (known or isinstance(value, ast.Name | ast.Attribute)) and name not in assigned:
                mapping[name] = value
            elif not (isinstance(value, ast.Name) and value.id == name):
                mapping[name] = caller.fresh(name, self)
                before.append(_assign(mapping[name], value))
        return before, mapping


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


def _assign(name: str, value: ast.expr) -> ast.stmt:
    target = ast.copy_location(ast.Name(name, ast.Store()), value)
    return ast.copy_location(ast.Assign([target], value), value)


def _starts(node: ast.If) -> bool:
    """`if __name__ == "__main__": main()`: the function is read by itself."""
    return any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))


def _target(node: ast.stmt) -> ast.expr | None:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return node.targets[0]
    return node.target if isinstance(node, ast.AnnAssign) else None


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
