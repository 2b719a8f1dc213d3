"""A term of a loss whose gradient reaches a network that it is not meant for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rendering import containing, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Value

WEIGHTED = re.compile(
    r"\((?P<one>\w+)\*(?P<log>\w*log_?p\w*)\)|\((?P<log2>\w*log_?p\w*)\*(?P<two>\w+)\)", re.I
)
"""advantage * log_prob."""
CRITIC = re.compile(r"critic|value|baseline", re.IGNORECASE)


def baseline_trained(reading: Training) -> Iterator[Match]:
    """(reward - value) * log_prob, where value has the gradient of the critic."""
    for text, span, scope in containing(reading, WEIGHTED):
        found = WEIGHTED.search(text)
        name = (found["one"] or found["two"]) if found else ""
        held = reading.assigned_to(name, scope) if name else ()
        value = held[-1].value if held else Value("other")
        if len(held) != 1 or value.name != "Sub" or value.items[1].kind != "name":
            continue
        baseline = value.items[1].name
        made = [a for a in reading.assigned_to(baseline, scope) if a.scope == scope]
        call = reading.call_of(made[0].value) if len(made) == 1 else None
        if call is None or reading.under_no_grad(made[0].contexts + held[0].contexts):
            continue
        learns = (scope, baseline) in reading.cached(_fitted)
        if learns and CRITIC.search(call.name) and "detach" not in render(reading, made[0].value):
            yield Match(
                span,
                f"{baseline} has a gradient here: the objective moves the critic, too",
                "warn",
                fix=f"{name} = ... - {baseline}.detach().",
            )


def _fitted(reading: Training) -> set[tuple[int, str]]:
    """What the squared error of a function reads, where one backward() is of all losses."""
    back = [reading.calls[n] for n in reading.backwards]
    once = Counter(call.scope for call in back)
    named = {call.scope for call in back if "inputs" in call.keywords}
    calls = [reading.calls[n] for n, kind in loss_calls(reading) if kind == "mse"]
    return {
        (call.scope, name)
        for call in calls if once[call.scope] < 2 and call.scope not in named
        for value in call.args for name in value.all_names
    }  # fmt: skip
