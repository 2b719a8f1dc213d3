"""A rule on the interface of environments."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value


def environment(reading: Training) -> Iterator[Match]:
    """gymnasium returns two values from reset(), and five from step()."""
    if not reading.imports_from("gymnasium"):
        return
    for call in reading.named("reset", "step"):
        wanted = 2 if call.method == "reset" else 5
        if not _is_environment(reading, call) or call.statement:
            continue
        if wanted == 5 and 1 < len(call.targets) < 5:
            yield Match(call.span, "step() of gymnasium returns 5 values, and not 4")
        elif wanted == 2 and len(call.targets) == 1 and not _indexed(reading, call):
            yield Match(
                call.span, f"{call.targets[0]} is a pair: reset() returns (observation, info)"
            )


def _is_environment(reading: Training, call: Call) -> bool:
    made = (
        list(objects.makers_at(reading, Value("name", name=call.receiver), call))
        if call.receiver
        else []
    )
    return bool(made) and all(
        each is not None and each.name in ("gymnasium.make", "gymnasium.vector.make")
        for each in made
    )


def _indexed(reading: Training, call: Call) -> bool:
    """The pair is taken apart later: obs[0], or a name that says what it is."""
    name = call.targets[0]
    if any(
        each.value.kind != "call"
        for each in reading.assigned_to(name, call.scope)
        if each.value.call == reading.number(call)
    ):
        return True
    values = reading.values_in(call.scope)
    return any(
        part.kind == "item" and part.items and part.items[0].name == name
        for part in flatten(values)
    )


RULES = (
    Rule(
        code="SCR317",
        slug="environment-interface",
        title="Environments of gymnasium are unpacked as they are",
        severity="fail",
        find=environment,
        why="gymnasium's reset() returns (observation, info) and step() returns five values. The "
        "four and one of the old gym raise, or feed a pair to the network.",
        fires=("obs = env.reset(), or four targets of env.step(), of gymnasium.make()",),
        fix="obs, info = env.reset(); obs, reward, terminated, truncated, info = env.step(action).",
        sources=("gymnasium-interface",),
        needs=("gymnasium",),
    ),
)
