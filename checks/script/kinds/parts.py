"""What an index, an attribute and an axis order leave of the kinds of an image."""

from __future__ import annotations

from doctor.checks.script.kinds import conversions
from doctor.checks.script.kinds.dimensions import KIND, OF
from doctor.checks.script.kinds.known import CALL, Kinds, Known
from doctor.facts.script import Call, Value

FLIPPED = {"RGB": "BGR", "BGR": "RGB"}
TURNED = {"(width, height)": "(height, width)", "(height, width)": "(width, height)"}
SIDES = {"(width, height)": ("a width", "a height"), "(height, width)": ("a height", "a width")}
OF_WHOLE = {"layout", "plane", "color", "box", "role", "form", "progress", "rank"}
"""Dimensions in which a part is not what the whole is."""


def without(found: Kinds, *dimensions: str) -> Kinds:
    return {k: v for k, v in found.items() if k not in dimensions}


def only(found: Kinds, *dimensions: str) -> Kinds:
    return {k: v for k, v in found.items() if k in dimensions}


def attribute(name: str, found: Kinds) -> Kinds:
    """image.size and image.shape of an image."""
    names = {known.kind.name for known in found.values() if known.evidence == CALL}
    if name == "size" and "PIL image" in names:
        return {"plane": Known(KIND["(width, height)"], "size of a PIL image", CALL)}
    if name == "shape" and {"array", "channels last"} <= names:
        return {"plane": Known(KIND["(height, width)"], "the shape of an array", CALL)}
    return found if name == "data" else {}


def item(found: Kinds, index: Value) -> Kinds:
    """The kinds of x[index]."""
    parts = index.items if index.kind == "list" else (index,)
    if all(each.kind == "literal" and each.literal is None for each in parts):
        return without(found, "form")
    result = without(found, *OF_WHOLE)
    if "plane" in found:
        result |= _side(found["plane"], index)
    if "color" in found:
        result |= _of_pixels(found, parts)
    elif len(parts) == 1 and parts[0].kind not in ("literal", "list"):
        result |= only(found, "box")
    return result


def _of_pixels(found: Kinds, parts: tuple[Value, ...]) -> Kinds:
    """image[:, :, ::-1] and image[y0:y1, x0:x1]."""
    slices = [each for each in parts if each.kind == "slice"]
    steps = [each.items[2].literal for each in slices if len(each.items) > 2]
    if len(parts) > 1 and parts[-1].kind == "slice" and steps[-1:] == [-1]:
        known = found["color"]
        other = FLIPPED.get(known.kind.name)
        turned = {"color": Known(KIND[other], "reversed channels", known.evidence)} if other else {}
        return {**only(found, "layout", "form"), **turned}
    cropped = len(slices) == len(parts) == 2 and -1 not in steps
    return only(found, "color", "layout", "form") if cropped else {}


def _side(plane: Known, index: Value) -> Kinds:
    """Width or height by the index, or the pair in another order."""
    name = plane.kind.name
    if index.kind == "slice" and len(index.items) == 3:
        bounds = tuple(each.literal for each in index.items)
        if bounds in ((None, None, -1), (1, None, -1)) and name in TURNED:
            return {"plane": Known(KIND[TURNED[name]], plane.origin, plane.evidence)}
        return {"plane": plane} if bounds[:2] in ((None, 2), (0, 2)) and bounds[2] != -1 else {}
    place = index.literal
    if name in SIDES and isinstance(place, int) and place in (0, 1) and place is not True:
        return {"plane": Known(KIND[SIDES[name][place]], plane.origin, plane.evidence)}
    return {}


def to_tensor(found: Kinds, call: Call) -> Kinds:
    """to_tensor() moves the channels, and divides bytes by 255."""
    names = ["tensor", "channels first"]
    known = found.get("range")
    if known is not None and known.kind.name == "0 to 255":
        names.append("0 to 1")
    made = {OF[each].name: Known(KIND[each], f"{call.method}()", CALL) for each in names}
    return {**only(found, "color"), **made}


def reshaped(found: Kinds, call: Call, axes: tuple[Value, ...]) -> Kinds:
    """permute() and transpose() of three or four axes, and what has another shape."""
    if len(axes) == 1 and axes[0].kind == "list":
        axes = axes[0].items
    order = ",".join(str(each.literal) for each in axes)
    layout = found.get("layout")
    result = without(found, "layout", "plane")
    if call.method in ("permute", "transpose") and layout is not None:
        after = conversions.ORDERS.get((order, layout.kind.name))
        if after is not None:
            origin = f"{call.method}({order})"
            result["layout"] = Known(KIND[after], origin, layout.evidence)
    return result
