"""Averages, targets and references that an optimizer trains, or that pull the network to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from doctor.checks.script import evaluate, objects
from doctor.checks.script.lineage import parameter_owners
from doctor.checks.script.metrics.targets import is_touched
from doctor.checks.script.naming import words
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Loop, Span, Value

Key = tuple[object, str]
"""A name, by the function or class that owns it."""

BLENDS = ("lerp_", "add_", "mul_", "copy_")
REFERENCES = {"ref", "reference", "teacher", "frozen"}
"""Words of a copy that stays as it is. A target may be a network of its own domain."""
AVERAGES = {"target", "ema", "momentum", "shadow", "averaged"}
FOLLOWERS = {*AVERAGES, "teacher", "key", "k", "slow"}
FREEZE = "Freeze {}, run it under no_grad, and pass the optimizer the other network alone."
STOPS = re.compile(r"detach|stop_?grad|freeze|requires_grad(?!_$)|set_grad|autograd\.grad")


@dataclass(frozen=True, slots=True)
class Blend:
    """One network is moved towards another, in a loop over the parameters of both."""

    span: Span
    loop: Loop
    whole: bool
    """Its parameters are those of the other now, and nothing is left of them."""
    moved: frozenset[Key]
    source: frozenset[Key]


def trained_followers(reading: Training) -> Iterator[Match]:
    """A network that follows another, or is to stay as it was, is held by the optimizer."""
    if not reading.backwards or any(STOPS.search(c.method) for c in reading.calls if _cuts(c)):
        return
    averages = reading.cached(_averages)
    followers = {*averages, *reading.cached(_kept_copies), *reading.cached(_teachers)}
    for number, call in reading.numbered(reading.optimizers if followers else ()):
        owners = [*dict.fromkeys(parameter_owners(reading, call, number))]
        for name in owners:
            for key in _held(reading, name, call, followers):
                # a copy that trains alone is no follower, whatever it was copied from
                beside = [n for n in owners if n != name] if key[1] == name else [name]
                sources = averages.get(key, ())
                if sources and not any([*_held(reading, n, call, sources)] for n in beside):
                    continue
                if _has_graph(reading, key) and not _is_frozen(reading, key):
                    message = f"{key[1]} is trained: the optimizer holds its parameters"
                    known = key not in reading.cached(_teachers)
                    reason = "" if known else "another file makes it, and may freeze it"
                    fix = FREEZE.format(key[1])
                    yield Match(call.span, message, "fail", undecided=reason, fix=fix)
                    return


def pulled_back(reading: Training) -> Iterator[Match]:
    """online.lerp_(target, 1 - m): the network is moved to its target, which nothing changes."""
    pairs = reading.cached(blends)
    moved = {key for each in pairs for key in each.moved}
    copies = reading.cached(_copies_of)
    for each in pairs:
        named = any(FOLLOWERS & set(words(name)) for _, name in each.moved)
        for key in sorted(each.source - moved, key=str) if not each.whole and not named else ():
            if key not in copies or not AVERAGES & set(words(key[1])):
                continue
            made = reading.assigned[key][0]
            if not is_touched(reading, made.target.removeprefix("self."), made, each.loop):
                network = min(name for _, name in each.moved)
                message = f"{network} is moved towards {key[1]}, which nothing changes"
                fix = f"Move {key[1]} towards {network}."
                yield Match(each.span, message, fix=fix)


def blends(reading: Training) -> list[Blend]:
    """for t, s in zip(target.parameters(), net.parameters()): t.lerp_(s, tau), or t.data = ..."""
    found: list[Blend] = []
    for call in reading.named(*BLENDS):
        whole = call.method == "copy_" and all(v.kind == "name" for v in call.args)
        found += _blended(reading, call, _root(reading, call), call.values, whole)
    for each in reading.assignments if reading.loops else ():
        root, _, part = each.target.partition(".")
        if part == "data":
            whole = each.value.kind == "name"
            found += _blended(reading, each, root, (each.value,), whole)
    return found


def _blended(
    reading: Training, at: Call | Assignment, root: str, values: Iterable[Value], whole: bool
) -> Iterator[Blend]:
    names = {n.partition(".")[0] for v in values for n in v.all_names}
    if any(".grad" in n for v in values for n in v.all_names):
        return
    for loop in (reading.loops[number] for number in at.loops):
        owners = _owners(reading, loop)
        others = [n for n in sorted(names - {root}) if n in owners]
        if root in owners and others:
            moved = _origins(reading, owners[root], loop.scope)
            source = _origins(reading, owners[others[0]], loop.scope)
            yield Blend(at.span, loop, whole, moved, source)


def _root(reading: Training, call: Call) -> str:
    """t of t.data.mul_(a).add_(s)."""
    while not call.receiver and call.receiver_call >= 0:
        call = reading.calls[call.receiver_call]
    return call.receiver.partition(".")[0]


def _owners(reading: Training, loop: Loop) -> dict[str, str]:
    """The network whose parameters a name of the loop goes over, where there are two."""
    inside = reading.inside(loop.iterable) if loop.iterable is not None else []
    receivers = [c.receiver for c in inside if c.method == "parameters" and c.receiver]
    if len(receivers) != 2 or len(loop.targets) != 2 or receivers[0] == receivers[1]:
        return {}
    return dict(zip(loop.targets, receivers, strict=True))


def _origins(reading: Training, name: str, scope: int) -> frozenset[Key]:
    """A name, and what the calls of its function pass for it."""
    key = reading.key(name, scope)
    return frozenset({key, *reading.cached(_givers).get(key, ())})


def _givers(reading: Training) -> dict[Key, set[Key]]:
    table: dict[Key, set[Key]] = {}
    for each in reading.assignments:
        given = reading.key(each.target, each.scope)
        for key in reading.names_of(each.target, each.scope) - {given}:
            table.setdefault(key, set()).add(given)
    return table


def _copies_of(reading: Training) -> dict[Key, Key]:
    """The copy -> the network, of copy = deepcopy(network).eval()."""
    table = {}
    for each in reading.assignments:
        made = next(
            (c for c in objects.chained(reading, each.value) if c.method == "deepcopy"), None
        )
        plain = made is not None and len(made.args) == 1 and made.args[0].kind == "name"
        key = reading.key(each.target, each.scope)
        if made is not None and plain and not each.loops and len(reading.assigned[key]) == 1:
            table[key] = reading.key(made.args[0].name, each.scope)
    return table


def _averages(reading: Training) -> dict[Key, set[Key]]:
    """What moves a little towards another network, as copies and averages do, and that network."""
    pairs = [each for each in reading.cached(blends) if not each.whole]
    pulling = {key for each in pairs for key in each.source}
    copies = reading.cached(_copies_of)
    table: dict[Key, set[Key]] = {}
    for each in pairs:
        for key in each.moved - pulling:
            if key in copies or FOLLOWERS & set(words(key[1])):
                table.setdefault(key, set()).update(each.source)
    return table


def _kept_copies(reading: Training) -> list[Key]:
    """Copies that are called a reference or teacher."""
    return [key for key in reading.cached(_copies_of) if REFERENCES & set(words(key[1]))]


def _teachers(reading: Training) -> set[Key]:
    """Networks called teacher that are put in evaluation mode, and that no call here makes."""
    return {
        key
        for call in reading.named("eval")
        for key in _attributes(reading, call)
        if "teacher" in words(key[1]) and key not in reading.cached(_copies_of)
    }


def _attributes(reading: Training, call: Call) -> Iterator[Key]:
    """teacher of teacher.eval(), and the self.teacher of model.teacher.eval()."""
    owner, _, name = call.receiver.rpartition(".")
    if owner in ("", "self"):
        yield reading.key(call.receiver, call.scope)
        return
    for made in objects.makers_at(reading, Value("name", name=owner), call):
        if made is not None and made.name in reading.modules:
            yield f"class {made.name}", f"self.{name}"


def _held(reading: Training, owner: str, call: Call, followers: Iterable[Key]) -> Iterator[Key]:
    """The followers whose parameters are among owner.parameters()."""
    trained = [each for each in reading.trained if each.name == owner]
    names = {key for each in trained for key in each.lineage.names}
    made = {reading.calls[n].name for each in trained for n in each.lineage.calls}
    own = reading.function(call.scope).owner
    for key in sorted(followers, key=str):
        whole = isinstance(key[0], str) and key[0].removeprefix("class ")
        inside = whole and (whole in made or (owner == "self" and own == whole))
        if key in names or (inside and whole in reading.modules and key[1].startswith("self.")):
            yield key


def _has_graph(reading: Training, key: Key) -> bool:
    """It runs where a graph is recorded, and in no `with torch.no_grad()` of the training."""
    runs = [c for c in reading.calls if c.name and reading.key(c.name, c.scope) == key]
    for function, sites in reading.call_sites.items():
        for call in (reading.calls[n] for n in sites):
            names = [p.name for p in reading.function(function).parameters]
            given = [n for n in names if _passes(reading, call, function, n, key)]
            inner = [c for c in reading.calls_in(function) if c.name in given]
            runs += [call, *inner] if inner else []
    runs = [call for call in runs if not reading.is_named_evaluation(call)]
    shown = [call for call in runs if not _is_decorated(reading, call)]
    quiet = (reading.under_no_grad(c.contexts) or _is_entered_quietly(reading, c) for c in shown)
    return bool(shown) and not any(quiet)


def _is_entered_quietly(reading: Training, call: Call) -> bool:
    """Its method is called under no_grad somewhere, as agent.target_value(x) is."""
    function = reading.function(call.scope)
    method = function.owner and function.name not in ("forward", "__call__", "train")
    sites = reading.named(function.name) if method else reading.callers(call.scope)
    return any(reading.is_without_graph(each) for each in sites)


def _passes(reading: Training, call: Call, function: int, name: str, key: Key) -> bool:
    value = evaluate.argument_of(reading, call, function, name)
    return value is not None and value.kind == "name" and reading.key(value.name, call.scope) == key


def _is_decorated(reading: Training, call: Call) -> bool:
    return reading.is_without_graph(call) and not reading.under_no_grad(call.contexts)


def _is_frozen(reading: Training, key: Key) -> bool:
    """requires_grad_(False) of it, or requires_grad = False in a loop over its parameters."""
    for each in reading.assigned.get(key, ()):
        if any(c.method == "requires_grad_" for c in objects.chained(reading, each.value)):
            return True
    if any(reading.key(c.receiver, c.scope) == key for c in reading.named("requires_grad_")):
        return True
    return any(each.target.endswith(".requires_grad") for each in reading.assignments)


def _cuts(call: Call) -> bool:
    """A call that may cut a graph, or freeze what it gets; not detach() of a loss for a log."""
    return "loss" not in call.receiver.casefold() or call.method != "detach"
