"""How much of the new weights an average takes in each step."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.naming import is_loader
from doctor.checks.script.objects import NETWORKS
from doctor.checks.script.rendering import render, statements
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

MEMBERS = NETWORKS | {"values", "items"}


def weights_swapped(reading: Training) -> Iterator[Match]:
    """average = (1 - decay) * average + decay * new: nothing is left of the average."""
    followed = {a.span for a in reading.stores if _over_two_networks(reading, a)}
    followed |= {c.span for c in reading.named("copy_") if _over_two_networks(reading, c)}
    if not followed and not reading.mentions("decay", "momentum", "tau", "beta"):
        return
    copies = [(render(reading, call.args[0]), call.span, {call.receiver}, call.scope)
              for call in reading.named("copy_") if len(call.args) == 1]  # fmt: skip
    given = [(text, span, {a.target for a in reading.stores if a.span == span}, scope)
             for text, span, scope in reading.cached(statements) if "(1-" in text]  # fmt: skip
    for text, span, targets, scope in (*given, *copies):
        found = re.fullmatch(
            r"\(\(\(1-(?P<rate>[\w.]+)\)\*(?P<one>[\w.\[\]]+)\)\+\((?P=rate)\*(?P<two>[\w.\[\]]+)\)\)",
            text,
        ) or re.fullmatch(
            r"\(\((?P<rate>[\w.]+)\*(?P<two>[\w.\[\]]+)\)\+\(\(1-(?P=rate)\)\*(?P<one>[\w.\[\]]+)\)\)",
            text,
        )
        if found is None or any("running" in target for target in targets):
            continue
        targets |= {target.removesuffix(".data") for target in targets}
        rate = found["rate"].rpartition(".")[2].casefold()
        stays = _stays(reading, Value("name", name=found["rate"]), scope)
        known = span in followed
        slow = (known or rate in ("momentum", "beta", "m", "mu")) and stays is True
        slow |= rate in ("decay", "ema_decay") and stays is not False
        fast = (known or rate in ("tau", "polyak_tau", "soft_tau")) and stays is False
        if (slow and found["one"] in targets) or (fast and found["two"] in targets):
            yield Match(
                span,
                "nearly all of the average is replaced in each step: its weights are exchanged",
            )


def _stays(reading: Training, rate: Value, scope: int) -> bool | None:
    """Whether a rate is that of the average, and not of the new weights, by its number. Papers
    name either momentum, and either tau."""
    found = evaluate.options_at(reading, rate, scope, len(reading.calls), ())
    last = {v.name.rpartition(".")[2] for v in found if v.kind == "name"}
    given = [p.default for f in reading.script.functions for p in f.parameters if p.name in last]
    numbers = [v.literal for v in (*found, *given) if v is not None]
    flag = evaluate.flag_default(reading, rate.name)
    large = {number >= 0.5 for number in (*numbers, flag) if evaluate.is_number(number)}
    return large.pop() if len(large) == 1 else None


SLOW = re.compile(r"decay|momentum|(?:^|_)(?:beta|mu|m|alpha)$")
"""What the part of an average that stays is called."""


def moved_too_far(reading: Training) -> Iterator[Match]:
    """slow.lerp_(fast, decay), and slow.mul_(1 - decay).add_(fast, alpha=decay)."""
    for call in reading.named("lerp_", "add_", "lerp"):
        weight = call.args[1] if len(call.args) > 1 else None
        weight = weight or call.keywords.get("weight") or call.keywords.get("alpha")
        if weight is None or not _over_two_networks(reading, call):
            continue
        if call.method == "add_" and not _is_scaled_by_rest(reading, call, weight):
            continue
        text = render(reading, weight)
        rest = re.fullmatch(r"\(1-([\w.]*?(?:polyak_|soft_)?tau)\)", text)
        if rest and _stays(reading, Value("name", name=rest[1]), call.scope) is not False:
            continue
        if call.method != "add_" and not (rest or _is_decay(reading, weight, call)):
            continue
        yield Match(
            call.span, f"{text} is what stays of the average: here it is taken of the new weights"
        )


def _is_decay(reading: Training, weight: Value, call: Call, depth: int = 2) -> bool:
    """The weight is called a decay, or a number of 0.9 and more."""
    if weight.kind == "literal":
        return isinstance(weight.literal, float) and 0.9 <= weight.literal < 1
    if weight.kind == "call" and reading.calls[weight.call].name == "min":
        return any(_is_decay(reading, v, call, depth) for v in reading.calls[weight.call].args)
    if weight.kind not in ("name", "item"):
        return False
    found = [v for v in objects.last_definition(reading, weight.name, call) if v != weight]
    if found and depth and all(_is_decay(reading, v, call, depth - 1) for v in found):
        return True
    named = SLOW.search(weight.name.rpartition(".")[2].casefold().strip("[]"))
    stays = _stays(reading, weight, call.scope)
    known = stays is True or (stays is None and named is not None and named[0] == "decay")
    return named is not None and known and not _is_one_minus(found)


def _is_one_minus(found: list[Value]) -> bool:
    return any(v.kind == "other" and v.name == "Sub" for v in found)


def _is_scaled_by_rest(reading: Training, call: Call, weight: Value) -> bool:
    """mul_(1 - decay) before add_(new, alpha=decay)."""
    scaled = reading.before(call)
    if scaled is None or scaled.method != "mul_" or len(scaled.args) != 1:
        return False
    rest = scaled.args[0]
    if weight.kind == "literal" == rest.kind:
        return isinstance(weight.literal, float) and 0.9 <= weight.literal < 1
    return (
        _is_decay(reading, weight, call)
        and rest.kind == "other"
        and rest.name == "Sub"
        and render(reading, rest) == f"(1-{render(reading, weight)})"
    )


def written_to_a_name(reading: Training) -> Iterator[Match]:
    """for slow, fast in zip(...): slow = decay * slow + (1 - decay) * fast. The loop's name gets a
    new tensor, and the network keeps its own."""
    for each in reading.assignments:
        if each.augmented or not each.loops or each.value.kind != "other":
            continue
        loop = reading.loops[each.loops[-1]]
        calls = loop.iterable.calls if loop.iterable is not None else ()
        networks = sum(reading.calls[n].method in NETWORKS for n in calls)
        if each.target not in loop.targets or networks < 2:
            continue
        if "*" in render(reading, each.value) and not _is_used_after(reading, each):
            message = "binds the loop's name to another tensor: no weight changes"
            yield Match(each.span, f"{each.target} = ... {message}")


def _is_used_after(reading: Training, each: Assignment) -> bool:
    """Whether the loop passes the new tensor on: to a call, or to another name."""
    number, name = each.loops[-1], each.target
    later = [c for n, c in enumerate(reading.calls) if n >= each.position and number in c.loops]
    values = [v for c in later for v in c.values]
    values += [
        other.value
        for other in reading.assignments
        if other is not each and number in other.loops and other.position >= each.position
    ]
    read = any(name == v.name or name in v.names for v in values)
    return read or any(c.receiver.partition(".")[0] == name for c in later)


def _over_two_networks(reading: Training, place: Call | Assignment) -> bool:
    """In a loop over the parameters of two networks."""
    for number in place.loops:
        iterable = reading.loops[number].iterable
        calls = iterable.calls if iterable is not None else ()
        if sum(reading.calls[m].method in MEMBERS for m in calls) >= 2:
            return True
    return False


TARGETS = re.compile(r"(?:^|_|\.)(?:target|teacher|ema|momentum)(?:_|$|\.)")


def copied_each_step(reading: Training) -> Iterator[Match]:
    """target.load_state_dict(net.state_dict()) in every step: the target is the network itself."""
    for call in reading.named("load_state_dict"):
        inner = [made for v in call.args[:1] for made in reading.inside(v)]
        source = next((made.receiver for made in inner if made.method == "state_dict"), "")
        named = source and TARGETS.search(call.receiver.casefold()) and not TARGETS.search(source)
        if not named or call.arms or not call.loops:
            continue
        steps = [
            n
            for n in reading.backwards
            if (reading.calls[n].scope, reading.calls[n].loops) == (call.scope, call.loops)
        ]
        runs = any(c.name == call.receiver and c.loops == call.loops for c in reading.calls)
        trained = reading.key(source, call.scope) in reading.trained_names
        if steps and runs and trained and _has_batches(reading, call):
            message = f"{call.receiver} is copied of {source} in every step: both are one network"
            yield Match(call.span, message, fix="Copy it every N steps, or average slowly.")


def _has_batches(reading: Training, call: Call) -> bool:
    """Over a loader, or of samples that are drawn: steps of all data are iterations by intent."""
    over = reading.iterable_of(call)
    batches = any(is_loader(name) for name in (over.all_names if over else ()) if name)
    drawn = (c for c in reading.named("sample") if c.scope == call.scope)
    return batches or any(c.loops == call.loops for c in drawn)
