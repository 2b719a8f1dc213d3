"""Rules on networks that follow another one: averages, momentum encoders, target networks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import alive, objects
from doctor.checks.script.metrics.averaged import averages, decay_overwritten
from doctor.checks.script.metrics.averaging import (
    MEMBERS,
    copied_each_step,
    moved_too_far,
    weights_swapped,
    written_to_a_name,
)
from doctor.checks.script.metrics.targets import (
    copied_once,
    loads_itself,
    moved_without_step,
    replaced_by_source,
)
from doctor.checks.script.metrics.trained_followers import pulled_back, trained_followers
from doctor.checks.script.objects import MODE_LAYERS
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call

FOLLOWS = re.compile(
    r"(^|_|\.)(ema|target|teacher|momentum|key|shadow|old|averaged?|ref|reference|initial|anchor)"
    r"(_|$|\.)|encoder_k"
)
SAME = {"eval", "train", "to", "cuda", "half", "bfloat16", "requires_grad_", "float"}
"""Methods of a module that return the module itself."""
CHANGES = {"mul_", "lerp_", "copy_", "add_"}


def same_object(reading: Training) -> Iterator[Match]:
    """target = model, and then it is treated as a copy."""
    if reading.mentions("disable_adapter", "set_adapter"):
        return
    yield from replaced_by_source(reading)
    yield from _twins(reading)
    yield from _aliases(reading)
    for each in reading.assignments:
        name = _itself(reading, each)
        if not name or each.augmented or not _is_network(reading, each):
            continue
        keys = {reading.key(each.target, each.scope), reading.key(name, each.scope)}
        if len(keys) == 1 or not alive.trains_after(reading, keys, each):
            continue
        if _is_treated_as_copy(reading, each, name):
            yield Match(each.span, f"{each.target} is {name} itself, not a copy of it")


def _aliases(reading: Training) -> Iterator[Match]:
    """self.target = self.q, and the target runs under no_grad in what compares both."""
    for each in reading.assignments:
        plain = each.value.kind == "name" and each.target.startswith("self.")
        if not plain or not each.value.name.startswith("self.") or each.augmented:
            continue
        last = each.target.rpartition(".")[2]
        if not re.match("target", last) or len(reading.assigned_to(each.target, each.scope)) != 1:
            continue
        runs = {c.name: c for c in reading.calls if c.name in (each.target, each.value.name)}
        quiet = len(runs) == 2 and reading.under_no_grad(runs[each.target].contexts)
        if quiet and not reading.under_no_grad(runs[each.value.name].contexts):
            yield Match(each.span, f"{each.target} is {each.value.name} itself, not a copy of it")


def _loaded(reading: Training, call: Call) -> str:
    """source of load_state_dict(source.state_dict())."""
    states = [other for v in call.args[:1] for other in reading.inside(v)]
    return next((each.receiver for each in states if each.method == "state_dict"), "")


def _twins(reading: Training) -> Iterator[Match]:
    """policy = net.to(device) and target = net.to(device): one network, which loads itself."""
    for call in reading.named("load_state_dict"):
        source = _loaded(reading, call)
        if not source or source == call.receiver or not FOLLOWS.search(call.receiver.casefold()):
            continue
        followers = reading.assigned_to(call.receiver, call.scope)
        sources = reading.assigned_to(source, call.scope)
        if len(followers) != 1 or len(sources) != 1:
            continue
        one, other = followers[0], sources[0]
        names = [_itself(reading, each) for each in (one, other)]
        together = one.scope == other.scope and names[0] and names[0] == names[1]
        again = any(one.position < a.position <= other.position or other.position < a.position
                    <= one.position for a in reading.assignments
                    if a.target == names[0] and a.scope == one.scope)  # fmt: skip
        keys = {reading.key(call.receiver, call.scope), reading.key(source, call.scope)}
        if together and not again and alive.trains_after(reading, keys, one):
            yield Match(one.span, f"{call.receiver} is {source} itself, not a copy of it")


def _itself(reading: Training, each: Assignment) -> str:
    """The name of the same object: model of `model`, and of `model.eval()`."""
    value = each.value
    if value.kind != "call":
        return value.name if value.kind == "name" else ""
    call = reading.calls[value.call]
    while call.method in SAME and call.receiver_call >= 0:
        call = reading.calls[call.receiver_call]
    return call.receiver if call.method in SAME else ""


def _is_network(reading: Training, each: Assignment) -> bool:
    """The value is a module for certain; one name is assigned once."""
    if len(reading.assigned_to(each.target, each.scope)) != 1:
        return False
    if not FOLLOWS.search(each.target.casefold()):
        return False
    made = list(objects.makers(reading, each.value, each.scope, each.position, each.arms))
    known = [call for call in made if call is not None]
    return (
        bool(known)
        and len(known) == len(made)
        and all(
            call.name in reading.modules
            or call.name.startswith(("torch.nn.", "torchvision.models."))
            or call.method == "from_pretrained"
            for call in known
        )
    )


def _is_treated_as_copy(reading: Training, each: Assignment, source: str) -> bool:
    """It is frozen, loads the state of the other, or runs under no_grad where the other trains."""
    if _is_reference(reading, each, source):
        return True
    key = reading.key(each.target, each.scope)
    for call in reading.named("load_state_dict"):
        inner = [made for v in call.args[:1] for made in reading.inside(v)]
        if reading.key(call.receiver, call.scope) == key and any(
            i.method == "state_dict" and i.receiver == source for i in inner
        ):
            return True
    for n, call in reading.numbered(
        reading.methods("parameters", "state_dict", "named_parameters")
    ):
        loops = [
            number
            for number, loop in enumerate(reading.loops)
            if loop.iterable is not None and n in loop.iterable.calls
        ]
        frozen = any(
            a.target.endswith(".requires_grad")
            and a.value.literal is False
            and set(loops) & set(a.loops)
            for a in reading.assignments
        )
        blended = any(set(loops) & set(other.loops) for other in reading.named(*CHANGES))
        if reading.key(call.receiver, call.scope) == key and (frozen or blended):
            return True
    return False


def _is_reference(reading: Training, each: Assignment, source: str) -> bool:
    """Both are used in the loop that trains, and the copy under no_grad alone."""
    key, other = reading.key(each.target, each.scope), reading.key(source, each.scope)
    if other not in reading.trained_names:
        return False
    runs = {key: set(), other: set()}  # type: dict[tuple[object, str], set[bool]]
    for call in reading.calls:
        inner = {call.name, *(v.name for v in call.args if v.kind == "name")} if call.loops else ()
        for used in (reading.key(name, call.scope) for name in inner if name):
            if used in runs and call.method not in SAME:
                runs[used].add(reading.under_no_grad(call.contexts))
    return runs[key] == {True} and False in runs[other]


def never_follows(reading: Training) -> Iterator[Match]:
    yield from weights_swapped(reading)
    yield from moved_too_far(reading)
    yield from copied_each_step(reading)
    yield from written_to_a_name(reading)
    yield from decay_overwritten(reading)
    yield from loads_itself(reading)
    yield from pulled_back(reading)
    yield from trained_followers(reading)
    if not reading.backwards:
        return
    yield from copied_once(reading)
    yield from moved_without_step(reading)
    yield from _update_not_called(reading)
    yield from _target_not_synchronized(reading)
    yield from _never_synchronized(reading)
    yield from _buffers_left(reading)
    yield from averages(reading)


def _update_not_called(reading: Training) -> Iterator[Match]:
    """A method that moves one network towards another, and no call of it in the file."""
    for number, function in enumerate(reading.script.functions):
        made = [c for c in reading.calls if c.name == function.owner] if function.owner else []
        named = re.search("update|momentum|ema|average", function.name.casefold())
        if not named or not made or reading.by_method.get(function.name):
            continue
        if any(function.name in name for name in _mentioned(reading)):
            continue
        if _blends(reading, number):
            yield Match(function.span, f"{function.name}() is never called: the average stays")


def _mentioned(reading: Training) -> Iterator[str]:
    for value, _, _ in reading.expressions:
        yield from value.all_names


def _blends(reading: Training, scope: int) -> bool:
    """The function loops over the parameters of two networks and changes one of them."""
    loops = {
        n
        for n, loop in enumerate(reading.loops)
        if loop.scope == scope
        and loop.iterable is not None
        and sum(other.method in MEMBERS for other in reading.inside(loop.iterable)) >= 2
    }
    changed = any(
        call.method in CHANGES and loops & set(call.loops) for call in reading.calls_in(scope)
    )
    return bool(loops) and (
        changed
        or any(a.target.endswith(".data") and loops & set(a.loops) for a in reading.assignments)
    )


def _target_not_synchronized(reading: Training) -> Iterator[Match]:
    """A target network that is copied once, used in the loop that trains, and never again set."""
    for call in reading.named("load_state_dict"):
        source = _loaded(reading, call)
        if not source or call.loops or "target" not in call.receiver.casefold():
            continue
        key = reading.key(call.receiver, call.scope)
        if reading.key(source, call.scope) not in reading.trained_names:
            continue
        others = [c for c in reading.calls if c is not call and _touches(reading, c, key)]
        runs = any(c.loops and reading.key(c.name, c.scope) == key for c in reading.calls)
        if runs and not others:
            message = f"{call.receiver} is copied once, and never from the trained {source} again"
            yield Match(call.span, message)


def _never_synchronized(reading: Training) -> Iterator[Match]:
    """A network of this file that gives targets under no_grad, and that nothing ever sets."""
    for each in reading.assignments:
        name = each.target
        if each.value.kind != "call" or not re.search(r"(^|_|\.)(target|tgt)(_|$)", name):
            continue
        key = reading.key(name, each.scope)
        made = reading.calls[each.value.call]
        known = made.name in reading.modules or made.name.startswith("torch.nn.")
        if not known or key in reading.trained_names or len(reading.assigned.get(key, ())) > 1:
            continue
        runs = [c for c in reading.calls if c.loops and reading.key(c.name, c.scope) == key]
        quiet = all(reading.under_no_grad(c.contexts) for c in runs)
        others = [c for c in reading.calls if c is not made and _touches(reading, c, key)]
        if runs and quiet and not others:
            yield Match(each.span, f"{name} is never set from the network that trains")


def _touches(reading: Training, call: Call, key: tuple[object, str]) -> bool:
    """Something that may change the network: a method of it but its mode, or an argument."""
    quiet = {"eval", "train", "to", "cuda", "requires_grad_"}
    if reading.key(call.receiver, call.scope) == key and call.method not in quiet:
        return True
    return any(v.kind == "name" and reading.key(v.name, call.scope) == key for v in call.values)


def _buffers_left(reading: Training) -> Iterator[Match]:
    """An average over parameters() alone, of a model of this file with batch norm."""
    norms = [n for n in reading.methods(*MODE_LAYERS) if "Norm" in reading.calls[n].method]
    pretrained = any(
        call.name.startswith(("torchvision.models.", "timm.")) for call in reading.calls
    )
    if not (norms or pretrained) or reading.mentions("buffers", "update_bn", "use_buffers"):
        return
    for number, function in enumerate(reading.script.functions):
        if not re.search(
            "ema|average|momentum|teacher", f"{function.name} {function.owner}".casefold()
        ):
            continue
        inside = {other.method for other in reading.calls_in(number)}
        if "state_dict" in inside or "named_buffers" in inside or not _blends(reading, number):
            continue
        if _copies_module(reading) and _is_evaluated(reading):
            yield Match(
                function.span,
                f"{function.name}() averages parameters: the statistics of "
                "batch norm stay as they began",
            )
            return


def _copies_module(reading: Training) -> bool:
    return bool(reading.methods("deepcopy"))


def _is_evaluated(reading: Training) -> bool:
    """Something that follows is in evaluation mode."""
    for call in reading.named("eval"):
        inner = reading.before(call)
        if FOLLOWS.search(call.receiver.casefold()) or (
            inner is not None and inner.method == "deepcopy"
        ):
            return True
    return False


RULES = (
    Rule(
        code="SCR308",
        slug="copy-is-the-same-object",
        title="A target network or average is a copy",
        severity="fail",
        find=same_object,
        why="Without deepcopy both names are one network: freezing the target freezes the model, "
        "and a target that should lag is always equal.",
        fires=(
            "target = model, and target.load_state_dict(model.state_dict()) later",
            "both are net.to(device) of one net, and one loads the state of the other",
            "self.target = self.policy in a step, where both were networks of their own",
            "encoder_k = encoder_q, and the parameters of encoder_k are frozen",
            "ref_model = model.eval(), which runs under no_grad beside the model that trains",
        ),
        fix="Use copy.deepcopy(model).",
        sources=("torch-saving",),
        needs=("load_state_dict", "requires_grad", "no_grad", "inference_mode", "lerp_", "mul_"),
    ),
    Rule(
        code="SCR309",
        slug="follower-never-updated",
        title="Averages and target networks follow the model",
        severity="warn",
        find=never_follows,
        why="A target network or average that nothing updates keeps its first weights; one that "
        "averages parameters alone keeps the first statistics of batch norm.",
        fires=(
            "a method that averages two networks and that nothing calls",
            "target.load_state_dict(model.state_dict()) before the loop and never again",
            "slow.lerp_(fast, decay), where 1 - decay of the new weights is meant",
            "slow = decay * slow + (1 - decay) * fast in a loop over both networks' parameters",
            "target.load_state_dict(target.state_dict())",
            "target = deepcopy(q) gives the targets of each step, and nothing sets it again",
            "the target runs with gradients, and the optimizer holds the module of both networks",
            "the average moves in each batch, while the optimizer steps once in several",
            "AveragedModel without update_parameters(); ema = deepcopy(model) in each step",
            "ema.copy_to(model.parameters()) in the loop over epochs, and no restore(); the same "
            "of an average of a class of this file",
            "self.decay = min(self.decay, ramp) in the update of an average",
            "an average of parameters() alone, of a copy with batch norm that is evaluated",
            "online.lerp_(target, 1 - m), where nothing changes the copy called target",
        ),
        errors=(
            "an average beside its network, or a copy called reference, that the optimizer holds "
            "and that has a graph",
        ),
        fix="Call the update after every step, and write into the tensors: "
        "slow.lerp_(fast, 1 - decay); copy buffers() too.",
        sources=("torch-saving",),
        needs=(
            "parameters",
            "load_state_dict",
            "no_grad",
            "data",
            "state_dict",
            "deepcopy",
            "AveragedModel",
        ),
    ),
)
