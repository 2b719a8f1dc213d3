"""Calls of the file's own functions that do not fit them."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterator

from doctor.facts.script import Raising, Span
from doctor.script.parts import parts_of
from doctor.script.raising.scopes import Scope, enclosing

Definition = ast.FunctionDef | ast.AsyncFunctionDef
NEUTRAL = {"staticmethod", "classmethod", "no_grad", "inference_mode", "torch.no_grad",
           "torch.inference_mode", "torch.no_grad()", "torch.inference_mode()"}  # fmt: skip
"""Decorators that leave the parameters as they are."""
MAKERS = re.compile(r"Enum|Flag|Singleton|Meta|NamedTuple|with_metaclass|\(")
"""Bases of other files whose metaclass or __new__ has parameters of its own."""
Position = Callable[[ast.AST], Span]


class Definitions:
    """The functions and classes of a file that one definition alone stands for."""

    def __init__(
        self, scopes: list[Scope], parents: dict[ast.AST, ast.AST], stored: set[str]
    ) -> None:
        self.scopes = scopes
        self.parents = parents
        self.classes: dict[str, ast.ClassDef] = {}
        self.by_scope = {scope.node: scope for scope in scopes}
        for name, bindings in scopes[0].bindings.items():
            if len(bindings) == 1 and isinstance(bindings[0], ast.ClassDef):
                self.classes[name] = bindings[0]
        bases = [base for scope in scopes if isinstance(scope.node, ast.ClassDef)
                 for base in scope.node.bases]  # fmt: skip
        self.returned: dict[ast.AST, set[int | None]] = {}
        self.around: dict[Scope | None, ast.ClassDef | None] = {}
        """The class whose own object `self` is, by the scope that has the name."""
        self.open: dict[ast.AST, bool] = {}
        """Classes whose attributes may be set out of sight."""
        self.stored = stored
        """All attributes that the file assigns, of whatever object."""
        self.extended = {ast.unparse(base).rpartition(".")[2] for base in bases}

    def is_plain(self, owner: ast.ClassDef) -> bool:
        """Calling the class calls its __init__: it and its bases make no objects of their own."""
        waiting, seen = [owner], {owner}
        while waiting:
            each = waiting.pop()
            if each.decorator_list or each.keywords or "__new__" in self.by_scope[each].bindings:
                return False
            for base in each.bases:
                text = ast.unparse(base)
                if MAKERS.search(text):
                    return False
                known = self.classes.get(text)
                if known is not None and known not in seen:
                    seen.add(known)
                    waiting.append(known)
        return True

    def is_read_inside(self, scope: Scope, name: str) -> bool:
        """A function, a comprehension or a class inside of a scope reads its name."""
        return any(
            use.id == name and inner.owner(name) is scope
            for inner in self.scopes
            if inner is not scope
            for use in inner.uses
        )

    def method(self, owner: ast.ClassDef, name: str) -> Definition | None:
        """The only definition of a method in the body of a class."""
        found = self.by_scope[owner].bindings.get(name, [])
        ours = len(found) == 1 and self.parents.get(found[0]) is owner
        return found[0] if ours and isinstance(found[0], Definition) else None


def misfits(definitions: Definitions, span: Position) -> Iterator[Raising]:
    """One for each call."""
    for scope in definitions.scopes:
        for use in scope.uses:
            call = node = definitions.parents.get(use)
            first: ast.expr = use
            if isinstance(call, ast.Attribute):
                if use.id != "self":
                    continue
                first, node = call, definitions.parents.get(call)
            if call is None or not isinstance(node, ast.Call) or first is not node.func:
                continue
            called, skip = _called(definitions, scope, use, call)
            if called is None or is_guarded(node, definitions.parents, "TypeError"):
                continue
            found = _misfit(node, called, skip, span)
            if found is not None or (found := _count(definitions, node, called, span)) is not None:
                yield found


def _called(
    definitions: Definitions, scope: Scope, use: ast.Name, node: ast.AST
) -> tuple[Definition | None, int]:
    """The definition that is called, and how many of its parameters the call does not give."""
    if isinstance(node, ast.Attribute):
        return _method(definitions, scope, use, node.attr)
    owner = scope.owner(use.id)
    bindings = owner.bindings[use.id] if owner is not None else []
    if len(bindings) != 1 or (owner is not None and isinstance(owner.node, ast.ClassDef)):
        return None, 0
    if isinstance(bindings[0], Definition):
        return bindings[0], 0
    made = bindings[0] if owner is definitions.scopes[0] else None
    if isinstance(made, ast.ClassDef) and definitions.is_plain(made):
        return definitions.method(made, "__init__"), 1
    return None, 0


def _method(
    definitions: Definitions, scope: Scope, use: ast.Name, name: str
) -> tuple[Definition | None, int]:
    """self.name(...) in a class that no other of the file extends."""
    around = scope.owner(use.id)
    if around not in definitions.around:
        definitions.around[around] = _class_around(definitions, scope, use)
    owner = definitions.around[around]
    if owner is None or owner.name in definitions.extended or name == "__new__":
        return None, 0
    method = definitions.method(owner, name)
    if method is None or name in definitions.stored:
        return None, 0
    decorators = {ast.unparse(each) for each in method.decorator_list}
    return method, 0 if "staticmethod" in decorators else 1


def _class_around(definitions: Definitions, scope: Scope, use: ast.Name) -> ast.ClassDef | None:
    """The class whose own object a name is: the first parameter of its method."""
    owner = scope.owner(use.id)
    node = owner.node if owner is not None else None
    if not isinstance(node, Definition) or any(
        ast.unparse(each) in ("staticmethod", "classmethod") for each in node.decorator_list
    ):
        return None
    parameters = [*node.args.posonlyargs, *node.args.args]
    if not parameters or parameters[0].arg != use.id or use.id != "self":
        return None
    if len(owner.bindings[use.id]) != 1 if owner is not None else True:
        return None
    around = definitions.parents.get(node)
    return around if isinstance(around, ast.ClassDef) else None


def _misfit(call: ast.Call, called: Definition, skip: int, span: Position) -> Raising | None:
    arguments = called.args
    if any(ast.unparse(each) not in NEUTRAL for each in called.decorator_list):
        return None
    positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if len(positional) < skip and arguments.vararg is None:
        return Raising("many", "self", span(call.func), called.name)
    keywords = [each.arg for each in call.keywords if each.arg is not None]
    names = [*positional[skip:], *(each.arg for each in arguments.kwonlyargs)]
    unknown = [name for name in keywords if name not in names]
    if unknown and arguments.kwarg is None:
        node = next(each for each in call.keywords if each.arg == unknown[0])
        nearest = difflib.get_close_matches(unknown[0], names, 1, 0.7)
        expected = ", ".join(names)
        return Raising("keyword", unknown[0], span(node), called.name, "".join(nearest), expected)
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    given = len(call.args)
    places = positional[skip:]
    if given > len(places) and arguments.vararg is None:
        return Raising("many", str(given), span(call.func), called.name, "", str(len(places)))
    alone = {each.arg for each in arguments.posonlyargs}
    twice = [each for each in call.keywords if each.arg in places[:given] and each.arg not in alone]
    if twice:
        return Raising("twice", str(twice[0].arg), span(twice[0]), called.name)
    if len(keywords) != len(call.keywords):
        return None
    required = places[: len(places) - min(len(arguments.defaults), len(places))]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    required = required[given:] + [each.arg for each, default in pairs if default is None]
    missing = [name for name in required if name not in keywords]
    return Raising("missing", missing[0], span(call.func), called.name) if missing else None


def _count(
    definitions: Definitions, call: ast.Call, called: Definition, span: Position
) -> Raising | None:
    """a, b = f() where every return of f has three values."""
    assigned = definitions.parents.get(call)
    if not isinstance(assigned, ast.Assign) or assigned.value is not call:
        return None
    target = assigned.targets[0]
    if len(assigned.targets) != 1 or not isinstance(target, ast.Tuple | ast.List):
        return None
    if called.name == "__init__" or isinstance(called, ast.AsyncFunctionDef):
        return None
    if any(isinstance(each, ast.Starred) for each in target.elts):
        return None
    if called not in definitions.returned:
        definitions.returned[called] = _returned(called)
    counts = definitions.returned[called]
    if not counts or None in counts or len(target.elts) in counts:
        return None
    values = " or ".join(str(each) for each in sorted(each for each in counts if each is not None))
    return Raising("count", str(len(target.elts)), span(call), called.name, "", values)


def _returned(called: Definition) -> set[int | None]:
    """How many values each return has, None for what is not written out."""
    found: set[int | None] = set()
    waiting: list[ast.AST] = [*called.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Definition | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return {None}
        if isinstance(node, ast.Return):
            written = isinstance(node.value, ast.Tuple) and not any(
                isinstance(each, ast.Starred) for each in node.value.elts
            )
            found.add(
                len(node.value.elts) if written and isinstance(node.value, ast.Tuple) else None
            )
        waiting += parts_of(node)
    return found


def is_guarded(node: ast.AST, parents: dict[ast.AST, ast.AST], error: str) -> bool:
    """In a try statement that catches the error, or under pytest.raises or suppress."""
    for around, child in enclosing(node, parents):
        if isinstance(around, ast.Try) and child in around.body and around.handlers:
            types = [ast.unparse(each.type) if each.type else "" for each in around.handlers]
            if any(not each or error in each or "Exception" in each for each in types):
                return True
        if isinstance(around, ast.With) and any(
            word in ast.unparse(item) for item in around.items for word in ("aises", "suppress")
        ):
            return True
    return False
