"""Rules on how a module holds what trains."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.casts import cast_dtype
from doctor.checks.script.reading import LEARNED
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

LAYERS = LEARNED - {"Parameter"}
ELEMENTS = {"parameters", "requires_grad_", "eval", "to", "cuda", "named_parameters"}
"""Methods of a module that are called on an element: it is moved, frozen or given by hand."""
REGISTERS = {"ModuleList", "ModuleDict", "Sequential", "add_module", "register_module"}


def plain_list(reading: Training) -> Iterator[Match]:
    for each in reading.assignments:
        if each.augmented or not _is_own(reading, each):
            continue
        if not _holds_modules(reading, each.value, each) or _is_registered(reading, each.target):
            continue
        if _is_used(reading, each):
            message = f"{each.target} is a plain list: its modules are no parts of the model"
            yield Match(each.span, message)


def _is_own(reading: Training, each: Assignment) -> bool:
    """self.x in a method of a module."""
    parts = each.target.split(".")
    return (
        len(parts) == 2
        and parts[0] == "self"
        and reading.function(each.scope).owner in reading.modules
    )


def _holds_modules(reading: Training, value: Value, at: Assignment) -> bool:
    """A list, a dictionary or a comprehension of layers that are made there."""
    if value.kind == "name" and value.name:
        every = reading.assigned_to(value.name, at.scope)
        found = [each.value for each in every if not each.augmented]
        return bool(found) and all(
            each.kind == "list" and _is_filled(reading, each, value.name, at.scope)
            for each in found
        )
    if value.kind == "list" and not value.items:
        return _is_filled(reading, value, at.target, at.scope)
    return _has_layers(reading, value)


def _has_layers(reading: Training, value: Value) -> bool:
    """A list, a dictionary or a comprehension in which layers are made, or one of these."""
    is_comprehension = value.kind == "other" and value.name in ("ListComp", "DictComp")
    items = value.items[-1:] if is_comprehension else value.items
    return (is_comprehension or value.kind in ("list", "dict")) and any(
        _is_made(reading, item) or _has_layers(reading, item) for item in items
    )


def _is_filled(reading: Training, value: Value, name: str, scope: int) -> bool:
    """A layer, or a list of them, is an item of the list or is appended to it."""
    appended = [
        each
        for call in reading.named("append")
        if call.receiver == name and call.scope == scope
        for each in call.args
    ]
    return _has_layers(reading, value) or any(
        _is_made(reading, each) or _has_layers(reading, each) for each in appended
    )


def _is_made(reading: Training, value: Value) -> bool:
    """A layer that is made in place, and not frozen there."""
    if value.kind != "call":
        return False
    call = reading.calls[value.call]
    if call.method in ("to", "cuda") and call.receiver_call >= 0:
        call = reading.calls[call.receiver_call]
    return objects.is_layer(reading, call)


def _is_registered(reading: Training, target: str) -> bool:
    """The modules are also given to something that registers them, or to the optimizer."""
    for call in reading.calls:
        values = (*call.args, *call.unpacked, *call.keywords.values())
        if not any(target in v.all_names for v in values):
            continue
        if call.method in REGISTERS or call.method == "setattr":
            return True
    if any(call.receiver == target and call.method in ELEMENTS for call in reading.calls):
        return True
    name = target.removeprefix("self.")
    return bool({"add_module", "register_module", "setattr"} & reading.script.identifiers) or any(
        loop.iterable is not None
        and any(n.endswith(f".{name}") for n in loop.iterable.all_names)
        and _gives_parameters(reading, number)
        for number, loop in enumerate(reading.loops)
    )


def _gives_parameters(reading: Training, loop: int) -> bool:
    return any(
        reading.calls[n].method in ("parameters", "requires_grad_", "named_parameters", "eval")
        for n in reading.by_loop.get(loop, ())
    )


def _is_used(reading: Training, at: Assignment) -> bool:
    """Another method of the class reads it, and no parameters() of it are asked for."""
    key = reading.key(at.target, at.scope)
    used = False
    for number, loop in enumerate(reading.loops):
        if loop.iterable is None or loop.scope == at.scope:
            continue
        names = loop.iterable.all_names
        if any(n and reading.key(n.partition("[")[0], loop.scope) == key for n in names):
            used = used or not _gives_parameters(reading, number)
    for call in reading.calls:
        if call.scope == at.scope:
            continue
        names = (call.receiver, call.name, *(n for v in call.args for n in v.all_names))
        used = used or any(
            n and reading.key(n.partition("[")[0].removesuffix("."), call.scope) == key
            for n in names
        )
    return used


FACTORIES = {"randn", "rand", "zeros", "ones", "empty", "full", "tensor", "normal", "eye"}
MOVES = {"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "clone", "view"}


def not_registered(reading: Training) -> Iterator[Match]:
    for each in reading.assignments:
        if each.value.kind != "call" or not _is_own(reading, each):
            continue
        call = reading.calls[each.value.call]
        if _is_moved_parameter(reading, call):
            yield Match(each.span, f"{each.target} is a copy of a Parameter, and no parameter")
        elif (
            reading.function(each.scope).name == "__init__"
            and _is_leaf(call)
            and not _is_given(reading, each.target)
        ):
            yield Match(each.span, f"{each.target} is a tensor: parameters() does not have it")


def _is_moved_parameter(reading: Training, call: Call) -> bool:
    moves = False
    while call.receiver_call >= 0 and call.method in MOVES:
        moves = moves or not _keeps(reading, call)
        call = reading.calls[call.receiver_call]
        if call.name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
            return moves
    return False


def _keeps(reading: Training, call: Call) -> bool:
    """The move may return the Parameter itself: .to(torch.float32) of what is fp32, or .cpu()."""
    if call.method in ("cpu", "float"):
        return True
    if call.method not in ("to", "type"):
        return False
    dtypes = cast_dtype(reading, call)
    return dtypes == {"fp32"} or any(
        value.literal == "cpu" or "dtype" in value.name for value in call.args
    )


def _is_leaf(call: Call) -> bool:
    wants = call.keywords.get("requires_grad")
    return (
        call.name.startswith("torch.")
        and call.method in FACTORIES
        and wants is not None
        and wants.literal is True
    )


def _is_given(reading: Training, target: str) -> bool:
    """Something receives the tensor by name: an optimizer, a Parameter, a list."""
    name = target.removeprefix("self.")
    return any(
        any(n.endswith(f".{name}") for n in value.all_names if n)
        for call in reading.calls
        if call.method[:1].isupper() or call.method.startswith("register")
        for value in call.values
    ) or any(
        value.kind == "list" and any(n == target for n in value.names)
        for function in reading.script.functions
        for value in function.returns
    )


def made_in_forward(reading: Training) -> Iterator[Match]:
    for number, call in reading.numbered(reading.methods(*LAYERS)):
        function = reading.function(call.scope)
        if function.name != "forward" or function.owner not in reading.modules or call.arms:
            continue
        if not call.name.startswith("torch.nn.") or not _is_own_layer(reading, number, call):
            continue
        yield Match(
            call.span, f"{call.method} is made in forward: its weights are new in each call"
        )


def _is_own_layer(reading: Training, number: int, call: Call) -> bool:
    """It is called right there, or by a local name; self.x would keep it."""
    if any(each.receiver_call == number and each.name.endswith("()") for each in reading.calls):
        return True
    return len(call.targets) == 1 and "." not in call.targets[0] and any(
        each.name == call.targets[0] and each.scope == call.scope for each in reading.calls
    )  # fmt: skip


LISTED = (
    r"self\.\w+\s*=\s*[\[{(]\s*(?:torch\.)?nn\.", r"self\.\w+\s*=\s*\[\s*[A-Z]\w*\(",
    r"\.append\(\s*(?:(?:torch\.)?nn\.)?[A-Z]\w*\(",
)  # fmt: skip

RULES = (
    Rule(
        code="SCR234",
        slug="modules-in-plain-list",
        title="Modules of a model are in a ModuleList",
        severity="fail",
        find=plain_list,
        why="parameters(), to() and state_dict() do not look into lists: the layers run in "
        "forward, but never train, stay on the CPU, and are not saved.",
        fires=("self.x = [layers] in a module, used by another method, and registered nowhere",),
        fix="Wrap the list: self.x = nn.ModuleList([...]).",
        needs=("Module", "LightningModule", "PreTrainedModel"),
        sources=("torch-module-list",),
        words=LISTED,
    ),
    Rule(
        code="SCR235",
        slug="parameter-not-registered",
        title="Tensors that train are Parameters of their module",
        severity="fail",
        find=not_registered,
        why="A module registers what is a Parameter. nn.Parameter(...).to(device) and "
        "torch.randn(..., requires_grad=True) are plain tensors: no optimizer gets them.",
        fires=(
            "self.x = nn.Parameter(...).to(...) or .cuda()",
            "self.x = torch.randn(..., requires_grad=True) in a module, given to nothing",
        ),
        fix="Write nn.Parameter(torch.randn(...)) and move the whole module.",
        needs=("Module", "LightningModule", "PreTrainedModel"),
        sources=("torch-parameter",),
        words=(
            r"Parameter\([^\n]*\)\s*\.\s*(?:to|cuda)\b",
            r"self\.\w+\s*=[^\n]*requires_grad\s*=\s*True",
        ),
    ),
    Rule(
        code="SCR236",
        slug="layer-made-in-forward",
        title="Layers are made once, in __init__",
        severity="fail",
        find=made_in_forward,
        why="A layer that forward makes has new random weights in every call; the optimizer never "
        "sees them.",
        fires=("a layer with parameters is made and called in forward",),
        fix="Make the layer in __init__ and call it in forward.",
        needs=("Module", "LightningModule", "PreTrainedModel"),
        sources=("torch-module",),
        words=(
            r"=\s*(?:torch\.)?nn\.[A-Z]\w+\([^\n]*\)\s*\(",
            r"=\s*(?:torch\.)?nn\.(?:Linear|Conv\dd|LSTM|GRU)\(",
        ),
    ),
)
