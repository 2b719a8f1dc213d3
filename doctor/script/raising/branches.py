"""Names that some arms of a condition assign, and that are read behind all of them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator

from doctor.facts.script import Raising, Span
from doctor.script.bodies import within
from doctor.script.parts import parts_of
from doctor.script.raising.defaults import ARGS, Defaults
from doctor.script.raising.scopes import FUNCTIONS, Scope, dotted, enclosing, last_name
from doctor.script.raising.unbound import KNOWN, is_open

Parents = dict[ast.AST, ast.AST]
Path = list[tuple[ast.AST, str]]
"""Conditions around a node, the outermost first, and which part of each it is in."""
LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
FIXED = (ast.Assert, ast.While)
"""With a constant test: assert False, while True."""
ENDING = {"exit", "_exit", "quit", "error", "abort", "fail", "usage", "print_usage", "print_help",
          "kill", "skip", "fatal", "critical", "exception", "assert_never", "die"}  # fmt: skip
"""Calls behind which an arm may not go on."""
MOST = 50
"""Arms of one condition, assignments of a name, conditions around it, and conditions of one file
that are looked at closely: nothing is said of more. Our own number."""
OBJECTS = {"self", *ARGS}
"""Objects whose attributes stay what they are where no line of the file assigns them."""
STEPS, LARGEST = 200, 10_000
"""Nodes around a node, and in a function, some 1,000 lines. Our own numbers."""


def left_open(
    scopes: list[Scope], parents: Parents, span: Callable[[ast.AST], Span]
) -> Iterator[Raising]:
    """The first read of each name that an arm, which goes on, leaves unassigned."""
    conditions = _Conditions(parents)
    for scope in scopes:
        if not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            continue
        if sum(1 for _ in _within(scope.node)) > LARGEST:
            continue
        names = {name for name in scope.bindings if conditions.begins(scope, name)}
        if isinstance(scope.node, ast.Module):
            names = set() if is_open(scopes) else names - KNOWN
        for use in scope.uses if names else ():
            line = conditions.open_before(scope, use) if use.id in names else 0
            if line:
                names.discard(use.id)
                yield Raising(
                    "arm", use.id, span(use), conditions.absent[line] if line < 0 else "",
                    expected=str(abs(line)),
                )  # fmt: skip


class _Conditions:
    """The conditions of one file."""

    def __init__(self, parents: Parents) -> None:
        self.parents = parents
        self.ends: dict[ast.AST, list[int]] = {}
        """Lines in which a function, or an arm that begins with a statement, may end."""
        self.stores: Counter[str] | None = None
        self.paths: dict[ast.AST, Path | None] = {}
        self.arms: dict[tuple[ast.If, str], list[ast.stmt]] = {}
        """The open arm of a condition for a name, [] for none."""
        self.absent: dict[int, str] = {}
        """By the line, below 0, of a condition: what makes it false where nobody gives it."""
        self.defaults = Defaults(parents)
        self.examined = 0

    def begins(self, scope: Scope, name: str) -> bool:
        """Its first assignment is in an arm of a condition."""
        nodes = [each for each in scope.bindings[name] if isinstance(each, ast.Name)]
        if name in scope.elsewhere or not 0 < len(nodes) == len(scope.bindings[name]) <= MOST:
            return False
        if any(use.id in ("locals", "vars", "dir") for use in scope.uses):
            return False
        return bool(self.path(scope, min(nodes, key=lambda each: each.lineno)))

    def assigned(self, scope: Scope, use: ast.Name) -> list[ast.Name]:
        """The places that may have assigned a name by then."""
        names = [each for each in scope.bindings[use.id] if isinstance(each, ast.Name)]
        before = [each for each in names if each.lineno < use.lineno]
        return names if len(before) < len(names) and self._loops(use) else before

    def path(self, scope: Scope, node: ast.AST) -> Path | None:
        """None where something else decides, too: an expression, a case, too many of them."""
        if node not in self.paths:
            self.paths[node] = self._path(scope, node)
        return self.paths[node]

    def _path(self, scope: Scope, node: ast.AST) -> Path | None:
        found: Path = []
        for steps, (around, part) in enumerate(enclosing(node, self.parents)):
            if around is scope.node:
                break
            if isinstance(around, (ast.IfExp, ast.BoolOp, *FUNCTIONS)) or (
                type(around).__name__ == "match_case" or len(found) > MOST or steps > STEPS
            ):
                return None
            tried = isinstance(around, ast.Try) or type(around).__name__ == "TryStar"
            if tried or (isinstance(around, ast.If) and part is not around.test):
                found.append((around, _field(around, part)))
        return found[::-1]

    def open_before(self, scope: Scope, use: ast.Name) -> int:
        """The line of an arm that assigns nothing and goes on to where the name is read; below 0
        that of a condition without else, which is false by default."""
        around = self.path(scope, use) if self.examined < MOST else None
        names = self.assigned(scope, use) if around is not None else []
        paths = [self.path(scope, each) for each in names]
        depth = len(around or ())
        if not paths or any(
            not path or path[:depth] != around or len(path) == depth for path in paths
        ):
            return 0
        heads = {path[depth][0] for path in paths if path}
        first = heads.pop()
        if heads or not isinstance(first, ast.If) or use.lineno <= (first.end_lineno or 0):
            return 0
        arm = self._open_arm(first, use.id, names)
        absent = "" if arm or first.orelse else self.defaults.absent(scope, first.test)
        if not arm and not absent:
            return 0
        self.examined += 1
        if self._is_excluded(scope, first, use, arm) or (absent and self._is_checked(first)):
            return 0
        self.absent[-first.lineno] = absent
        return arm[0].lineno if arm else -first.lineno

    def _open_arm(self, first: ast.If, name: str, names: list[ast.Name]) -> list[ast.stmt]:
        """An arm that works, does not assign the name, and goes on for all that is known: a call
        at its end may leave."""
        if (first, name) not in self.arms:
            arms = _arms(first)
            self.arms[first, name] = next(
                (
                    arm
                    for arm in (arms if len(arms) <= MOST else [])
                    if not any(
                        arm[0].lineno <= each.lineno <= (arm[-1].end_lineno or 0) for each in names
                    )
                    and _works(arm)
                    and not isinstance(arm[-1], ast.Expr)
                    and not any(self._ends(each) for each in arm)
                ),
                [],
            )
        return self.arms[first, name]

    def _is_excluded(self, scope: Scope, first: ast.If, use: ast.Name, arm: list[ast.stmt]) -> bool:
        """What was tested may differ by then, or the function has ended between."""
        behind = first.end_lineno or 0
        if any(behind < line < use.lineno for line in self._ends(scope.node)):
            return True
        if self._loops(use) != self._loops(first) or self._is_told(scope, first, use, arm):
            return True
        names = {text for test in _tests(first) for text in _names(test)}
        return self._is_guarded(scope, first, names) or self._varies(scope, first, names)

    def _is_told(self, scope: Scope, first: ast.If, use: ast.Name, arm: list[ast.stmt]) -> bool:
        """Something between asserts, or reads what tells which of the arms ran."""
        inside = {each for statement in arm for each in _within(statement)}
        here = _stored({each for each in _within(first) if each not in inside})
        others = (
            _stored(inside)
            if arm
            else {n for n in here - {use.id} if _is_bound_outside(scope, n, first)}
        )
        told = here & others
        return any(
            isinstance(each, ast.Assert)
            or (isinstance(each, ast.Name | ast.Attribute) and dotted(each) in told)
            for each in _within(scope.node)
            if (first.end_lineno or 0) < getattr(each, "lineno", 0) <= use.lineno
        )

    def _is_guarded(self, scope: Scope, first: ast.If, names: set[str]) -> bool:
        """A test of the same has ended the function for some values before."""
        return any(
            isinstance(node, ast.If | ast.Assert)
            and node.lineno < first.lineno
            and not names.isdisjoint(_names(node.test))
            and (isinstance(node, ast.Assert) or self._ends(node))
            for node in _within(scope.node)
        )

    def _loops(self, node: ast.AST) -> list[ast.AST]:
        """The loops around, in the same function, the nearest first."""
        found: list[ast.AST] = []
        for around, _ in enclosing(node, self.parents):
            if isinstance(around, FUNCTIONS):
                break
            if isinstance(around, ast.For | ast.AsyncFor | ast.While):
                found.append(around)
        return found

    def _is_checked(self, first: ast.If) -> bool:
        """Another test of the option, anywhere in the file, ends the program."""
        names = {each.rpartition(".")[2] for each in _names(first.test) if "." in each}
        return any(
            isinstance(node, ast.If | ast.Assert)
            and node is not first
            and not names.isdisjoint(each.rpartition(".")[2] for each in _names(node.test))
            and (isinstance(node, ast.Assert) or self._ends(node))
            for node in (self.parents if names else ())
        )

    def _varies(self, scope: Scope, first: ast.If, names: set[str]) -> bool:
        """In a loop: an earlier round may have assigned the name, by another arm."""
        loops = self._loops(first)
        if not loops:
            return False
        if any(isinstance(node, ast.Call | ast.Subscript) for test in _tests(first)
               for node in ast.walk(test)):  # fmt: skip
            return True
        touched = _touched(loops[-1])
        for name in names:
            root, _, attribute = name.partition(".")
            bound = scope.bindings.get(root, [])
            fixed = not bound or all(isinstance(each, ast.arg) for each in bound)
            if not fixed or name in touched or root in touched:
                return True
            if attribute and (root not in OBJECTS or self._changes(attribute)):
                return True
        return False

    def _changes(self, attribute: str) -> bool:
        """It is assigned twice in the file, or elsewhere than where objects are made."""
        if self.stores is None:
            self.stores = Counter()
            for node in self.parents:
                if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                    functions = (a for a, _ in enclosing(node, self.parents)
                                 if isinstance(a, FUNCTIONS))  # fmt: skip
                    made = getattr(next(functions, None), "name", "") == "__init__"
                    self.stores[node.attr] += 1 if made else 2
        return self.stores[attribute] > 1

    def _ends(self, node: ast.AST) -> list[int]:
        """Lines within in which the function or a loop is left."""
        if node not in self.ends:
            self.ends[node] = [
                each.lineno for each in _within(node)
                if isinstance(each, LEAVING)
                or (isinstance(each, FIXED) and isinstance(each.test, ast.Constant))
                or (isinstance(each, ast.Call) and last_name(each.func) in ENDING)
            ]  # fmt: skip
        return self.ends[node]


def _field(around: ast.AST, part: ast.AST) -> str:
    """The block of an if or try statement that a statement is in, by its line."""
    if isinstance(part, ast.ExceptHandler):
        return "handlers"
    found = "body"
    for name in ("orelse", "finalbody"):
        block = getattr(around, name, [])
        if block and getattr(part, "lineno", 0) >= block[0].lineno:
            found = name
    return found


def _chain(first: ast.If) -> list[ast.If]:
    """An if statement with its elifs."""
    found = [first]
    while len(found[-1].orelse) == 1 and isinstance(found[-1].orelse[0], ast.If):
        found.append(found[-1].orelse[0])
    return found


def _arms(first: ast.If) -> list[list[ast.stmt]]:
    """The blocks of an if statement with its elifs and its else."""
    chain = _chain(first)
    return [each.body for each in chain] + [each.orelse for each in chain[-1:] if each.orelse]


def _tests(first: ast.If) -> list[ast.expr]:
    return [each.test for each in _chain(first)]


def _works(arm: list[ast.stmt]) -> bool:
    """It does something, and does not only print what is wrong."""
    return any(isinstance(each, ast.Assign | ast.AugAssign) for each in arm)


def _stored(nodes: set[ast.AST]) -> set[str]:
    """Names and dotted names that are assigned."""
    return {
        dotted(each) for each in nodes
        if isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Store)
    } - {""}  # fmt: skip


def _is_bound_outside(scope: Scope, name: str, first: ast.If) -> bool:
    start, end = first.lineno, first.end_lineno or 0
    lines = (getattr(each, "lineno", 0) for each in scope.bindings.get(name, []))
    return any(not start <= line <= end for line in lines)


def _touched(loop: ast.AST) -> set[str]:
    """What a loop assigns, calls a method of or passes to a call; not self for its methods."""
    nodes = set(ast.walk(loop))
    calls = [each for each in nodes if isinstance(each, ast.Call)]
    given = [dotted(a) for call in calls for a in (*call.args, *(k.value for k in call.keywords))]
    owners = {dotted(call.func).rpartition(".")[0] for call in calls} - {"self"}
    return {*_stored(nodes), *given, *owners}


def _names(test: ast.AST) -> set[str]:
    """Names and dotted names of a test."""
    return {
        dotted(node) for node in ast.walk(test) if isinstance(node, ast.Name | ast.Attribute)
    } - {"self", ""}


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those in it, without those of functions and classes in it."""
    yield node
    yield from within(parts_of(node), (*FUNCTIONS, ast.ClassDef))
