"""Networks that follow another one and are the other one, or stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.metrics.averaging import MEMBERS
from doctor.checks.script.reading import exclusive, within
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Loop

FOLLOWER = re.compile(r"(?:^|_|\.)(?:target|tgt|teacher|ema|momentum)(?:_|$|\.)")
WRITES = {"mul_", "lerp_", "copy_", "add_"}
Key = tuple[object, str]


def replaced_by_source(reading: Training) -> Iterator[Match]:
    """self.target = self.policy, of a target that was a network of its own."""
    for each in reading.assignments:
        if each.value.kind != "name" or not FOLLOWER.search(each.target.casefold()):
            continue
        key, source = (reading.key(n, each.scope) for n in (each.target, each.value.name))
        if source not in reading.trained_names or FOLLOWER.search(source[1].casefold()):
            continue
        if any("%" not in _text(reading, branch) for branch, _ in each.arms):
            continue  # a switch: without an average the name stands for the network
        if [bool(a.loops) for a in reading.assigned.get(source, ())] != [False]:
            continue  # each generation makes its own
        others = [a for a in reading.assigned.get(key, ()) if a is not each]
        apart = [a for a in others if not exclusive(a.arms, each.arms)]
        made = [a for a in apart if _makes_network(reading, a)]
        swapped = any(
            a.span == each.span and reading.key(a.target, a.scope) == source
            for a in reading.assignments
        )
        later = made and (each.scope != made[0].scope or bool(each.loops))
        later = later and reading.function(each.scope).name != "__init__"
        if len(others) == 1 and later and not swapped:
            message = f"{each.target} is {each.value.name} itself from here on, not a copy of it"
            fix = f"{each.target}.load_state_dict({each.value.name}.state_dict())"
            yield Match(each.span, message, fix=fix)


def _text(reading: Training, branch: int) -> str:
    test = reading.test_of(branch)
    return test.text if test is not None else ""


def _makes_network(reading: Training, each: Assignment) -> bool:
    """A module of this file, of torch.nn or a copy, at most moved."""
    made = objects.makers(reading, each.value, each.scope, each.position, each.arms)
    known = [call for call in made if call is not None]
    return bool(known) and all(
        call.name in reading.modules or call.name.startswith(("torch.nn.", "torchvision.models."))
        for call in known
    )


def loads_itself(reading: Training) -> Iterator[Match]:
    """target.load_state_dict(target.state_dict()), and zip(target.parameters(), the same)."""
    for call in reading.named("load_state_dict"):
        inner = [made for v in call.args[:1] for made in reading.inside(v)]
        own = [m for m in inner if m.method == "state_dict" and m.receiver == call.receiver]
        if own and len(inner) == 1 and FOLLOWER.search(call.receiver.casefold()):
            message = f"{call.receiver} loads its own weights: it never follows another network"
            yield Match(call.span, message, fix="Load the state_dict() of the network that trains.")
    for loop in reading.loops:
        members = [c for c in (reading.inside(loop.iterable) if loop.iterable else ())
                   if c.method in MEMBERS and c.receiver]  # fmt: skip
        names = [c.receiver for c in members]
        over = reading.call_of(loop.iterable) if loop.iterable is not None else None
        paired = over is not None and over.method == "zip" and len(loop.targets) == 2
        same = paired and len(names) == 2 and names[0] == names[1]
        if same and FOLLOWER.search(names[0].casefold()):
            message = f"both are {names[0]}: it never follows another network"
            yield Match(members[0].span, message, fix="Pair it with the network that trains.")


def copied_once(reading: Training) -> Iterator[Match]:
    """q_target = deepcopy(q), which gives the targets of a step, and nothing ever sets again."""
    for each in reading.assignments:
        name = each.target.rpartition(".")[2]
        source = _copied(reading, each)
        if source is None or not re.search(r"(?:^|_)(?:target|tgt)(?:$|_)|^targ", name.casefold()):
            continue
        key = reading.key(each.target, each.scope)
        if source not in reading.trained_names or len(reading.assigned.get(key, ())) != 1:
            continue
        back = {reading.calls[n].scope for n in reading.backwards}
        runs = [c for c in reading.calls if reading.key(c.name, c.scope) == key]
        quiet = runs and all(c.scope in back and reading.is_without_graph(c) for c in runs)
        owner = reading.function(each.scope).owner
        here = not owner or any(c.name == owner for c in reading.calls)
        once = not _is_made_again(reading, each)
        if quiet and here and once and not is_touched(reading, name, each):
            yield Match(each.span, f"{each.target} is copied once, and never follows the network")


def _copied(reading: Training, each: Assignment) -> Key | None:
    """q of copy.deepcopy(q), at most frozen and moved."""
    call = reading.call_of(each.value)
    while call is not None and call.method in ("requires_grad_", "eval", "to", "cuda", "train"):
        call = reading.before(call)
    if call is None or call.method != "deepcopy" or call.first is None:
        return None
    return reading.key(call.first.name, call.scope) if call.first.kind == "name" else None


def _is_made_again(reading: Training, each: Assignment) -> bool:
    """In a loop, by a method that may be called again, or by a function called in a loop."""
    function = reading.function(each.scope)  # __init__() may be read with what it calls
    here = function.span.line <= each.span.line <= function.span.end_line
    again = bool(function.owner) and not (function.name == "__init__" and here)
    return bool(each.loops) or again or any(c.loops for c in reading.callers(each.scope))


def is_touched(reading: Training, name: str, made: Assignment, apart: Loop | None = None) -> bool:
    """It is read as an object but in one loop: passed, listed, or has its weights taken."""
    modes = {"eval", "train", "to", "cuda", "requires_grad_"}
    last = re.compile(rf"(?:^|\.){re.escape(name)}(?:$|\.)")
    inside = reading.inside(apart.iterable) if apart is not None and apart.iterable else ()
    beside = {id(call) for call in inside}
    for call in reading.calls:
        if id(call) in beside:
            continue
        own = last.search(call.receiver) and call.method not in modes
        if own or any(last.search(n) for v in (*call.values, *call.unpacked) for n in v.all_names):
            return True
    values = [x.iterable for x in reading.loops if x.iterable is not None and x is not apart]
    values += [a.value for a in reading.stores if a is not made]
    values += [v for f in reading.script.functions for v in f.returns]
    return (
        any(last.search(n) for v in values for n in v.all_names if n)
        or bool(reading.methods("getattr", "modules", "children"))
        or any(c.receiver == "self" for c in reading.named(*MEMBERS))
    )


def moved_without_step(reading: Training) -> Iterator[Match]:
    """The optimizer steps once in N batches, and the average moves in each of them."""
    steps = [c for c in reading.named("step") if c.loops and c.arms and _counts(reading, c)]
    for number, loop in enumerate(reading.loops if steps else ()):
        over = loop.iterable
        inner = [c for c in (reading.inside(over) if over is not None else ())
                 if c.method in MEMBERS]  # fmt: skip
        written = [c for c in reading.named(*WRITES) if number in c.loops]
        if len(inner) < 2 or not written:
            continue
        place = written[0]
        around = place.loops[: place.loops.index(number)]
        for step in steps:
            same = step.scope == place.scope and step.loops == around
            gate = [b for b in step.arms if _is_count(reading, b[0])]
            if same and gate and not within(place.arms, tuple(gate)) and step.method == "step":
                message = "the average moves in batches in which the optimizer does not step"
                yield Match(place.span, message, fix="Move it beside optimizer.step().")
                break


def _counts(reading: Training, call: Call) -> bool:
    held = any(call.receiver == t for n in reading.optimizers for t in reading.calls[n].targets)
    return held and any(_is_count(reading, branch) for branch, _ in call.arms)


def _is_count(reading: Training, branch: int) -> bool:
    """if (i + 1) % accumulation == 0."""
    test = reading.test_of(branch)
    return test is not None and re.search(r"%\s*[\w.]*accum|%\s*[\w.]*grad", test.text) is not None
