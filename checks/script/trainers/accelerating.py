"""Rules on accelerate: accumulation, and how long a schedule is."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.loop.schedule_lengths import LENGTHS
from doctor.checks.script.loop.schedules import schedulers
from doctor.checks.script.ranks import is_accelerator
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value


def accumulates(reading: Training) -> Iterator[Match]:
    for made in reading.named("Accelerator"):
        value = made.keywords.get("gradient_accumulation_steps")
        if value is None or (value.kind == "literal" and value.literal == 1):
            continue
        if "deepspeed_plugin" in made.keywords:
            continue  # its engine accumulates
        inside = reading.methods("accumulate")
        backwards = [n for n in reading.backwards if is_accelerator(reading, reading.calls[n])]
        own = reading.mentions("no_sync", "_do_sync") or any(
            value.kind == "name" and value.name in test.names
            for n in backwards
            for other in reading.calls_in(reading.calls[n].scope)
            for test in reading.tests(other)
        )
        if backwards and not inside and not own and "plugin" not in str(value.name):
            yield Match(
                made.span, "gradient_accumulation_steps without accumulate(): every batch is a step"
            )
        for n in backwards if inside else ():
            call = reading.calls[n]
            if any(_divides(part, value) for part in _loss(reading, call)):
                yield Match(call.span, "the loss is divided twice: accelerator.backward() does it")
    yield from _schedule(reading)


def _loss(reading: Training, call: Call) -> list[Value]:
    values = list(call.args[:1])
    if values and values[0].kind == "name":
        values += [each.value for each in evaluate.definitions_at(reading, values[0].name, call)]
    return values


def _divides(value: Value, steps: Value) -> bool:
    """loss / accumulation."""
    if value.kind != "other" or value.name != "Div" or len(value.items) != 2:
        return False
    by = value.items[1]
    if steps.kind == "literal":
        return by.literal == steps.literal and isinstance(by.literal, int)
    return by.name == steps.name or by.name.endswith(".gradient_accumulation_steps")


def _schedule(reading: Training) -> Iterator[Match]:
    """A prepared scheduler whose length is counted in steps of the prepared loader."""
    if reading.mentions("step_scheduler_with_optimizer", "split_batches") or _by_processes(reading):
        return
    prepares = [n for n in reading.methods("prepare") if is_accelerator(reading, reading.calls[n])]
    prepared: dict[tuple[object, str], int] = {}
    for n in prepares:
        for target in reading.calls[n].targets:
            prepared.setdefault(reading.key(target, reading.calls[n].scope), n)
    for made, name, value in _lengths(reading, prepared):
        if found := _of_updates(reading, made, name, value.name):
            yield found
            return
        for n, call in reading.numbered(sorted(_calls_within(reading, value, made, 5))):
            source = call.args[0].name if call.name == "len" and call.args else ""
            at = prepared.get(reading.key(source, call.scope), n)
            if source and at < n and call.scope == made.scope:
                message = f"{name} steps once per process: {source} is a process's share"
                yield Match(made.span, message, "warn")
                return


def _lengths(
    reading: Training, prepared: dict[tuple[object, str], int]
) -> Iterator[tuple[Call, str, Value]]:
    """Prepared schedulers with the argument that says how long they are."""
    for number, name in schedulers(reading):
        made = reading.calls[number]
        key, position = LENGTHS.get(made.method, ("", 0))
        value = evaluate.argument(reading, made, key, position) if key else None
        if value is not None and reading.key(name, made.scope) in prepared:
            yield made, name, value
    for number in set(prepared.values()):
        prepare = reading.calls[number]
        for given, name in zip(prepare.args, prepare.targets, strict=False):
            at = reading.call_of(given)
            key, position = LENGTHS.get(at.method, ("", 0)) if at is not None else ("", 0)
            if at is not None and key and (value := evaluate.argument(reading, at, key, position)):
                yield at, name, value


def _of_updates(reading: Training, made: Call, scheduler: str, length: str) -> Match | None:
    """The schedule is as long as the loop, and all launches start several processes."""
    count = _started(reading)
    if count < 2 or length not in _ends(reading, made):
        return None
    message = f"{scheduler}.step() steps {count} times, once per process: {length} counts calls"
    fix = f"Multiply {length}, and a warm-up, by accelerator.num_processes."
    return Match(made.span, message, "warn", fix=fix)


def _started(reading: Training) -> int:
    """The processes of all launches beside the script, 0 where they differ or do not say."""
    keys = ("num_processes", "nproc_per_node", "nproc-per-node", "num-processes")
    counts = {
        each.launcher.get(key, "0")
        for each in reading.script.launches
        for key in keys
        if key in each.launcher
    }
    return int(counts.pop()) if len(counts) == 1 and max(counts).isdigit() else 0


def _ends(reading: Training, made: Call) -> set[str]:
    """Names of numbers of updates after which the loop ends: while done < STEPS, range(STEPS)."""
    tested = {
        side.name
        for each in reading.comparisons
        for side in (each.left, each.right)
        if each.scope == made.scope
    }
    counted = {
        v.name
        for loop in reading.loops
        if loop.iterable is not None and loop.scope == made.scope
        for n in (loop.iterable.call, *loop.iterable.calls)
        if n >= 0 and reading.calls[n].name == "range"
        for v in reading.calls[n].args
    }
    return {name for name in tested | counted if name}


def _by_processes(reading: Training) -> bool:
    """Something is multiplied with, or divided by, the number of processes, or a name holds it."""
    return any(
        part.name in ("Mult", "Div", "FloorDiv")
        and any(name.endswith(("num_processes", "world_size")) for name in part.names)
        for value, _, _ in reading.expressions
        for part in flatten([value])
    ) or any(
        name.endswith(("num_processes", "world_size"))
        for each in reading.assignments
        for name in each.value.all_names
    )


def _calls_within(reading: Training, value: Value, made: Call, depth: int) -> set[int]:
    """Calls that a number is computed of, through names."""
    found = set(value.calls)
    number = reading.number(made)
    for name in set(value.all_names) - {""} if depth else ():
        for each in evaluate.definitions_at(reading, name, made):
            if each.scope == made.scope and each.position <= number:
                found |= _calls_within(reading, each.value, made, depth - 1)
    return found


RULES = (
    Rule(
        code="SCR325",
        slug="accumulation-of-accelerate",
        title="Accumulation is left to accelerate, whole",
        severity="warn",
        find=accumulates,
        why="accelerate accumulates within accumulate() only, and backward() divides the loss by "
        "the number of steps. A prepared scheduler steps once per process and step.",
        fires=(
            "Accelerator(gradient_accumulation_steps=n) without accumulate() or no_sync()",
            "the loss is divided by n before accelerator.backward(), within accumulate()",
            "a schedule as long as a prepared loader, itself prepared (a warning)",
            "a prepared schedule as long as the loop in updates, and a launch of several processes",
        ),
        fix="Use with accelerator.accumulate(model): and do not divide the loss; count the steps "
        "of a schedule before prepare().",
        sources=("accelerate-accumulation",),
        needs=("Accelerator",),
    ),
)
