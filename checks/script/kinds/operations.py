"""What operators, indices and functions leave of the kinds of a value, and make of them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from doctor.checks.script import evaluate
from doctor.checks.script.kinds import conversions
from doctor.checks.script.kinds.conversions import MAKES
from doctor.checks.script.kinds.dimensions import DIMENSIONS, KIND, OF, converted
from doctor.checks.script.kinds.known import CALL, DERIVED, Kinds, Known, Place, agreed
from doctor.checks.script.kinds.made import is_function, of_module, receiver
from doctor.facts.script import Call, Value

if TYPE_CHECKING:
    from doctor.checks.script.kinds.flow import Flow

ADDITIVE = {each.name for each in DIMENSIONS if each.additive}
LASTING = {each.name for each in DIMENSIONS if each.lasting} | {"form", "layout"}
HARMLESS = {"requires_grad_", "unsqueeze_", "squeeze_", "zero_grad_", "detach_"}
LIBRARIES = "torch numpy math torchvision copy PIL jax cv2 scipy librosa"
FLIPPED = {"RGB": "BGR", "BGR": "RGB"}
TURNED = {"(width, height)": "(height, width)", "(height, width)": "(width, height)"}
ZERO = re.compile(r"==\s*(?:0|False)$|!=\s*(?:1|True)$")
ONE = re.compile(r"!=\s*(?:0|False)$|==\s*(?:1|True)$|>\s*0(?:\.5)?$")
JOINS = {"cat", "stack", "concat", "concatenate", "vstack", "hstack"}


def made_of(found: Kinds, operation: str, origin: str = "") -> Kinds:
    """What an operation makes of the kinds, those that it has no row for are lost."""
    made: Kinds = {}
    for known in found.values():
        name = MAKES.get((operation, known.kind.name))
        if name is not None:
            text = origin or known.origin
            made[OF[name].name] = Known(KIND[name], text, max(known.evidence, DERIVED))
    return made


def kept(flow: Flow, call: Call, place: Place, depth: int) -> Kinds | None:
    """What a function of torch or numpy, or a method, leaves; None for one that is not known."""
    method = call.method
    library = is_function(call) and (
        of_module(call.name, LIBRARIES) or call.name in ("int", "float", "round", "abs")
    )
    inner = call.args[0] if library and call.args else receiver(call)
    if method in ("tril", "triu"):
        return _triangle(flow, call, inner)
    if inner is None or (library and not call.args):
        return None
    if method == "DataLoader":
        chosen = {"sampler", "batch_sampler"} & call.keywords.keys()
        found = flow.of(call.args[0], place, depth) if call.args and not chosen else {}
        return {k: v for k, v in found.items() if k == "role"}
    if library and method in JOINS:
        return _joined(flow, inner, place, depth)
    if method == "pow":
        return _power(flow, inner, call.args[int(library):], place, depth)
    if method in ("eq", "ne") and call.args:
        return _tested(flow.of(inner, place, depth), "complement" if method == "eq" else "")
    if not _changes(method):
        return None
    found = flow.of(inner, place, depth)
    if method in conversions.TO_TENSOR and library:
        return _to_tensor(found, call)
    if method in conversions.OPERATIONS:
        made = made_of(found, conversions.OPERATIONS[method])
        if made or method not in ("mean", "sum", "abs"):
            return made
    if method in conversions.POOLS:
        return {k: v for k, v in found.items() if k in conversions.KEPT_BY_POOLS}
    if method == "sum":
        return {k: v for k, v in found.items() if k in conversions.KEPT_BY_SUMS}
    if method in conversions.RESHAPES:
        return _reshaped(found, call, library)
    found = {k: v for k, v in found.items() if k not in conversions.LOST_BY.get(method, ())}
    form = conversions.FORMS.get(method)
    if form is not None:
        found = {**found, "form": Known(KIND[form], f"{method}()", CALL)}
        if form == "PIL image":
            found.pop("layout", None)
        if form == "array" and _was_pil(flow, inner, place, depth):
            last = KIND["channels last"]
            found["layout"] = Known(last, "the array of a PIL image", CALL)
    return found


def _triangle(flow: Flow, call: Call, inner: Value | None) -> Kinds:
    """tril(ones) is True for what attention may see, triu(ones, 1) for the other places."""
    made = flow.reading.calls[inner.call] if inner is not None and inner.kind == "call" else None
    if made is None or made.name != "torch.ones":
        return {}
    given = evaluate.argument(flow.reading, call, "diagonal", 1)
    if call.method == "tril" and given is None:
        return {"mask": Known(KIND["True for tokens"], "tril()", CALL)}
    if call.method == "triu" and given is not None and given.literal == 1:
        return {"mask": Known(KIND["True for what is ignored"], "triu()", CALL)}
    return {}


def _was_pil(flow: Flow, value: Value, place: Place, depth: int) -> bool:
    known = flow.of(value, place, depth).get("form")
    return known is not None and known.kind.name == "PIL image"


def _changes(method: str) -> bool:
    return (
        method in conversions.ALL
        or method in conversions.OPERATIONS
        or method in conversions.POOLS
        or method in conversions.RESHAPES
        or method in conversions.FORMS
        or method in conversions.TO_TENSOR
    )


def _to_tensor(found: Kinds, call: Call) -> Kinds:
    origin = f"{call.method}()"
    colour = {k: v for k, v in found.items() if k == "colour"}
    made = {each: Known(KIND[each], origin, CALL) for each in ("tensor", "channels first")}
    scaled = found.get("range")
    known = {OF[k].name: v for k, v in made.items()}
    if scaled is not None and scaled.kind.name == "0 to 255":
        known["range"] = Known(KIND["0 to 1"], origin, CALL)
    return {**colour, **known}


def _reshaped(found: Kinds, call: Call, library: bool) -> Kinds:
    axes = call.args[int(library):]
    if len(axes) == 1 and axes[0].kind == "list":
        axes = axes[0].items
    order = ",".join(str(each.literal) for each in axes)
    kept_ = {k: v for k, v in found.items() if k not in ("layout", "plane")}
    layout = found.get("layout")
    if call.method in ("permute", "transpose") and layout is not None:
        for orders, before, after in (
            (conversions.TO_FIRST, "channels last", "channels first"),
            (conversions.TO_LAST, "channels first", "channels last"),
        ):
            if order in orders and layout.kind.name == before:
                kept_["layout"] = Known(KIND[after], f"{call.method}({order})", layout.evidence)
    return kept_


def _joined(flow: Flow, value: Value, place: Place, depth: int) -> Kinds:
    if value.kind != "list":
        return {}
    return _without_layout(agreed([flow.of(each, place, depth) for each in value.items]))


def _without_layout(found: Kinds) -> Kinds:
    return {k: v for k, v in found.items() if k not in ("plane", "form")}


def _power(
    flow: Flow, base: Value, exponent: tuple[Value, ...], place: Place, depth: int
) -> Kinds:
    number = numeric(flow, exponent[0], place) if exponent else None
    operation = {2.0: "square", 0.5: "sqrt"}.get(number or 0.0)
    return made_of(flow.of(base, place, depth), operation) if operation else {}


def _tested(found: Kinds, operation: str) -> Kinds:
    mask = {k: v for k, v in found.items() if k == "mask"}
    return made_of(mask, operation) if operation else mask


def composed(flow: Flow, value: Value, place: Place, depth: int) -> Kinds:
    """Operators, conditions and tuples."""
    if value.kind == "test":
        text = value.text.strip()
        operation = "complement" if ZERO.search(text) else "" if ONE.search(text) else None
        if operation is None or len(value.items) != 2:
            return {}
        return _tested(flow.of(value.items[0], place, depth), operation)
    if value.kind == "list":
        return _pair(flow, value, place, depth)
    if value.name == "USub":
        return made_of(flow.of(value.items[0], place, depth), "negative")
    if value.name == "Invert":
        return made_of(flow.of(value.items[0], place, depth), "complement")
    if value.name in ("Add", "Sub"):
        return _sum(flow, value, place, depth)
    if value.name in ("Mult", "Div", "FloorDiv"):
        return _product(flow, value, place, depth)
    if value.name == "Pow" and len(value.items) == 2:
        return _power(flow, value.items[0], value.items[1:], place, depth)
    return {}


def _pair(flow: Flow, value: Value, place: Place, depth: int) -> Kinds:
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


def _sum(flow: Flow, value: Value, place: Place, depth: int) -> Kinds:
    first = value.items[0]
    if value.name == "Sub" and len(value.items) == 2 and numeric(flow, first, place) == 1.0:
        return made_of(flow.of(value.items[1], place, depth), "complement")
    parts = [flow.of(each, place, depth) for each in value.items]
    found = {
        k: known
        for part in parts
        for k, known in part.items()
        if k in ADDITIVE | LASTING and all(k not in p or p[k].kind is known.kind for p in parts)
    }
    found |= {
        k: v for k, v in agreed(parts).items() if k in ("distance", "progress", "reduction", "share")
    }
    small = len(value.items) == 2 and abs(numeric(flow, value.items[1], place) or 1) < 1e-2
    return parts[0] if small else _without_role(found)


def _without_role(found: Kinds) -> Kinds:
    return {k: v for k, v in found.items() if k not in ("role",)}


def _product(flow: Flow, value: Value, place: Place, depth: int) -> Kinds:
    special = _percent(flow, value, place) or _bits(flow, value)
    if special:
        return special
    factor, inner = 1.0, None
    others = 0
    for number, each in enumerate(value.items):
        written = numeric(flow, each, place)
        if written is None:
            others += 1
            inner = each if inner is None else inner
        elif number and value.name != "Mult" and written:
            factor /= written
        elif value.name == "Mult":
            factor *= written
        else:
            others += 2
    if inner is None:
        return {}
    found = flow.of(inner, place, depth)
    if others == 1:
        return scaled(found, factor)
    return _of_two(flow, value, found, place, depth)


def _of_two(flow: Flow, value: Value, found: Kinds, place: Place, depth: int) -> Kinds:
    """Two unknown factors: an image stays one, epochs times len(loader) are steps."""
    if value.name == "Mult" and len(value.items) == 2:
        known = [flow.of(each, place, depth).get("progress") for each in value.items]
        names = {k.kind.name for k in known if k is not None}
        loader = next((k for k in known if k is not None and k.evidence == CALL), None)
        if loader is not None and names == {"steps", "epochs"}:
            return {"progress": Known(KIND["steps"], f"epochs times {loader.origin}", CALL)}
    return {k: v for k, v in found.items() if k in LASTING - {"role"} and k != "mask"}


def _percent(flow: Flow, value: Value, place: Place) -> Kinds:
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


def _bits(flow: Flow, value: Value) -> Kinds:
    """nats / math.log(2)."""
    last = value.items[-1]
    call = flow.reading.calls[last.call] if value.name == "Div" and last.kind == "call" else None
    if call is not None and call.name in ("math.log", "numpy.log") and len(call.args) == 1:
        if call.args[0].literal in (2, 2.0):
            return {"information": Known(KIND["bits"], "/ log(2)", CALL)}
    return {}


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


def changed(flow: Flow, change: Value, found: Kinds, place: Place) -> Kinds:
    """The kinds of x behind x *= 255 and the like."""
    number = numeric(flow, change.items[1], place)
    if change.name in ("Mult", "Div") and number:
        return scaled(found, number if change.name == "Mult" else 1 / number)
    if change.name in ("Add", "Sub"):
        return {k: v for k, v in found.items() if k in ADDITIVE | LASTING}
    return {k: v for k, v in found.items() if k in LASTING}


def numeric(flow: Flow, value: Value, place: Place, depth: int = 4) -> float | None:
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


def attribute(name: str, found: Kinds) -> Kinds:
    """image.size and image.shape of an image."""
    form = found.get("form")
    layout = found.get("layout")
    if name == "size" and form is not None and form.kind.name == "PIL image":
        return {"plane": Known(KIND["(width, height)"], "size of a PIL image", CALL)}
    if name == "shape" and form is not None and form.kind.name == "array" and layout is not None:
        if layout.kind.name == "channels last" and layout.evidence == CALL:
            return {"plane": Known(KIND["(height, width)"], "the shape of an array", CALL)}
    return found if name == "data" else {}


def item(found: Kinds, index: Value) -> Kinds:
    """The kinds of x[index]."""
    parts = index.items if index.kind == "list" else (index,)
    result = {
        k: v
        for k, v in found.items()
        if k not in ("layout", "plane", "colour", "box", "role", "form", "progress", "rank")
    }
    if "plane" in found:
        result |= _side(found["plane"], index)
    slices = [each for each in parts if each.kind == "slice"]
    steps = [each.items[2].literal for each in slices if len(each.items) > 2]
    if "colour" in found:
        known = found["colour"]
        if parts[-1].kind == "slice" and steps[-1:] == [-1] and len(parts) > 1:
            other = FLIPPED.get(known.kind.name)
            if other is not None:
                result["colour"] = Known(KIND[other], "reversed channels", known.evidence)
            result |= {k: found[k] for k in ("layout", "form") if k in found}
        elif len(slices) == len(parts) and len(parts) == 2 and -1 not in steps:
            result |= {k: found[k] for k in ("colour", "layout", "form") if k in found}
    elif len(parts) == 1 and parts[0].literal is None and parts[0].kind != "literal":
        result |= {k: found[k] for k in ("box",) if k in found and parts[0].kind != "list"}
    if all(each.kind == "literal" and each.literal is None for each in parts):
        result = {k: v for k, v in found.items() if k != "form"}
    return result


def _side(plane: Known, index: Value) -> Kinds:
    """Width or height by the index, or the pair in another order."""
    name = plane.kind.name
    if index.kind == "slice":
        start, stop, step = (each.literal for each in index.items)
        if step == -1 and stop is None and start in (None, 1):
            return {"plane": Known(KIND[TURNED[name]], plane.origin, plane.evidence)} \
                if name in TURNED else {}
        plain = start in (None, 0) and stop == 2 and step in (None, 1)
        return {"plane": plane} if plain else {}
    sides = {"(width, height)": ("a width", "a height"), "(height, width)": ("a height", "a width")}
    if name in sides and index.literal in (0, 1) and not isinstance(index.literal, bool):
        side = sides[name][int(index.literal)]  # type: ignore[arg-type]
        return {"plane": Known(KIND[side], plane.origin, plane.evidence)}
    return {}
