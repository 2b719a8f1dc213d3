"""Generators of random numbers of which each worker of a loader has a copy."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Span, Value


def has_workers(reading: Training, call: Call) -> bool:
    """num_workers is above 0, also by the default of a command line argument."""
    value = call.keywords.get("num_workers")
    if value is None:
        return False
    found = evaluate.literals(reading, value, call) | {evaluate.flag_default(reading, value.name)}
    return any(isinstance(n, int) and n > 1 for n in found if n is not True)


GENERATORS = {
    "numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator",
    "random.Random", "torch.Generator",
}  # fmt: skip


PER_WORKER = (
    "Seed a generator per worker: in worker_init_fn or at the first __getitem__, from "
    "torch.initial_seed()."
)


def one_generator(reading: Training) -> Iterator[Match]:
    """A generator that a dataset draws from in __getitem__, of which each worker has a copy."""
    if reading.mentions("get_worker_info", "worker_init_fn"):
        return
    for call in reading.named("DataLoader"):
        if not has_workers(reading, call):
            continue
        data = call.given("dataset", 0)
        for option in evaluate.options(reading, data, call):
            name = reading.called(option)
            made = [(name, "__getitem__")] if name else []
            if option.kind == "call" and objects.method_of(reading, name, "__getitem__"):
                made += [(other, "__call__") for other in _transforms(reading, option)]
            for owner, entry in made:
                for each in _generators(reading, owner, entry):
                    held = each.targets[0]
                    message = f"each worker gets a copy of {held}: equal numbers"
                    yield Match(each.span, message, fix=PER_WORKER)


def _transforms(reading: Training, data: Value) -> Iterator[str]:
    """Classes of this file that __getitem__ calls, of a dataset like Clips(path, Jitter())."""
    call = reading.calls[data.call]
    start = objects.method_of(reading, call.name, "__init__")
    parameters = [p.name for p in reading.function(start).parameters[1:]] if start else []
    item = objects.method_of(reading, call.name, "__getitem__")
    called = {other.name for other in reading.calls_in(item)} if item else set()
    passed = dict(zip(parameters, call.args, strict=False)) | call.keywords
    for parameter, value in passed.items():
        own = [a for a in reading.assignments if a.scope == start]
        held = {a.target for a in own if a.value.kind == "name" and a.value.name == parameter}
        for option in evaluate.options(reading, value, call) if held & called else ():
            name = reading.called(option)
            if name and objects.method_of(reading, name, "__call__") is not None:
                yield name


def _generators(reading: Training, name: str, entry: str) -> Iterator[Call]:
    """Generators that the class makes once, and draws from in __getitem__ or __call__."""
    for made in reading.named("default_rng", "RandomState", "Generator", "Random"):
        function = reading.function(made.scope)
        shared = not made.scope and not made.loops
        if made.name not in GENERATORS or not (
            shared or (function.owner, function.name) == (name, "__init__")
        ):
            continue
        target = made.target
        key = reading.key(target, made.scope)
        once = bool(target) and len(reading.assigned.get(key, ())) == 1
        if once and any(_draws(reading, call, target, name, entry) for call in reading.calls):
            yield made


def _draws(reading: Training, call: Call, target: str, name: str, entry: str) -> bool:
    """__getitem__ of the class uses it, or a method that this calls does."""
    function = reading.function(call.scope)
    if function.owner != name:
        return False
    passed = call.keywords.get("generator")
    uses = call.receiver == target or (passed is not None and passed.name == target)
    if not uses and call.receiver and "." not in call.receiver:  # rng = self.rng
        held = objects.last_definition(reading, call.receiver, call)
        uses = [v.name for v in held if v.kind == "name"] == [target]
    sites = [reading.calls[n].scope for n in reading.call_sites.get(call.scope, ())]
    return uses and entry in {function.name, *(reading.function(n).name for n in sites)}


def changed_later(reading: Training) -> Iterator[Match]:
    """dataset.stage = 1 between epochs, of which workers that stay hold an older copy."""
    for call in reading.named("DataLoader"):
        stay = call.keywords.get("persistent_workers")
        data = call.given("dataset", 0)
        if data is None or data.kind != "name" or not has_workers(reading, call):
            continue
        if stay is None or evaluate.truth(reading, stay, call) is not True:
            continue
        options = evaluate.options(reading, data, call)
        owners = {reading.called(o) for o in options}
        epochs = {
            outer
            for loop in reading.loops_of(call)
            for n in reading.by_loop.get(loop, ())
            for outer in reading.calls[n].loops[: reading.calls[n].loops.index(loop)]
            if outer not in call.loops
        }
        for owner in owners if len(owners) == 1 else ():
            for span, name in _changes(reading, data.name, owner, epochs):
                message = f"workers that stay keep the {name} that they started with"
                yield Match(span, f"{data.name}.{name} is changed here: {message}", fix=SHARED)


SHARED = (
    "Omit persistent_workers, or share the value: multiprocessing.Value, or a tensor in shared "
    "memory that is changed in place."
)


def _changes(
    reading: Training, data: str, owner: str, epochs: set[int]
) -> Iterator[tuple[Span, str]]:
    """Attributes that are set in the loop over epochs, also by a method, and items read."""
    read = {
        name.removeprefix("self.")  # not level.value, which may be shared
        for value, _, scope in reading.expressions
        if (function := reading.function(scope)).owner == owner and function.name in ITEMS
        for name in value.all_names
        if name.count(".") == 1
    }
    for each in reading.assignments:
        name = each.target.removeprefix(f"{data}.")
        if name != each.target and name in read and epochs & {*each.loops}:
            yield each.span, name
    for call in reading.calls if epochs else ():
        if call.receiver != data or not epochs & {*call.loops}:
            continue
        method = objects.method_of(reading, owner, call.method)
        for each in reading.assignments if method else ():
            name = each.target.removeprefix("self.")
            if each.scope == method and name in read and not each.augmented:
                yield call.span, name
                break


ITEMS = ("__getitem__", "__iter__")
