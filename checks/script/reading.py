"""A script with indices for the rules: calls by method, definitions that reach a use, values."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

from doctor.facts.script import (
    Arms,
    Assignment,
    Call,
    Function,
    Import,
    Reference,
    Script,
    Value,
)

DEPTH = 6
"""Names followed from one to the next at most."""

DTYPES = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "fp16": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "fp32": "fp32",
    "float64": "fp64",
    "double": "fp64",
    "auto": "auto",
}
UNDECIDED = "?"


def exclusive(one: Arms, other: Arms) -> bool:
    """Whether two places are in different arms of one condition."""
    arms = dict(one)
    return any(arms.get(branch, arm) != arm for branch, arm in other)


def within(inner: Arms, outer: Arms) -> bool:
    """Whether whenever `inner` runs, `outer` does: its arms are a part of the inner ones."""
    return set(outer) <= set(inner)


class Reading:
    """One script, indexed."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.calls = script.calls
        self._numbers = {id(call): number for number, call in enumerate(script.calls)}

    @cached_property
    def by_method(self) -> dict[str, list[int]]:
        methods: dict[str, list[int]] = defaultdict(list)
        for number, call in enumerate(self.calls):
            methods[call.method].append(number)
        return methods

    @cached_property
    def by_loop(self) -> dict[int, list[int]]:
        """Calls within each loop, also in loops inside of it."""
        table: dict[int, list[int]] = defaultdict(list)
        for number, call in enumerate(self.calls):
            for loop in call.loops:
                table[loop].append(number)
        return table

    def methods(self, *names: str) -> list[int]:
        """Calls of methods or functions with these last names, in order."""
        return sorted(number for name in names for number in self.by_method.get(name, ()))

    @cached_property
    def assigned(self) -> dict[tuple[object, str], list[Assignment]]:
        """Assignments by the scope that owns the name, and the name."""
        table: dict[tuple[object, str], list[Assignment]] = defaultdict(list)
        for each in self.script.assignments:
            table[self.key(each.target, each.scope)].append(each)
        return table

    @cached_property
    def _locals(self) -> dict[int, set[str]]:
        """Names that a function binds: its parameters and what it assigns."""
        names: dict[int, set[str]] = defaultdict(set)
        for number, function in enumerate(self.script.functions):
            names[number] = {parameter.name for parameter in function.parameters}
        for each in self.script.assignments:
            names[each.scope].add(each.target.partition(".")[0].partition("[")[0])
        for call in self.calls:
            names[call.scope].update(target.partition(".")[0] for target in call.targets)
        for context in self.script.contexts:
            names[context.scope].add(context.target)
        return names

    def key(self, name: str, scope: int) -> tuple[object, str]:
        """The owner of a name: a class for self.x, else the function that binds it."""
        root = name.partition(".")[0]
        if root in ("self", "cls") and (owner := self.function(scope).owner):
            return f"class {owner}", f"self{name[len(root) :]}"
        while scope > 0 and root.partition("[")[0] not in self._locals[scope]:
            scope = self.function(scope).parent
        return scope, name

    def function(self, scope: int) -> Function:
        return self.script.functions[scope]

    @cached_property
    def functions_by_name(self) -> dict[str, list[int]]:
        table: dict[str, list[int]] = defaultdict(list)
        for number, function in enumerate(self.script.functions):
            table[function.name].append(number)
        return table

    def target_function(self, call: Call) -> int | None:
        """The function of this file that a call enters, None for another or several."""
        name = call.method
        if call.receiver not in ("", "self", "cls"):
            return None
        candidates = self.functions_by_name.get(name, [])
        if call.receiver:
            owner = self.function(call.scope).owner
            candidates = [n for n in candidates if self.function(n).owner == owner]
        return candidates[0] if len(candidates) == 1 and name else None

    @cached_property
    def call_sites(self) -> dict[int, list[int]]:
        """Calls of the file's own functions."""
        sites: dict[int, list[int]] = defaultdict(list)
        for number, call in enumerate(self.calls):
            if (function := self.target_function(call)) is not None:
                sites[function].append(number)
        return sites

    # Definitions

    def definitions(self, name: str, scope: int, position: int, arms: Arms) -> list[Assignment]:
        """Assignments that may hold where the name is used, newest first."""
        key = self.key(name, scope)
        every = [
            each
            for each in self.assigned.get(key, ())
            if not each.augmented and not exclusive(each.arms, arms)
        ]
        here = [each for each in every if each.scope == scope]
        before = [each for each in here if each.position <= position]
        if not before and scope and self.is_parameter(scope, name):
            return []
        if not before or len(here) != len(every):
            return list(reversed(every))
        reaching = []
        for each in reversed(before):
            reaching.append(each)
            if within(arms, each.arms):
                break
        return reaching

    def is_parameter(self, scope: int, name: str) -> bool:
        return any(each.name == name for each in self.function(scope).parameters)

    def argument(self, call: Call, name: str, position: int | None = None) -> Value | None:
        """An argument by keyword, by position, or from a dictionary that is unpacked."""
        if name in call.keywords:
            return call.keywords[name]
        if position is not None and position < len(call.args):
            return call.args[position]
        for value in call.unpacked:
            for option in self.options(value, call):
                if (results := self.entry(option, name)) is not None:
                    return results
            if value.kind == "name" and (item := self._item(value.name, name, call)):
                return item
        return None

    def entry(self, dictionary: Value, key: str) -> Value | None:
        """What {...} or dict(...) has for a key."""
        if dictionary.kind == "dict" and key in dictionary.keys:
            return dictionary.items[dictionary.keys.index(key)]
        if dictionary.kind == "call" and self.calls[dictionary.call].name == "dict":
            return self.calls[dictionary.call].keywords.get(key)
        return None

    def _item(self, dictionary: str, key: str, call: Call) -> Value | None:
        """What `dictionary[key] = value` assigned last."""
        results = self.assigned.get(self.key(f"{dictionary}[{key}]", call.scope), ())
        results = [each for each in results if not exclusive(each.arms, call.arms)]
        if len(results) == 1 or (results and not results[-1].arms):
            return results[-1].value
        return Value("choice", items=tuple(each.value for each in results)) if results else None

    def unpacks_unknown(self, call: Call) -> bool:
        """Whether arguments come from a dictionary that this file does not write out."""
        return any(
            option.kind != "dict"
            and not (option.kind == "call" and self.calls[option.call].name == "dict")
            for value in call.unpacked
            for option in self.options(value, call)
        )

    # Values

    def options(self, value: Value | None, call: Call, position: int | None = None) -> list[Value]:
        """What a value may be, with names followed; an undecided one is a name or other."""
        where = self._numbers[id(call)] if position is None else position
        return list(self._options(value, call.scope, where, call.arms, DEPTH))

    def options_at(self, value: Value | None, scope: int, position: int, arms: Arms) -> list[Value]:
        return list(self._options(value, scope, position, arms, DEPTH))

    def _options(
        self, value: Value | None, scope: int, position: int, arms: Arms, depth: int
    ) -> Iterator[Value]:
        if value is None:
            return
        if value.kind == "choice" and depth:
            items = value.items[:1] if self._asks_for_cuda(value.text, scope) else value.items
            for item in items:
                yield from self._options(item, scope, position, arms, depth - 1)
        elif value.kind in ("name", "item") and value.name and depth:
            yield from self._named(value, scope, position, arms, depth)
        elif value.kind == "call" and depth:
            yield from self._returned(value, depth)
        else:
            yield value

    def _asks_for_cuda(self, text: str, scope: int) -> bool:
        """A test for a GPU, also by a name that holds its result."""
        if _asks_for_cuda(text):
            return True
        results = self.assigned.get(self.key(text, scope), ()) if text.isidentifier() else ()
        return (
            len(results) == 1
            and self._truth(results[0].value) is True
            and (results[0].value.kind == "call")
        )

    def _named(
        self, value: Value, scope: int, position: int, arms: Arms, depth: int
    ) -> Iterator[Value]:
        results = self.definitions(value.name, scope, position, arms)
        followed = False
        for each in results:
            if each.value == value:
                continue
            followed = True
            yield from self._options(
                each.value, each.scope, max(each.position - 1, 0), each.arms, depth - 1
            )
        if followed:
            return
        present = list(self._passed(value, scope, depth)) or list(self._field(value, scope))
        yield from present or [value]

    def _passed(self, value: Value, scope: int, depth: int) -> Iterator[Value]:
        """What the calls of a function in this file pass for a parameter."""
        owner, name = self.key(value.name, scope)
        if not isinstance(owner, int) or owner <= 0:
            return
        names = [parameter.name for parameter in self.function(owner).parameters]
        if name not in names:
            return
        for site in self.call_sites.get(owner, ())[:8]:
            call = self.calls[site]
            passed = self._argument_of(call, owner, name)
            if passed is not None:
                yield from self._options(passed, call.scope, site, call.arms, depth - 1)
            elif (default := self.default(owner, name)) is not None:
                yield default

    def _argument_of(self, call: Call, function: int, name: str) -> Value | None:
        names = [parameter.name for parameter in self.function(function).parameters]
        if names[:1] in (["self"], ["cls"]):
            names = names[1:]
        return self.argument(call, name, names.index(name) if name in names else None)

    def default(self, function: int, name: str) -> Value | None:
        """A parameter's default."""
        return next(
            (each.default for each in self.function(function).parameters if each.name == name),
            None,
        )

    def _field(self, value: Value, scope: int) -> Iterator[Value]:
        """A field of an instance of a class of this file, or a flag of a launch line."""
        base, _, name = value.name.rpartition(".")
        if not base:
            return
        if (flag := self.launched(name)) is not None and base not in ("self", "torch"):
            yield flag
            return
        for each in self.assigned.get(self.key(base, scope), ()):
            if each.value.kind == "call":
                made = self.calls[each.value.call]
                for class_ in self.script.classes:
                    if class_.name == made.name and name in class_.fields:
                        yield made.keywords.get(name, class_.fields[name])

    def launched(self, name: str) -> Value | None:
        """The value of a flag that all launch lines agree on."""
        values = {launch.arguments.get(name) for launch in self.script.launches}
        if len(values) != 1 or (text := values.pop()) is None:
            return None
        if text.casefold() in ("", "true", "1", "yes", "false", "0", "no"):
            return Value("literal", literal=text.casefold() in ("", "true", "1", "yes"))
        return Value("literal", literal=text)

    def _returned(self, value: Value, depth: int) -> Iterator[Value]:
        """What a function of this file returns; another call is itself."""
        call = self.calls[value.call]
        function = self.target_function(call)
        returns = self.function(function).returns if function is not None else ()
        if function is None or not returns:
            yield value
            return
        last = len(self.calls)
        for each in returns:
            yield from self._options(each, function, last, (), depth - 1)

    def truth(self, value: Value | None, call: Call) -> bool | None:
        """True or False where decided by a literal, else None; () gives None."""
        values = {self._truth(option) for option in self.options(value, call)}
        return values.pop() if len(values) == 1 else None

    def _truth(self, value: Value) -> bool | None:
        if value.kind == "call" and self.calls[value.call].name == "torch.cuda.is_available":
            return True
        return bool(value.literal) if value.kind == "literal" else None

    def literals(self, value: Value | None, call: Call) -> set[object]:
        """Literal values; `UNDECIDED` stands for any other."""
        return {
            option.literal if option.kind == "literal" else UNDECIDED
            for option in self.options(value, call)
        }

    def dtypes(self, value: Value | None, call: Call) -> set[str]:
        """Names such as bf16, fp16, auto; `UNDECIDED` for what is decided elsewhere."""
        return {self.dtype(option) for option in self.options(value, call)}

    def dtype(self, value: Value) -> str:
        """The dtype that a value without names to follow is."""
        if value.kind == "literal" and isinstance(value.literal, str):
            return DTYPES.get(value.literal.removeprefix("torch."), UNDECIDED)
        if value.kind == "literal" and value.literal is None:
            return "default"
        if value.kind == "name" and value.name.startswith("torch."):
            return DTYPES.get(value.name.removeprefix("torch."), UNDECIDED)
        if value.kind == "call":
            call = self.calls[value.call]
            if call.name == "getattr" and len(call.args) > 1 and call.args[0].name == "torch":
                return self.dtype(call.args[1])
        return UNDECIDED

    # Structure

    def is_conditional(self, call: Call | Assignment, *, tries: bool = False) -> bool:
        """Whether any condition decides if it runs, a constant of the file included.

        `tries`: a try statement around it, too.
        """
        return any(
            (tries or branch.kind != "try")
            and (branch.test is None or "__name__" not in branch.test.names)
            for branch in (self.script.branches[number] for number, _ in call.arms)
        )

    def is_flagged(self, call: Call | Assignment, *words: str) -> bool:
        """Whether a condition decides if it runs, one that has such a word where words are given.

        `if __name__ == "__main__"`, a constant of the file and a test for CUDA decide nothing.
        """
        return any(self.decides(branch, words) for branch, _ in call.arms)

    def decides(self, branch: int, words: tuple[str, ...] = ()) -> bool:
        test = self.script.branches[branch].test
        if self.script.branches[branch].kind != "if" or test is None:
            return self.script.branches[branch].kind == "match"
        if "__name__" in test.names or test.kind == "literal" or _asks_for_cuda(test.text):
            return False
        if words and not any(word in test.text.casefold() for word in words):
            return False
        return not (test.kind == "name" and self._is_constant(test.name))

    def _is_constant(self, name: str) -> bool:
        """A name of the module that is assigned literals only."""
        results = self.assigned.get((0, name), ())
        return bool(results) and all(each.value.kind == "literal" for each in results)

    def tests(self, call: Call | Assignment) -> Iterator[Value]:
        """The conditions around."""
        for branch, _ in call.arms:
            if (test := self.script.branches[branch].test) is not None:
                yield test

    def contexts(self, call: Call) -> Iterator[Value]:
        """The with items around, the innermost first."""
        for number in reversed(call.contexts):
            yield self.script.contexts[number].value

    def scope_calls(self, scope: int) -> list[int]:
        return self._by_scope.get(scope, [])

    @cached_property
    def _by_scope(self) -> dict[int, list[int]]:
        table: dict[int, list[int]] = defaultdict(list)
        for number, call in enumerate(self.calls):
            table[call.scope].append(number)
        return table

    def mentions(self, *words: str) -> bool:
        """Whether an identifier contains one of the words, in lower case."""
        return any(word in name for name in self._lower for word in words)

    @cached_property
    def _lower(self) -> frozenset[str]:
        return frozenset(name.casefold() for name in self.script.identifiers)

    @functools.cache  # noqa: B019 - a reading lives as long as its file is judged
    def uses(self, prefix: str) -> list[Arms]:
        """Arms of each import, reference and call of names with this prefix."""
        named: list[Import | Reference | Call] = [*self.script.imports, *self.script.references]
        return [each.arms for each in [*named, *self.calls] if each.name.startswith(prefix)]

    def imports_from(self, *packages: str) -> bool:
        """Whether something of these packages is imported."""
        return any(
            each.name == package or each.name.startswith(package + ".")
            for each in self.script.imports
            for package in packages
        )


def _asks_for_cuda(text: str) -> bool:
    """A test for a GPU: on the machines that matter here it holds."""
    return text.strip() in ("torch.cuda.is_available()", 'device == "cuda"', "device == 'cuda'")


def flatten(values: Iterable[Value]) -> Iterator[Value]:
    """Values and all that they are made of."""
    for value in values:
        yield value
        yield from flatten(value.items)
