"""What the workers of a loader run that touches the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.data.worker_copies import has_workers
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value


def moved_in_workers(reading: Training) -> Iterator[Match]:
    """cuda() in __getitem__ of a dataset, or in collate_fn, and workers."""
    if reading.mentions("set_start_method", "multiprocessing_context", "get_context"):
        return
    loaders = reading.named("DataLoader")
    loaders = [call for call in loaders if _has_workers(reading, call)]
    scopes = {n: "__getitem__" for n in reading.functions_by_name.get("__getitem__", ()) if loaders}
    scopes |= {n: "collate_fn" for call in loaders for n in _collates(reading, call)}
    for scope, what in scopes.items():
        for call in reading.calls_in(scope):
            moves = call.method == "to" and any(_is_cuda(reading, v, call) for v in call.args[:1])
            if moves or (call.method == "cuda" and not call.name.startswith("torch.cuda")):
                message = f"workers cannot use CUDA after a fork: {what} moves to the GPU"
                yield Match(call.span, message, "fail", fix="Move batches to the GPU in the loop.")


def _has_workers(reading: Training, call: Call) -> bool:
    count = evaluate.argument(reading, call, "num_workers", 5)
    literal = count.literal if count is not None else None
    return (isinstance(literal, int) and literal > 0) or has_workers(reading, call)


def _collates(reading: Training, call: Call) -> Iterator[int]:
    """The function of this file, or the __call__ of its class, that joins the samples."""
    value = evaluate.argument(reading, call, "collate_fn", 6)
    for option in evaluate.options(reading, value, call) if value is not None else ():
        if option.kind == "name":
            yield from objects.functions_of(reading, option, call)
        made = reading.called(option)
        entered = objects.method_of(reading, made, "__call__") if made else None
        if entered is not None:
            yield entered


def _is_cuda(reading: Training, value: Value, call: Call) -> bool:
    """ "cuda", also in a device that the dataset is given."""
    found = evaluate.options(reading, value, call)
    made = reading.calls_of(found)
    inner = [
        v
        for each in made
        if each.name == "torch.device" and each.args
        for v in evaluate.options(reading, each.args[0], each)
    ]
    return bool(found) and all("cuda" in str(v.literal) for v in inner or found)
