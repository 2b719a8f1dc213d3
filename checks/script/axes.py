"""What each axis of a tensor stands for: the batch, time, features, and the name of its length."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from doctor.checks.script import evaluate, objects
from doctor.checks.script.axis_changes import (
    BATCH,
    REDUCES,
    SAME,
    TIME,
    WIDTH,
    Axes,
    Axis,
    agreed,
    image,
    index_of,
    joined,
    kind_of,
    moved,
    of_sequence,
    of_width,
    reduced,
    taken,
    viewed,
    with_axis,
)
from doctor.checks.script.reading import Reading
from doctor.facts.script import Arms, Assignment, Call, Value

RECURRENT = {"LSTM", "GRU", "RNN"}
ENCODERS = {"TransformerEncoder", "TransformerEncoderLayer"}
SAME_LAYERS = {
    "LayerNorm", "RMSNorm", "BatchNorm1d", "BatchNorm2d", "InstanceNorm1d", "InstanceNorm2d",
    "GroupNorm", "Dropout", "Dropout2d", "Identity", "ReLU", "LeakyReLU", "GELU", "SiLU", "ELU",
    "Tanh", "Sigmoid", "Softplus", "Softmax", "LogSoftmax", "MaxPool2d", "AvgPool2d", "PReLU",
    "AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "MaxPool1d", "AvgPool1d", "Hardswish", "ReLU6",
    "AdaptiveAvgPool1d", "ZeroPad2d", "ReflectionPad2d", "Upsample",
}  # fmt: skip
ARITHMETIC = {"Add", "Sub", "Mult", "Div"}
DEPTH = 16
MOST_SITES = 4
MOST_DEFINITIONS = 8
"""Of one name at one place; where more of them may hold, its axes are not known."""
MOST_STEPS = 20_000
"""Values that are followed in one file. After them no axes are known. Our own number."""


@dataclass(frozen=True, slots=True)
class _Place:
    scope: int
    position: int
    arms: Arms


@dataclass(slots=True)
class _Walk:
    """What was found of the names of one file, by their definitions and the depth left."""

    known: dict[tuple[object, ...], Axes | None] = field(default_factory=dict)
    steps: int = 0


def axes_of(reading: Reading, value: Value | None, call: Call) -> Axes | None:
    """The axes of what a call uses; None where their number is not known."""
    if value is None:
        return None
    walk = reading.cached(_walk)
    found = _of(reading, value, _Place(call.scope, reading.number(call), call.arms), walk, DEPTH)
    return found if walk.steps < MOST_STEPS else None


def _walk(reading: Reading) -> _Walk:
    return _Walk()


def _of(reading: Reading, value: Value, at: _Place, walk: _Walk, depth: int) -> Axes | None:
    walk.steps += 1
    if not depth or walk.steps > MOST_STEPS:
        return None
    if value.kind == "name":
        return _of_name(reading, value.name, at, walk, depth)
    if value.kind == "call":
        return _of_call(reading, reading.calls[value.call], None, walk, depth)
    if value.kind == "item" and len(value.items) == 2:
        return _of_item(reading, value, at, walk, depth)
    if value.kind == "other" and value.name in ARITHMETIC and len(value.items) == 2:
        return _of_sum(reading, value, at, walk, depth)
    if value.kind == "other" and value.name == "values" and len(value.items) == 1:
        made = reading.call_of(value.items[0])
        known = made is not None and made.method in ("max", "min", "topk", "median")
        return _of_call(reading, made, 0, walk, depth - 1) if made and known else None
    if value.kind == "other" and value.name == "last_hidden_state":
        return Axes((Axis(BATCH), Axis(TIME), Axis(WIDTH)))
    return None


def _of_sum(reading: Reading, value: Value, at: _Place, walk: _Walk, depth: int) -> Axes | None:
    """Of two parts; a mask alone says nothing, as it is spread over more axes than it has."""
    parts = [_of(reading, item, at, walk, depth - 1) for item in value.items]
    names = [name for item in value.items for name in item.all_names]
    if None in parts and any("mask" in name or "bias" in name for name in names):
        return None
    return joined([part for part in parts if part is not None], len(parts))


def _of_name(reading: Reading, name: str, at: _Place, walk: _Walk, depth: int) -> Axes | None:
    if name.endswith(".last_hidden_state"):
        return Axes((Axis(BATCH), Axis(TIME), Axis(WIDTH)))
    found = evaluate.definitions(reading, name, at.scope, at.position, at.arms)
    if len(found) > MOST_DEFINITIONS or any(e.scope != at.scope or e.augmented for e in found):
        return None
    key = (name, at.scope, depth, *(id(each) for each in found))
    if key not in walk.known:
        walk.known[key] = None  # of a name that is made of itself
        walk.known[key] = _defined(reading, name, at, found, walk, depth)
    return walk.known[key]


def _defined(
    reading: Reading, name: str, at: _Place, found: list[Assignment], walk: _Walk, depth: int
) -> Axes | None:
    """What all definitions of a name have in common."""
    made = [
        _of(reading, each.value, _Place(each.scope, each.position - 1, each.arms), walk, depth - 1)
        for each in found
    ]
    if not found and evaluate.is_parameter(reading, at.scope, name):
        made = _passed(reading, name, at.scope, walk, depth)
    own = agreed([each for each in made if each is not None])
    start = max((each.position for each in found), default=-1)
    return _measured(reading, name, at, start, own)


def _passed(reading: Reading, name: str, scope: int, walk: _Walk, depth: int) -> list[Axes | None]:
    """What the calls of a function of this file, or of a module's forward, pass."""
    made = []
    for site, call in reading.numbered(_sites(reading, scope)[:MOST_SITES]):
        value = evaluate.argument_of(reading, call, scope, name)
        place = _Place(call.scope, site, call.arms)
        made.append(_of(reading, value, place, walk, depth - 1) if value is not None else None)
    return made


def _sites(reading: Reading, scope: int) -> list[int]:
    return objects.sites(reading, scope) or reading.cached(_repeated_sites).get(scope, [])


def _repeated_sites(reading: Reading) -> dict[int, list[int]]:
    """Calls of a Sequential of one module of this file, repeated, and of those of a ModuleList."""
    table: dict[int, list[int]] = {}
    for number, call in enumerate(reading.calls if reading.modules else ()):
        owner = _repeated(reading, call)
        forward = objects.method_of(reading, owner, "forward") if owner else None
        if forward is not None and len(call.args) == 1:
            table.setdefault(forward, []).append(number)
    return table


def _repeated(reading: Reading, call: Call) -> str:
    """The class whose instances a call runs one after the other."""
    if call.name.startswith("torch.") or not call.args:
        return ""
    for loop in (reading.loops[n] for n in call.loops):
        if loop.iterable is not None and loop.targets == (call.name,):
            held = objects.makers(reading, loop.iterable, call.scope, reading.number(call))
            return _only_class(reading, list(held), "ModuleList")
    return _only_class(reading, objects.callee(reading, call), "Sequential")


def _only_class(reading: Reading, made: list[Call | None], kind: str) -> str:
    one = made[0] if len(made) == 1 else None
    if one is None or one.name != f"torch.nn.{kind}":
        return ""
    inside = [c for v in (*one.args, *one.unpacked) for c in reading.inside(v)]
    names = {c.name for c in inside if c.name[:1].isupper() or c.name.startswith("torch.nn.")}
    return names.pop() if len(names) == 1 and names <= reading.modules else ""


def _measured(reading: Reading, name: str, at: _Place, start: int, own: Axes | None) -> Axes | None:
    """With the names of B, T, C = name.shape, of the same definition."""
    later = [a.position for a in reading.assigned_to(name, at.scope) if a.position > start]
    end = min(later, default=len(reading.calls) + 1)
    sizes: dict[object, list[tuple[str, str]]] = {}
    for target, base, index, span, position in reading.cached(_unpacked).get(at.scope, ()):
        if base == name and start <= position < end and len(sizes.get(span, ())) == index:
            sizes.setdefault(span, []).append((target, name))
    longest = max(sizes.values(), key=len, default=[])
    if len(longest) < 2 or (own is not None and len(own.each) != len(longest)):
        return own
    if not _is_whole(reading, longest):
        return own
    named = [kind_of(target) for target, _ in longest]
    kinds = own.kinds if own is not None else ("",) * len(longest)
    if any(a and b and a != b for a, b in zip(kinds, named, strict=True)):
        return None
    old = own.each if own is not None else (Axis(),) * len(longest)
    axes = tuple(
        replace(axis, kind=axis.kind or kind,
                size=reading.key(target, at.scope) if target != "_" else axis.size)
        for axis, kind, (target, _) in zip(old, named, longest, strict=True)
    )  # fmt: skip
    return Axes(axes, own.lost if own is not None else -1)


def _is_whole(reading: Reading, names: list[tuple[str, str]]) -> bool:
    """Different names, of which one says what it counts."""
    given = [target for target, _ in names if target != "_"]
    return len(set(given)) == len(given) and any(kind_of(target) for target in given)


def _unpacked(reading: Reading) -> dict[int, list[tuple[str, str, int, object, int]]]:
    """B, T, C = x.shape and x.size(), by scope: target, x, its place among them."""
    table: dict[int, list[tuple[str, str, int, object, int]]] = {}
    for each in reading.assignments:
        value = each.value
        if value.kind != "item" or len(value.items) != 2:
            continue
        base, index = value.items[0], value.items[1].literal
        name = base.name.removesuffix(".shape") if base.name.endswith(".shape") else ""
        call = reading.call_of(base)
        if call is not None and call.method == "size" and not call.args and call.receiver:
            name = call.receiver
        if name and isinstance(index, int):
            row = (each.target, name, index, each.span, each.position)
            table.setdefault(each.scope, []).append(row)
    return table


def _of_item(reading: Reading, value: Value, at: _Place, walk: _Walk, depth: int) -> Axes | None:
    """An element of what a call returns, or a part of a tensor."""
    base, index = value.items
    call = reading.call_of(base)
    if call is not None and isinstance(index.literal, str):
        made = objects.known_callees(reading, call)
        images = made and all(m.name.startswith("torchvision.models.segmentation.") for m in made)
        return image(Axes((Axis(),) * 4), None) if images and index.literal == "out" else None
    if call is not None and isinstance(index.literal, int) and call.targets != ():
        return _of_call(reading, call, index.literal, walk, depth - 1)
    if call is not None and isinstance(index.literal, int) and objects.known_callees(reading, call):
        return _of_call(reading, call, index.literal, walk, depth - 1)
    inner = _of(reading, base, at, walk, depth - 1)
    return taken(inner, index) if inner is not None else None


def _of_call(
    reading: Reading, call: Call, index: int | None, walk: _Walk, depth: int
) -> Axes | None:
    if not depth:
        return None
    number = reading.number(call)
    function = reading.target_function(call)
    if function is not None:
        return _returned(reading, function, index, walk, depth)
    made = objects.callee(reading, call)
    if made:
        one = made[0] if len(made) == 1 else None
        given = call.args[0] if call.args else None
        place = _Place(call.scope, number, call.arms)
        if one is not None:
            inner = _of(reading, given, place, walk, depth - 1) if given is not None else None
            return _of_module(reading, one, inner, index, walk, depth)
        if call.name[:1] != "." and not _is_method(call):
            return None
    inner_value = objects.operand(call)
    if inner_value is None:
        return None
    place = _Place(call.scope, number, call.arms)
    if call.method in ("cat", "concat", "stack"):
        return _collected(reading, call, place, walk, depth)
    inner = _of(reading, inner_value, place, walk, depth - 1)
    return _changed(reading, call, inner, index)


def _is_method(call: Call) -> bool:
    return bool(call.receiver) or call.receiver_call >= 0 or call.base is not None


def _returned(
    reading: Reading, function: int, index: int | None, walk: _Walk, depth: int
) -> Axes | None:
    """What each return of a function has in common."""
    key = (function, index, depth)
    if key in walk.known:
        return walk.known[key]
    walk.known[key] = None  # of a function that calls itself
    each = reading.function(function)
    found = []
    for value, (position, arms) in zip(each.returns, each.exits, strict=True):
        if index is not None and value.kind == "list" and index < len(value.items):
            value = value.items[index]
        found.append(_of(reading, value, _Place(function, position, arms), walk, depth - 1))
    same = found and all(f is not None and f.kinds == (found[0] or f).kinds for f in found)
    walk.known[key] = found[0] if same else None
    return walk.known[key]


def _collected(reading: Reading, call: Call, place: _Place, walk: _Walk, depth: int) -> Axes | None:
    """cat() of parts, one of which is known; stack() puts an axis before theirs."""
    items = call.args[0].items if call.args else ()
    made = [_of(reading, item, place, walk, depth - 1) for item in items]
    known = [each for each in made if each is not None]
    dim = call.given("dim", 1)
    at = dim.literal if dim is not None else 0
    if not known or not isinstance(at, int):
        return None
    first = known[0]
    if call.method != "stack":
        where = index_of(first, at)
        return None if where is None else with_axis(first, where, replace(
            first.each[where], size=None, count=None))  # fmt: skip
    where = at if at >= 0 else len(first.each) + 1 + at
    return Axes((*first.each[:where], Axis(), *first.each[where:]), first.lost)


def _of_module(
    reading: Reading, made: Call, inner: Axes | None, index: int | None,
    walk: _Walk, depth: int,
) -> Axes | None:  # fmt: skip
    """What a layer, or a module of this file, makes of what it is given."""
    if made.name.startswith("torch.nn."):
        return _of_layer(reading, made, inner, index, walk, depth)
    if made.name in reading.modules:
        function = objects.method_of(reading, made.name, "forward")
        if function is not None:
            return _returned(reading, function, index, walk, depth)
        return None
    if _is_classifier(made.name) and "features_only" not in made.keywords:
        return Axes((Axis(BATCH), Axis(WIDTH)))
    return None


def _is_classifier(name: str) -> bool:
    """A classifier of torchvision, whose head may be replaced."""
    module, _, last = name.rpartition(".")
    return module == "torchvision.models" and last not in ("inception_v3", "googlenet", "get_model")


def _of_layer(
    reading: Reading, made: Call, inner: Axes | None, index: int | None,
    walk: _Walk, depth: int,
) -> Axes | None:  # fmt: skip
    name = made.method
    if name == "Sequential" and not made.unpacked and index is None:
        for value in made.args:
            part = reading.call_of(value)
            inner = _of_module(reading, part, inner, None, walk, depth - 1) if part else None
        return inner if made.args else None
    if name in ("Conv2d", "ConvTranspose2d"):
        return image(inner, evaluate.number(reading, made.given("out_channels", 1), made))
    if name in RECURRENT and index == 0:
        return of_sequence(made, inner)
    if inner is None:
        return None
    if name in SAME_LAYERS or (name in ENCODERS and index is None):
        return inner
    return inner if name == "MultiheadAttention" and index == 0 else of_width(made, inner)


def _changed(reading: Reading, call: Call, inner: Axes | None, index: int | None) -> Axes | None:
    """What a function or method of tensors makes of the axes."""
    name = call.method
    if name in ("view", "reshape"):
        return viewed(call, inner)
    if name == "bmm":
        return _batched(call, inner)
    if inner is None:
        return None
    if name in SAME or (name == "chunk" and index is not None):
        return inner
    if name in REDUCES or (name in ("max", "min", "median") and index == 0):
        return reduced(reading, call, inner)
    given = call.args[1:] if call.name.startswith("torch.") else call.args
    return moved(name, [v.literal for v in given], inner)


def _batched(call: Call, inner: Axes | None) -> Axes | None:
    """bmm() runs over a batch, where no factor is a weight of several networks."""
    old = inner.each if inner is not None and len(inner.each) == 3 else (Axis(),) * 3
    values = [v for v in (objects.operand(call), *call.args) if v is not None]
    weights = any(n.startswith("self.") for v in values for n in v.all_names)
    return None if weights else Axes((replace(old[0], kind=BATCH), old[1], Axis()))
