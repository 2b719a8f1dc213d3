"""Formulas of an agent beside its target: returns of advantages, the loss of the temperature."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.naming import words
from doctor.checks.script.rendering import Line, lines, lines_of, render, texts_in
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

SUM = re.compile(r"\((?P<one>[\w.\[\]']+)\+(?P<two>[\w.\[\]']+)\)(?:\.detach\(\))?")
RETURNS = {"return", "returns", "ret", "rets"}
VALUES = {"value", "values", "val", "vals", "v"}
TEMPERATURE = re.compile(
    r"\(*(?:[\w.]*(?:alpha|temp)\w*(?:\.exp\(\))?\*\(\w*log_?p\w*\+[\w.]*target\w*\)"
    r"(?:\.detach\(\))?)\)*(?:\.mean\(\))?"
)
"""log_alpha * (log_prob + target_entropy), in which no minus stands. The SAC paper (Haarnoja et
al., 2018, section 5) has the minus."""


def of_normalized(reading: Training) -> Iterator[Match]:
    """adv = (adv - adv.mean()) / adv.std(), and returns = adv + values behind it."""
    if not reading.mentions("std"):
        return
    for line in reading.cached(lines):
        found = SUM.fullmatch(line.text) if RETURNS & {*words(line.target)} else None
        terms = [found["one"], found["two"]] if found is not None else []
        others = [t for t in terms if not VALUES & {*words(t.replace("'", ""))}]
        if len(others) != 1 or not others[0].isidentifier():
            continue
        name = others[0]
        made = evaluate.definitions(reading, name, line.scope, line.position, line.arms)
        scaled = re.compile(rf"\(\({name}-{name}\.mean\([^()]*\)\)/\(?{name}\.std\(")
        if len(made) == 1 and scaled.match(render(reading, made[0].value)):
            message = f"{line.target} are made of {name} that are normalized already"
            yield Match(line.span, message, fix=f"Add the values before {name} are normalized.")


def temperature(reading: Training) -> Iterator[Match]:
    """alpha_loss = (log_alpha * (log_prob + target_entropy).detach()).mean()."""
    named = reading.mentions("alpha", "temp") and not reading.mentions("maximize")
    for line in reading.cached(lines) if named else ():
        minimized = "loss" in words(line.target) and TEMPERATURE.fullmatch(line.text)
        if minimized and not _turned(reading, line):
            message = "alpha falls where the entropy is too low: a minus is missing"
            fix = "-(log_alpha * (log_prob + target_entropy).detach()).mean()"
            yield Match(line.span, message, fix=fix)


def _turned(reading: Training, line: Line) -> bool:
    """-alpha_loss elsewhere in the function, or a log-probability with a minus."""
    text = re.search(r"\((\w*log_?p\w*)\+", line.text)
    made = [each.text for each in lines_of(reading, line.scope, text[1])] if text else []
    turned = re.compile(rf"-\(?{re.escape(line.target)}\b")
    negated = any(t.startswith(("-", "(-")) for t in made)
    again = any(turned.search(t) for t in texts_in(reading, line.scope))
    backward = any(
        c.method == "backward" and c.scope == line.scope and c.base is not None
        and turned.match(render(reading, c.base))
        for c in reading.calls
    )  # fmt: skip
    return negated or again or backward
