"""What an object of a script is: the calls that made it."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.lineage import OF_THE_MODEL, WRAPPERS
from doctor.checks.script.reading import LEARNED, Reading, exclusive
from doctor.facts.script import Arms, Call, Value

LAYERS = {
    "Linear", "LazyLinear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d",
    "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
}  # fmt: skip
"""Layers of torch.nn whose output is any number."""


MODE_LAYERS = {
    "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "BatchNorm1d", "BatchNorm2d",
    "BatchNorm3d", "SyncBatchNorm", "LazyBatchNorm1d", "LazyBatchNorm2d",
}  # fmt: skip
"""Layers that compute something else in evaluation."""
NETWORKS = {"parameters", "state_dict", "named_parameters", "buffers"}
"""Methods that give the weights of a network."""


def is_layer(reading: Reading, call: Call) -> bool:
    """Whether a call makes a module that has parameters for certain."""
    module, _, name = call.name.rpartition(".")
    if module in ("torch.nn", "torch.nn.modules"):
        return name in LEARNED - {"Parameter"} or (
            name == "Sequential" and _holds_layer(reading, call)
        )
    return call.name in reading.learned


def _holds_layer(reading: Reading, call: Call) -> bool:
    return any(is_layer(reading, other) for value in call.args for other in reading.inside(value))


def makers(
    reading: Reading, value: Value, scope: int, position: int, arms: Arms = (), depth: int = 6
) -> Iterator[Call | None]:
    """The calls that may have made a value, under wrappers and casts; None for what is unknown."""
    if not depth:
        yield None
        return
    for option in evaluate.options_at(reading, value, scope, position, arms):
        call = reading.calls[option.call] if option.call >= 0 else None
        inner = _wrapped(call, option) if call is not None else None
        if call is not None and inner is not None:
            yield from makers(reading, inner, call.scope, option.call - 1, call.arms, depth - 1)
        else:
            yield call if option.kind == "call" else None


def makers_at(reading: Reading, value: Value, call: Call) -> list[Call | None]:
    """The same of a value that a call uses."""
    return list(makers(reading, value, call.scope, reading.number(call), call.arms))


def _wrapped(call: Call, value: Value) -> Value | None:
    """The object inside of model.to(device), DDP(model) or accelerator.prepare(model, other)."""
    if call.method not in WRAPPERS:
        return None
    if call.method in OF_THE_MODEL:
        if call.receiver_call >= 0:
            return Value("call", call=call.receiver_call)
        return Value("name", name=call.receiver) if call.receiver else None
    index = value.items[1].literal if value.kind == "item" and len(value.items) > 1 else 0
    if isinstance(index, int) and index < len(call.args):
        return call.args[index]
    return call.keywords.get("model") or call.keywords.get("module")


def callee(reading: Reading, call: Call) -> list[Call | None]:
    """What made the object that is called: `model(x)`, `nn.Softmax(1)(x)`; [] for a function."""
    if call.name.endswith("()") and call.receiver_call >= 0:
        value = Value("call", call=call.receiver_call)
    elif call.name and "()" not in call.name and "[]" not in call.name:
        if call.name.startswith("torch."):
            return []
        value = Value("name", name=call.name)
    else:
        return []
    return makers_at(reading, value, call)


def known_callees(reading: Reading, call: Call) -> list[Call]:
    """Those of them that are known."""
    return [made for made in callee(reading, call) if made is not None]


def method_of(reading: Reading, owner: str, name: str) -> int | None:
    """The function of a class of this file, None where it has none or several."""
    found = [
        n for n in reading.functions_by_name.get(name, ()) if reading.function(n).owner == owner
    ]
    return found[0] if len(found) == 1 else None


def operand(call: Call) -> Value | None:
    """What a method is called on, or the first argument of a function of torch or numpy."""
    if call.base is not None:
        return call.base
    if call.receiver_call >= 0:
        return Value("call", call=call.receiver_call)
    if call.name.startswith(("torch.", "numpy.")):
        return call.first
    return Value("name", name=call.receiver) if call.receiver else None


def chained(reading: Reading, value: Value) -> list[Call]:
    """requires_grad_(), eval() and deepcopy() of deepcopy(net).eval().requires_grad_(False)."""
    found, call = [], reading.call_of(value)
    while call is not None:
        found.append(call)
        call = reading.before(call)
    return found


def softmax_of(reading: Reading, call: Call) -> tuple[Value, Value] | None:
    """Input and axis of x.softmax(dim), F.softmax(x, dim), and of nn.Softmax(dim) that is called;
    None for any other call."""
    if call.method == "softmax" and call.name.startswith("torch."):
        value, axis = call.first, evaluate.argument(reading, call, "dim", 1)
    elif call.method == "softmax" and ("dim" in call.keywords or _is_number(call.first)):
        value, axis = operand(call), evaluate.argument(reading, call, "dim", 0)
    elif "Softmax" in reading.by_method and len(call.args) == 1:
        made = callee(reading, call)
        known = made[0] if len(made) == 1 else None
        layer = known if known is not None and known.name == "torch.nn.Softmax" else None
        value = call.first if layer is not None else None
        axis = evaluate.argument(reading, layer, "dim", 0) if layer is not None else None
    else:
        return None
    return (value, axis) if value is not None and axis is not None else None


def _is_number(value: Value | None) -> bool:
    return value is not None and evaluate.is_number(value.literal)


def receiver_of(call: Call) -> Value:
    """What a method is called on, a name without any letter where that is neither."""
    if call.receiver_call >= 0:
        return Value("call", call=call.receiver_call)
    return call.base or Value("name", name=call.receiver)


def functions_of(reading: Reading, value: Value, call: Call) -> Iterator[int]:
    """The function of this file that is passed, also by a function that makes it."""
    if value.kind == "name":
        yield from reading.functions_by_name.get(value.name.rpartition(".")[2], ())
    factory = reading.target_function(reading.calls[value.call]) if value.kind == "call" else None
    for each in reading.returns(factory):
        for n in reading.functions_by_name.get(each.name, ()):
            if reading.function(n).parent == factory:
                yield n


def sites(reading: Reading, function: int) -> list[int]:
    """Calls that enter a function of this file, also a forward through its module."""
    found = reading.call_sites.get(function, [])
    return found or reading.cached(_forward_sites).get(function, [])


def near(reading: Reading, scope: int) -> set[int]:
    """The functions of this file that call a function, and those that it calls."""
    after = {reading.calls[n].scope for n in sites(reading, scope)}
    before = map(reading.target_function, reading.calls_in(scope))
    return after | {each for each in before if each is not None}


def _forward_sites(reading: Reading) -> dict[int, list[int]]:
    table: dict[int, list[int]] = {}
    for number, call in enumerate(reading.calls if reading.modules else ()):
        if not call.name or call.name.startswith("torch.") or call.name in reading.modules:
            continue
        for made in callee(reading, call):
            if made is not None and made.name in reading.modules:
                function = method_of(reading, made.name, "forward")
                if function is not None:
                    table.setdefault(function, []).append(number)
    return table


def last_definition(reading: Reading, name: str, call: Call) -> list[Value]:
    """What the name may hold at a call, one assignment back."""
    return [each.value for each in evaluate.definitions_at(reading, name, call)]


def around(reading: Reading, call: Call, loop: int) -> list[int]:
    """The calls of one scope within a loop that may run together with a call."""
    return [
        n
        for n in reading.by_loop.get(loop, ())
        if reading.calls[n].scope == call.scope and not exclusive(reading.calls[n].arms, call.arms)
    ]
