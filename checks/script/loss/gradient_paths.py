"""Terms of a loss whose gradient reaches nothing, or a network that it is not meant for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import containing, expanded, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Value

CONSTANT = re.compile(
    r"torch\.(?:ones|zeros|full)(?:_like)?\(|(?:^|_)(?:real|fake|valid|ones|zeros)"
)
WEIGHTED = re.compile(
    r"\((?P<one>\w+)\*(?P<log>\w*log_?p\w*)\)|\((?P<log2>\w*log_?p\w*)\*(?P<two>\w+)\)", re.I
)
"""advantage * log_prob."""
CRITIC = re.compile(r"critic|value|baseline", re.IGNORECASE)


def constant_terms(reading: Training) -> Iterator[Match]:
    """bce(score.detach(), ones) as a term of the loss that backward() is called on."""
    for number in reading.backwards if reading.methods("detach") else ():
        back = reading.calls[number]
        name = reading.loss_name(back)
        for each in evaluate.definitions_at(reading, name, back)[:1] if name else ():
            calls = (reading.calls[v.call] for v in flatten([each.value]) if v.kind == "call")
            for call in (c for c in calls if len(c.args) == 2 and c.args[0].kind == "name"):
                score = call.args[0].name
                made = evaluate.definitions_at(reading, score, call)[:1]
                cut = made and reading.called(made[0].value).endswith("detach")
                if cut and CONSTANT.search(expanded(reading, call.args[1], call, 1)):
                    message = f"{score} is detached: this term gives no gradient"
                    yield Match(call.span, message, fix="Detach it where the other network learns.")


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
        learns = any(
            baseline in {n for v in reading.calls[n].args for n in v.all_names}
            for n, kind in loss_calls(reading)
            if kind == "mse" and reading.calls[n].scope == scope
        )
        if learns and CRITIC.search(call.name) and "detach" not in render(reading, made[0].value):
            yield Match(
                span,
                f"{baseline} has a gradient here: the objective moves the critic, too",
                "warn",
                fix=f"{name} = ... - {baseline}.detach().",
            )
