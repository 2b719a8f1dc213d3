"""A rule on optimizers and schedulers of several networks."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.lineage import parameter_owners
from doctor.checks.script.loop.schedules import schedulers
from doctor.checks.script.naming import words
from doctor.checks.script.reading import exclusive, flatten
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call

GROUPS = {"SequentialLR", "ChainedScheduler"}


def _listed_twice(reading: Training) -> Iterator[Match]:
    """list(a.parameters()) + list(a.parameters())."""
    receivers = [call.receiver for call in reading.named("parameters")]
    if len(set(receivers)) == len(receivers):
        return
    for value, span, _ in reading.expressions:
        for part in flatten([value]):
            if part.kind != "other" or part.name != "Add":
                continue
            owners = [
                other.receiver
                for item in part.items
                for other in reading.inside(item)
                if other.method == "parameters" and other.receiver
            ]
            if len(owners) > 1 and len(set(owners)) < len(owners):
                yield Match(span, f"the parameters of {owners[0]} are listed twice")


def _second_optimizer(reading: Training) -> Iterator[Match]:
    """Two optimizers of one class over one network, where another network has none."""
    made = [(n, reading.calls[n]) for n in reading.optimizers if _holds_all(reading, n)]
    owners = {n: list(dict.fromkeys(parameter_owners(reading, call, n))) for n, call in made}
    for index, (n, call) in enumerate(made):
        for m, other in made[:index]:
            same = owners[n] == owners[m] and len(owners[n]) == 1 and call.name == other.name
            apart = call.scope == other.scope and len(call.targets) == len(other.targets) == 1
            if not same or not apart or exclusive(call.arms, other.arms) or call.loops:
                continue
            together = _stepped_together(reading, call.targets[0], other.targets[0])
            if together or _leaves_one(reading, call.targets[0], other.targets[0]):
                message = f"{call.targets[0]} holds {owners[n][0]}, as {other.targets[0]} does"
                yield Match(call.span, message)


def _holds_all(reading: Training, number: int) -> bool:
    """Of parameters(), not of a list that a loop or a test has sorted."""
    call = reading.calls[number]
    given = [call.args[0]] if call.args else [*call.keywords.values()][:1]
    for value in given:
        if value.kind == "name":
            held = reading.assigned_to(value.name, call.scope)
            given += [each.value for each in held if each.value.kind != "name"]
    return all(value.name != "ListComp" for value in given) and any(
        other.method == "parameters" for value in given for other in reading.inside(value)
    )


def _stepped_together(reading: Training, one: str, other: str) -> bool:
    loops = [
        {call.loops for call in reading.named("step") if call.receiver == name}
        for name in (one, other)
    ]
    return one != other and bool(loops[0] & loops[1] - {()})


def _leaves_one(reading: Training, one: str, other: str) -> bool:
    """A method steps both, and calls a network of the object that no optimizer holds."""
    scopes = [{c.scope for c in reading.named("step") if c.receiver == name}
              for name in (one, other)]  # fmt: skip
    return any(
        call.scope in scopes[0] & scopes[1] and call.name.startswith("self.")
        and not reading.is_without_graph(call)
        and not FROZEN & set(words(call.name))
        and reading.key(call.name, call.scope) not in reading.trained_names
        and any(m.name in reading.learned for m in objects.known_callees(reading, call))
        for call in reading.calls
    )  # fmt: skip


def _second_scheduler(reading: Training) -> Iterator[Match]:
    """Two schedulers of one class on one optimizer, while another optimizer has none."""
    made = [(reading.calls[n], name) for n, name in schedulers(reading) if reading.calls[n].args]
    held = {call.args[0].name for call, _ in made}
    free = {t for n in reading.optimizers for t in reading.calls[n].targets} - held
    if len(made) < 2 or not free or GROUPS & reading.script.identifiers:
        return
    for index, (call, name) in enumerate(made):
        for other, first in made[:index]:
            same = call.name == other.name and call.args[0] == other.args[0] and name != first
            apart = exclusive(call.arms, other.arms) or call.scope != other.scope
            if same and not apart and call.args[0].kind == "name":
                yield Match(call.span, f"{name} steps {call.args[0].name}, as {first} does")


def _left_out(reading: Training) -> Iterator[Match]:
    """Networks of the loss that no optimizer holds, each once."""
    found = (*_held_by_none(reading), *_twin_held_by_none(reading))
    yield from {match.span: match for match in found}.values()


def _held_by_none(reading: Training) -> Iterator[Match]:
    """head = ArcHead(...), called in the loop that trains; the optimizer holds another network."""
    if reading.mentions("requires_grad", "add_param_group"):
        return  # some are frozen, or come later
    for number in reading.optimizers:
        if not parameter_owners(reading, reading.calls[number], number):
            return
    for made in reading.calls if reading.optimizers else ():
        own = len(made.targets) == 1 and not made.loops and _is_learned(reading, made)
        name = made.targets[0] if own else ""
        key = reading.key(name, made.scope)
        if not name or "." in name or key in reading.trained_names or FROZEN & set(words(name)):
            continue
        back = {reading.calls[n].loops for n in reading.backwards
                if reading.calls[n].scope == made.scope}  # fmt: skip
        runs = [c for c in reading.calls if c.name == name and c.loops in back and not
                reading.under_no_grad(c.contexts)]  # fmt: skip
        used = runs and not any(_is_detached(reading, c) for c in runs)
        if used and not _is_handed_on(reading, name, key):
            yield Match(
                made.span,
                f"{name} has parameters, and no optimizer holds them",
                "warn",
                fix=f"Give the optimizer [*model.parameters(), *{name}.parameters()].",
            )


def _twin_held_by_none(reading: Training) -> Iterator[Match]:
    """q1 and q2 of one class are in one loss; an optimizer holds q1 alone."""
    owners = [parameter_owners(reading, reading.calls[n], n) for n in reading.optimizers]
    if reading.mentions("requires_grad", "add_param_group") or not all(owners):
        return
    back = {reading.calls[n].scope for n in reading.backwards}
    for (scope, _), twins in _made_alike(reading).items():
        held = [name for name, _ in twins if reading.key(name, scope) in reading.trained_names]
        for name, call in twins if held else ():
            key = reading.key(name, scope)
            if name in held or FROZEN & set(words(name)) or key in reading.cached(_given_on):
                continue
            runs = reading.cached(_runs).get(key, [])
            learns = [c for c in runs if c.scope in back and not reading.is_without_graph(c)]
            places = {(c.scope, c.span.line) for c in learns[:1]}
            others = reading.cached(_runs).get(reading.key(held[0], scope), [])
            beside = any((c.scope, c.span.line) in places for c in others) if places else False
            if beside and not any(_is_detached(reading, c) for c in runs):
                yield Match(call.span, f"no optimizer holds {name}, as one holds {held[0]}",
                            "warn", fix=f"List the parameters of {name}, too.")  # fmt: skip


def _made_alike(reading: Training) -> dict[tuple[int, str], list[tuple[str, Call]]]:
    """Networks of one function by their class, with their names."""
    made: dict[tuple[int, str], list[tuple[str, Call]]] = {}
    for each in reading.assignments:
        call = reading.call_of(each.value)
        own = call is not None and not call.name.startswith("torch.") and not each.loops
        if call is not None and own and call.method[:1].isupper():
            made.setdefault((each.scope, call.name), []).append((each.target, call))
    return made


def _runs(reading: Training) -> dict[tuple[object, str], list[Call]]:
    """Calls by what they call."""
    table: dict[tuple[object, str], list[Call]] = {}
    for call in reading.calls:
        table.setdefault(reading.key(call.name, call.scope), []).append(call)
    return table


def _given_on(reading: Training) -> set[tuple[object, str]]:
    """What something else gets, or has a method called that may list its parameters."""
    others = [c for c in reading.calls if c.method not in (*QUIET, "deepcopy", "print")]
    names = [(c.receiver, c.scope) for c in others]
    names += [(v.name, c.scope) for c in others for v in c.values if v.kind == "name"]
    return {reading.key(name, scope) for name, scope in names}


FROZEN = {"teacher", "target", "ema", "ref", "reference", "frozen", "pretrained", "vgg", "lpips",
          "random", "rnd", "fixed", "noise", "aug", "augment", "augmentation", "prior", "init",
          "initial", "start", "anchor", "base", "old"}  # fmt: skip


def _is_detached(reading: Training, call: Call) -> bool:
    """net(x).detach(): what it gives is a target."""
    number = reading.number(call)
    return any(other.receiver_call == number for other in reading.named("detach"))


def _is_learned(reading: Training, made: Call) -> bool:
    """A class of the file that has parameters, also moved to a device."""
    base: Call | None = made
    while base is not None and base.method in QUIET:
        base = reading.before(base)
    return base is not None and base.name in reading.learned


def _is_handed_on(reading: Training, name: str, key: tuple[object, str]) -> bool:
    """Its parameters are listed or frozen, or something else gets it."""
    return any(
        (reading.key(call.receiver, call.scope) == key and call.method not in QUIET)
        or any(name in v.all_names and reading.key(name, call.scope) == key for v in call.values)
        for call in reading.calls
    ) or any(name in a.value.names for a in reading.assignments)


QUIET = {"to", "cuda", "train", "float", "half", "bfloat16", "double"}

RULES = (
    Rule(
        code="SCR271",
        slug="optimizer-of-another-network",
        title="Every network has its own optimizer and scheduler",
        severity="fail",
        find=each_of(
            _listed_twice,
            _second_optimizer,
            _second_scheduler,
            _left_out,
        ),
        why="After a copied line two optimizers hold one network, and the other network never "
        "changes. No error says so.",
        fires=(
            "the parameters of one network twice in one list",
            "two optimizers of one class over one network, stepped in one loop",
            "two optimizers over one network, where a network of the same step has none",
            "two schedulers of one class on one optimizer, while another has none",
            "two networks of one class in one loss, of which an optimizer holds one (a warning)",
            "a loss or head of the file with parameters, called in each step, that no optimizer "
            "holds (a warning)",
        ),
        fix="Correct the name in the copied line, or list the parameters of both networks: "
        "[*model.parameters(), *head.parameters()].",
        sources=("esrgan-pytorch-39", "srgan-pytorch-85", "open-universe-5", "tutorials-1430"),
    ),
)
