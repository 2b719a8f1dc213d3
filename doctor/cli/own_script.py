"""What the linter finds in the file of a training that was run: of a factory, or of a command.

The run itself shows what it can measure; these are faults that only the text shows, such as layers
that share their weights by accident. They are warnings: nothing of them was seen to do harm.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from doctor import catalog
from doctor._util.regular_file import read_regular
from doctor.judge.check import Finding, Status
from doctor.judge.place import Place
from doctor.script.reached import without_unreached
from doctor.script.text import LIMIT

FAMILY = "SCR"
OF_FILES = ("SCR001", "SCR002")
"""Of a file that cannot be read, and of comments: nothing of the training."""
MEASURED = ("SCR113", "SCR206", "SCR237", "SCR241")
"""What the steps themselves show, and the text alone does not decide: weights in half precision
(SMK008, GRD008), a schedule that nothing steps (SMK008, GRD030), dropout in evaluation (SMK006),
the mode of an evaluation (GRD031)."""
TRAINED = """

def _doctor_trains():
    parts = {factory}()
    model, optimizer, loss_fn = parts["model"], parts["optimizer"], parts["loss_fn"]
    for batch in parts["loader"]:
        optimizer.zero_grad()
        loss = loss_fn(model, batch)
        loss.backward()
        optimizer.step()
"""
"""Behind the text of a factory: how it is trained, which some rules ask for."""
PROBLEMS = (Status.FAIL, Status.WARN)
PLAIN_OPTIONS = ("-u", "-B", "-O", "-OO", "-E", "-s", "-S", "-I", "-P")
"""Of Python, without a value."""
OF_PYTHON = re.compile(r"(?:^|/)(?:python|pypy|torchrun|accelerate|deepspeed)[\w.-]*$")
"""The programs of a command that run a file."""


def of_model(model: str) -> tuple[Finding, ...]:
    """Of FILE.py:factory, as far as the factory leads."""
    path, _, factory = model.rpartition(":")
    return _problems(path, factory) if path.endswith(".py") else ()


def of_command(command: Sequence[str]) -> tuple[Finding, ...]:
    """Of the file that a command runs: `torchrun ... train.py ...`."""
    if not command or not OF_PYTHON.search(command[0]):
        return ()
    path = next((each for each in command[1:] if each.endswith(".py")), "")
    return _problems(path, "") if path else ()


def missing_file(command: Sequence[str]) -> str:
    """The file that `python FILE ...` would run, where there is none; "" elsewhere."""
    named = [word for word in command[1:] if word not in PLAIN_OPTIONS][:1]
    is_file = re.search(r"(?:^|/)python[\d.]*$", command[0]) and named and named[0].endswith(".py")
    return named[0] if is_file and not os.path.lexists(named[0]) else ""


def _problems(path: str, factory: str) -> tuple[Finding, ...]:
    """A warning for each check that the file fails; none where it cannot be read."""
    from doctor.checks.script.table import RULES
    from doctor.cli.lint.linter import Linter
    from doctor.cli.lint.run import findings_of
    from doctor.facts.script_machine import ScriptMachine

    try:
        data = read_regular(path, LIMIT + 1)
    except OSError:
        return ()
    last = data.count(b"\n") + 1
    if factory:
        data = without_unreached(data, factory) + TRAINED.format(factory=factory).encode()
    left_out = {*OF_FILES, *MEASURED, *(rule.code for rule in RULES if rule.once)}
    checks = [each for each in catalog.of_families(FAMILY) if each.code not in left_out]
    linter = Linter(ScriptMachine(), frozenset(each.code for each in checks), (), {})
    hits = linter.file(os.path.normpath(path), data).hits
    found = findings_of([(hit, place) for hit, place in hits if hit.span.line <= last], checks)
    return tuple(_warning(each) for each in found if each.status in PROBLEMS and not each.ignored)


def _warning(finding: Finding) -> Finding:
    verdict = finding.verdict
    where = _shown(verdict.places)
    return replace(
        finding,
        verdict=replace(verdict, status=Status.WARN, summary=f"{verdict.summary}{where}"),
    )


def _shown(places: Sequence[Place]) -> str:
    """The first line that it was found in."""
    first = next((each for each in places if each.line), None)
    if first is None:
        return ""
    code = f" (`{first.text.strip()[:120]}`)" if first.text.strip() else ""
    return f"; {Path(first.path).name}, line {first.line}{code}"
