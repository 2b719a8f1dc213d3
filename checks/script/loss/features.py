"""Parts of a loss or of a network that get no gradient because of where they are computed."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call


def without_gradient(reading: Training) -> Iterator[Match]:
    yield from _features(reading)
    yield from _checkpointed_input(reading)
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


def _checkpointed_input(reading: Training) -> Iterator[Match]:
    """checkpoint(self.first, x, use_reentrant=True) of the batch, which needs no gradient."""
    if reading.mentions("requires_grad_", "enable_input_require_grads", "dummy"):
        return
    for call in reading.named("checkpoint"):
        reentrant = call.keywords.get("use_reentrant")
        if "checkpoint" not in call.name or reentrant is None or reentrant.literal is not True:
            continue
        given = call.args[1:]
        function = reading.function(call.scope)
        own = {p.name for p in function.parameters}
        if function.name != "forward" or not given or function.owner not in reading.modules:
            continue
        plain = all(
            v.kind == "name" and v.name in own and not _set(reading, v.name, call) for v in given
        )
        if plain and _gets_batch(reading, call.scope):
            yield Match(
                call.span, f"no input of {call.args[0].name} needs a gradient: its weights get none"
            )


def _set(reading: Training, name: str, call: Call) -> bool:
    """Something is assigned to the parameter before."""
    return any(
        a.target == name and a.scope == call.scope and a.span.order < call.span.order
        for a in reading.assignments
    )


def _gets_batch(reading: Training, scope: int) -> bool:
    """The module is called in a loop that trains, with what the loop binds."""
    for site in objects.sites(reading, scope):
        call = reading.calls[site]
        loops = [reading.loops[n] for n in call.loops]
        bound = {t for loop in loops for t in loop.targets}
        names = {v.name.split(".")[0] for v in call.args}
        if call.loops and names & bound and reading.by_loop[call.loops[-1]]:
            return True
    return False


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
