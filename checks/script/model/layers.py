"""Rules on layers and tensors that a module makes."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.model.modules import FACTORIES
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

ON_CPU = {
    "torch.tensor", "torch.ones", "torch.FloatTensor", "torch.Tensor", "torch.as_tensor",
    "torch.from_numpy",
}  # fmt: skip
PLACES = {"to", "cuda", "type_as", "xpu", "register_buffer", "mps"}
ARITHMETIC = {"Add", "Sub", "Mult", "MatMult", "Div"}
TABLES = (FACTORIES - {"tensor"}) | {"linspace"}


def shared_layer(reading: Training) -> Iterator[Match]:
    """[layer] * n."""
    if not reading.modules:
        return
    for value, span, scope in reading.expressions:
        if reading.function(scope).owner not in reading.modules:
            continue
        for part in flatten([value]):
            if part.kind == "other" and part.name == "Mult" and len(part.items) == 2:
                for item in part.items:
                    lists = item.kind == "list" and len(item.items) == 1
                    if lists and _has_weights(reading, item.items[0]):
                        yield Match(span, "a list multiplied by n holds one layer n times")


def _has_weights(reading: Training, value: Value) -> bool:
    if value.kind != "call":
        return False
    call = reading.calls[value.call]
    function = reading.target_function(call)
    returns = reading.returns(function)
    if returns:
        return all(_has_weights(reading, each) for each in returns)
    return objects.is_layer(reading, call)


def left_on_cpu(reading: Training) -> Iterator[Match]:
    if reading.mentions("set_default_device", "set_default_tensor_type") or not _moves(reading):
        return
    blocks = [context.value for context in reading.script.contexts]
    if any(v.kind == "call" and reading.calls[v.call].name == "torch.device" for v in blocks):
        return
    for number, call in reading.numbered(reading.methods(*TABLES)):
        function = reading.function(call.scope)
        inside = function.name == "forward" and function.owner in reading.modules
        if inside and _is_new(call) and _is_combined(reading, call, number):
            yield Match(call.span, f"torch.{call.method}() makes a tensor on the CPU")
    yield from _weights_left(reading)
    for each in reading.assignments:
        if _is_table(reading, each):
            yield Match(each.span, f"{each.target} is no buffer: it stays on the CPU")


def _moves(reading: Training) -> bool:
    """A model of the file that trains is moved to a GPU."""
    for call in reading.named("cuda", "to"):
        names = [reading.root(call), *call.targets]
        trained = any(reading.key(n, call.scope) in reading.trained_names for n in names if n)
        gpu = any("cuda" in str(v.literal) or "device" in v.name for v in call.args)
        if trained and (gpu or call.method == "cuda"):
            return True
    return False


def _is_new(call: Call) -> bool:
    return (
        call.name == f"torch.{call.method}"
        and not {"device", "out"} & call.keywords.keys()
        and not call.unpacked
        and len(call.args) > 0
        and not (len(call.args) == 1 and call.args[0].kind == "list" and not call.args[0].items)
    )


def _is_combined(reading: Training, call: Call, number: int) -> bool:
    """It meets the input on the GPU as it is: in a recurrent layer, or in arithmetic."""
    if not call.targets and not call.arms:
        return _is_looked_up(reading, call.scope, number, "")
    if len(call.targets) != 1 or call.arms:
        return False
    name = call.targets[0]
    if _is_looked_up(reading, call.scope, number, name):
        return not moved_later(reading, call, name, number)
    here = [reading.calls[n] for n in reading.scope_calls(call.scope) if n > number]
    moved = any(each.method in PLACES and each.receiver == name for each in here)
    again = len([a for a in reading.assigned_to(name, call.scope)]) > 1
    if moved or again:
        return False
    for each in here:
        recurrent = any(
            made is not None and made.method in ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell")
            for made in (objects.callee(reading, each) if each.name.startswith("self.") else ())
        )
        if recurrent and any(name in v.all_names for v in each.args[1:]):
            return True
    return False


def moved_later(reading: Training, call: Call, name: str, number: int) -> bool:
    """The name is moved, or set again."""
    here = [reading.calls[n] for n in reading.scope_calls(call.scope) if n > number]
    again = len(reading.assigned_to(name, call.scope)) > 1
    return again or any(each.method in PLACES and each.receiver == name for each in here)


def _is_looked_up(reading: Training, scope: int, number: int, name: str) -> bool:
    """An Embedding of the module gets it as it is."""
    for n, each in reading.numbered(reading.scope_calls(scope)):
        if n <= number or not each.name.startswith("self.") or len(each.args) != 1:
            continue
        value = each.args[0]
        same = value.name == name if name else value.kind == "call" and value.call == number
        made = objects.callee(reading, each) if same else []
        if made and all(m is not None and m.name == "torch.nn.Embedding" for m in made):
            return True
    return False


def _weights_left(reading: Training) -> Iterator[Match]:
    """The weights of a loss, made on the CPU, and neither they nor the loss are moved."""
    for number, call in reading.numbered(
        reading.methods("CrossEntropyLoss", "BCEWithLogitsLoss", "NLLLoss")
    ):
        moved = any(
            other.receiver_call == number or other.receiver in call.targets
            for other in reading.named("to", "cuda")
        ) or any(set(call.targets) & set(inner.targets) for inner in reading.named("to"))
        for key in ("weight", "pos_weight"):
            value = call.keywords.get(key)
            options = evaluate.options(reading, value, call)
            made = reading.calls_of(options)
            plain = (
                made
                and len(made) == len(options)
                and all(m.name in ON_CPU and "device" not in m.keywords for m in made)
            )
            if plain and not moved and not reading.modules & {reading.function(call.scope).owner}:
                yield Match(call.span, f"{key} of {call.method} stays on the CPU")


def _is_table(reading: Training, each: Assignment) -> bool:
    """self.x = a tensor of torch, in __init__ of a module, that forward adds to its input."""
    function = reading.function(each.scope)
    own = each.target.startswith("self.") and each.target.count(".") == 1
    if not own or function.name != "__init__" or function.owner not in reading.modules:
        return False
    if "device" in {parameter.name for parameter in function.parameters}:
        return False
    moved = any(objects.method_of(reading, function.owner, n) for n in ("to", "_apply", "cuda"))
    return (
        not moved
        and _is_made_here(reading, each)
        and not _is_placed(reading, each.target)
        and _meets_input(reading, each.target, function.owner, each.scope)
    )


def _is_placed(reading: Training, target: str) -> bool:
    """Something moves it, or makes it a buffer or a parameter."""
    return any(
        call.method in (*PLACES, "Parameter", "setattr", "expand_as")
        and target in (call.receiver, *(n for v in call.args for n in v.all_names))
        for call in reading.calls
    )


def _meets_input(reading: Training, target: str, owner: str, init: int) -> bool:
    return any(
        part.kind == "other"
        and part.name in ARITHMETIC
        and any(_is_slice_of(item, target) for item in part.items)
        for value, _, scope in reading.expressions
        if scope != init and reading.function(scope).owner == owner
        for part in flatten([value])
    )


def _is_slice_of(value: Value, name: str) -> bool:
    while value.kind == "item" and value.items:
        value = value.items[0]
    return value.kind == "name" and value.name == name


def _is_made_here(reading: Training, each: Assignment) -> bool:
    """By a factory of torch, also through a local name and views of it."""
    value = each.value
    for _ in range(4):
        if value.kind == "name" and "." not in value.name:
            key = reading.key(value.name, each.scope)
            found = [a.value for a in reading.assigned.get(key, ()) if not a.augmented]
            if not found:
                return False
            value = found[0]
        elif value.kind == "call":
            call = reading.calls[value.call]
            if call.name == f"torch.{call.method}" and call.method in TABLES:
                wants = call.keywords.get("requires_grad")
                return "device" not in call.keywords and wants is None
            if call.method not in ("unsqueeze", "transpose", "float", "view", "squeeze"):
                return False
            value = (
                Value("call", call=call.receiver_call)
                if call.receiver_call >= 0
                else Value("name", name=call.receiver)
            )
        else:
            return False
    return False


RULES = (
    Rule(
        code="SCR282",
        slug="layer-shared-by-accident",
        title="Each layer of a list is an object of its own",
        severity="warn",
        find=shared_layer,
        why="[layer] * n holds one object n times: the layers share their weights, and the model "
        "has a part of the parameters that it seems to have.",
        fires=("a list of one layer, made in place, is multiplied",),
        fix="Write [make() for _ in range(n)].",
        needs=("Module", "LightningModule", "PreTrainedModel"),
        sources=("u-net-v2-10", "pytorch-vq-vae-2", "liger-kernel-269"),
        words=(r"\)\]\s*\*",),
    ),
    Rule(
        code="SCR283",
        slug="tensor-left-on-cpu",
        title="Tensors of a module follow it to the GPU",
        severity="fail",
        find=left_on_cpu,
        why="to() and cuda() move parameters and buffers. A tensor that is a plain attribute, or "
        "made in forward without a device, stays on the CPU: the first step raises.",
        fires=(
            "self.x = a tensor in __init__, and forward adds it, in a file that moves the model",
            "torch.zeros(...) without device in forward, as the state of a recurrent layer",
        ),
        fix="Call self.register_buffer('x', tensor), or pass device=x.device.",
        needs=(
            "Module",
            "LightningModule",
            "PreTrainedModel",
            "CrossEntropyLoss",
            "NLLLoss",
            "BCEWithLogitsLoss",
        ),
        sources=("random-fourier-features-pytorch-2", "rt-detr-677"),
    ),
)
