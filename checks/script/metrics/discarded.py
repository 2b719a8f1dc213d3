"""A rule on results that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.naming import words
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.trainers.contradictions import is_of_datasets
from doctor.checks.script.training import Training
from doctor.facts.script import Call

CONTEXTS = {
    "torch.no_grad", "torch.inference_mode", "torch.autocast", "torch.amp.autocast",
    "torch.cuda.amp.autocast",
}  # fmt: skip
MOVES = {"to", "cuda", "cpu", "float", "long", "half", "double", "bfloat16", "int"}
"""Of a tensor each returns another one; of a module they work in place."""
OF_DATA = {
    "map", "filter", "shuffle", "select", "remove_columns", "rename_column", "rename_columns",
    "cast", "cast_column", "add_column", "train_test_split", "with_format", "with_transform",
    "class_encode_column", "flatten",
}  # fmt: skip
KEEPS = ("save_pretrained", "push_to_hub", "state_dict", "save")
DATASETS = (
    "datasets.load_dataset", "datasets.load_from_disk", "datasets.Dataset", "datasets.concat",
)  # fmt: skip
WRAPPERS = {
    "torch.compile", "torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel",
}  # fmt: skip
OF_STATES = {
    "scatter_full_optim_state_dict", "shard_full_optim_state_dict", "optim_state_dict_to_load",
    "flatten_sharded_optim_state_dict",
}  # fmt: skip
TENSORS = {
    "image", "images", "img", "imgs", "input", "inputs", "label", "labels", "target", "targets",
    "x", "y", "xb", "yb", "feature", "features", "mask", "masks", "pixels", "ids", "src", "tgt",
    "real", "fake", "noise", "audio", "text", "query", "document",
}  # fmt: skip
"""Batches of other names may be moved in place: those of transformers and PyTorch Geometric are."""


def discarded(reading: Training) -> Iterator[Match]:
    for call in reading.calls:
        reason = _reason(reading, call) if call.statement else ""
        if reason and not _is_expected(reading, call):
            yield Match(call.span, reason)


def _is_expected(reading: Training, call: Call) -> bool:
    """Within pytest.raises() or pytest.warns(): the call itself is what is tested."""
    around = reading.calls_of(reading.contexts(call))
    return any(each.name.startswith(("pytest.", "self.assert")) for each in around)


def _reason(reading: Training, call: Call) -> str:
    if call.method == "load_from_checkpoint" and _of_lightning(reading, call):
        return f"{call.name}() returns a new model, and {call.receiver} stays as it is"
    if call.name in CONTEXTS:
        return f"{call.name}() stands alone: it holds within a with block or as a decorator only"
    if call.name in WRAPPERS:
        return f"{call.name}() returns the wrapped model, which nothing uses"
    if call.method == "merge_and_unload" and reading.imports_from("peft") and (
        call.receiver and not _is_called_later(reading, call)
    ):  # fmt: skip
        return f"{call.name}() returns the merged model, which nothing uses"
    if call.method in MOVES and _is_batch(reading, call):
        return f"{call.receiver}.{call.method}() returns the moved tensor, which nothing uses"
    if call.method in OF_DATA and _is_dataset(reading, call):
        return f"{call.receiver}.{call.method}() returns the new dataset, which nothing uses"
    if call.method == "scale" and "scaler" in call.receiver.casefold() and call.args:
        return f"{call.receiver}.scale() returns the scaled loss, which nothing uses"
    return _of_tensors(reading, call) or _of_autograd(reading, call) or _of_shards(call)


def _of_shards(call: Call) -> str:
    """FSDP.optim_state_dict_to_load(model, optimizer, state)."""
    known = call.name.startswith("torch.distributed.fsdp.") and call.method in OF_STATES
    known = known and "load_directly" not in call.keywords and len(call.args) < 5
    return f"{call.method}() returns the optimizer's state, which nothing loads" if known else ""


PURE = {
    "relu", "gelu", "silu", "sigmoid", "tanh", "softmax", "log_softmax", "leaky_relu", "elu",
    "dropout", "normalize", "layer_norm", "interpolate", "max_pool2d", "avg_pool2d", "softplus",
    "permute", "transpose", "view", "reshape", "flatten", "squeeze", "unsqueeze", "masked_fill",
    "clamp", "contiguous", "expand", "repeat", "detach", "mul", "div", "add", "sub",
}  # fmt: skip
"""Functions and methods of tensors that change nothing in place."""


OF_OTHERS = {"add", "detach", "expand", "repeat", "sub", "div", "mul"}
"""Methods that a set, a memory or a tree has, too: only of what a layer gets."""


def _of_tensors(reading: Training, call: Call) -> str:
    """F.relu(x), x.permute(0, 2, 1) or scores.masked_fill(mask, value) in a forward."""
    function = reading.function(call.scope)
    flags = any(value.literal is True for value in call.args[1:])  # F.relu(x, True)
    if call.method not in PURE or call.keywords.keys() & {"inplace", "out"} or flags:
        return ""
    if function.owner not in reading.modules or not function.returns:
        return ""
    given = {p.name for p in function.parameters} - {"self"}
    held = given | {t for c in reading.calls_in(call.scope) for t in c.targets}
    of_torch = call.name.startswith("torch.") and call.args and call.args[0].kind == "name"
    method = call.receiver.isidentifier() and call.receiver in held
    if call.method in OF_OTHERS and method:
        method = any(
            c.first is not None and c.first.name == call.receiver
            for c in reading.calls_in(call.scope)
            if c.name.startswith(("torch.", "self."))
        )
    pure = of_torch or method
    return f"{call.name}() returns a new tensor, which nothing uses" if pure else ""


def _is_called_later(reading: Training, call: Call) -> bool:
    """The model computes with the merged layers, which it holds, and is not saved; or the model
    that it wraps, whose layers are merged in place, is used."""
    later = [
        other
        for n, other in reading.numbered(reading.scope_calls(call.scope))
        if n > reading.number(call)
    ]
    computes = any(
        other.name in (call.receiver, f"{call.receiver}.generate", f"{call.receiver}.eval")
        for other in later
    )
    makers = [c for c in reading.calls_in(call.scope) if call.receiver in c.targets]
    bases = {c.args[0].name for c in makers if c.args and c.args[0].name} - {call.receiver}
    if any(other.receiver in bases or bases & {v.name for v in other.args} for other in later):
        return True
    return computes and not any(
        other.method in KEEPS and (other.receiver == call.receiver or other.name == "torch.save")
        for other in later
    )


def _of_lightning(reading: Training, call: Call) -> bool:
    """Of an instance; a class of the file may have a method of its own by this name."""
    own = {function.name.split(".")[-1] for function in reading.script.functions}
    return bool(call.receiver) and not call.receiver[:1].isupper() and call.method not in own


def _of_autograd(reading: Training, call: Call) -> str:
    """A function with a backward pass that changes no argument in place."""
    name = call.receiver
    own = call.method == "apply" and any(
        each.name == name and any(base.endswith("autograd.Function") for base in each.bases)
        for each in reading.script.classes
    )
    forward = objects.method_of(reading, name, "forward") if own else None
    if forward is None or objects.method_of(reading, name, "backward") is None:
        return ""
    for each in map(reading.calls.__getitem__, reading.scope_calls(forward)):
        if each.method == "mark_dirty" or (each.statement and each.method.endswith("_")):
            return ""
    return f"nothing uses the result of {call.name}(), so its backward() never runs"


def _is_batch(reading: Training, call: Call) -> bool:
    """A name that a loop binds, and passes on as a tensor: to the model or a loss."""
    name = call.receiver
    bound = any(name in reading.loops[n].targets for n in call.loops)
    if not bound or not set(words(name)) & TENSORS:
        return False
    if reading.imports_from("torch_geometric", "dgl"):
        return False
    inside = reading.by_loop[call.loops[-1]]
    passed = any(
        value.kind == "name" and value.name == name and reading.calls[n].name != "print"
        for n in inside
        for value in reading.calls[n].args
    )
    return passed and any(n in reading.backward_numbers for n in inside)


def _is_dataset(reading: Training, call: Call) -> bool:
    """A dataset of Hugging Face, by what made it."""
    values = evaluate.receivers(reading, call)
    made = bool(values) and all(
        each.call >= 0 and reading.calls[each.call].name.startswith(DATASETS) for each in values
    )
    return made or is_of_datasets(reading, call)


RULES = (
    Rule(
        code="SCR261",
        slug="result-discarded",
        title="Results are used",
        severity="fail",
        find=discarded,
        why="These calls change nothing in place: a tensor stays on the CPU, a dataset stays "
        "without its tokens, no_grad() by itself switches nothing off, and the backward() of a "
        "function whose result is not used never runs.",
        fires=(
            "x.to(device) and the like of a batch, as a statement",
            "map(), filter(), shuffle() of a dataset of Hugging Face, as a statement",
            "model.load_from_checkpoint(path) of a module, as a statement",
            "F.relu(x), x.permute(0, 2, 1), scores.masked_fill(mask, value) in a forward",
            "torch.no_grad(), torch.compile(model), DDP(model), scaler.scale(loss), FSDP's "
            "optim_state_dict_to_load() as statements",
            "apply() of an own torch.autograd.Function that changes nothing in place, as a "
            "statement",
        ),
        fix="Assign the result: x = x.to(device). Enter contexts: with torch.no_grad():",
        sources=("equine-206", "datasets-image-process"),
    ),
)
