"""Python source to `Script` facts: one walk over the syntax tree, in the order of evaluation."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from doctor.facts.script import (
    Arms,
    Assignment,
    Branch,
    Call,
    Class,
    Comparison,
    Context,
    Function,
    Import,
    Loop,
    Parameter,
    Reference,
    Span,
    Value,
)

OPERATORS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
OTHER = Value("other")
Position = Callable[[ast.AST], Span]


class Walk:
    """The tables of one file, filled in the order of evaluation."""

    def __init__(self, position: Position, segment: Callable[[ast.AST], str]) -> None:
        self.position = position
        self.segment = segment
        self.functions: list[Function] = []
        self.classes: list[Class] = []
        self.calls: list[Call] = []
        self.assignments: list[Assignment] = []
        self.contexts: list[Context] = []
        self.branches: list[Branch] = []
        self.loops: list[Loop] = []
        self.imports: list[Import] = []
        self.references: list[Reference] = []
        self.comparisons: list[Comparison] = []
        self.identifiers: set[str] = set()
        self.aliases: dict[str, str] = {}
        self._branch_ids: dict[tuple[int, str], int] = {}
        self._returns: dict[int, list[Value]] = {}
        self._scope = 0
        self._owner = ""
        self._arms: Arms = ()
        self._within: tuple[int, ...] = ()
        self._loops: tuple[int, ...] = ()

    def module(self, body: Sequence[ast.stmt]) -> None:
        """Walk a whole module."""
        self._collect_imports(body)
        self.functions.append(Function("", Span()))
        self._block(body)
        for number, returns in self._returns.items():
            function = self.functions[number]
            self.functions[number] = msgspec.structs.replace(function, returns=tuple(returns))

    # Names

    def _collect_imports(self, body: Sequence[ast.stmt]) -> None:
        """Aliases first, so that a function may use what is imported below it."""
        stack: list[Any] = list(body)
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Import):
                for name in node.names:
                    root = name.name.partition(".")[0]
                    self.aliases[name.asname or root] = name.name if name.asname else root
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                for name in node.names:
                    self.aliases[name.asname or name.name] = f"{module}.{name.name}"
            else:
                for field in ("body", "orelse", "handlers", "finalbody", "cases"):
                    stack.extend(getattr(node, field, ()) if field != "body" else _body(node))

    def dotted(self, node: ast.expr) -> str:
        """The dotted name with aliases resolved, "" for another expression."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        root = self.aliases.get(node.id, node.id)
        return ".".join([root, *reversed(parts)]) if parts else root

    # Statements

    def _block(self, body: Sequence[ast.stmt]) -> None:
        """Statements in order; after an arm that leaves the block, the rest is the other arm."""
        arms = self._arms
        for statement in body:
            handler = _STATEMENTS.get(type(statement))
            if handler is not None:
                handler(self, statement)
            elif type(statement) not in (ast.Pass, ast.Global, ast.Nonlocal, *EXITS[2:]):
                self._children(statement)
            if isinstance(statement, ast.If):
                self._arms += self._left_over(statement)
        self._arms = arms

    def _left_over(self, statement: ast.If) -> Arms:
        leaves = [bool(part) and isinstance(part[-1], EXITS) for part in _arms_of(statement)]
        if leaves[0] == leaves[1]:
            return ()
        return self._implied(statement.test, not leaves[0])

    def _branch(self, test: ast.expr, value: Value | None = None) -> tuple[int, int]:
        """The branch of a test and whether it is negated; equal tests of a scope are one branch."""
        text, flipped = self._normalized(test)
        key = (self._scope, text)
        if key not in self._branch_ids:
            self._branch_ids[key] = len(self.branches)
            self.branches.append(Branch("if", value or Value("test", text=text)))
        return self._branch_ids[key], flipped

    def _normalized(self, test: ast.expr) -> tuple[str, int]:
        flipped = 0
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, flipped = test.operand, 1 - flipped
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            right = test.comparators[0]
            if isinstance(right, ast.Constant) and (
                right.value is None or isinstance(right.value, bool)
            ):
                negative = isinstance(test.ops[0], ast.IsNot | ast.NotEq) ^ (
                    right.value is not True
                )
                return self.segment(test.left), flipped ^ int(negative)
        return self.segment(test), flipped

    def _if(self, node: ast.If) -> None:
        arms = self._arms
        outer = arms
        while True:
            value = self._test(node.test)
            self._arms = (*arms, *self._implied(node.test, True, value))
            self._block(node.body)
            arms = (*arms, *self._implied(node.test, False, value))
            self._arms = arms
            if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
                node = node.orelse[0]
                continue
            self._block(node.orelse)
            self._arms = outer
            return

    def _implied(self, test: ast.expr, holds: bool, value: Value | None = None) -> Arms:
        """The arms that follow where a test holds or not: also those of its parts.

        Where `a and not b` holds, so does a and b does not; where `a or b` does not, neither does.
        """
        branch, flipped = self._branch(test, value)
        arms: Arms = ((branch, flipped ^ (not holds)),)
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, holds = test.operand, not holds
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == holds:
            for part in test.values:
                arms += self._implied(part, holds)
        return arms

    def _test(self, node: ast.expr) -> Value:
        """The value of a condition, always of kind test unless it is a literal or a name."""
        value = self._value(node)
        return msgspec.structs.replace(value, text=self.segment(node))

    def _try(self, node: Any) -> None:
        arms = self._arms
        branch = len(self.branches)
        self.branches.append(Branch("try"))
        for number, part in enumerate([node.body, *(h.body for h in node.handlers)]):
            self._arms = (*arms, (branch, number))
            self._block(part)
        self._arms = arms
        self._block(node.orelse)
        self._block(node.finalbody)

    def _match(self, node: ast.Match) -> None:
        subject = self._value(node.subject)
        arms = self._arms
        branch = len(self.branches)
        self.branches.append(Branch("match", subject))
        for number, case in enumerate(node.cases):
            self._arms = (*arms, (branch, number))
            self._block(case.body)
        self._arms = arms

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        loops = self._loops
        number = len(self.loops)
        if isinstance(node, ast.While):
            self.loops.append(Loop("while", self._scope))
            self._loops = (*loops, number)
            self._value(node.test)
        else:
            iterable = self._value(node.iter)
            target = self.dotted(node.target)
            self.loops.append(Loop("for", self._scope, iterable, target))
            self._loops = (*loops, number)
        self._block(node.body)
        self._loops = loops
        self._block(node.orelse)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        within = self._within
        for item in node.items:
            value = self._value(item.context_expr)
            target = self.dotted(item.optional_vars) if item.optional_vars is not None else ""
            self._within = (*self._within, len(self.contexts))
            span = self.position(item.context_expr)
            self.contexts.append(Context(value, span, self._scope, target))
        self._block(node.body)
        self._within = within

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        decorators = tuple(self._value(each) for each in node.decorator_list)
        parameters = tuple(self._parameters(node.args))
        self.identifiers.add(node.name)
        saved = (self._scope, self._owner, self._arms, self._within, self._loops)
        number = len(self.functions)
        self.functions.append(
            Function(
                node.name,
                self.position(node),
                parent=saved[0],
                owner=saved[1],
                parameters=parameters,
                decorators=decorators,
            )
        )
        self._scope, self._arms, self._within, self._loops = number, (), (), ()
        self._block(node.body)
        self._scope, self._owner, self._arms, self._within, self._loops = saved

    def _parameters(self, arguments: ast.arguments) -> list[Parameter]:
        positional = [*arguments.posonlyargs, *arguments.args]
        missing = len(positional) - len(arguments.defaults)
        defaults: list[ast.expr | None] = [None] * missing + list(arguments.defaults)
        pairs = [*zip(positional, defaults, strict=True)]
        pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return [
            Parameter(
                each.arg,
                self._value(default) if default is not None else None,
                self.dotted(each.annotation) if each.annotation is not None else "",
            )
            for each, default in pairs
        ]

    def _class(self, node: ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self._value(decorator)
        bases = tuple(self.dotted(base) for base in node.bases)
        for base in node.bases:
            self._value(base)
        saved, self._owner = self._owner, node.name
        first = len(self.assignments)
        self._block(node.body)
        self._owner = saved
        fields = {
            each.target: each.value
            for each in self.assignments[first:]
            if each.scope == self._scope
        }
        self.classes.append(Class(node.name, bases, fields))

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            self._returns.setdefault(self._scope, []).append(self._value(node.value))

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        module = ""
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "") + "."
        for name in node.names:
            span = self.position(name)
            alias = name.asname or name.name
            self.imports.append(Import(module + name.name, alias, span, self._arms))
            self.identifiers.update((module + name.name).split("."))

    def _assign(self, node: ast.Assign) -> None:
        targets = [name for target in node.targets for name in self._targets(target)]
        names = tuple(name for name, _ in targets)
        first = len(self.calls)
        value = self._value(node.value)
        self._bind(value, names, first)
        for name, number in targets:
            self._record(name, _element(value, number), node)
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                self._value(target)

    def _annotated(self, node: ast.AnnAssign) -> None:
        name = self.dotted(node.target)
        self.identifiers.add(name.rpartition(".")[2])
        if node.value is None:
            return
        first = len(self.calls)
        value = self._value(node.value)
        self._bind(value, (name,) if name else (), first)
        self._record(name, value, node)

    def _augmented(self, node: ast.AugAssign) -> None:
        value = self._value(node.value)
        name = self.dotted(node.target)
        self._record(name, value, node, augmented=True)

    def _expression(self, node: ast.Expr) -> None:
        value = self._value(node.value)
        if value.kind == "call" and value.call == len(self.calls) - 1:
            call = self.calls[value.call]
            self.calls[value.call] = msgspec.structs.replace(call, statement=True)

    def _record(self, name: str, value: Value, node: ast.stmt, *, augmented: bool = False) -> None:
        if not name:
            return
        self.identifiers.add(name.rpartition(".")[2])
        self.assignments.append(
            Assignment(
                name,
                value,
                self.position(node),
                self._scope,
                len(self.calls),
                self._arms,
                self._loops,
                augmented,
            )
        )

    def _targets(self, node: ast.expr) -> list[tuple[str, int]]:
        """Assigned names, each with its index in a tuple, -1 for a single one."""
        if isinstance(node, ast.Tuple | ast.List):
            return [
                (self.dotted(each), number)
                for number, each in enumerate(node.elts)
                if self.dotted(each)
            ]
        if isinstance(node, ast.Subscript):
            base = self.dotted(node.value)
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            return [(f"{base}[{key}]", -1)] if base and isinstance(key, str) else []
        name = self.dotted(node)
        return [(name, -1)] if name else []

    def _bind(self, value: Value, names: tuple[str, ...], first: int) -> None:
        """Enter the targets into the calls that may be the value."""
        for option in (value, *value.items) if value.kind == "choice" else (value,):
            if option.kind == "call" and option.call >= first:
                call = self.calls[option.call]
                self.calls[option.call] = msgspec.structs.replace(call, targets=names)

    def _children(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._value(child)

    # Expressions

    def _value(self, node: ast.expr) -> Value:
        handler = _EXPRESSIONS.get(type(node))
        return handler(self, node) if handler is not None else self._compound(node)

    def _constant(self, node: ast.Constant) -> Value:
        value = node.value
        if value is None or isinstance(value, str | bool | float):
            return Value("literal", literal=value)
        if isinstance(value, int) and abs(value) < 2**63:
            return Value("literal", literal=value)
        return OTHER

    def _name(self, node: ast.Name) -> Value:
        self.identifiers.add(node.id)
        name = self.aliases.get(node.id)
        if name is not None:
            self.references.append(Reference(name, self.position(node), self._arms))
        return Value("name", name=name or node.id)

    def _attribute(self, node: ast.Attribute) -> Value:
        self.identifiers.add(node.attr)
        if name := self.dotted(node):
            self._note_root(node)
            self.references.append(Reference(name, self.position(node), self._arms))
            return Value("name", name=name)
        inner = self._value(node.value)
        return Value(
            "other", name=node.attr, names=_names(inner), calls=_calls(inner), items=(inner,)
        )

    def _note_root(self, node: ast.expr) -> None:
        while isinstance(node, ast.Attribute):
            self.identifiers.add(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            self.identifiers.add(node.id)

    def _call(self, node: ast.Call) -> Value:
        name, receiver, receiver_call = self._callee(node.func)
        args: list[Value] = []
        unpacked: list[Value] = []
        for each in node.args:
            if isinstance(each, ast.Starred):
                unpacked.append(self._value(each.value))
            else:
                args.append(self._value(each))
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self._value(keyword.value)
            if keyword.arg is None:
                unpacked.append(value)
            else:
                keywords[keyword.arg] = value
                self.identifiers.add(keyword.arg)
        self.calls.append(
            Call(
                name,
                self.position(node),
                self._scope,
                receiver,
                receiver_call,
                tuple(args),
                keywords,
                tuple(unpacked),
                (),
                self._arms,
                self._within,
                self._loops,
                False,
                self.position(node.func),
            )
        )
        number = len(self.calls) - 1
        inner = [*args, *keywords.values(), *unpacked]
        calls = [number, *(call for value in inner for call in _calls(value))]
        names = tuple(name for value in inner for name in _names(value))
        if receiver_call >= 0:
            calls.append(receiver_call)
        if receiver:
            names = (receiver, *names)
        return Value("call", call=number, names=names, calls=tuple(dict.fromkeys(calls)))

    def _callee(self, node: ast.expr) -> tuple[str, str, int]:
        """Name, receiver and the call that the method is called on."""
        self._note_root(node)
        if name := self.dotted(node):
            return name, name.rpartition(".")[0], -1
        if isinstance(node, ast.Attribute):
            inner = self._value(node.value)
            if inner.kind == "call":
                base = self.calls[inner.call].name
                return f"{base}().{node.attr}", "", inner.call
            receiver = inner.name if inner.kind in ("name", "item") else ""
            call = inner.call if inner.kind == "item" else -1
            return f"{receiver}[].{node.attr}", receiver, call
        inner = self._value(node)
        if inner.kind == "call":
            return f"{self.calls[inner.call].name}()", "", inner.call
        return "", "", -1

    def _conditional(self, node: ast.IfExp) -> Value:
        test = self._test(node.test)
        arms = self._arms
        self._arms = (*arms, *self._implied(node.test, True, test))
        body = self._value(node.body)
        self._arms = (*arms, *self._implied(node.test, False, test))
        orelse = self._value(node.orelse)
        self._arms = arms
        return _gather("choice", [body, orelse], extra=[test], text=test.text)

    def _bool(self, node: ast.BoolOp) -> Value:
        values = [self._value(each) for each in node.values]
        return _gather("test", values, text=self.segment(node))

    def _compare(self, node: ast.Compare) -> Value:
        left = first = self._value(node.left)
        values = [first]
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            right = self._value(comparator)
            values.append(right)
            if (symbol := OPERATORS.get(type(operator))) is not None:
                self.comparisons.append(
                    Comparison(
                        left, symbol, right, self.position(node), self._scope, len(self.calls)
                    )
                )
            left = right
        return _gather("test", values, text=self.segment(node))

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self._value(node.operand)
        if isinstance(node.op, ast.Not):
            return _gather("test", [value], text=self.segment(node))
        if isinstance(node.op, ast.USub) and isinstance(value.literal, int | float):
            return Value("literal", literal=-value.literal)
        return _gather("other", [value])

    def _binary(self, node: ast.BinOp) -> Value:
        """Long chains of + nest to the left: they are walked without recursion."""
        operands: list[ast.expr] = []
        current: ast.expr = node
        symbol = type(node.op).__name__
        while isinstance(current, ast.BinOp):
            operands.append(current.right)
            current = current.left
        operands.append(current)
        values = [self._value(each) for each in reversed(operands)]
        return _gather("other", values, name=symbol)

    def _sequence(self, node: Any) -> Value:
        return _gather("list", [self._value(each) for each in node.elts])

    def _dict(self, node: ast.Dict) -> Value:
        keys, items, extra = [], [], []
        for key, value in zip(node.keys, node.values, strict=True):
            item = self._value(value)
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                keys.append(key.value)
                items.append(item)
            else:
                extra.append(item)
        return _gather("dict", items, extra=extra, keys=tuple(keys))

    def _subscript(self, node: ast.Subscript) -> Value:
        base = self._value(node.value)
        index = self._value(node.slice)
        name = base.name if base.kind in ("name", "item") else ""
        call = base.call if base.kind in ("call", "item") else -1
        if base.kind == "name" and isinstance(index.literal, str):
            name = f"{base.name}[{index.literal}]"
        gathered = _gather("item", [base, index], name=name)
        return msgspec.structs.replace(gathered, call=call)

    def _comprehension(self, node: Any) -> Value:
        values = []
        for generator in node.generators:
            values.append(self._value(generator.iter))
            values += [self._value(test) for test in generator.ifs]
        parts = [node.elt] if hasattr(node, "elt") else [node.key, node.value]
        return _gather("other", [*values, *map(self._value, parts)])

    def _lambda(self, node: ast.Lambda) -> Value:
        return _gather("other", [self._value(node.body)])

    def _walrus(self, node: ast.NamedExpr) -> Value:
        first = len(self.calls)
        value = self._value(node.value)
        name = self.dotted(node.target)
        self._bind(value, (name,), first)
        self._record(name, value, node)  # type: ignore[arg-type]
        return value

    def _unwrapped(self, node: Any) -> Value:
        return self._value(node.value) if node.value is not None else OTHER

    def _compound(self, node: ast.AST) -> Value:
        values = [
            self._value(child)
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.expr)
        ]
        return _gather("other", values)


def _body(node: Any) -> Sequence[ast.stmt]:
    body = getattr(node, "body", ())
    return body if isinstance(body, list) else ()


def _arms_of(statement: ast.If) -> tuple[Sequence[ast.stmt], Sequence[ast.stmt]]:
    return statement.body, statement.orelse


def _names(value: Value) -> tuple[str, ...]:
    return (value.name, *value.names) if value.kind in ("name", "item") else value.names


def _calls(value: Value) -> tuple[int, ...]:
    return value.calls


def _gather(
    kind: Any,
    items: list[Value],
    *,
    extra: Sequence[Value] = (),
    keys: tuple[str, ...] = (),
    name: str = "",
    text: str = "",
) -> Value:
    """A value made of others, with all names and calls within."""
    everything = [*items, *extra]
    names = tuple(dict.fromkeys(n for value in everything for n in _names(value) if n))
    calls = tuple(dict.fromkeys(c for value in everything for c in _calls(value)))
    return Value(
        kind, name=name, items=tuple(items), keys=keys, names=names, calls=calls, text=text
    )


def _element(value: Value, number: int) -> Value:
    """What a name of a tuple is assigned: the element where the right side is written out."""
    if number < 0:
        return value
    if value.kind == "list" and number < len(value.items):
        return value.items[number]
    if value.kind == "call":
        return Value(
            "item",
            call=value.call,
            names=value.names,
            calls=value.calls,
            items=(value, Value("literal", literal=number)),
        )
    return Value("other", names=_names(value), calls=_calls(value))


_STATEMENTS: dict[type[ast.stmt], Callable[[Walk, Any], None]] = {
    ast.If: Walk._if,
    ast.For: Walk._loop,
    ast.AsyncFor: Walk._loop,
    ast.While: Walk._loop,
    ast.With: Walk._with,
    ast.AsyncWith: Walk._with,
    ast.Try: Walk._try,
    ast.TryStar: Walk._try,
    ast.Match: Walk._match,
    ast.FunctionDef: Walk._function,
    ast.AsyncFunctionDef: Walk._function,
    ast.ClassDef: Walk._class,
    ast.Return: Walk._return,
    ast.Import: Walk._import,
    ast.ImportFrom: Walk._import,
    ast.Assign: Walk._assign,
    ast.AnnAssign: Walk._annotated,
    ast.AugAssign: Walk._augmented,
    ast.Expr: Walk._expression,
}
_EXPRESSIONS: dict[type[ast.expr], Callable[[Walk, Any], Value]] = {
    ast.Constant: Walk._constant,
    ast.Name: Walk._name,
    ast.Attribute: Walk._attribute,
    ast.Call: Walk._call,
    ast.IfExp: Walk._conditional,
    ast.BoolOp: Walk._bool,
    ast.Compare: Walk._compare,
    ast.UnaryOp: Walk._unary,
    ast.BinOp: Walk._binary,
    ast.List: Walk._sequence,
    ast.Tuple: Walk._sequence,
    ast.Set: Walk._sequence,
    ast.Dict: Walk._dict,
    ast.Subscript: Walk._subscript,
    ast.ListComp: Walk._comprehension,
    ast.SetComp: Walk._comprehension,
    ast.GeneratorExp: Walk._comprehension,
    ast.DictComp: Walk._comprehension,
    ast.Lambda: Walk._lambda,
    ast.NamedExpr: Walk._walrus,
    ast.Await: Walk._unwrapped,
    ast.Yield: Walk._unwrapped,
    ast.YieldFrom: Walk._unwrapped,
    ast.Starred: Walk._unwrapped,
}
