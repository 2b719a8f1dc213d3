"""Rules on which parameters an optimizer holds, and which of them train."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import alive, objects
from doctor.checks.script.lineage import OF_THE_MODEL, PARAMETERS, parameter_owners
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Span, Value

ADDS = {
    "get_peft_model": "adapters are added", "fully_shard": "fully_shard replaces the parameters",
    "FullyShardedDataParallel": "FSDP replaces the parameters",
    "FSDP": "FSDP replaces the parameters",
    "resize_token_embeddings": "the embeddings or the head are replaced",
    "add_adapter": "adapters are added",
    "inject_adapter_in_model": "adapters are added", "fix": "layers are replaced",
}  # fmt: skip
RESIZED = ADDS["resize_token_embeddings"]
"""New versions of transformers replace the head alone, and only one that is not tied."""


LEFT_OUT = re.compile("froz|freez|fixed|ignor|skip|untrain|exclud|unused|old|_$|^_")


def optimizer_too_early(reading: Training) -> Iterator[Match]:
    if not reading.backwards and not reading.trainers:
        return
    yield from _list_left_out(reading)
    yield from _thawed_later(reading)
    for number, made in reading.numbered(reading.optimizers):
        if len(made.targets) != 1 or _is_renewed(reading, made, number):
            continue
        for owner in dict.fromkeys(parameter_owners(reading, made, number)):
            changes = [*_added(reading, owner, made, number)]
            if not _taken_again(reading, owner, made, number):
                changes += _bound(reading, owner, made, number)
            if changes:
                span, what = min(changes, key=lambda pair: pair[0].order)
                message = f"{what} after {made.targets[0]} took the parameters of {owner}"
                yield Match(span, message, "warn" if what == RESIZED else None)


def _thawed_later(reading: Training) -> Iterator[Match]:
    """The only optimizer took what required a gradient when it was made, and the training loop
    thaws more."""
    if len(reading.optimizers) != 1 or reading.methods("add_param_group"):
        return
    (number,) = reading.optimizers
    made = reading.calls[number]
    if made.loops or not any(_is_filtered(reading, value) for value in made.args[:1]):
        return
    for scope, position, loops, span in _thaws(reading):
        places = [(position, loops)]
        if scope != made.scope:
            calls = [(n, reading.calls[n]) for n in objects.sites(reading, scope)]
            places = [(n, call.loops) for n, call in calls if call.scope == made.scope]
        if any(at > number and _in_training(reading, around) for at, around in places):
            what = f"{made.targets[0]} took" if made.targets else "the optimizer took"
            yield Match(
                span,
                f"{what} what required a gradient before, not what thaws here",
                "warn",
                fix="Call optimizer.add_param_group() for what thaws, or give it all at first.",
            )
            return


def _is_filtered(reading: Training, value: Value) -> bool:
    """[p for p in model.parameters() if p.requires_grad], or filter(lambda ...)."""
    inner = reading.calls[value.call].args if value.kind == "call" else ()
    names = [name for each in (value, *inner) for name in each.all_names]
    return any(name.endswith(".requires_grad") for name in names)


def _thaws(reading: Training) -> Iterator[tuple[int, int, tuple[int, ...], Span]]:
    """Scope, position, loops and place of requires_grad = True and requires_grad_()."""
    for each in reading.assignments:
        if each.target.endswith(".requires_grad") and each.value.literal is True:
            yield each.scope, each.position, each.loops, each.span
    for number, call in reading.numbered(reading.methods("requires_grad_")):
        if all(value.literal is True for value in call.values):
            yield call.scope, number, call.loops, call.span


def _in_training(reading: Training, loops: tuple[int, ...]) -> bool:
    steps = {*reading.methods("step"), *reading.backward_numbers}
    inside = [n for loop in loops for n in reading.by_loop.get(loop, ())]
    return any(n in steps or objects.callee(reading, reading.calls[n]) for n in inside)


def _list_left_out(reading: Training) -> Iterator[Match]:
    """Parameters are sorted into lists, of which one is passed to the optimizer and one to nothing.

    A list of what is frozen or ignored says so by its name.
    """
    lists = {each.target: each for each in reading.assignments if _sorts(reading, each)}
    if len(lists) < 2 or not reading.optimizers:
        return
    counted = {
        id(value)
        for call in reading.named("len", "print", "sum", "info", "format")
        for value in call.args
    }
    used = {
        name
        for value, _, _ in reading.expressions
        if id(value) not in counted
        for name in value.all_names
    }
    used |= {each.receiver for each in reading.calls if each.method != "append"}
    for name, each in lists.items():
        others = {other for other in lists if lists[other].scope == each.scope} & used
        if name not in used and others and not LEFT_OUT.search(name.casefold()):
            yield Match(each.span, f"{name} is in no group of an optimizer", "warn")


def _sorts(reading: Training, each: Assignment) -> bool:
    """[p for n, p in model.named_parameters() if ...], or [] that a loop over them appends to."""
    if each.value.kind == "list" and not each.value.items:
        return _collects(reading, each)
    if each.value.kind != "other" or each.value.name != "ListComp" or each.augmented:
        return False
    source = each.value.items[0]
    tested = len(each.value.items) > 2
    named = source.kind == "name" and any(
        call.method in PARAMETERS
        for other in reading.assigned_to(source.name, each.scope)
        for call in reading.inside(other.value)
    )
    return tested and (named or any(made.method in PARAMETERS for made in reading.inside(source)))


def _collects(reading: Training, each: Assignment) -> bool:
    for call in reading.named("append"):
        unnamed = not call.receiver and call.receiver_call < 0
        if call.scope != each.scope or not call.loops:
            continue
        if not unnamed and call.receiver != each.target:
            continue
        loop = reading.loops[call.loops[-1]]
        over = loop.iterable.calls if loop.iterable is not None else ()
        given = {value.name for value in call.args}
        if given & set(loop.targets) and any(reading.calls[m].method in PARAMETERS for m in over):
            return True
    return False


def _is_renewed(reading: Training, made: Call, number: int) -> bool:
    """The optimizer is made again, or gets groups of parameters, later in the same function."""
    if any(
        n > number and set(reading.calls[n].targets) & set(made.targets) for n in reading.optimizers
    ):
        return True
    return bool(reading.methods("add_param_group"))


def _taken_again(reading: Training, owner: str, made: Call, number: int) -> bool:
    """A later optimizer of the same function holds what the name is bound to then."""
    return any(
        n > number
        and reading.calls[n].scope == made.scope
        and owner in parameter_owners(reading, reading.calls[n], n)
        for n in reading.optimizers
    )


def _last_backward(reading: Training, made: Call) -> int | None:
    ends = []
    for n in reading.backwards:
        if _is_later(reading, n, made):
            sites = reading.call_sites.get(reading.calls[n].scope, ())
            here = [s for s in sites if reading.calls[s].scope == made.scope]
            ends.append(max(here, default=n))
    return max(ends, default=None)


def _added(reading: Training, owner: str, made: Call, number: int) -> Iterator[tuple[Span, str]]:
    """Calls that give the owner new parameters between the optimizer and its use."""
    key, last = reading.key(owner, made.scope), _last_backward(reading, made)
    for n, call in reading.numbered(reading.methods(*ADDS)):
        if call.method == "fix" and not call.name.endswith("ModuleValidator.fix"):
            continue
        if n < number or call.scope != made.scope or exclusive(call.arms, made.arms):
            continue
        sharded = call.method.startswith(("FSDP", "Fully"))
        asked = call.keywords.get("use_orig_params")
        kept = sharded and asked is not None and asked.literal is not False
        if not _names_owner(reading, call, key) or not (last is None or n < last) or kept:
            continue
        if alive.steps_after(reading, made, call):
            yield call.span, ADDS[call.method]


def _bound(reading: Training, owner: str, made: Call, number: int) -> Iterator[tuple[Span, str]]:
    """Assignments that do: model.fc = nn.Linear(...)."""
    key, last = reading.key(owner, made.scope), _last_backward(reading, made)
    if last is None:
        return
    for each in reading.assignments:
        if not number + 1 < each.position <= last or each.scope != made.scope or each.augmented:
            continue
        if owner == "self" or set(each.loops) & set(made.loops):
            continue  # the next iteration makes the optimizer anew
        part = "" if exclusive(each.arms, made.arms) else _replaced(reading, each, owner, key)
        if part and alive.steps_after(reading, made, each):
            yield each.span, part


def _is_later(reading: Training, backward: int, made: Call) -> bool:
    """The backward runs after the optimizer is made: here below, or in a function called below."""
    call = reading.calls[backward]
    number = reading.number(made)
    if call.scope == made.scope:
        return backward > number
    return (
        any(
            site > number and reading.calls[site].scope == made.scope
            for site in reading.call_sites.get(call.scope, ())
        )
        or call.scope != made.scope
    )


def _names_owner(reading: Training, call: Call, key: tuple[object, str]) -> bool:
    names = [call.receiver, *(v.name for v in call.args[:1])]
    if "model" in call.keywords:
        names.append(call.keywords["model"].name)
    return any(name and reading.key(name, call.scope) == key for name in names)


def _replaced(reading: Training, each: Assignment, owner: str, key: tuple[object, str]) -> str:
    """model.fc = nn.Linear(...), or model = Model() once more."""
    if each.value.kind != "call":
        return ""
    call = reading.calls[each.value.call]
    while call.method in OF_THE_MODEL and call.receiver_call >= 0:
        call = reading.calls[call.receiver_call]
    if each.target.startswith(f"{owner}.") and objects.is_layer(reading, call):
        return f"{each.target} is replaced"
    if reading.key(each.target, each.scope) != key or each.arms:
        return ""
    if "." in owner.removeprefix("self."):
        return f"{each.target} is replaced" if objects.is_layer(reading, call) else ""
    if call.name in reading.modules or call.method == "from_pretrained":
        return f"{each.target} is made again"
    return ""


RULES = (
    Rule(
        code="SCR231",
        slug="optimizer-before-parameters",
        title="The optimizer is made after the parameters that it should hold",
        severity="fail",
        find=optimizer_too_early,
        why="An optimizer holds the tensors that parameters() gave it. Layers, adapters and shards "
        "that come later are not among them: they never change, and no error says so.",
        fires=(
            "get_peft_model, add_adapter, a new layer, resize_token_embeddings, FSDP or a new "
            "model after the optimizer was made from the same object",
            "requires_grad = True in the training loop, where the only optimizer was made from "
            "what required a gradient before (a warning)",
        ),
        limits="that lists of parameters which no optimizer gets (a warning) are meant to train.",
        fix="Make the optimizer last.",
        sources=("torch-optimizer",),
    ),
)
