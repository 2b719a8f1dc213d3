"""What the source of the data shows, and no batch: the rules of `doctor lint` on data."""

from __future__ import annotations

from dataclasses import replace

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checks.script.data import (
    detection,
    fitted,
    images,
    labels,
    loaders,
    pairs,
    samplers,
    sets,
    splits,
    tables,
    tokens,
    windows,
)
from doctor.checks.script.lint import Hit, lint
from doctor.checks.script.model import sequences
from doctor.checks.script.table import RULES
from doctor.facts.data import Data
from doctor.facts.script import Script
from doctor.facts.script_machine import ScriptMachine
from doctor.judge.check import Check, Owner, Verdict, note, ok, skip, warn
from doctor.judge.combine import worst

MODULES = (
    detection, fitted, images, labels, loaders, pairs, samplers, sequences, sets, splits, tables,
    tokens, windows,
)  # fmt: skip
OF_DATA = {rule.code for module in MODULES for rule in module.RULES}
OF_MODELS = {"SCR127", "SCR129", "SCR131", "SCR132", "SCR230", "SCR301", "SCR331"}
"""Rules of these modules that are about the model or the loop."""
OTHERS = {"SCR276", "SCR277", "SCR304", "SCR311", "SCR352", "SCR390", "SCR410", "SCR432"}
RULES_ON_DATA = tuple(
    replace(rule, training=False)  # the loop may be in another file
    for rule in RULES
    if rule.code in (OF_DATA - OF_MODELS) | OTHERS and not rule.once
)
BY_CODE = {rule.code: rule for rule in RULES_ON_DATA}


def source_agrees(
    data: Data, scripts: tuple[Script, ...] | Unknown | None, script_machine: ScriptMachine
) -> Verdict:
    if scripts is None or isinstance(scripts, Unknown) or not scripts:
        return skip("TARGET names no file of code")
    found = [
        _verdict(script, hit)
        for script in scripts
        for hit in lint(script, script_machine, RULES_ON_DATA)
        if hit.code in BY_CODE and not hit.undecided
    ]
    return worst(*found) if found else ok(f"{len(RULES_ON_DATA)} rules on data find nothing")


def _verdict(script: Script, hit: Hit) -> Verdict:
    rule = BY_CODE[hit.code]
    text = f"{shown(script.path)}:{hit.span.line}: {hit.message} ({rule.code} {rule.slug})"
    if hit.severity == "note":
        return note(text, fix=rule.fix)
    return warn(text, fix=rule.fix)


SOURCE = Check(
    code="DAT026",
    slug="source-agrees",
    title="The file that makes the data has no fault that its source shows",
    why="Some faults are in no batch: a sampler that never learns of its epoch, a scaler that was "
    "fitted on the rows of the test, windows of one series that are split at random.",
    passes=("no rule of doctor lint on data finds a fault in the file",),
    notes=("a rule notes something",),
    warns=("a rule finds a fault: samplers, splits, loaders, pairs of files, windows, labels",),
    fix="Look at the lines that are named; doctor explain CODE has more on each rule.",
    owner=Owner.JOB,
    judge=source_agrees,
    limits="that other files, which it imports, are sound.",
    sources=("torch-dataloader",),
)

CHECKS = (SOURCE,)
