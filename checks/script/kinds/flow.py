"""The kinds of a value: sources, followed through names, functions and operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from doctor.checks.script import evaluate
from doctor.checks.script.kinds import arithmetic, calls, parts
from doctor.checks.script.kinds.dimensions import KIND, OF, stated
from doctor.checks.script.kinds.known import (
    CALL,
    DERIVED,
    NAME,
    Kinds,
    Known,
    Place,
    agreed,
    before,
)
from doctor.checks.script.kinds.made import made_by_call, made_by_object
from doctor.checks.script.kinds.sources import ATTRIBUTES, ENVIRONMENT, SPLITS
from doctor.checks.script.reading import exclusive, within
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

HARMLESS = {"requires_grad_", "unsqueeze_", "squeeze_", "detach_"}
DEPTH = 12
"""Steps from one value to the next at most. Our own number."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The kinds of values of one file. `active`: names on the way, which no value is made of."""

    reading: Training
    results: dict[tuple[str, Place], Kinds]
    active: set[tuple[str, Place]]

    def of_argument(self, value: Value, call: Call) -> Kinds:
        return self.of(value, place_of(self.reading, call))

    def of(self, value: Value, place: Place, depth: int = DEPTH) -> Kinds:
        """The kinds of a value, by dimension; {} where nothing is known."""
        if not depth:
            return {}
        if value.kind == "name":
            return self._named(value.name, place, depth)
        if value.kind == "call":
            return self._called(self.reading.calls[value.call], depth)
        if value.kind == "choice":
            return agreed([self.of(each, place, depth - 1) for each in _given(value.items)])
        if value.kind == "item" and len(value.items) == 2:
            return self._item(value, place, depth)
        if value.kind in ("other", "list", "test") and value.items:
            return arithmetic.composed(self, value, place, depth - 1)
        return {}

    def _named(self, name: str, place: Place, depth: int) -> Kinds:
        key = (name, place)
        if key in self.results:
            return self.results[key]
        if key in self.active:
            return {}
        self.reading.step()
        self.active.add(key)
        found = self._defined(name, place, depth)
        self.active.discard(key)
        found = {**_by_name(name), **_by_attribute(name), **found}
        self.results[key] = found
        return found

    def _defined(self, name: str, place: Place, depth: int) -> Kinds:
        """What the assignments that may hold, or the calls of a function, give a name."""
        if _bound_elsewhere(self.reading, name, place):
            return {}
        results = _definitions(self.reading, name, place)
        results = [*results, *_next_round(self.reading, name, place, results)]
        if results:
            found = agreed([self._assigned(each, depth) for each in results])
            return self._changed(name, place, results, found)
        base, _, attribute = name.rpartition(".")
        if base and attribute in ("size", "shape", "data", "T"):
            inner = self.of(Value("name", name=base), place, depth - 1)
            return parts.attribute(attribute, inner)
        return self._passed(name, place, depth)

    def _assigned(self, each: Assignment, depth: int) -> Kinds:
        return self.of(each.value, before(each), depth - 1)

    def _changed(
        self, name: str, place: Place, results: Sequence[Assignment], found: Kinds
    ) -> Kinds:
        """What is left of the kinds behind `x *= 255`, `x[0] = 1` and `x.sub_(mean)`."""
        if not found:
            return found
        first = min(each.position for each in results)
        key = self.reading.key(name, place.scope)
        for each in self.reading.assigned.get(key, ()):
            if each.augmented and first <= each.position and each.scope == place.scope:
                if _is_later(each, place) and not each.loops:
                    continue
                found = arithmetic.changed(self, each.operator, each.value, found, place)
        if (place.scope, name) in self.reading.cached(_parts):
            found = parts.only(found, "form", "layout", "role", "rank", "score", "color")
        return found

    def _passed(self, name: str, place: Place, depth: int) -> Kinds:
        """What the calls of this file pass for a parameter: all of them the same."""
        owner, own = self.reading.key(name, place.scope)
        if not isinstance(owner, int) or owner <= 0:
            return {}
        names = [each.name for each in self.reading.function(owner).parameters]
        if own not in names:
            return {}
        found = []
        for site in self.reading.call_sites.get(owner, ())[:6]:
            call = self.reading.calls[site]
            value = evaluate.argument_of(self.reading, call, owner, own)
            found.append(self.of(value, place_of(self.reading, call), depth - 1) if value else {})
        return agreed(found)

    def _item(self, value: Value, place: Place, depth: int) -> Kinds:
        base, index = value.items
        if base.kind == "name" and base.name == "os.environ" and isinstance(index.literal, str):
            return source(ENVIRONMENT.get(index.literal), f'os.environ["{index.literal}"]')
        found: Kinds = {}
        if value.name.endswith("]") and isinstance(index.literal, str):
            found = {**self._named(value.name, place, depth - 1)}
            found = {**_by_name(index.literal), **_by_key(index.literal), **found}
        inner = self.of(base, place, depth - 1)
        if base.kind == "call" and self.reading.calls[base.call].method == "read":
            return inner if index.literal == 1 else {}
        if base.kind == "call" and isinstance(index.literal, int):
            inner = self._element(self.reading.calls[base.call], index.literal, inner, depth)
        return {**parts.item(inner, index), **found}

    def _element(self, call: Call, index: int, whole: Kinds, depth: int) -> Kinds:
        """One of several values that a function returns."""
        function = self.reading.target_function(call)
        if function is not None:
            returns = self.reading.function(function).returns
            taken = [
                each.items[index]
                if each.kind == "list" and index < len(each.items)
                else Value("other")
                for each in returns
            ]
            return self.returned(function, taken, depth)
        if call.method == "max" and index == 1:
            return source("class indices", "max()[1]") if "score" in whole else {}
        return whole

    def returned(self, function: int, values: Iterable[Value], depth: int) -> Kinds:
        known = self.reading.function(function)
        exits = known.exits or ((len(self.reading.calls), ()),) * len(known.returns)
        return agreed(
            [
                self.of(each, Place(function, position, arms), depth - 1)
                for each, (position, arms) in zip(values, exits, strict=False)
            ]
        )

    def _called(self, call: Call, depth: int) -> Kinds:
        if calls.reads_other_part(self.reading, call):
            return source("training data", call.args[0].name)
        function = self.reading.target_function(call)
        if function is not None and self.reading.function(function).returns:
            found = self.returned(function, self.reading.function(function).returns, depth)
            return {**_by_name(call.method), **found}
        place = place_of(self.reading, call)
        made = made_by_call(self, call, place)
        if made is None:
            made = calls.kept(self, call, place, depth - 1)
        if made is None:
            made = {**_by_name(call.method), **made_by_object(self, call, depth - 1)}
        return made


def flow_of(reading: Training) -> Flow:
    return Flow(reading, {}, set())


def place_of(reading: Training, call: Call) -> Place:
    return Place(call.scope, reading.numbers[id(call)], call.arms)


def source(name: str | None, origin: str) -> Kinds:
    return {OF[name].name: Known(KIND[name], origin, CALL)} if name else {}


def _given(items: Sequence[Value]) -> list[Value]:
    """Without None: x if x is not None else None."""
    return [each for each in items if not (each.kind == "literal" and each.literal is None)]


def _by_name(name: str) -> Kinds:
    return {
        dimension: Known(kind, f"by the name {name.rpartition('.')[2]}", NAME)
        for dimension, kind in {**stated(name), **stated(name, sure=True)}.items()
    }


def _by_attribute(name: str) -> Kinds:
    base, _, last = name.rpartition(".")
    return source(ATTRIBUTES.get(last), f".{last}") if base else {}


def _by_key(key: str) -> Kinds:
    """Of batches and of datasets: splits["train"]."""
    role = SPLITS.get(key)
    if role is not None:
        return {"role": Known(KIND[role], f'["{key}"]', DERIVED)}
    return source(ATTRIBUTES.get(key) if key == "attention_mask" else None, f'["{key}"]')


def _bound_elsewhere(reading: Training, name: str, place: Place) -> bool:
    """A loop or a with statement gives the name another value, in the same function."""
    root = name.partition(".")[0].partition("[")[0]
    return (place.scope, root) in reading.cached(_bound)


def _bound(reading: Training) -> set[tuple[int, str]]:
    found = {(each.scope, name) for each in reading.script.loops for name in each.targets}
    return found | {(each.scope, each.target) for each in reading.script.contexts if each.target}


def _parts(reading: Training) -> set[tuple[int, str]]:
    """Names of which a part is assigned, or that a method changes in place."""
    found = {(each.scope, each.target.partition("[")[0]) for each in reading.script.parts}
    return found | {
        (call.scope, call.receiver)
        for call in reading.calls
        if call.receiver and call.method.endswith("_") and call.method not in HARMLESS
    }


def _definitions(reading: Training, name: str, place: Place) -> list[Assignment]:
    """evaluate.definitions, without what stands at the same position further down."""
    found = evaluate.definitions(reading, name, place.scope, place.position, place.arms)
    order = place.order
    if order is None or all(e.scope != place.scope or e.span.order < order for e in found):
        return found
    reaching = []
    for each in reversed(reading.assigned.get(reading.key(name, place.scope), ())):
        earlier = each.scope == place.scope and each.span.order < order
        if earlier and not each.augmented and not exclusive(each.arms, place.arms):
            reaching.append(each)
            if within(place.arms, each.arms):
                break
    return reaching


def _is_later(each: Assignment, place: Place) -> bool:
    behind = place.order is not None and each.span.order >= place.order
    return each.position > place.position or behind


def _next_round(
    reading: Training, name: str, place: Place, before: list[Assignment]
) -> list[Assignment]:
    """Assignments below in a loop, whose values the next round meets."""
    return [
        each
        for each in reading.assigned.get(reading.key(name, place.scope), ())
        if each.loops and each.scope == place.scope and each.position > place.position
        if not each.augmented and each not in before
    ]
