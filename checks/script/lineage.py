"""How an object came to be: the calls and names that lead to what an optimizer receives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from doctor.checks.script import evaluate
from doctor.checks.script.reading import Reading, flatten
from doctor.facts.script import Call, Value

PARAMETERS = {"parameters", "named_parameters", "trainable_parameters"}
WRAPPERS = {
    "get_peft_model", "prepare_model_for_kbit_training", "prepare_model_for_int8_training",
    "DistributedDataParallel", "DDP", "DataParallel", "FullyShardedDataParallel", "FSDP", "compile",
    "prepare", "to", "cuda", "cpu", "half", "bfloat16", "float", "train", "eval", "prepare_model",
    "initialize", "setup", "requires_grad_", "xpu", "double", "wrap", "script", "setup_module",
    "convert_sync_batchnorm", "merge_and_unload", "to_bettertransformer", "add_adapter", "type",
    "deepcopy", "prepare_model_for_training",
}  # fmt: skip
"""What returns the model that it gets, wrapped or changed."""
OF_THE_MODEL = {
    "to", "cuda", "cpu", "half", "bfloat16", "float", "train", "eval", "type", "double",
    "requires_grad_", "add_adapter", "merge_and_unload", "xpu", "to_bettertransformer",
}  # fmt: skip
"""Those of them that are methods of the model."""
CONTAINERS = {"torch.nn.ModuleDict", "torch.nn.ModuleList", "torch.nn.Sequential"}
"""What of torch.nn holds modules that it is given."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """How an object came to be: calls from the newest back, and its names on the way."""

    calls: tuple[int, ...] = ()
    names: frozenset[tuple[object, str]] = frozenset()
    complete: bool = False
    """Every path back ends at a call that makes an object."""


@dataclass(slots=True)
class _Trail:
    calls: dict[int, None] = field(default_factory=dict)
    names: set[tuple[object, str]] = field(default_factory=set)
    depths: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """How deep each name was followed at a place: a loop of names comes back to it."""
    complete: bool = True


def lineage_of(reading: Reading, name: str, scope: int, position: int) -> Lineage:
    """The calls that made what a name holds, and wrapped it since."""
    return lineage_of_value(reading, Value("name", name=name), scope, position)


def lineage_of_value(reading: Reading, value: Value, scope: int, position: int) -> Lineage:
    """The same for what an argument passes."""
    trail = _Trail()
    _follow(reading, value, scope, position, trail, 20)
    return Lineage(tuple(trail.calls), frozenset(trail.names), trail.complete)


def _follow(
    reading: Reading, value: Value, scope: int, position: int, trail: _Trail, depth: int
) -> None:
    reading.step()
    if not depth:
        trail.complete = False
    elif value.kind == "choice":
        for item in value.items:
            _follow(reading, item, scope, position, trail, depth - 1)
    elif value.kind == "name":
        _follow_name(reading, value.name, scope, position, trail, depth)
    elif value.kind in ("call", "item") and value.call >= 0:
        _follow_call(reading, value, trail, depth)
    elif value.kind != "literal":
        trail.complete = False


def _follow_name(
    reading: Reading, name: str, scope: int, position: int, trail: _Trail, depth: int
) -> None:
    if trail.depths.get((name, scope, position), 0) >= depth:
        return
    trail.depths[name, scope, position] = depth
    key = reading.key(name, scope)
    owner = key[0]
    trail.names.add(key)
    call = reading.calls[position] if 0 <= position < len(reading.calls) else None
    arms = call.arms if call is not None and call.scope == scope else ()
    place = position if owner == scope or isinstance(owner, str) else len(reading.calls)
    home = owner if isinstance(owner, int) else scope
    results = evaluate.definitions(reading, name, home, place, arms)
    for each in results:
        _follow(reading, each.value, each.scope, each.position - 1, trail, depth - 1)
    if not results and not _follow_parameter(reading, key, trail, depth):
        trail.complete = False


def _follow_parameter(reading: Reading, key: tuple[object, str], trail: _Trail, depth: int) -> bool:
    """What the calls of this file pass for a parameter."""
    owner, name = key
    if not isinstance(owner, int) or owner <= 0:
        return False
    followed = False
    for site, call in reading.numbered(reading.call_sites.get(owner, ())[:6]):
        value = evaluate.argument_of(reading, call, owner, name)
        if value is not None:
            followed = True
            _follow(reading, value, call.scope, site, trail, depth - 1)
    return followed


def _follow_call(reading: Reading, value: Value, trail: _Trail, depth: int) -> None:
    number = value.call
    if number in trail.calls:
        return
    trail.calls[number] = None
    call = reading.calls[number]
    function = reading.target_function(call)
    returns = reading.returns(function)
    for each in returns:
        _follow_return(reading, each, value, function or 0, trail, depth)
    if returns:
        return
    if call.method in WRAPPERS:
        _follow_wrapped(reading, call, number, value, trail, depth)
    elif call.name in modules_of(reading) or call.name in CONTAINERS:
        _follow_parts(reading, call, number, trail, depth)
    elif not call.method[:1].isupper() and call.method != "from_pretrained":
        _follow_foreign(reading, call, number, trail, depth)


def _follow_parts(reading: Reading, call: Call, number: int, trail: _Trail, depth: int) -> None:
    """What a module of this file is made of."""
    for part in flatten(call.values):
        if part.kind == "name":
            _follow(reading, part, call.scope, number, trail, depth - 1)


def _follow_foreign(reading: Reading, call: Call, number: int, trail: _Trail, depth: int) -> None:
    """model = prepare(model) of another file returns what it is given, or a wrapper of it."""
    trail.complete = False
    for part in call.values:
        if part.kind == "name" and part.name in call.targets:
            _follow(reading, part, call.scope, number, trail, depth - 1)


def _follow_return(
    reading: Reading, returned: Value, value: Value, function: int, trail: _Trail, depth: int
) -> None:
    """Of several returned values the one that is assigned."""
    element = returned
    if value.kind == "item" and returned.kind == "list" and len(value.items) > 1:
        index = value.items[1].literal
        if isinstance(index, int) and 0 <= index < len(returned.items):
            element = returned.items[index]
    _follow(reading, element, function, len(reading.calls), trail, depth - 1)


def _follow_wrapped(
    reading: Reading, call: Call, number: int, value: Value, trail: _Trail, depth: int
) -> None:
    """The object inside: a method's receiver, or the argument."""
    if call.receiver and call.method in OF_THE_MODEL:
        _follow(reading, Value("name", name=call.receiver), call.scope, number, trail, depth - 1)
        return
    if call.receiver_call >= 0 and not call.args:
        _follow(reading, Value("call", call=call.receiver_call), call.scope, number, trail, depth)
        return
    if call.receiver_call >= 0 and call.method in ("to", "type"):
        _follow(reading, Value("call", call=call.receiver_call), call.scope, number, trail, depth)
        return
    index = 0
    if value.kind == "item" and len(value.items) > 1:
        written = value.items[1].literal
        index = written if isinstance(written, int) else 0
    inner = evaluate.argument(reading, call, "model") or evaluate.argument(reading, call, "module")
    if inner is None and index < len(call.args):
        inner = call.args[index]
    if inner is not None:
        _follow(reading, inner, call.scope, number, trail, depth - 1)


def modules_of(reading: Reading) -> set[str]:
    """Classes of this file that are modules: what they are made of trains with them."""
    return {
        each.name
        for each in reading.script.classes
        if any(base.rpartition(".")[2].endswith(("Module", "Model")) for base in each.bases)
    }


def parameter_owners(reading: Reading, call: Call, number: int) -> Iterator[str]:
    """Objects whose parameters() are among an optimizer's arguments, through variables."""
    visited: set[str] = set()
    for value in (*call.args[:1], *call.keywords.values()):
        yield from _owners_in(reading, value, call.scope, number, visited, 4)


def _owners_in(
    reading: Reading,
    value: Value,
    scope: int,
    position: int,
    visited: set[str],
    depth: int,
) -> Iterator[str]:
    for inner in value.calls:
        made = reading.calls[inner]
        if made.method in PARAMETERS and made.receiver:
            yield made.receiver
    if not depth:
        return
    for name in value.all_names:
        if name in visited or not name:
            continue
        visited.add(name)
        yield from _collected(reading, name, scope, position)
        for each in reading.assigned_to(name, scope):
            if each.position <= position or each.scope != scope:
                yield from _owners_in(
                    reading, each.value, each.scope, each.position, visited, depth - 1
                )


def _collected(reading: Reading, name: str, scope: int, position: int) -> Iterator[str]:
    """Objects whose parameters a loop appends to the list: decay.append(p)."""
    for number, call in reading.numbered(reading.methods("append")):
        unnamed = not call.receiver and call.receiver_call < 0
        if number > position or call.scope != scope or not call.loops or not call.args:
            continue
        loop = reading.loops[call.loops[-1]]
        if not (call.receiver == name or unnamed) or call.args[0].name not in loop.targets:
            continue
        for inner in loop.iterable.calls if loop.iterable is not None else ():
            made = reading.calls[inner]
            if made.method in PARAMETERS and made.receiver:
                yield made.receiver
