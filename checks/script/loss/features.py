"""Parts of a loss or of a network that get no gradient because of where they are computed."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training


def without_gradient(reading: Training) -> Iterator[Match]:
    yield from _features(reading)
    yield from always_off(reading)


def _features(reading: Training) -> Iterator[Match]:
    """fa, fb = vgg(a), vgg(b) under no_grad, and a loss of both in the function of a loss."""
    for number, _ in loss_calls(reading):
        call = reading.calls[number]
        if len(call.args) < 2 or not call.scope or reading.is_evaluation(call):
            continue
        if reading.under_no_grad(call.contexts):
            continue
        sides = [
            evaluate.definitions_at(reading, value.name, call)
            for value in call.args[:2]
            if value.kind == "name"
        ]
        if len(sides) == 2 and all(
            found and all(reading.under_no_grad(a.contexts) for a in found) for found in sides
        ):
            sites = [reading.calls[n] for n in objects.sites(reading, call.scope)]
            trains = {reading.calls[n].scope for n in reading.backwards}
            if any(site.scope in trains and not reading.is_evaluation(site) for site in sites):
                yield Match(
                    call.span, "both sides are computed under no_grad: the term has no gradient"
                )


def always_off(reading: Training) -> Iterator[Match]:
    """A network that an optimizer holds, and that runs under no_grad only."""
    for each in reading.trained:
        name, sink = each.name, reading.calls[each.sink]
        if each.trainer or not name or "." in name.removeprefix("self."):
            continue
        key = reading.key(name, sink.scope)
        runs = [
            call
            for call in reading.calls
            if call.args
            and (call.name == name or (call.receiver == name and call.method not in KEPT))
            and reading.key(name, call.scope) == key
        ]
        passed = any(
            value.kind == "name" and value.name == name and call.method not in ("print", "len")
            for call in reading.calls
            for value in call.values
        )
        trains = {n for call in runs for n in call.loops}
        loops = any(
            n in reading.backward_numbers for m in trains for n in reading.by_loop.get(m, ())
        )
        if (
            runs
            and loops
            and not passed
            and all(reading.under_no_grad(call.contexts) for call in runs)
        ):
            yield Match(
                runs[0].span,
                f"{name} runs under no_grad, and an optimizer holds it: it never learns",
            )


KEPT = {"parameters", "named_parameters", "train", "eval", "to", "state_dict", "load_state_dict",
        "zero_grad", "cuda", "requires_grad_"}  # fmt: skip
