"""What operators make of the kinds of their operands."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from doctor.checks.script import evaluate
from doctor.checks.script.kinds import parts
from doctor.checks.script.kinds.conversions import MAKES
from doctor.checks.script.kinds.dimensions import DIMENSIONS, KIND, OF, converted
from doctor.checks.script.kinds.known import CALL, DERIVED, Follower, Kinds, Known, Place, agreed
from doctor.facts.script import Value

ADDITIVE = {each.name for each in DIMENSIONS if each.additive}
LASTING = {each.name for each in DIMENSIONS if each.lasting} | {"form"}
SUMS = ("distance", "progress", "reduction", "share")
"""Dimensions in which the sum of two values of one kind is of it."""
SMALL = 1e-2
"""Added to a value to keep a logarithm or a division finite. Our own number."""
ZERO = re.compile(r"==\s*(?:0|False)$|!=\s*(?:1|True)$")
ONE = re.compile(r"!=\s*(?:0|False)$|==\s*(?:1|True)$|>\s*0(?:\.5)?$")
PADS = re.compile(
    r"(?P<operator>[!=]=)\s*(?:\w+\.)*\w*(?:pad|PAD)\w*\s*\)?$"
    r"|arange\(.*(?P<order><|>=)\s*\(?(?:\w+\.)*\w*len"
)


def made_of(found: Kinds, operation: str, origin: str = "") -> Kinds:
    """What an operation makes of the kinds, those that it has no row for are lost."""
    made: Kinds = {}
    for known in found.values():
        name = MAKES.get((operation, known.kind.name))
        if name is not None:
            text = origin or known.origin
            made[OF[name].name] = Known(KIND[name], text, max(known.evidence, DERIVED))
    return made


def composed(flow: Follower, value: Value, place: Place, depth: int) -> Kinds:
    """Operators, conditions and tuples."""
    handler = HANDLERS.get(value.name if value.kind == "other" else value.kind)
    return handler(flow, value, place, depth) if handler is not None else {}


def _test(flow: Follower, value: Value, place: Place, depth: int) -> Kinds:
    """mask == 0, tokens != pad, and predictions that are compared with labels."""
    text = value.text.strip()
    if (found := PADS.search(text)) is not None:
        tokens = (found["operator"] or found["order"]) in ("!=", "<")
        kind = KIND["True for tokens" if tokens else "True for what is ignored"]
        return {"mask": Known(kind, text[:40], CALL)}
    if len(value.items) != 2:
        return {}
    mask = parts.only(flow.of(value.items[0], place, depth), "mask")
    if ZERO.search(text):
        return made_of(mask, "complement")
    if ONE.search(text):
        return mask
    return {"share": Known(KIND["matches"], "a comparison", DERIVED)} if "==" in text else {}


def _pair(flow: Follower, value: Value, place: Place, depth: int) -> Kinds:
    """(h, w) of the two sides of an image."""
    if len(value.items) != 2:
        return {}
    known = [flow.of(each, place, depth).get("plane") for each in value.items]
    first, second = known
    if first is None or second is None:
        return {}
    for sides, name in (
        (("a width", "a height"), "(width, height)"),
        (("a height", "a width"), "(height, width)"),
    ):
        if (first.kind.name, second.kind.name) == sides:
            evidence = min(first.evidence, second.evidence)
            return {"plane": Known(KIND[name], first.origin, evidence)}
    return {}


def _negative(flow: Follower, value: Value, place: Place, depth: int) -> Kinds:
    return made_of(flow.of(value.items[0], place, depth), "negative")


def _inverted(flow: Follower, value: Value, place: Place, depth: int) -> Kinds:
    return made_of(flow.of(value.items[0], place, depth), "complement")


def _raised(flow: Follower, value: Value, place: Place, depth: int) -> Kinds:
    return power(flow, value.items[0], value.items[1:], place, depth)


def power(
    flow: Follower, base: Value, exponent: tuple[Value, ...], place: Place, depth: int
) -> Kinds:
    """base ** 2 and base ** 0.5."""
    number = numeric(flow, exponent[0], place) if len(exponent) == 1 else None
    operation = {2.0: "square", 0.5: "sqrt"}.get(number or 0.0)
    return made_of(flow.of(base, place, depth), operation) if operation else {}


def _sum(flow: Follower, value: Value, place: Place, depth: int) -> Kinds:
    two = len(value.items) == 2
    if value.name == "Sub" and two and numeric(flow, value.items[0], place) == 1.0:
        return made_of(flow.of(value.items[1], place, depth), "complement")
    terms = [flow.of(each, place, depth) for each in value.items]
    if two and abs(numeric(flow, value.items[1], place) or 1) < SMALL:
        return terms[0]
    found = {
        k: known
        for term in terms
        for k, known in term.items()
        if k in ADDITIVE | LASTING and all(k not in t or t[k].kind is known.kind for t in terms)
    }
    return parts.without({**found, **parts.only(agreed(terms), *SUMS)}, "role")


def _product(flow: Follower, value: Value, place: Place, depth: int) -> Kinds:
    if special := _percent(flow, value, place) or _bits(flow, value):
        return special
    numbers = [numeric(flow, each, place) for each in value.items]
    unknown = [each for each, n in zip(value.items, numbers, strict=True) if n is None]
    divides = value.name != "Mult"
    if not unknown or (divides and numbers[0] is not None) or 0.0 in numbers:
        return {}
    found = flow.of(unknown[0], place, depth)
    if len(unknown) > 1:
        return _of_two(flow, value, found, place, depth)
    factor = math.prod(n for n in numbers if n is not None)
    return scaled(found, 1 / factor if divides else factor)


def _of_two(flow: Follower, value: Value, found: Kinds, place: Place, depth: int) -> Kinds:
    """Two unknown factors: an image stays one, epochs times len(loader) are steps."""
    if value.name == "Mult" and len(value.items) == 2:
        known = [flow.of(each, place, depth).get("progress") for each in value.items]
        names = {k.kind.name for k in known if k is not None}
        loader = next((k for k in known if k is not None and k.evidence == CALL), None)
        if loader is not None and names == {"steps", "epochs"}:
            return {"progress": Known(KIND["steps"], f"epochs times {loader.origin}", CALL)}
    return {k: v for k, v in found.items() if k in LASTING - {"role"} and k != "mask"}


def _percent(flow: Follower, value: Value, place: Place) -> Kinds:
    """100 * correct / total, and 100 * (correct / total)."""
    flat = [*value.items]
    if value.name == "Div" and len(flat) == 2 and flat[0].name == "Mult":
        numbers = [numeric(flow, each, place) for each in flat[0].items]
        if 100.0 in numbers and len(numbers) == 2 and numeric(flow, flat[1], place) is None:
            return {"share": Known(KIND["percent"], "100 * a / b", DERIVED)}
    if value.name == "Mult" and len(flat) == 2:
        numbers = [numeric(flow, each, place) for each in flat]
        other = flat[numbers.index(None)] if None in numbers else None
        if 100.0 in numbers and other is not None and other.name == "Div":
            return {"share": Known(KIND["percent"], "100 * (a / b)", DERIVED)}
    return {}


def _bits(flow: Follower, value: Value) -> Kinds:
    """nats / math.log(2)."""
    last = value.items[-1]
    call = flow.reading.calls[last.call] if value.name == "Div" and last.kind == "call" else None
    if call is None or call.name not in ("math.log", "numpy.log") or len(call.args) != 1:
        return {}
    two = call.args[0].literal in (2, 2.0)
    return {"information": Known(KIND["bits"], "/ log(2)", CALL)} if two else {}


def scaled(found: Kinds, factor: float) -> Kinds:
    """Kinds of a value that is multiplied by a number."""
    result: Kinds = {}
    for dimension, known in found.items():
        whole = known.kind.name == "steps" and factor >= 1 and factor == int(factor)
        if dimension in LASTING or factor == 1.0 or whole:
            result[dimension] = known
        elif (other := converted(known.kind, factor)) is not None:
            evidence = max(known.evidence, DERIVED)
            result[dimension] = Known(other, known.origin, evidence)
    return result


def changed(flow: Follower, operator: str, value: Value, found: Kinds, place: Place) -> Kinds:
    """The kinds of x behind x *= 255 and the like."""
    number = numeric(flow, value, place)
    if operator in ("Mult", "Div") and number:
        return scaled(found, number if operator == "Mult" else 1 / number)
    lasting = LASTING | (ADDITIVE if operator in ("Add", "Sub") else set())
    return parts.only(found, *lasting)


def numeric(flow: Follower, value: Value, place: Place, depth: int = 4) -> float | None:
    """A number that the file writes out, also 1024 ** 3 and a constant."""
    if value.kind == "literal":
        plain = isinstance(value.literal, int | float) and not isinstance(value.literal, bool)
        return float(value.literal) if plain else None  # type: ignore[arg-type]
    if value.kind == "name":
        if value.name in ("math.pi", "numpy.pi", "torch.pi"):
            return math.pi
        if not depth or not value.name.isupper():
            return None
        results = evaluate.definitions(
            flow.reading, value.name, place.scope, place.position, place.arms
        )
        return numeric(flow, results[0].value, place, depth - 1) if len(results) == 1 else None
    if value.kind == "other" and value.name in ("Mult", "Pow", "Div") and depth:
        numbers = [numeric(flow, each, place, depth - 1) for each in value.items]
        return _computed(value.name, numbers)
    return None


def _computed(name: str, numbers: list[float | None]) -> float | None:
    if None in numbers or not numbers:
        return None
    first, *others = [each for each in numbers if each is not None]
    if name == "Pow":
        return first ** others[0] if len(others) == 1 and abs(others[0]) < 64 and first else None
    for each in others:
        if name == "Div" and not each:
            return None
        first = first * each if name == "Mult" else first / each
    return first


Handler = Callable[[Follower, Value, Place, int], Kinds]
HANDLERS: dict[str, Handler] = {
    "test": _test, "list": _pair, "USub": _negative, "Invert": _inverted, "Add": _sum, "Sub": _sum,
    "Mult": _product, "Div": _product, "FloorDiv": _product, "Pow": _raised,
}  # fmt: skip
