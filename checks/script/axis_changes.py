"""Axes of tensors, and what functions and layers of torch make of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from doctor.checks.script.naming import words
from doctor.checks.script.reading import Reading
from doctor.facts.script import Call, Value

BATCH, TIME, WIDTH, ONE = "batch", "time", "width", "one"
NAMED = {
    **dict.fromkeys(("b", "bs", "bsz", "batch"), BATCH),
    **dict.fromkeys(("t", "seq", "time", "frames", "steps", "window"), TIME),
}
"""Names of lengths by their first word: B, T = x.shape. N is of samples or of nodes: not here."""
SAME = {
    "contiguous", "float", "half", "double", "to", "cuda", "cpu", "clone", "detach", "relu", "gelu",
    "tanh", "sigmoid", "dropout", "softmax", "log_softmax", "normalize", "exp", "log", "clamp",
    "abs", "square", "pow", "sqrt", "layer_norm", "elu", "silu", "masked_fill", "leaky_relu",
    "type_as",
}  # fmt: skip
"""Functions and methods that leave each axis where it is."""
REDUCES = {"mean", "sum", "amax", "amin", "std", "var", "norm", "logsumexp"}


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


def joined(parts: list[Axes], given: int) -> Axes | None:
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


def agreed(known: list[Axes]) -> Axes | None:
    """The axes on several ways to a name; names of lengths where all give the same."""
    if not known or len({each.kinds for each in known}) > 1:
        return None
    if len({each.each for each in known}) == 1:
        return known[0]
    return Axes(tuple(Axis(kind) for kind in known[0].kinds), known[0].lost)


def kind_of(name: str) -> str:
    return NAMED.get(next(iter(words(name)), ""), "")


def taken(axes: Axes, index: Value) -> Axes | None:
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


def with_axis(axes: Axes, where: int, axis: Axis) -> Axes:
    return Axes((*axes.each[:where], axis, *axes.each[where + 1 :]), axes.lost)


def image(inner: Axes | None, channels: float | None) -> Axes | None:
    """(batch, channels, height, width) of a convolution, which takes (channels, height, width),
    too; the length of an axis may be named."""
    if inner is None or len(inner.each) != 4:
        return None
    old = inner.each
    first = old[0] if old[0].kind else replace(old[0], kind=BATCH)
    return Axes((first, Axis("channels", None, channels), old[2], old[3]))


def of_sequence(made: Call, inner: Axes | None) -> Axes | None:
    """Of a recurrent layer, which takes (time, width), too: one with batch_first has a batch."""
    if inner is not None and len(inner.each) != 3:
        return None
    first = made.keywords.get("batch_first")
    if first is not None and first.literal is True:
        return Axes((Axis(BATCH), Axis(TIME), Axis(WIDTH)))
    return Axes((*inner.each[:-1], Axis(WIDTH)), inner.lost) if inner is not None else None


def reduced(reading: Reading, call: Call, inner: Axes) -> Axes | None:
    where = index_of(inner, dim_of(call))
    kept = call.keywords.get("keepdim")
    if where is None:
        return None
    if kept is not None and kept.literal is not False:
        return with_axis(inner, where, Axis(ONE))
    lost = reading.number(call) if inner.each[where].kind == BATCH else inner.lost
    return Axes((*inner.each[:where], *inner.each[where + 1 :]), lost)


def moved(name: str, given: list[object], inner: Axes) -> Axes | None:
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


def viewed(call: Call, inner: Axes | None) -> Axes | None:
    """By the names of the sizes: view(B * T, -1) has samples first."""
    sizes = sizes_given(call)
    if not sizes or call.unpacked:
        return None
    axes = []
    for value in sizes:
        names = [n for n in value.all_names if n] if value.kind in ("name", "other") else []
        kinds = [kind_of(n) for n in names if "." not in n]
        kind = ONE if value.literal == 1 else BATCH if BATCH in kinds else ""
        plain = value.kind == "name"
        kind = (kinds[0] if plain and kinds else "") or kind
        axes.append(Axis(kind))
    return Axes(tuple(axes), inner.lost if inner is not None else -1)


def of_width(made: Call, inner: Axes) -> Axes | None:
    """What layers make that change the last axis, or put one behind it."""
    if made.method == "Linear":
        width = made.given("out_features", 1)
        one = width is not None and width.literal == 1
        return Axes((*inner.each[:-1], Axis(ONE if one else WIDTH)), inner.lost)
    if made.method == "Embedding":
        return Axes((*inner.each, Axis(WIDTH)), inner.lost)
    if made.method == "Flatten" and not made.args:
        return Axes((inner.each[0], Axis(WIDTH)), inner.lost)
    return None
