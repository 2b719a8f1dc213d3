"""Log-probabilities of several numbers, and codes of a quantizer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import lines_in, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training


def of_several_numbers(reading: Training) -> Iterator[Match]:
    """Normal(mu, std).log_prob(action) without a sum over the numbers of an action."""
    if not _of_actions(reading) or _is_summed(reading):
        return
    for call in reading.named("log_prob"):
        uses = [
            line.text
            for line in lines_in(reading, call.scope)
            if any(re.search(rf"\b{re.escape(t)}\b", line.text) for t in call.targets)
        ]
        if any(re.search(r"exp\(|\*", text) for text in uses):
            message = "log_prob() has a column per number of an action: .sum(-1) is missing"
            yield Match(call.span, message, "warn")
            return


def _of_actions(reading: Training) -> bool:
    """A normal distribution of a policy, whose actions may have several numbers."""
    if "Normal" not in reading.by_method or reading.mentions("independent", "multivariate"):
        return False
    made = reading.named("Normal")
    linear = reading.named("Linear")
    sizes = [c.args[1].literal for c in linear if len(c.args) > 1]
    several = any(isinstance(size, int) and 1 < size < 32 for size in sizes)
    return (
        all(c.name.endswith("distributions.Normal") for c in made)
        and (several or 1 not in sizes)
        and reading.mentions("ratio", "adv", "ret", "reward", "policy", "old_log")
    )


def _is_summed(reading: Training) -> bool:
    """The file sums or averages log-probabilities, by a name or at once."""
    names = {t for call in reading.named("log_prob") for t in call.targets}
    reduced = [c for c in reading.calls if c.method in ("sum", "mean", "prod")]
    return any(
        c.receiver in names or "log_prob" in c.name or any(v.name in names for v in c.args)
        for c in reduced
    ) or any(
        re.search(r"log_prob\(.*\)\.(?:sum|mean)\(|torch\.sum\(.*log_?p", render(reading, v))
        for v, _, _ in reading.expressions
    )


def codes(reading: Training) -> Iterator[Match]:
    """A quantizer that returns its codes without the gradient of the input."""
    for scope in reading.functions_by_name.get("forward", ()):
        function = reading.function(scope)
        own = lines_in(reading, scope)
        chosen = any("argmin(" in line.text for line in own) or any(
            call.method == "argmin" for call in reading.calls_in(scope)
        )
        if not chosen or function.owner not in reading.modules:
            continue
        texts = [line.text for line in own] + [render(reading, v) for v in function.returns]
        pulled = [
            m for t in texts
            if (m := re.search(r"mse_loss\((?P<q>\w+),(?P<z>\w+)\.detach\(\)\)", t))
        ]  # fmt: skip
        if not pulled or any(
            re.search(r"-\w+\)\.detach\(\)|\(\w+-\w+\.detach\(\)\)|\.apply\(", t) for t in texts
        ):
            continue
        quantized = pulled[0]["q"]
        for value, span in zip(function.returns, function.exit_spans, strict=False):
            parts = value.items if value.kind == "list" else (value,)
            if any(v.kind == "name" and v.name == quantized for v in parts):
                message = (
                    f"{quantized} has no gradient for {pulled[0]['z']}: z + (q - "
                    "z).detach() passes it on"
                )
                yield Match(span, message)
                return
