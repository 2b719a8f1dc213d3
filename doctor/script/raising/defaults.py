"""Conditions that are false by default: of a parameter, or of an option of the command line."""

from __future__ import annotations

import ast

from doctor.script.raising.scopes import FUNCTIONS, Scope, last_name

SWITCHES = {"store_true": False, "store_false": True}
ARGS = {"args", "opt"}
SETTING = {"setattr", "set_defaults", "vars", "parse_known_args"}
"""Calls by which options may be set."""
STARS = 1000
"""More places than a function has."""


class Defaults:
    """Those of one file."""

    def __init__(self, parents: dict[ast.AST, ast.AST]) -> None:
        self.parents = parents
        self.found: dict[str, tuple[str, ast.Constant | None]] | None = None
        """Flags and defaults by the names of options."""
        self.roots: set[ast.AST] = set()
        """Names that parse_args() is assigned to."""
        self.keywords: set[str | None] = set()
        self.places: dict[str, int] = {}
        """How many positional arguments calls of each function have at most."""

    def absent(self, scope: Scope, test: ast.expr) -> str:
        """What has to be given for `x`, `not x` or `x is not None` to be true, "" for nothing."""
        wanted, none = True, False
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, wanted = test.operand, False
        elif isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
            against = test.comparators[0]
            none = isinstance(against, ast.Constant) and against.value is None
            if not none or len(test.ops) > 1:
                return ""
            test = test.left
        name, value = self._of(scope, test)
        if value is None:
            return ""
        return name if (value.value is None if none else bool(value.value) is not wanted) else ""

    def _of(self, scope: Scope, node: ast.expr) -> tuple[str, ast.Constant | None]:
        """The written default of a parameter or an option that nothing else gives."""
        options = self._options()
        root = node.value if isinstance(node, ast.Attribute) else node
        owner = scope.owner(root.id) if isinstance(root, ast.Name) else None
        if owner is None or not isinstance(root, ast.Name):
            return "", None
        bindings = owner.bindings[root.id]
        if isinstance(node, ast.Attribute):
            handed = all(isinstance(each, ast.arg) and root.id in ARGS for each in bindings)
            parsed = handed or all(each in self.roots for each in bindings)
            return options.get(node.attr, ("", None)) if parsed else ("", None)
        if owner is not scope or len(bindings) != 1 or not isinstance(bindings[0], ast.arg):
            return "", None
        found = of_parameters(scope.node).get(bindings[0])
        given = self._is_given(scope.node, bindings[0])
        return root.id, found if isinstance(found, ast.Constant) and not given else None

    def _is_given(self, function: ast.AST, parameter: ast.arg) -> bool:
        """A call of the file may give the parameter."""
        if not self.keywords.isdisjoint({parameter.arg, None}):
            return True
        if not isinstance(function, FUNCTIONS):
            return True
        places = [*function.args.posonlyargs, *function.args.args]
        owner = self.parents.get(function)
        names = {getattr(each, "name", "") for each in (function, owner)}
        return parameter in places and any(
            self.places.get(name, -1) >= places.index(parameter) for name in names
        )

    def _options(self) -> dict[str, tuple[str, ast.Constant | None]]:
        """None for what is required, assigned or given twice; {} where a text may set them."""
        if self.found is not None:
            return self.found
        self.found = {}
        for node in self.parents:
            if isinstance(node, ast.Call):
                self._read(node, self.found)
        for node in self.parents:
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                self.found[node.attr] = "", None
        if any(_sets(node) for node in self.parents):
            self.found = {}
        return self.found

    def _read(self, call: ast.Call, found: dict[str, tuple[str, ast.Constant | None]]) -> None:
        """The arguments of a call, and what it says of options."""
        called, assigned = last_name(call.func), self.parents.get(call)
        self.keywords.update(each.arg for each in call.keywords)
        stars = any(isinstance(each, ast.Starred) for each in call.args)
        self.places[called] = max(STARS if stars else len(call.args), self.places.get(called, 0))
        if called == "parse_args" and isinstance(assigned, ast.Assign):
            self.roots.update(assigned.targets)
        if called == "add_argument":
            name, flag, default = _option(call)
            found[name] = flag, None if name in found else default


def _sets(node: ast.AST) -> bool:
    """Options may be set by it."""
    if isinstance(node, ast.Attribute):
        return node.attr == "__dict__"
    if not isinstance(node, ast.Call):
        return False
    called = last_name(node.func)
    return called in SETTING or (called == "parse_args" and bool(node.args or node.keywords))


def _option(call: ast.Call) -> tuple[str, str, ast.Constant | None]:
    """The name under which an option is read, its flag, and what it is where nobody gives it."""
    flags = [each.value for each in call.args if isinstance(each, ast.Constant)]
    flag = next((f for f in flags if isinstance(f, str) and f.startswith("--")), "")
    given = {each.arg: each.value for each in call.keywords}
    name = getattr(given.get("dest"), "value", None) or flag[2:].replace("-", "_")
    default = given.get("default")
    action = getattr(given.get("action"), "value", "")
    if not flag or None in given or "required" in given or action not in ("", *SWITCHES):
        return str(name), flag, None
    if default is None:
        return str(name), flag, ast.Constant(SWITCHES.get(action))
    return str(name), flag, default if isinstance(default, ast.Constant) else None


def of_parameters(node: ast.AST) -> dict[ast.arg, ast.expr]:
    if not isinstance(node, FUNCTIONS):
        return {}
    arguments = node.args
    places = [*arguments.posonlyargs, *arguments.args]
    first = len(places) - len(arguments.defaults)
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found = dict(zip(places[first:], arguments.defaults, strict=True))
    return found | {each: default for each, default in pairs if default is not None}
