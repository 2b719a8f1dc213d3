"""What a network ends in, and settings of its layers and optimizer that are exchanged."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training


def ends(reading: Training) -> Iterator[Match]:
    """A Dropout behind the last layer, batch norm of one sample, and exchanged betas."""
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        value = evaluate.argument(reading, call, "input", 0)
        if kind not in ("cross_entropy", "bce_logits", "mse") or value is None:
            continue
        found = evaluate.options(reading, value, call)
        for option in found if len(found) == 1 else ():
            run = reading.call_of(option)
            made = objects.callee(reading, run) if run is not None and run.args else []
            for each in made if len(made) == 1 else ():
                if each is None or each.name != "torch.nn.Sequential" or len(each.args) < 2:
                    continue
                last = each.args[-1]
                layer = reading.call_of(last)
                if layer is not None and layer.name == "torch.nn.Dropout":
                    yield Match(layer.span, "a Dropout behind the last layer sets outputs to 0")
    yield from _betas(reading)
    yield from _single(reading)


def _betas(reading: Training) -> Iterator[Match]:
    for n in reading.optimizers:
        call = reading.calls[n]
        value = call.keywords.get("betas")
        numbers = [v.literal for v in value.items] if value is not None else []
        pair = [v for v in numbers if isinstance(v, float)]
        if len(pair) == 2 and pair[0] > pair[1] and pair[0] >= 0.99:
            yield Match(
                call.span, f"betas={pair[0]:g}, {pair[1]:g} are exchanged: momentum is first"
            )


def _single(reading: Training) -> Iterator[Match]:
    """BatchNorm1d behind a Linear, and loaders of one sample."""
    linear = {
        n
        for n in reading.methods("Sequential")
        for v, w in zip(reading.calls[n].args, reading.calls[n].args[1:], strict=False)
        if v.kind == "call" == w.kind
        and reading.calls[v.call].name == "torch.nn.Linear"
        and reading.calls[w.call].name == "torch.nn.BatchNorm1d"
    }
    for call in reading.named("DataLoader") if linear else ():
        size = evaluate.argument(reading, call, "batch_size", 1)
        one = size is not None and evaluate.literals(reading, size, call) == {1}
        if one and reading.trains_on(call):
            yield Match(call.span, "BatchNorm1d of one sample raises: it has no variance")
