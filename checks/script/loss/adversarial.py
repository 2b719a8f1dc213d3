"""A rule on the two losses of a GAN."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.lineage import PARAMETERS
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

ZERO = re.compile(r"zeros|fake_?label|label_?fake|\bzero\b|full\([^()]*(?:\([^()]*\))?[^()]*,0[,)]")


def two_players(reading: Training) -> Iterator[Match]:
    held = _held(reading)
    if len(held) < 2:
        return
    for number, call in reading.numbered(reading.backwards):
        stepped = _steps_after(reading, call, number, held)
        loss = _loss(reading, call)
        if loss is None or stepped is None:
            continue
        yield from _of_generator(reading, call, loss, held[stepped], held)
        yield from _left_in_generator(reading, call, number, held, stepped)


def _held(reading: Training) -> dict[str, str]:
    """Optimizers by name, and the network that each holds, the first of several."""
    found: dict[str, str] = {}
    for n in reading.optimizers:
        call = reading.calls[n]
        owners = [
            reading.calls[m].receiver
            for v in (*call.args[:1], *call.keywords.values()) for m in (v.call, *v.calls)
            if m >= 0 and reading.calls[m].method in PARAMETERS
        ]  # fmt: skip
        if len(call.targets) == 1 and owners:
            found[call.targets[0]] = owners[0]
    return {**found, **_of_lightning(reading, found)}


def _of_lightning(reading: Training, held: dict[str, str]) -> dict[str, str]:
    """opt_g, opt_d = self.optimizers(): in the order of what configure_optimizers() returns."""
    found: dict[str, str] = {}
    for call in reading.named("optimizers") if held else ():
        owner = reading.function(call.scope).owner
        function = objects.method_of(reading, owner, "configure_optimizers")
        returned = reading.returns(function)
        value = returned[0] if len(returned) == 1 else Value("other")
        if value.items and value.items[0].kind == "list":
            value = value.items[0]
        names = [held.get(each.name, "") for each in value.items]
        if call.receiver == "self" and all(names) and len(names) == len(call.targets):
            found |= dict(zip(call.targets, names, strict=True))
    return found


def _steps_after(reading: Training, call: Call, number: int, held: dict[str, str]) -> str | None:
    """The optimizer whose step() comes next in the loop."""
    for n in range(number + 1, min(number + 12, len(reading.calls))):
        each = reading.calls[n]
        if each.loops != call.loops or each.scope != call.scope:
            return None
        if each.method == "step" and each.receiver in held:
            return each.receiver
    return None


def _loss(reading: Training, call: Call) -> Value | None:
    name = reading.loss_name(call)
    found = objects.last_definition(reading, name, call) if name else []
    return found[0] if len(found) == 1 else None


def _of_generator(
    reading: Training, call: Call, loss: Value, network: str, held: dict[str, str]
) -> Iterator[Match]:
    """The step of the network that makes samples for the other one."""
    others = set(held.values()) - {network}
    saturates = loss.name == "USub"
    near = _calls_through_names(reading, loss, call, 1)
    for n in _calls_through_names(reading, loss, call):
        judged = reading.calls[n]
        inner = reading.before(judged) if judged.method == "detach" else None
        if inner is not None and inner.name in others and inner.args:
            name, _ = _sample(reading, inner.args[0], inner)
            alone = _is_judged_alone(reading, loss, n) and not any(
                reading.calls[m].name == inner.name for m in near if reading.calls[m] != inner
            )
            if name and alone and _made_by(reading, name, inner, network):
                message = f"what {inner.name} says of {name} is detached"
                yield Match(judged.span, f"{message}: {network} gets no gradient of it")
        if judged.name not in others or not judged.args:
            continue
        name, cut = _sample(reading, judged.args[0], judged)
        if not name or not _made_by(reading, name, judged, network):
            continue
        if cut:
            yield Match(judged.span, f"{name} is detached: {network} gets no gradient of this loss")
        elif not saturates and n in near and _is_called_fake(reading, loss, network, n):
            yield Match(
                call.span,
                f"{network} is trained to be recognized: its samples get the label for fakes",
            )


def _calls_through_names(reading: Training, loss: Value, call: Call, depth: int = 3) -> list[int]:
    """The calls of a loss, also those that made the names in it: output = D(fake)."""
    found = [n for n in (loss.call, *loss.calls) if n >= 0]
    at = reading.calls[loss.call] if loss.call >= 0 else call
    names = [(name, at) for name in dict.fromkeys(loss.names if loss.kind != "name" else ())]
    names += [(v.name, reading.calls[n]) for n in found for v in reading.calls[n].args if v.name]
    for name, place in names if depth else ():
        made = objects.last_definition(reading, name, place)
        if len(made) == 1 and made[0].kind in ("call", "other", "item"):
            found += _calls_through_names(reading, made[0], place, depth - 1)
    return list(dict.fromkeys(found))


def _left_in_generator(
    reading: Training, call: Call, number: int, held: dict[str, str], stepped: str
) -> Iterator[Match]:
    """D(G(z)) in the discriminator's loss, whose gradient G keeps until its own step."""
    if "inputs" in call.keywords or reading.mentions("requires_grad", "requires_grad_", "toggle"):
        return
    judged = [c for c in _judgements(reading, call) if c.name == held[stepped] and c.args]
    for optimizer, network in held.items() if len(held) == 2 else ():
        samples = [c for c in judged if _is_sample(reading, c, network)]
        later = [
            n for n in reading.backwards
            if n > number and (c := reading.calls[n]).scope == call.scope and c.loops == call.loops
            and _steps_after(reading, c, n, held) == optimizer
        ]  # fmt: skip
        if optimizer == stepped or not samples or not later:
            continue
        cleared = any(
            number < site < later[0] and reading.calls[n].receiver in (optimizer, network)
            for n in reading.methods("zero_grad")
            for site in (n, *reading.call_sites.get(reading.calls[n].scope, ()))
        )
        if not cleared:
            message = f"{network} keeps the gradient of this loss and adds it to its own"
            yield Match(samples[0].span, f"{message}: its samples are not detached")


def _judgements(reading: Training, call: Call) -> Iterator[Call]:
    """Calls that a loss is made of, through names."""
    name = reading.loss_name(call)
    waiting, depth = ([Value("name", name=name)] if name else []), 12
    while waiting and depth:
        value, depth = waiting.pop(), depth - 1
        names = [value.name] if value.kind == "name" else [*value.names]
        for n in (value.call, *value.calls):
            if n >= 0:
                yield reading.calls[n]
        for each in dict.fromkeys(names):
            found = objects.last_definition(reading, each, call)
            waiting += found if len(found) == 1 else []


def _is_sample(reading: Training, judged: Call, network: str) -> bool:
    """An argument is what the other network returned, with its graph."""
    values = [*judged.args]
    for value in judged.args:  # D(torch.cat([condition, fake], 1))
        made = reading.call_of(value)
        if made is not None and made.method in ("cat", "concat", "concatenate") and made.args:
            values += made.args[0].items
    return any(_is_from(reading, value, judged, network) for value in values)


def _is_from(reading: Training, value: Value, judged: Call, network: str) -> bool:
    if value.kind == "call":
        return reading.calls[value.call].name == network
    name, cut = _sample(reading, value, judged)
    if not name or cut:
        return False
    for each in evaluate.definitions_at(reading, name, judged):
        made = reading.call_of(each.value)
        if made is None or made.name != network or reading.is_without_graph(made):
            return False
    return _made_by(reading, name, judged, network)


def _sample(reading: Training, value: Value, judged: Call) -> tuple[str, bool]:
    """What the other network judges, and whether it is cut off."""
    if value.kind == "call":
        made = reading.calls[value.call]
        return (made.receiver, True) if made.method == "detach" else ("", False)
    found = objects.last_definition(reading, value.name, judged) if value.name else []
    cut = bool(found) and all(
        v.kind == "call" and reading.calls[v.call].method == "detach" for v in found
    )
    return value.name, cut


def _made_by(reading: Training, name: str, call: Call, network: str) -> bool:
    """The name is what the network returned."""
    found = evaluate.definitions_at(reading, name, call)
    return bool(found) and all(
        any(
            reading.calls[n].name == network for n in (each.value.call, *each.value.calls) if n >= 0
        )
        for each in found
    )


def _criteria(reading: Training, numbers: Iterable[int]) -> Iterator[tuple[list[int], list[str]]]:
    """The calls that the first argument of criterion(D(fake), label) is, and the label's texts."""
    for n in numbers:
        call = reading.calls[n] if n >= 0 else None
        if call is None or len(call.args) != 2:
            continue
        first, target = call.args
        made = objects.last_definition(reading, first.name, call) if first.kind == "name" else []
        texts = [render(reading, target)]
        if target.kind == "name":
            found = objects.last_definition(reading, target.name, call)
            texts += [render(reading, v) for v in found]
        yield [*first.calls, *(m for v in (first, *made) for m in (v.call, *v.calls))], texts


def _is_called_fake(reading: Training, loss: Value, network: str, judged: int) -> bool:
    """criterion(D(fake), zeros), as samples of this network are called in the loss of D, too."""
    for judgements, texts in _criteria(reading, (loss.call, *loss.calls)):
        if judged in judgements:
            return _is_zero(texts) and _is_fake_elsewhere(reading, loss, network, judged)
    return False


def _is_fake_elsewhere(reading: Training, loss: Value, network: str, judged: int) -> bool:
    """All other labels of what D says of samples of the network are 0, and there is one."""
    name, own = reading.calls[judged].name, {loss.call, *loss.calls}
    others = [n for n in range(len(reading.calls)) if n not in own]
    labels = [
        _is_zero(texts)
        for judgements, texts in _criteria(reading, others)
        for m in judgements
        if m >= 0 and (each := reading.calls[m]).name == name and each.args
        and _made_by(reading, _sample(reading, each.args[0], each)[0], each, network)
    ]  # fmt: skip
    return bool(labels) and all(labels)


def _is_zero(texts: list[str]) -> bool:
    return any(ZERO.search(text) for text in texts)


def _is_judged_alone(reading: Training, loss: Value, detached: int) -> bool:
    """criterion(D(fake).detach(), ones): nothing else in the term has a gradient."""
    near = [n for v in (loss, *_terms(reading, loss)) for n in (v.call, *v.calls)]
    return any(
        detached in judgements and any(re.search(r"ones|full\(|real_label", t) for t in texts)
        for judgements, texts in _criteria(reading, near)
    )


def _terms(reading: Training, loss: Value) -> Iterator[Value]:
    """adv of loss = 0.1 * adv + other."""
    at = next((reading.calls[n] for n in (loss.call, *loss.calls) if n >= 0), None)
    if at is None:
        return
    for name in dict.fromkeys(loss.names):
        yield from objects.last_definition(reading, name, at)


RULES = (
    Rule(
        code="SCR351",
        slug="generator-loss",
        title="A generator is trained to be taken for real",
        severity="fail",
        find=two_players,
        why="The generator's loss calls its samples real, and its gradient goes through the "
        "discriminator to the samples. Detached samples carry none.",
        fires=(
            "criterion(D(fake), zeros) in the step of the generator",
            "D(fake) without detach() in the step of the discriminator, and no zero_grad() of the "
            "generator before its own step",
            "D(fake).detach() in the loss of the generator",
            "D(fake.detach()), or samples that were detached before, in the step of the generator",
        ),
        fix="loss_d takes D(fake.detach()); loss_g = criterion(D(fake), ones), with samples that "
        "are not detached, behind the zero_grad() of its optimizer.",
        sources=("torch-dcgan",),
        needs=("backward", "manual_backward"),
    ),
)
