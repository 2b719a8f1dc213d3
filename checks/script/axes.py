"""What each axis of a tensor stands for: the batch, time, features, and the name of its length."""

from __future__ import annotations

from dataclasses import dataclass, replace

from doctor.checks.script import evaluate, objects
from doctor.checks.script.naming import words
from doctor.checks.script.reading import Reading
from doctor.facts.script import Arms, Call, Value

BATCH, TIME, WIDTH, ONE = "batch", "time", "width", "one"
NAMED = {
    **dict.fromkeys(("b", "bs", "bsz", "batch"), BATCH),
    **dict.fromkeys(("t", "seq", "time", "frames", "steps", "window"), TIME),
}
"""Names of lengths by their first word: B, T = x.shape. N is of samples or of nodes: not here."""
RECURRENT = {"LSTM", "GRU", "RNN"}
ENCODERS = {"TransformerEncoder", "TransformerEncoderLayer"}
SAME_LAYERS = {
    "LayerNorm", "RMSNorm", "BatchNorm1d", "BatchNorm2d", "InstanceNorm1d", "InstanceNorm2d",
    "GroupNorm", "Dropout", "Dropout2d", "Identity", "ReLU", "LeakyReLU", "GELU", "SiLU", "ELU",
    "Tanh", "Sigmoid", "Softplus", "Softmax", "LogSoftmax", "MaxPool2d", "AvgPool2d", "PReLU",
    "AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "MaxPool1d", "AvgPool1d", "Hardswish", "ReLU6",
    "AdaptiveAvgPool1d", "ZeroPad2d", "ReflectionPad2d", "Upsample",
}  # fmt: skip
SAME = {
    "contiguous", "float", "half", "double", "to", "cuda", "cpu", "clone", "detach", "relu", "gelu",
    "tanh", "sigmoid", "dropout", "softmax", "log_softmax", "normalize", "exp", "log", "clamp",
    "abs", "square", "pow", "sqrt", "layer_norm", "elu", "silu", "masked_fill", "leaky_relu",
    "type_as",
}  # fmt: skip
"""Functions and methods that leave each axis where it is."""
REDUCES = {"mean", "sum", "amax", "amin", "std", "var", "norm", "logsumexp"}
ARITHMETIC = {"Add", "Sub", "Mult", "Div"}
DEPTH = 16
MOST_SITES = 4


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis. `size`: the name that the file gives its length; `count`: its length."""

    kind: str = ""
    size: tuple[object, str] | None = None
    count: float | None = None


@dataclass(frozen=True, slots=True)
class Axes:
    """All of a tensor. `lost`: the call that reduced its batch, -1 where none did."""

    each: tuple[Axis, ...]
    lost: int = -1

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(axis.kind for axis in self.each)


@dataclass(frozen=True, slots=True)
class _Place:
    scope: int
    position: int
    arms: Arms


def axes_of(reading: Reading, value: Value | None, call: Call) -> Axes | None:
    """The axes of what a call uses; None where their number is not known."""
    if value is None:
        return None
    active = reading.cached(_active)
    return _of(reading, value, _Place(call.scope, reading.number(call), call.arms), active, DEPTH)


def index_of(axes: Axes, dim: object) -> int | None:
    """The axis from 0 that a literal names, None where there is none of that number."""
    known = isinstance(dim, int) and not isinstance(dim, bool)
    if not known or not isinstance(dim, int) or not -len(axes.each) <= dim < len(axes.each):
        return None
    return dim % len(axes.each)


def dim_of(call: Call) -> object:
    """The literal dim or axis of a function of torch or a method, None for any other."""
    first = int(call.name.startswith("torch."))
    value = call.keywords.get("axis") or call.given("dim", first)
    return value.literal if value is not None and value.kind == "literal" else None


def _active(reading: Reading) -> set[tuple[object, ...]]:
    return set()


def _of(
    reading: Reading, value: Value, at: _Place, active: set[tuple[object, ...]], depth: int
) -> Axes | None:
    reading.step()
    if not depth:
        return None
    if value.kind == "name":
        return _of_name(reading, value.name, at, active, depth)
    if value.kind == "call":
        return _of_call(reading, reading.calls[value.call], None, active, depth)
    if value.kind == "item" and len(value.items) == 2:
        return _of_item(reading, value, at, active, depth)
    if value.kind == "other" and value.name in ARITHMETIC and len(value.items) == 2:
        parts = [_of(reading, item, at, active, depth - 1) for item in value.items]
        return _joined([part for part in parts if part is not None], len(parts))
    if value.kind == "other" and value.name == "values" and len(value.items) == 1:
        made = reading.call_of(value.items[0])
        known = made is not None and made.method in ("max", "min", "topk", "median")
        return _of_call(reading, made, 0, active, depth - 1) if made and known else None
    if value.kind == "other" and value.name == "last_hidden_state":
        return Axes((Axis(BATCH), Axis(TIME), Axis(WIDTH)))
    return None


def _joined(parts: list[Axes], given: int) -> Axes | None:
    """Of a sum: the larger one, and one alone where it has three axes."""
    if not parts or (len(parts) < given and len(parts[0].each) < 3):
        return None
    large = max(parts, key=lambda part: len(part.each))
    if any(len(part.each) == len(large.each) and part.kinds != large.kinds for part in parts):
        merged = zip(*(part.each for part in parts if len(part.each) == len(large.each)),
                     strict=True)  # fmt: skip
        return Axes(tuple(max(axis, key=lambda a: (bool(a.kind), a.kind != ONE))
                          for axis in merged), large.lost)  # fmt: skip
    return large


def _of_name(
    reading: Reading, name: str, at: _Place, active: set[tuple[object, ...]], depth: int
) -> Axes | None:
    key = (name, at.scope, at.position)
    if name.endswith(".last_hidden_state"):
        return Axes((Axis(BATCH), Axis(TIME), Axis(WIDTH)))
    if key in active:
        return None
    active.add(key)
    try:
        found = evaluate.definitions(reading, name, at.scope, at.position, at.arms)
        if any(each.scope != at.scope or each.augmented for each in found):
            return None
        made = [
            _of(reading, each.value, _Place(each.scope, each.position - 1, each.arms), active,
                depth - 1)
            for each in found
        ]  # fmt: skip
        if not found and evaluate.is_parameter(reading, at.scope, name):
            made = _passed(reading, name, at.scope, active, depth)
        known = [each for each in made if each is not None]
        own = known[0] if known and len({each.kinds for each in known}) == 1 else None
        start = max((each.position for each in found), default=-1)
        return _measured(reading, name, at, start, own)
    finally:
        active.discard(key)


def _passed(
    reading: Reading, name: str, scope: int, active: set[tuple[object, ...]], depth: int
) -> list[Axes | None]:
    """What the calls of a function of this file, or of a module's forward, pass."""
    made = []
    for site, call in reading.numbered(_sites(reading, scope)[:MOST_SITES]):
        value = evaluate.argument_of(reading, call, scope, name)
        place = _Place(call.scope, site, call.arms)
        made.append(_of(reading, value, place, active, depth - 1) if value is not None else None)
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


def _measured(
    reading: Reading, name: str, at: _Place, start: int, own: Axes | None
) -> Axes | None:
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
    named = [_kind(target) for target, _ in longest]
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
    return len(set(given)) == len(given) and any(_kind(target) for target in given)


def _kind(name: str) -> str:
    return NAMED.get(next(iter(words(name)), ""), "")


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


def _of_item(
    reading: Reading, value: Value, at: _Place, active: set[tuple[object, ...]], depth: int
) -> Axes | None:
    """An element of what a call returns, or a part of a tensor."""
    base, index = value.items
    call = reading.call_of(base)
    if call is not None and isinstance(index.literal, str):
        made = objects.known_callees(reading, call)
        images = made and all(m.name.startswith("torchvision.models.segmentation.") for m in made)
        return _image(None, None) if images and index.literal == "out" else None
    if call is not None and isinstance(index.literal, int) and call.targets != ():
        return _of_call(reading, call, index.literal, active, depth - 1)
    if call is not None and isinstance(index.literal, int) and objects.known_callees(reading, call):
        return _of_call(reading, call, index.literal, active, depth - 1)
    inner = _of(reading, base, at, active, depth - 1)
    return _taken(inner, index) if inner is not None else None


def _taken(axes: Axes, index: Value) -> Axes | None:
    """x[0], x[:, -1], x[:, None]."""
    kept: list[Axis] = []
    rest = list(axes.each)
    for part in index.items if index.kind == "list" else (index,):
        none = part.kind == "literal" and part.literal is None
        whole = isinstance(part.literal, int) and not isinstance(part.literal, bool)
        if none:
            kept.append(Axis(ONE))
        elif not rest or not (part.kind == "slice" or whole):
            return None
        elif whole:
            rest.pop(0)
        else:
            axis = rest.pop(0)
            plain = all(v.literal is None and v.kind == "literal" for v in part.items)
            kept.append(axis if plain else replace(axis, size=None, count=None))
    return Axes((*kept, *rest), axes.lost)


def _of_call(
    reading: Reading, call: Call, index: int | None, active: set[tuple[object, ...]], depth: int
) -> Axes | None:
    if not depth:
        return None
    number = reading.number(call)
    function = reading.target_function(call)
    if function is not None:
        return _returned(reading, function, index, active, depth)
    made = objects.callee(reading, call)
    if made:
        one = made[0] if len(made) == 1 else None
        given = call.args[0] if call.args else None
        place = _Place(call.scope, number, call.arms)
        inner = _of(reading, given, place, active, depth - 1) if given is not None else None
        if one is not None:
            return _of_module(reading, one, inner, index, active, depth)
        if call.name[:1] != "." and not _is_method(call):
            return None
    inner_value = objects.operand(call)
    if inner_value is None:
        return None
    place = _Place(call.scope, number, call.arms)
    if call.method in ("cat", "concat", "stack"):
        return _collected(reading, call, place, active, depth)
    inner = _of(reading, inner_value, place, active, depth - 1)
    return _changed(reading, call, inner, index)


def _is_method(call: Call) -> bool:
    return bool(call.receiver) or call.receiver_call >= 0 or call.base is not None


def _returned(
    reading: Reading, function: int, index: int | None, active: set[tuple[object, ...]], depth: int
) -> Axes | None:
    """What each return of a function has in common."""
    each = reading.function(function)
    found = []
    for value, (position, arms) in zip(each.returns, each.exits, strict=True):
        if index is not None and value.kind == "list" and index < len(value.items):
            value = value.items[index]
        found.append(_of(reading, value, _Place(function, position, arms), active, depth - 1))
    same = found and all(f is not None and f.kinds == (found[0] or f).kinds for f in found)
    return found[0] if same else None


def _collected(
    reading: Reading, call: Call, place: _Place, active: set[tuple[object, ...]], depth: int
) -> Axes | None:
    """cat() of parts, one of which is known; stack() puts an axis before theirs."""
    items = call.args[0].items if call.args else ()
    made = [_of(reading, item, place, active, depth - 1) for item in items]
    known = [each for each in made if each is not None]
    dim = call.given("dim", 1)
    at = dim.literal if dim is not None else 0
    if not known or not isinstance(at, int):
        return None
    first = known[0]
    if call.method != "stack":
        where = index_of(first, at)
        return None if where is None else _with(first, where, replace(
            first.each[where], size=None, count=None))  # fmt: skip
    where = at if at >= 0 else len(first.each) + 1 + at
    return Axes((*first.each[:where], Axis(), *first.each[where:]), first.lost)


def _with(axes: Axes, where: int, axis: Axis) -> Axes:
    return Axes((*axes.each[:where], axis, *axes.each[where + 1 :]), axes.lost)


def _image(inner: Axes | None, channels: float | None) -> Axes:
    """(batch, channels, height, width) of a convolution; the length of an axis may be named."""
    old = inner.each if inner is not None and len(inner.each) == 4 else (Axis(),) * 4
    first = old[0] if old[0].kind else replace(old[0], kind=BATCH)
    return Axes((first, Axis("channels", None, channels), old[2], old[3]))


def _of_module(
    reading: Reading, made: Call, inner: Axes | None, index: int | None,
    active: set[tuple[object, ...]], depth: int,
) -> Axes | None:  # fmt: skip
    """What a layer, or a module of this file, makes of what it is given."""
    if made.name.startswith("torch.nn."):
        return _of_layer(reading, made, inner, index, active, depth)
    if made.name in reading.modules:
        function = objects.method_of(reading, made.name, "forward")
        if function is not None:
            return _returned(reading, function, index, active, depth)
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
    active: set[tuple[object, ...]], depth: int,
) -> Axes | None:  # fmt: skip
    name = made.method
    if name in SAME_LAYERS:
        return inner
    if name == "Linear":
        width = evaluate.argument(reading, made, "out_features", 1)
        one = width is not None and width.literal == 1
        last = Axis(ONE if one else WIDTH)
        return Axes((*inner.each[:-1], last), inner.lost) if inner is not None else None
    if name in ("Conv2d", "ConvTranspose2d"):
        count = evaluate.number(reading, made.given("out_channels", 1), made)
        return _image(inner, count)
    if name == "Embedding" and inner is not None:
        return Axes((*inner.each, Axis(WIDTH)), inner.lost)
    if name == "Flatten" and not made.args and inner is not None:
        return Axes((inner.each[0], Axis(WIDTH)), inner.lost)
    if name in RECURRENT and index == 0:
        return _of_sequence(made, inner)
    if name in ENCODERS and index is None:
        return inner
    if name == "MultiheadAttention" and index == 0:
        return inner
    if name == "Sequential" and not made.unpacked and index is None:
        for value in made.args:
            part = reading.call_of(value)
            inner = _of_module(reading, part, inner, None, active, depth - 1) if part else None
        return inner if made.args else None
    return None


def _of_sequence(made: Call, inner: Axes | None) -> Axes:
    first = made.keywords.get("batch_first")
    if first is not None and first.literal is True:
        return Axes((Axis(BATCH), Axis(TIME), Axis(WIDTH)))
    if inner is not None and len(inner.each) == 3:
        return Axes((*inner.each[:-1], Axis(WIDTH)), inner.lost)
    return Axes((Axis(TIME), Axis(BATCH), Axis(WIDTH)))


def _changed(
    reading: Reading, call: Call, inner: Axes | None, index: int | None
) -> Axes | None:
    """What a function or method of tensors makes of the axes."""
    name = call.method
    given = list(call.args[1:] if call.name.startswith("torch.") else call.args)
    if name in ("view", "reshape"):
        return _viewed(reading, call, given, inner)
    if name == "bmm":
        old = inner.each if inner is not None and len(inner.each) == 3 else (Axis(),) * 3
        return Axes((replace(old[0], kind=BATCH), old[1], Axis()))
    if inner is None:
        return None
    if name in SAME:
        return inner
    if name == "chunk" and index is not None:
        return inner
    if name in REDUCES or (name in ("max", "min", "median") and index == 0):
        return _reduced(reading, call, inner)
    return _moved(name, [v.literal for v in given], inner)


def _reduced(reading: Reading, call: Call, inner: Axes) -> Axes | None:
    where = index_of(inner, dim_of(call))
    kept = call.keywords.get("keepdim")
    if where is None:
        return None
    if kept is not None and kept.literal is not False:
        return _with(inner, where, Axis(ONE))
    lost = reading.number(call) if inner.each[where].kind == BATCH else inner.lost
    return Axes((*inner.each[:where], *inner.each[where + 1 :]), lost)


def _moved(name: str, given: list[object], inner: Axes) -> Axes | None:
    """transpose(), permute(), t(), flatten(), unsqueeze() and squeeze() of literals."""
    each = list(inner.each)
    if name == "t" and len(each) == 2:
        return Axes((each[1], each[0]), inner.lost)
    places = [index_of(inner, dim) for dim in given]
    if name in ("transpose", "swapaxes") and len(places) == 2 and None not in places:
        a, b = (place or 0 for place in places)
        each[a], each[b] = each[b], each[a]
        return Axes(tuple(each), inner.lost)
    if name == "permute" and len(places) == len(each) and None not in places:
        return Axes(tuple(each[place or 0] for place in places), inner.lost)
    if name == "flatten" and given and len(places) == 1 and places[0] is not None:
        return Axes((*each[: places[0]], Axis()), inner.lost)
    if name == "unsqueeze" and len(given) == 1 and isinstance(given[0], int):
        where = given[0] if given[0] >= 0 else len(each) + 1 + given[0]
        return Axes((*each[:where], Axis(ONE), *each[where:]), inner.lost)
    if name == "squeeze" and len(places) == 1 and places[0] is not None:
        return Axes((*each[: places[0]], *each[places[0] + 1 :]), inner.lost)
    return None


def sizes_given(call: Call) -> list[Value]:
    """The sizes of a view: view(a, b) and view((a, b))."""
    given = list(call.args[1:] if call.name.startswith("torch.") else call.args)
    return list(given[0].items) if len(given) == 1 and given[0].kind == "list" else given


def _viewed(
    reading: Reading, call: Call, given: list[Value], inner: Axes | None
) -> Axes | None:
    """By the names of the sizes: view(B * T, -1) has samples first."""
    sizes = sizes_given(call)
    if not sizes or call.unpacked:
        return None
    axes = []
    for value in sizes:
        names = [n for n in value.all_names if n] if value.kind in ("name", "other") else []
        kinds = [_kind(n) for n in names if "." not in n]
        kind = ONE if value.literal == 1 else BATCH if BATCH in kinds else ""
        plain = value.kind == "name"
        kind = (kinds[0] if plain and kinds else "") or kind
        size = reading.key(value.name, call.scope) if plain else None
        axes.append(Axis(kind, size))
    return Axes(tuple(axes), inner.lost if inner is not None else -1)
