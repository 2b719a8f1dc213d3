"""The last operation of a value: whether a softmax, a sigmoid or a plain layer made it."""

from __future__ import annotations

from doctor.checks.script import evaluate, objects
from doctor.checks.script.reading import Reading
from doctor.facts.script import Arms, Call, Value

UNKNOWN = "?"
OPERATIONS = {
    "softmax": "softmax", "Softmax": "softmax", "Softmax2d": "softmax", "sigmoid": "sigmoid",
    "Sigmoid": "sigmoid", "log_softmax": "log_softmax", "LogSoftmax": "log_softmax",
    "logsigmoid": "logsigmoid", "LogSigmoid": "logsigmoid", "argmax": "argmax",
    "relu": "relu", "ReLU": "relu",
}  # fmt: skip
VIEWS = {
    "squeeze", "unsqueeze", "view", "reshape", "flatten", "contiguous", "to", "float", "double",
    "cpu", "cuda", "transpose", "permute", "t", "type_as", "type", "half", "clone", "long", "int",
    "expand", "requires_grad_", "bfloat16", "view_as", "reshape_as", "swapaxes", "movedim",
}  # fmt: skip
"""Methods and functions that leave the numbers as they are."""
PASSING = {"Dropout", "Identity", "Flatten", "Unflatten", "dropout", "DataParallel"}
NETWORKS = {
    "timm.create_model", "segmentation_models_pytorch", "torch_geometric.nn.MLP",
    "torch_geometric.nn.GCNConv", "torch_geometric.nn.SAGEConv", "torch_geometric.nn.GATConv",
    "torch_geometric.nn.GATv2Conv", "torch_geometric.nn.GraphConv", "torch_geometric.nn.Linear",
    "torch_geometric.nn.ChebConv", "torch_geometric.nn.SGConv", "torch_geometric.nn.GCN",
}  # fmt: skip
"""Of libraries: their output is any number, as that of a linear layer, unless a keyword says so."""
DEPTH = 10
MOST_SITES = 8
"""Calls of one function that are followed. Our own number."""


def outcomes(
    reading: Reading,
    value: Value,
    scope: int,
    position: int,
    arms: Arms = (),
    index: int | None = None,
    depth: int = DEPTH,
) -> set[str]:
    """What may have made a value last; `index` selects an element of a returned tuple."""
    reading.step()
    if not depth:
        return {UNKNOWN}
    if value.kind == "choice":
        parts = [outcomes(reading, v, scope, position, arms, index, depth - 1) for v in value.items]
        return set().union(*parts) or {UNKNOWN}
    if value.kind == "name":
        return _of_name(reading, value.name, scope, position, arms, index, depth)
    if value.kind == "list" and index is not None and index < len(value.items):
        return outcomes(reading, value.items[index], scope, position, arms, None, depth - 1)
    if value.kind == "item" and value.items and not value.name.endswith("]"):
        return _of_item(reading, value, scope, position, arms, depth)
    if value.kind == "call" and value.call < len(reading.calls):
        return _of_call(reading, reading.calls[value.call], value.call, index, depth)
    return {UNKNOWN}


def _of_name(
    reading: Reading,
    name: str,
    scope: int,
    position: int,
    arms: Arms,
    index: int | None,
    depth: int,
) -> set[str]:
    if any(each.augmented for each in reading.assigned_to(name, scope)):
        return {UNKNOWN}
    results = evaluate.definitions(reading, name, scope, position, arms)
    if not results and evaluate.is_parameter(reading, scope, name):
        return _of_parameter(reading, name, scope, index, depth)
    if not results or any(each.scope != scope for each in results):
        return {UNKNOWN}
    parts = [
        outcomes(reading, each.value, scope, each.position - 1, each.arms, index, depth - 1)
        for each in results
        if each.position <= position
    ]
    return set().union(*parts) or {UNKNOWN}


def _of_parameter(
    reading: Reading, name: str, scope: int, index: int | None, depth: int
) -> set[str]:
    """What all calls of a function of this file, or of a module's forward, pass."""
    sites = objects.sites(reading, scope)
    sites = [n for n in sites if not reading.calls[n].unpacked] or sites
    found: set[str] = set()
    for site, call in reading.numbered(sites[:MOST_SITES]):
        value = evaluate.argument_of(reading, call, scope, name)
        if value is None:
            return {UNKNOWN}
        found |= outcomes(reading, value, call.scope, site, call.arms, index, depth - 1)
    return found or {UNKNOWN}


def _of_item(
    reading: Reading, value: Value, scope: int, position: int, arms: Arms, depth: int
) -> set[str]:
    """An element of what a call returns, or a part of a tensor."""
    base, key = value.items[0], value.items[-1]
    number = key.literal if isinstance(key.literal, int) else None
    index = number if key.kind == "literal" else None
    if base.kind == "call" and index is not None:
        call = reading.calls[base.call]
        if call.method in ("max", "topk", "sort") and index == 1:
            return {"argmax"}
    return outcomes(reading, base, scope, position, arms, index, depth - 1)


def _of_call(reading: Reading, call: Call, number: int, index: int | None, depth: int) -> set[str]:
    tensor = call.name.startswith("torch.") or call.receiver_call >= 0 or bool(call.receiver)
    function = reading.target_function(call)
    owner = reading.function(call.scope).owner
    if call.name == "self" and owner:
        function = objects.method_of(reading, owner, "forward")
    if function is not None:
        return _returned(reading, function, index, depth)
    made = objects.callee(reading, call)
    if any(each is not None for each in made):
        parts = [_of_module(reading, each, call, number, index, depth) for each in made]
        return set().union(*parts)
    if call.name.startswith(("numpy.", "scipy.", "tensorflow.", "jax.", "math.")):
        return {UNKNOWN}
    if tensor and call.method in OPERATIONS and call.method[:1].islower():
        return {OPERATIONS[call.method]}
    if tensor and (call.method in VIEWS or call.method in PASSING):
        inner = _inner(call)
        if inner is not None:
            found = outcomes(reading, inner, call.scope, number, call.arms, index, depth - 1)
            return {UNKNOWN if each == "logit" and _joins(call) else each for each in found}
    return {UNKNOWN}


def _joins(call: Call) -> bool:
    """A view of one number for each sample that puts those of several into a row."""
    sizes = call.args[1:] if call.name.startswith("torch.") else call.args
    return call.method in ("view", "reshape") and len(sizes) > 1 and sizes[-1].literal != 1


def _inner(call: Call) -> Value | None:
    """What a view is taken of."""
    if call.receiver_call >= 0:
        return Value("call", call=call.receiver_call)
    if call.name.startswith("torch."):
        return call.first
    return Value("name", name=call.receiver) if call.receiver else None


def _returned(reading: Reading, function: int, index: int | None, depth: int) -> set[str]:
    """Of every return of a function; one that returns the tensor for its own use counts, too."""
    each = reading.function(function)
    if not each.returns:
        return {UNKNOWN}
    parts = [
        outcomes(reading, value, function, position, arms, index, depth - 1)
        for value, (position, arms) in zip(each.returns, each.exits, strict=True)
    ]
    return set().union(*parts)


def _of_module(
    reading: Reading, made: Call | None, call: Call, number: int, index: int | None, depth: int
) -> set[str]:
    """What the module that `made` makes returns for a call."""
    if made is None:
        return {UNKNOWN}
    module, _, name = made.name.rpartition(".")
    if module in ("torch.nn", "torch.nn.modules"):
        if name in PASSING and call.args:
            return outcomes(reading, call.args[0], call.scope, number, call.arms, index, depth)
        return _of_layer(reading, made, name, depth)
    if made.name in NETWORKS or module in NETWORKS:
        ends = {"activation", "act_last", "plain_last", "act"} & made.keywords.keys()
        return {UNKNOWN} if ends or _has_other_head(reading) else {"logits"}
    if module == "torchvision.models" and name not in ("googlenet", "inception_v3"):
        return {UNKNOWN} if _has_other_head(reading) else {"logits"}
    if made.name in reading.modules:
        function = objects.method_of(reading, made.name, "forward")
        return _returned(reading, function, index, depth) if function is not None else {UNKNOWN}
    return {UNKNOWN}


def _has_other_head(reading: Reading) -> bool:
    """Something but a plain Linear is assigned to the head of a model in this file."""
    return any(
        each.value.kind != "call" or reading.calls[each.value.call].name != "torch.nn.Linear"
        for each in reading.assignments
        if each.target.partition("[")[0].rpartition(".")[2] in ("fc", "classifier", "head", "heads")
    )


def _of_layer(reading: Reading, made: Call, name: str, depth: int) -> set[str]:
    if name in OPERATIONS:
        return {OPERATIONS[name]}
    if name in objects.LAYERS:
        return {"logit" if name == "Linear" and _outputs(made) == 1 else "logits"}
    if name == "Sequential" and made.args and not made.unpacked:
        return _last_of(reading, made, made.args[-1], depth, [*made.args[:-1]])
    return {UNKNOWN}


def _outputs(made: Call) -> object:
    """out_features where it is written out."""
    value = made.given("out_features", 1)
    return value.literal if value is not None and value.kind == "literal" else None


def _last_of(
    reading: Reading, made: Call, last: Value, depth: int, before: list[Value]
) -> set[str]:
    """The last module of a Sequential, below dropout and the like."""
    number = reading.number(made)
    found: set[str] = set()
    for each in objects.makers_at(reading, last, made):
        module, _, name = each.name.rpartition(".") if each is not None else ("", "", "")
        if each is None:
            found.add(UNKNOWN)
        elif module == "torch.nn" and name in PASSING and before and depth:
            found |= _last_of(reading, made, before[-1], depth - 1, before[:-1])
        elif module == "torch.nn":
            found |= _of_layer(reading, each, name, depth - 1)
        else:
            found |= _of_module(reading, each, each, number, None, depth - 1)
    return found
