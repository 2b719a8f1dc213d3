"""A rule on numbers of YAML that are texts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.script.yaml_numbers import of_text

LOADS = ("yaml.safe_load", "yaml.load", "yaml.full_load")
RATES = re.compile(
    r"(?:^|_)(?:lr|rate|decay|eps|epsilon|momentum|gamma|alpha|temperature|lambda|"
    r"weight|coef|factor|tol|clip|norm|min|max|std|dropout|beta\d?)(?:_|$)"
)


def texts(reading: Training) -> Iterator[Match]:
    for call in reading.calls:
        if call.name not in LOADS:
            continue
        literal = call.args[0].literal if call.args else None
        own = of_text(literal) if isinstance(literal, str) else []
        for each in (*reading.script.settings, *own):
            file, _, key = each.key.rpartition(":")
            if RATES.search(key.casefold()) and not _is_cast(reading, key):
                place = f"{file}, line {each.span.line}: " if file else ""
                message = f"{place}{key}: {each.value} is a text to PyYAML, no number"
                yield Match(call.span, message)


def _is_cast(reading: Training, key: str) -> bool:
    """float(cfg["lr"]), float() of all values, or a class that converts."""
    if reading.mentions(
        "omegaconf", "hydra", "dacite", "pydantic", "implicit_resolver", "isnumeric"
    ):
        return True
    name = re.compile(rf"\b{re.escape(key)}\b")
    casts = reading.named("float", "eval", "literal_eval", "Decimal")
    return any(
        name.search(text) or re.fullmatch(r"v|val|value|x|item", text)
        for call in casts
        for value in call.args
        for text in [render(reading, value)]
    )


RULES = (
    Rule(
        code="SCR395",
        slug="yaml-number-is-text",
        title="Numbers of a YAML file are numbers to PyYAML",
        severity="fail",
        find=texts,
        why="PyYAML follows YAML 1.1: a float has a dot, and a sign in its exponent. 1e-4 is the "
        "text '1e-4', with which an optimizer raises TypeError.",
        fires=(
            "lr: 1e-4 in the YAML file beside the script, or in the text, that yaml.load reads",
        ),
        fix="Write 1.0e-4 or 0.0001, or float(cfg['lr']).",
        sources=("pyyaml-173",),
        limits="that files which are not beside the script hold numbers.",
        needs=("yaml",),
    ),
)
