"""A script with indices for the rules, and what surrounds each call."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

import msgspec

from doctor.facts.script import (
    Arms,
    Assignment,
    Branch,
    Call,
    Function,
    Import,
    Loop,
    Reference,
    Script,
    Span,
    Value,
)


def exclusive(one: Arms, other: Arms) -> bool:
    """Whether two places are in different arms of one condition."""
    if not one or not other:
        return False
    arms = dict(one)
    return any(arms.get(branch, arm) != arm for branch, arm in other)


def within(inner: Arms, outer: Arms) -> bool:
    """Whether whenever `inner` runs, `outer` does: its arms are a part of the inner ones."""
    return set(outer) <= set(inner)


MOST_STEPS = 100_000
"""Definitions that one rule follows in one file. Our own number: no rule met it in
4,726 public files."""


T = TypeVar("T")
LEARNED = {
    "Linear", "LazyLinear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d",
    "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d", "LazyConv3d", "Embedding",
    "EmbeddingBag", "LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell", "LayerNorm",
    "GroupNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "RMSNorm",
    "InstanceNorm2d", "MultiheadAttention", "Transformer", "TransformerEncoder",
    "TransformerEncoderLayer", "TransformerDecoder", "TransformerDecoderLayer", "PReLU",
    "Parameter",
}  # fmt: skip
"""What of torch.nn has or is a parameter."""
MODULE_BASES = ("nn.Module", "LightningModule", "PreTrainedModel")


class TooManySteps(Exception):
    """A rule followed more definitions than MOST_STEPS in one file."""


class Reading:
    """One script, indexed."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.steps = 0
        self._results: dict[Callable[[Any], object], object] = {}
        self.memo: dict[tuple[Hashable, ...], list[Value]] = {}
        """What a name may be, by name and place."""
        self.calls = script.calls
        self.assignments = script.assignments
        self.loops = script.loops
        self.branches = script.branches
        self.comparisons = script.comparisons
        self.numbers = {id(call): number for number, call in enumerate(script.calls)}
        self._kept: list[Call] = []

    def cached(self, compute: Callable[[Any], T]) -> T:
        """What a function finds in this reading, computed once."""
        if compute not in self._results:
            self._results[compute] = compute(self)
        return cast("T", self._results[compute])

    def changed(self, call: Call, keywords: dict[str, Value]) -> Call:
        """The call with other keywords, at the same place."""
        other = msgspec.structs.replace(call, keywords=keywords)
        self.numbers[id(other)] = self.numbers[id(call)]
        self._kept.append(other)
        return other

    def step(self, looked_at: int = 16) -> None:
        """Count a definition that is followed, or 16 places that are only looked at.

        Raises TooManySteps.
        """
        self.steps += looked_at // 16
        if self.steps > MOST_STEPS:
            raise TooManySteps

    @cached_property
    def modules(self) -> set[str]:
        """Classes of this file that are modules of torch, also through each other."""
        names: set[str] = set()
        for each in self.script.classes:
            if any(b.endswith(MODULE_BASES) or b in names for b in each.bases):
                names.add(each.name)
        return names

    @cached_property
    def learned(self) -> set[str]:
        """Those of them that make layers with parameters, or Parameters, for certain."""
        makers = {
            self.function(call.scope).owner
            for call in self.calls
            if call.name.startswith("torch.nn.") and call.method in LEARNED
        }
        return self.modules & makers

    @cached_property
    def by_method(self) -> dict[str, list[int]]:
        methods: dict[str, list[int]] = defaultdict(list)
        for number, call in enumerate(self.calls):
            methods[call.method].append(number)
        return methods

    def calls_where(self, wanted: Callable[[str], bool]) -> list[int]:
        """Calls whose last name is wanted, in order; each name is asked once."""
        return sorted(n for name, ns in self.by_method.items() if wanted(name) for n in ns)

    @cached_property
    def by_loop(self) -> dict[int, list[int]]:
        """Calls within each loop, also in loops inside of it."""
        table: dict[int, list[int]] = defaultdict(list)
        for number, call in enumerate(self.calls):
            for loop in call.loops:
                table[loop].append(number)
        return table

    def methods(self, *names: str) -> list[int]:
        """Numbers of the calls of methods or functions with these last names, in order."""
        return sorted(number for name in names for number in self.by_method.get(name, ()))

    def named(self, *names: str) -> list[Call]:
        """Calls of methods or functions with these last names, in order."""
        return [self.calls[number] for number in self.methods(*names)]

    def numbered(self, numbers: Iterable[int]) -> Iterator[tuple[int, Call]]:
        """Calls with their numbers."""
        return ((number, self.calls[number]) for number in numbers)

    def number(self, call: Call) -> int:
        """Its position; the end of the file for a call that stands nowhere in it."""
        return self.numbers.get(id(call), len(self.calls))

    def call_of(self, value: Value | None) -> Call | None:
        """The call whose result a value is."""
        return self.calls[value.call] if value is not None and value.kind == "call" else None

    def called(self, value: Value) -> str:
        """The name of the call whose result a value is, "" for any other value."""
        return self.calls[value.call].name if value.kind == "call" else ""

    def before(self, call: Call) -> Call | None:
        """The call on whose result a method is called."""
        return self.calls[call.receiver_call] if call.receiver_call >= 0 else None

    def inside(self, value: Value) -> list[Call]:
        """All calls within a value."""
        return [self.calls[number] for number in value.calls]

    def calls_of(self, values: Iterable[Value]) -> list[Call]:
        """Those of some values that are results of calls."""
        return [self.calls[value.call] for value in values if value.kind == "call"]

    def loop_of(self, place: Call | Assignment) -> Loop | None:
        """The innermost loop around."""
        return self.loops[place.loops[-1]] if place.loops else None

    @cached_property
    def assigned(self) -> dict[tuple[object, str], list[Assignment]]:
        """Assignments by the scope that owns the name, and the name."""
        table: dict[tuple[object, str], list[Assignment]] = defaultdict(list)
        for each in self.assignments:
            table[self.key(each.target, each.scope)].append(each)
        return table

    def assigned_to(self, name: str, scope: int) -> Sequence[Assignment]:
        """All that is assigned to what a name of a function stands for."""
        return self.assigned.get(self.key(name, scope), ())

    @cached_property
    def stores(self) -> tuple[Assignment, ...]:
        """Assignments, and behind them those to parts."""
        return (*self.assignments, *self.script.parts)

    @cached_property
    def _locals(self) -> dict[int, set[str]]:
        """Names that a function binds: its parameters and what it assigns."""
        names: dict[int, set[str]] = defaultdict(set)
        for number, function in enumerate(self.script.functions):
            names[number] = {parameter.name for parameter in function.parameters}
        for each in self.assignments:
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

    def returns(self, function: int | None) -> tuple[Value, ...]:
        """What a function of this file returns, () without one."""
        return self.script.functions[function].returns if function is not None else ()

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
        elif candidates:
            if self.assigned.get(self.key(name, call.scope)):
                return None
            candidates = [n for n in candidates if not self._is_method(n)]
        return candidates[0] if len(candidates) == 1 and name else None

    def _is_method(self, number: int) -> bool:
        """It is defined in the body of a class, not within another function."""
        function = self.function(number)
        return bool(function.owner) and self.function(function.parent).owner != function.owner

    @cached_property
    def call_sites(self) -> dict[int, list[int]]:
        """Calls of the file's own functions."""
        sites: dict[int, list[int]] = defaultdict(list)
        for number, call in enumerate(self.calls):
            if (function := self.target_function(call)) is not None:
                sites[function].append(number)
        return sites

    def callers(self, function: int) -> list[Call]:
        """Calls of one of the file's own functions."""
        return [self.calls[number] for number in self.call_sites.get(function, ())]

    def made_at(self, function: int) -> list[int]:
        """Calls of the class whose __init__ a function is."""
        owner = self.function(function).owner if self.function(function).name == "__init__" else ""
        sites = self.by_method.get(owner, ()) if owner else ()  # (a * n)(x) has no name either
        return [n for n in sites if self.calls[n].name == owner]

    @cached_property
    def expressions(self) -> list[tuple[Value, Span, int]]:
        """What is assigned, passed or returned, with its place and scope."""
        found = [(a.value, a.span, a.scope) for a in self.stores]
        for call in self.calls:
            found += [(v, call.span, call.scope) for v in (*call.values, *call.unpacked)]
        for scope, function in enumerate(self.script.functions):
            spans = function.exit_spans or (function.span,) * len(function.returns)
            found += [(v, s, scope) for v, s in zip(function.returns, spans, strict=True)]
        return found

    def values_in(self, scope: int) -> list[Value]:
        """Those of one function."""
        return [value for value, _, where in self.expressions if where == scope]

    def loops_over(self, scope: int, name: str) -> Iterator[int]:
        """Loops of a function whose iterable names this, under enumerate and tqdm, too."""
        for number, loop in enumerate(self.loops):
            value = loop.iterable
            if loop.scope == scope and value is not None and name in value.all_names:
                yield number

    def is_conditional(self, call: Call | Assignment, *, tries: bool = False) -> bool:
        """Whether any condition decides if it runs, a constant of the file included.

        `tries`: a try statement around it, too.
        """
        return any(
            (tries or branch.kind != "try")
            and not _tests_data(branch)
            and (branch.test is None or "__name__" not in branch.test.names)
            for branch in (self.branches[number] for number, _ in call.arms)
        )

    def is_flagged(self, call: Call | Assignment, *words: str) -> bool:
        """Whether a condition decides if it runs, one that has such a word where words are given.

        `if __name__ == "__main__"`, a constant of the file and a test for CUDA decide nothing.
        """
        return any(self.decides(branch, words) for branch, _ in call.arms)

    def decides(self, branch: int, words: tuple[str, ...] = ()) -> bool:
        test = self.branches[branch].test
        if self.branches[branch].kind != "if" or test is None:
            return self.branches[branch].kind == "match"
        if _tests_data(self.branches[branch]):
            return False
        if "__name__" in test.names or test.kind == "literal" or asks_for_cuda(test.text):
            return False
        if words and not any(word in test.text.casefold() for word in words):
            return False
        return not (test.kind == "name" and self._is_constant(test.name))

    def _is_constant(self, name: str) -> bool:
        """A name of the module that is assigned literals only."""
        results = self.assigned.get((0, name), ())
        return bool(results) and all(each.value.kind == "literal" for each in results)

    def test_of(self, branch: int) -> Value | None:
        """The condition of a branch; a try has none."""
        return self.branches[branch].test

    def written_test(self, branch: int, scope: int) -> Value | None:
        """The condition of a branch: of a name that is assigned once, what it was given."""
        test = self.test_of(branch)
        named = self.assigned_to(test.name, scope) if test and test.kind == "name" else ()
        return named[0].value if len(named) == 1 else test

    def tests(self, call: Call | Assignment) -> Iterator[Value]:
        """The conditions around."""
        for branch, _ in call.arms:
            if (test := self.test_of(branch)) is not None:
                yield test

    def contexts(self, call: Call) -> Iterator[Value]:
        """The with items around, the innermost first."""
        for number in reversed(call.contexts):
            yield self.script.contexts[number].value

    def scope_calls(self, scope: int) -> list[int]:
        return self._by_scope.get(scope, [])

    def iterable_of(self, place: Call | Assignment) -> Value | None:
        """What the innermost loop around goes over."""
        loop = self.loop_of(place)
        return loop.iterable if loop is not None else None

    def calls_in(self, scope: int) -> list[Call]:
        """Calls of one function, in order."""
        return [self.calls[number] for number in self.scope_calls(scope)]

    @cached_property
    def _by_scope(self) -> dict[int, list[int]]:
        table: dict[int, list[int]] = defaultdict(list)
        for number, call in enumerate(self.calls):
            table[call.scope].append(number)
        return table

    @functools.cache  # noqa: B019 - the same
    def mentions(self, *words: str) -> bool:
        """Whether an identifier contains one of the words, in lower case."""
        return any(word in self._lower for word in words)

    @cached_property
    def _lower(self) -> str:
        """All identifiers, in lines: one search for each word."""
        return "\n".join(self.script.identifiers).casefold()

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


CUDA = re.compile(
    r"torch\.cuda\.is_available\(\)|(?:\w+\.)*device(?:_type|\.type)?\s*==\s*['\"]cuda['\"]"
)
DATA = re.compile(r"\blen\(|\bin\b|[<>%]|==\s*0\b|\bis None\b|\bempty\b|\bisfinite\b|\bisnan\b")


def asks_for_cuda(text: str) -> bool:
    """A test for a GPU: on the machines that matter here it holds."""
    return CUDA.fullmatch(text.strip()) is not None


def _tests_data(branch: Branch) -> bool:
    """`if len(batch) == 0: continue` decides nothing about what follows it."""
    return branch.guard and branch.test is not None and DATA.search(branch.test.text) is not None


def flatten(values: Iterable[Value]) -> Iterator[Value]:
    """Values and all that they are made of."""
    for value in values:
        yield value
        yield from flatten(value.items)
