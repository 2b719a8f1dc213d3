"""The kinds that a call of a library, or of an object of one, makes."""

from __future__ import annotations

from collections.abc import Callable

from doctor.checks.script import evaluate, objects
from doctor.checks.script.kinds.dimensions import KIND, OF
from doctor.checks.script.kinds.known import CALL, Follower, Kinds, Known, Place
from doctor.checks.script.kinds.sources import COLORS, CV2, ENVIRONMENT, SOURCES, Source, by_call
from doctor.facts.script import Call, Value

SHALLOW = 8
"""Steps behind a conversion at most. Our own number."""
READS = {"os.environ.get", "os.getenv"}


FUNCTIONS = by_call(SOURCES, module=False)
MODULES = by_call(SOURCES, module=True)


def of_module(name: str, modules: str) -> bool:
    """Whether a function belongs to one of the packages, or to a module within."""
    return any(name.startswith(f"{each}.") for each in modules.split())


def is_function(call: Call) -> bool:
    """Of a module, and not of what another call returns."""
    return call.receiver_call < 0 and call.base is None


def is_library(call: Call) -> bool:
    """A function of torch, numpy or OpenCV."""
    return is_function(call) and call.name.startswith(("torch.", "numpy.", "cv2.", "torchvision."))


def made_by_call(flow: Follower, call: Call, place: Place) -> Kinds | None:
    """What the tables say, None where the call is none of them."""
    special = SPECIAL.get(call.method)
    if special is not None:
        return special(flow, call, place)
    found: Kinds | None = None
    for each in FUNCTIONS.get(call.method, ()):
        library = bool(each.of) and is_function(call) and of_module(call.name, each.of)
        on_object = each.method and not library and _is_method(call)
        if on_object and call.receiver == "self":
            continue  # a part of the class, whatever its name
        if library or on_object:
            origin = f"{call.method}()" if on_object else f"{short(call.name)}()"
            found = (found or {}) | _known(_chosen(flow, each, call), origin)
    return found


def _variable(flow: Follower, call: Call, place: Place) -> Kinds | None:
    """os.environ.get("RANK")."""
    key = call.args[0].literal if call.name in READS and call.args else None
    name = ENVIRONMENT.get(key) if isinstance(key, str) else None
    return _known((name,), f"the variable {key}") if name is not None else None


def _to_rgb(flow: Follower, call: Call, place: Place) -> Kinds | None:
    """image.convert("RGB") of PIL."""
    inner = receiver(call)
    found = flow.of(inner, place, SHALLOW) if inner is not None else {}
    if "form" not in found:
        return None
    rgb = bool(call.args) and call.args[0].literal == "RGB"
    return {**found, **(_known(("RGB",), 'convert("RGB")') if rgb else {})}


def _frame(flow: Follower, call: Call, place: Place) -> Kinds | None:
    """ok, frame = cv2.VideoCapture(path).read()."""
    options = evaluate.options(flow.reading, Value("name", name=call.receiver), call)
    names = {flow.reading.calls[each.call].name for each in options if each.kind == "call"}
    return _known(CV2, "VideoCapture.read()") if names == {"cv2.VideoCapture"} else None


def _length(flow: Follower, call: Call, place: Place) -> Kinds | None:
    """Batches of a loader."""
    name = call.args[0].name if call.args and call.args[0].kind == "name" else ""
    if name and name.casefold().endswith(("loader", "loaders", "_dl")):
        return _known(("steps",), f"len({name})")
    return None


def _is_method(call: Call) -> bool:
    """On an object, and not a function of a module that is imported."""
    if call.base is not None or call.receiver_call >= 0:
        return True
    return bool(call.receiver) and not call.name.startswith(("torch.", "numpy.", "math.", "scipy."))


def _colored(flow: Follower, call: Call, place: Place) -> Kinds | None:
    """cv2.cvtColor(image, cv2.COLOR_BGR2RGB)."""
    before, after = codes(call)
    found = flow.of(call.args[0], place, SHALLOW) if call.args else {}
    found = {k: v for k, v in found.items() if k != "color"}
    if after not in COLORS:
        return {k: v for k, v in found.items() if k == "form"}
    if COLORS[after] == "gray":
        found = {k: v for k, v in found.items() if k != "layout"}
    return {**found, **_known((COLORS[after],), f"cv2.COLOR_{before}2{after}")}


def codes(call: Call) -> tuple[str, str]:
    """The two colors of cvtColor()."""
    code = call.args[1] if len(call.args) > 1 else call.keywords.get("code")
    name = code.name if code is not None else ""
    before, _, after = name.rpartition("COLOR_")[2].partition("2")
    return before, after


def _boxes(flow: Follower, call: Call, place: Place) -> Kinds | None:
    value = evaluate.argument(flow.reading, call, "out_fmt", 2)
    name = value.literal if value is not None else None
    return _known((name,), "box_convert()") if isinstance(name, str) and name in KIND else None


def _chosen(flow: Follower, each: Source, call: Call) -> tuple[str, ...]:
    """The kinds that the option chooses; none where the file does not decide it."""
    if not each.option:
        return each.kinds
    value = evaluate.argument(flow.reading, call, each.option, each.position)
    if value is None:
        return () if call.unpacked else each.kinds
    options = evaluate.options(flow.reading, value, call)
    texts = {_text(flow, each) for each in options}
    return each.by.get(texts.pop(), ()) if len(texts) == 1 else ()


def _text(flow: Follower, value: Value) -> str:
    """A number, a name, or the last directory of a path."""
    call = flow.reading.calls[value.call] if value.kind == "call" else None
    if call is not None and call.name == "os.path.join" and call.args:
        value = call.args[-1]
    if isinstance(value.literal, float):
        return f"{value.literal:g}"
    text = str(value.literal) if value.kind == "literal" else value.name
    return text.rstrip("/").rpartition("/")[2]


def _known(kinds: tuple[str, ...], origin: str) -> Kinds:
    return {OF[each].name: Known(KIND[each], origin, CALL) for each in kinds}


def short(name: str) -> str:
    """F.softmax of torch.nn.functional.softmax, as people write it."""
    for long, alias in (("torch.nn.functional.", "F."), ("torch.distributed.", "dist."),
                        ("torchvision.transforms.functional.", "TF."), ("numpy.", "np."),
                        ("torch.nn.", "nn."), ("matplotlib.pyplot.", "plt.")):  # fmt: skip
        if name.startswith(long):
            return alias + name[len(long) :]
    return name


def receiver(call: Call) -> Value | None:
    """What a method is called on."""
    if call.base is not None:
        return call.base
    if call.receiver_call >= 0:
        return Value("call", call=call.receiver_call)
    return Value("name", name=call.receiver) if call.receiver else None


def made_by_object(flow: Follower, call: Call, depth: int) -> Kinds:
    """What calling an object makes: nn.Softmax(1)(x), a Sequential that ends in it, a module."""
    reading = flow.reading
    if reading.script.identifiers.isdisjoint(MODULES) and not reading.modules:
        return {}
    makers = objects.callee(reading, call) if depth > 2 else []
    if len(makers) != 1 or makers[0] is None:
        return {}
    made = last_part(flow, makers[0])
    found: Kinds = {}
    for each in MODULES.get(made.method, ()):
        if of_module(made.name, each.of):
            found |= _known(_chosen(flow, each, made), f"{short(made.name)}()")
    function = objects.method_of(reading, made.name, "forward")
    if made.name in reading.modules and function is not None:
        return flow.returned(function, reading.function(function).returns, depth)
    return found


def last_part(flow: Follower, made: Call) -> Call:
    """The last module of nn.Sequential(...)."""
    while made.name == "torch.nn.Sequential" and made.args and made.args[-1].kind == "call":
        made = flow.reading.calls[made.args[-1].call]
    return made


SPECIAL: dict[str, Callable[[Follower, Call, Place], Kinds | None]] = {
    "get": _variable, "getenv": _variable, "cvtColor": _colored, "box_convert": _boxes,
    "convert": _to_rgb, "read": _frame, "len": _length,
}  # fmt: skip
