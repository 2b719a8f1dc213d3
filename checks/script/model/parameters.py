"""Rules on what happens to parameters between a model and its optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.lineage import PARAMETERS, WRAPPERS
from doctor.checks.script.reading import exclusive, within
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

LOOKS = {"print", "isinstance", "type", "id", "tee", "str", "callable", "hasattr"}


def used_up(reading: Training) -> Iterator[Match]:
    for each in reading.assignments:
        if _is_iterator(reading, each.value) and each.target.count(".") < 2:
            yield from _second_use(reading, each)
    yield from _passed_iterators(reading)


def _is_iterator(reading: Training, value: Value) -> bool:
    """model.parameters(), filter(...) of them, a generator: what can be read once."""
    if value.kind == "other" and value.name == "GeneratorExp":
        return any(other.method in PARAMETERS for other in reading.inside(value))
    if value.kind != "call":
        return False
    call = reading.calls[value.call]
    if call.method in PARAMETERS:
        own = reading.functions_by_name.get(call.method)
        return bool(call.receiver) and not call.method.startswith("trainable") and not own
    return call.name in ("filter", "map", "itertools.chain") and any(
        made.method in PARAMETERS for v in call.args for made in reading.inside(v)
    )


def _second_use(reading: Training, each: Assignment) -> Iterator[Match]:
    """The second reader of an iterator, or one reader in a loop around which it was not made."""
    key = reading.key(each.target, each.scope)
    if len(reading.assigned.get(key, ())) != 1:
        return
    uses = sorted(_readers(reading, each, key), key=lambda use: reading.number(use))
    if any(use.name in ("next", "len") for use in uses):
        return  # read one by one, or a list of another class
    for n, use in enumerate(uses):
        earlier = [other for other in uses[:n] if not exclusive(other.arms, use.arms)]
        repeated = use.scope == each.scope and len(use.loops) > len(each.loops)
        if earlier or repeated:
            message = f"{each.target} is an iterator: it is empty after its first reader"
            yield Match(use.span, message)
            return


def _readers(reading: Training, each: Assignment, key: tuple[object, str]) -> Iterator[Call]:
    for number, call in enumerate(reading.calls):
        if number < each.position or call.method in LOOKS or call.receiver == each.target:
            continue
        values = (*call.values, *call.unpacked)
        if any(
            v.kind == "name" and v.name == each.target and reading.key(v.name, call.scope) == key
            for v in values
        ):
            yield call
    for other in reading.assignments:
        first = other.value.items[0] if other.value.items else other.value
        read = other.value.name in ("ListComp", "DictComp", "SetComp") and first.kind == "name"
        if read and first.name == each.target and other.scope == each.scope and not other.loops:
            inner = [made for made in reading.inside(other.value)] or [
                c for c in reading.calls[other.position : other.position + 1]
            ]
            yield from inner[:1]


def _passed_iterators(reading: Training) -> Iterator[Match]:
    """f(model.parameters()), where f loops over its argument twice."""
    for function, sites in reading.call_sites.items():
        for parameter in reading.function(function).parameters:
            if len(reading.assigned.get((function, parameter.name), ())) or len(
                [n for n in reading.loops_over(function, parameter.name)
                 if _is_plain(reading, n, parameter.name)]
            ) < 2:  # fmt: skip
                continue
            for site in sites:
                call = reading.calls[site]
                value = evaluate.argument_of(reading, call, function, parameter.name)
                if value is not None and _is_iterator(reading, value):
                    name = reading.function(function).name
                    message = f"{name}() loops over {parameter.name} again, which is empty then"
                    yield Match(call.span, message)


def _is_plain(reading: Training, loop: int, name: str) -> bool:
    iterable = reading.loops[loop].iterable
    return iterable is not None and iterable.kind == "name" and iterable.name == name


HARMLESS = (
    WRAPPERS | PARAMETERS | {"children", "modules", "zero_grad", "state_dict", "named_modules"}
)
"""Methods of a model, and functions of one, that add nothing that trains."""


def all_frozen(reading: Training) -> Iterator[Match]:
    """Everything of a model is frozen, and nothing after it thaws or replaces a part."""
    yield from _frozen_at_once(reading)
    for each in reading.assignments:
        if not each.target.endswith(".requires_grad") or each.value.literal is not False:
            continue
        call = reading.call_of(reading.iterable_of(each))
        if call is None or call.method != "parameters" or not call.receiver or each.arms:
            continue
        name = call.receiver
        if _is_changed(reading, each, name) or not reading.optimizers:
            continue
        if not all(_holds_only(reading, reading.calls[n], name) for n in reading.optimizers):
            continue
        parts = [
            a.target
            for a in reading.assignments
            if a.target.startswith(f"{name}.") and a.scope == each.scope
            and within(each.arms, a.arms) and a.value.kind == "call"
            and objects.is_layer(reading, reading.calls[a.value.call])
        ]  # fmt: skip
        if parts:
            yield Match(each.span, f"{parts[-1]} is frozen, too: nothing of {name} trains")
        elif not reading.mentions("peft", "lora", "adapter", "prompt") or _is_last_word(
            reading, each
        ):
            yield Match(each.span, f"all parameters of {name}, which the optimizer has, are frozen")


def _is_last_word(reading: Training, freeze: Assignment) -> bool:
    """The optimizers are made in the same function: what was added to the model came before."""
    return bool(reading.optimizers) and all(
        reading.calls[n].scope == freeze.scope and n > freeze.position for n in reading.optimizers
    )


def _frozen_at_once(reading: Training) -> Iterator[Match]:
    """model.requires_grad_(False) of what the only optimizer holds."""
    if reading.mentions("peft", "lora", "adapter", "prompt", "inject", "autograd"):
        return
    thaws = [
        n for n in reading.methods("requires_grad_")
        if not reading.calls[n].args or reading.calls[n].args[0].literal is not False
    ]  # fmt: skip
    assigned = any(a.target.endswith("requires_grad") for a in reading.assignments)
    for number, call in reading.numbered(
        reading.methods("requires_grad_") if not thaws and not assigned else ()
    ):
        held = [
            n for n in reading.optimizers
            if reading.calls[n].scope == call.scope and n > number
            and _holds_only(reading, reading.calls[n], call.receiver)
        ]  # fmt: skip
        if (
            held
            and len(held) == len(reading.optimizers)
            and not call.arms
            and not any(
                a.target.startswith(f"{call.receiver}.") or a.target == call.receiver
                for a in reading.assignments
                if number < a.position <= held[0]
            )
        ):
            message = f"all parameters of {call.receiver}, which the optimizer has, are frozen"
            yield Match(call.span, message)


def _is_changed(reading: Training, freeze: Assignment, name: str) -> bool:
    """Something thaws a part of the model, or may give it another one after the freeze."""
    thaws = any(
        not other.args or other.args[0].literal is not False
        for other in reading.named("requires_grad_")
    )
    if thaws or reading.methods("get_peft_model", "add_adapter", "unfreeze"):
        return True
    last = max(reading.optimizers, default=0)
    return any(
        (_is_of(name, a.target) and a.span.order > freeze.span.order)
        or (a.target.endswith(".requires_grad") and a is not freeze)
        for a in reading.assignments
    ) or any(
        objects.is_layer(reading, call) or _may_add(call, name)
        for call in reading.calls[freeze.position : last + 1]
        if call.scope == freeze.scope
    )


def _may_add(call: Call, name: str) -> bool:
    """A method of the model, or a function that gets it, which is not known to add nothing."""
    if _is_of(name, call.receiver):
        return call.method not in HARMLESS
    given = any(v.kind == "name" and _is_of(name, v.name) for v in call.args)
    return given and call.method not in HARMLESS | LOOKS


def _is_of(name: str, other: str) -> bool:
    """The model, or a part of it."""
    return other == name or other.startswith((f"{name}.", f"{name}["))


def _holds_only(reading: Training, made: Call, name: str) -> bool:
    """An optimizer of parameters of the model and of nothing else."""
    value = evaluate.argument(reading, made, "params", 0)
    if value is not None and value.kind == "name":
        found = reading.assigned_to(value.name, made.scope)
        filled = any(call.receiver == value.name for call in reading.calls)
        value = found[0].value if len(found) == 1 and not filled else None
    if value is None:
        return False
    calls = [other for other in reading.inside(value)]
    owners = {call.receiver for call in calls if call.method in PARAMETERS}
    single = value.kind == "call" and reading.calls[value.call].name in ("filter", "list")
    picked = (single or value.name in ("ListComp", "GeneratorExp")) and len(calls) < 3
    others = set() if picked else set(value.names)
    return bool(owners) and all(_is_of(name, each) for each in owners | others)


def rate_without_effect(reading: Training) -> Iterator[Match]:
    held = {
        reading.key(name, reading.calls[n].scope)
        for n in reading.optimizers
        for name in reading.calls[n].targets
    }
    for each in reading.assignments:
        owner, _, last = each.target.rpartition(".")
        if last in ("lr", "learning_rate") and owner and reading.key(owner, each.scope) in held:
            yield Match(each.span, f"{each.target} is read by nothing: the rate is in param_groups")
        for number in each.loops:
            iterable = reading.loops[number].iterable
            target = reading.loops[number].target
            if iterable is None or each.target != f"{target}[lr]":
                continue
            if any(call.method == "state_dict" for call in reading.inside(iterable)):
                yield Match(each.span, f"{each.target} is set in a copy that state_dict() made")
        for number in each.loops:
            loop = reading.loops[number]
            groups = loop.iterable is not None and loop.iterable.name.endswith(".param_groups")
            if groups and each.target in (f"{loop.target}[learning_rate]", f"{loop.target}[LR]"):
                yield Match(each.span, f"{each.target} is read by nothing: the key is lr")


RULES = (
    Rule(
        code="SCR270",
        slug="parameters-used-up",
        title="Parameters are read from a list where they are read twice",
        severity="fail",
        find=used_up,
        why="model.parameters() and filter() can be read once. The optimizer reads them, and the "
        "clip gets nothing: no gradient is clipped, and torch only warns.",
        fires=(
            "a variable that holds parameters(), filter() or a generator, and two readers",
            "the same with one reader in a loop",
            "parameters() given to a function of the file that loops over it twice",
        ),
        fix="Write list(model.parameters()), or call parameters() again.",
        needs=("parameters", "named_parameters"),
        sources=("pytorch-148259", "pixart-alpha-160"),
    ),
    Rule(
        code="SCR272",
        slug="head-frozen-too",
        title="Something of the model trains",
        severity="fail",
        find=all_frozen,
        why="Freezing after the new head is set freezes the head as well: backward() raises "
        "'element 0 of tensors does not require grad'.",
        fires=(
            "a layer is replaced, and then all parameters of the model are frozen",
            "all parameters are frozen, and an optimizer gets them",
        ),
        fix="Freeze first, then replace the layer.",
        needs=("requires_grad",),
        sources=("torch-module",),
    ),
    Rule(
        code="SCR273",
        slug="rate-without-effect",
        title="A learning rate is set where the optimizer reads it",
        severity="fail",
        find=rate_without_effect,
        why="An optimizer reads its rate from param_groups. An attribute lr, or the groups in the "
        "copy that state_dict() returns, change nothing.",
        fires=(
            "optimizer.lr = ...",
            "group['learning_rate'] = ... in a loop over param_groups",
            "a loop over optimizer.state_dict()['param_groups'] that sets lr",
        ),
        fix="for group in optimizer.param_groups: group['lr'] = rate",
        needs=("lr", "learning_rate", "state_dict"),
        sources=("examples-64", "torch-optimizer"),
    ),
)
