"""Conditions that are false by default: of a parameter, or of an option of the command line."""

from __future__ import annotations

import ast

from doctor.script.raising.scopes import FUNCTIONS, Scope, last_name

SWITCHES = {"store_true": False, "store_false": True}


class Defaults:
    """Those of one file."""

    def __init__(self, parents: dict[ast.AST, ast.AST]) -> None:
        self.parents = parents
        self.found: dict[str, ast.Constant | None] | None = None

    def is_off(self, scope: Scope, test: ast.expr) -> bool:
        """`x`, `not x` or `x is not None`, which is false unless x is given."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            value = self.of(scope, test.operand)
            return value is not None and bool(value.value)
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
            against = test.comparators[0]
            value = self.of(scope, test.left)
            none = isinstance(against, ast.Constant) and against.value is None
            return none and len(test.ops) == 1 and value is not None and value.value is None
        value = self.of(scope, test)
        return value is not None and not value.value

    def of(self, scope: Scope, node: ast.expr) -> ast.Constant | None:
        """The written default of a parameter or an option that nothing else assigns."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._options().get(node.attr)
        bindings = scope.bindings.get(node.id, []) if isinstance(node, ast.Name) else []
        if len(bindings) != 1 or not isinstance(bindings[0], ast.arg):
            return None
        found = of_parameters(scope.node).get(bindings[0])
        return found if isinstance(found, ast.Constant) else None

    def _options(self) -> dict[str, ast.Constant | None]:
        """Defaults of add_argument(), None for what is required, assigned or given twice."""
        if self.found is None:
            self.found = {}
            for node in self.parents:
                if isinstance(node, ast.Call) and last_name(node.func) == "add_argument":
                    name, default = _option(node)
                    self.found[name] = None if name in self.found else default
            for node in self.parents:
                if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                    self.found[node.attr] = None
        return self.found


def _option(call: ast.Call) -> tuple[str, ast.Constant | None]:
    """The name under which an option is read, and what it is where nobody gives it."""
    flags = [each.value for each in call.args if isinstance(each, ast.Constant)]
    flag = next((f for f in flags if isinstance(f, str) and f.startswith("--")), "")
    given = {each.arg: each.value for each in call.keywords}
    name = getattr(given.get("dest"), "value", None) or flag[2:].replace("-", "_")
    default = given.get("default")
    action = getattr(given.get("action"), "value", "")
    if not flag or None in given or "required" in given or action not in ("", *SWITCHES):
        return str(name), None
    if default is None:
        return str(name), ast.Constant(SWITCHES.get(action))
    return str(name), default if isinstance(default, ast.Constant) else None


def of_parameters(node: ast.AST) -> dict[ast.arg, ast.expr]:
    if not isinstance(node, FUNCTIONS):
        return {}
    arguments = node.args
    places = [*arguments.posonlyargs, *arguments.args]
    first = len(places) - len(arguments.defaults)
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found = dict(zip(places[first:], arguments.defaults, strict=True))
    return found | {each: default for each, default in pairs if default is not None}
