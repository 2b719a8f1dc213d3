"""The corpus of own models: its labels, and how a run is compared with one."""

from __future__ import annotations

import ast
import csv
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from doctor.checks.training import diagnosis, own_gradients, own_model, own_weights
from doctor.facts.own_model import OwnModel
from doctor.job.job import Job
from doctor.judge.check import Status, Verdict

CORPUS = Path(__file__).parents[1] / "corpus" / "own_model"
PARTS = ("blocks", "parts")
"""Beginnings of the names of modules that hold no factory."""
RECORDED = CORPUS / "results.csv"
Label = dict[str, Any]


class Factory(NamedTuple):
    """One training of the corpus; without a label it is healthy."""

    module: str
    name: str
    label: Label | None = None

    @property
    def id(self) -> str:
        return f"{self.module}:{self.name}"

    @property
    def model(self) -> str:
        """As `--model` takes it, in the directory of the corpus."""
        return f"{self.module}.py:{self.name}"

    @property
    def subject(self) -> str:
        return self.module.partition("_")[0]

    @property
    def set_number(self) -> str:
        return str(int(self.module.rpartition("_")[2]))

    @property
    def precision(self) -> str:
        return self.label.get("precision", "bf16") if self.label else "bf16"


def labels() -> dict[str, dict[str, Label]]:
    """Module -> factory -> its label."""
    return tomllib.loads((CORPUS / "labels.toml").read_text("utf-8"))


def sets() -> dict[str, dict[str, Any]]:
    """Number of a set -> when and by whom it was labelled."""
    return tomllib.loads((CORPUS / "sets.toml").read_text("utf-8"))


def recorded() -> dict[str, str]:
    """MODULE:FACTORY -> what the last recorded run of all factories gave."""
    with RECORDED.open(encoding="utf-8", newline="") as file:
        return {row["factory"]: row["result"] for row in csv.DictReader(file)}


def record(results: dict[str, str]) -> None:
    """Write the results of the factories that exist."""
    lines = [f"{each.id},{results[each.id]}" for each in factories() if each.id in results]
    RECORDED.write_text("\n".join(["factory,result", *lines]) + "\n", "utf-8")


def functions(module: Path) -> list[str]:
    """The factories of a module."""
    body = ast.parse(module.read_text("utf-8")).body
    names = (each.name for each in body if isinstance(each, ast.FunctionDef))
    return [name for name in names if not name.startswith("_")]


def factories() -> list[Factory]:
    """Every labelled fault, and every function of the healthy modules."""
    faults = [
        Factory(module, name, label)
        for module, part in labels().items()
        for name, label in part.items()
    ]
    modules = sorted(CORPUS.glob("healthy*.py"))
    return faults + [Factory(each.stem, name) for each in modules for name in functions(each)]


def judge(own: OwnModel, job: Job) -> dict[str, Verdict]:
    """SMK005 to SMK008."""
    return {
        "SMK005": own_model.completes(own, None),
        "SMK006": own_model.loss_finite(own, None),
        "SMK007": own_gradients.gradients_reach_all(own, None, job),
        "SMK008": own_weights.weights_move(own, job),
    }


def evaluated(verdicts: dict[str, Verdict]) -> dict[str, Verdict]:
    """Without what comes after a failure of SMK005 or SMK006, as in a run."""
    for last in (("SMK005",), ("SMK005", "SMK006")):
        if verdicts[last[-1]].status in (Status.FAIL, Status.UNKNOWN):
            return {code: verdicts[code] for code in last}
    return verdicts


def text_of(verdict: Verdict, code: str) -> str:
    """The summary and the fix that a reader gets."""
    fixes = {check.code: check.fix for check in own_model.CHECKS}
    return f"{verdict.summary}\n{verdict.fix or fixes[code]}".partition("\nTraceback, ")[0]


def absent(label: Label, text: str) -> list[str]:
    """The patterns of the label that the text lacks."""
    return [each for each in label["names"] if not re.search(each, text, re.IGNORECASE)]


def score_fault(factory: Factory, own: OwnModel, verdicts: dict[str, Verdict]) -> tuple[str, str]:
    """right, partly, missed or wrong, and why."""
    label = factory.label or {}
    complaints = {c: v for c, v in verdicts.items() if v.status in (Status.FAIL, Status.WARN)}
    if not complaints:
        return "missed", "; ".join(f"{c} {v.status}" for c, v in verdicts.items())
    codes = [code for code in (label["code"], *label.get("accept", ())) if code in complaints]
    codes.sort(key=lambda code: complaints[code].status is not Status.FAIL)
    if not codes:
        return "wrong", f"not {label['code']} but {', '.join(complaints)}"
    verdict = complaints[codes[0]]
    text = text_of(verdict, codes[0]).replace(factory.model, "")  # its name often has the cause
    if not (lacking := absent(label, text)):
        extra = [code for code in complaints if code != codes[0]]
        return "right", f"also {', '.join(extra)}" if extra else ""
    found = own.smoke.diagnosis if own.smoke else None
    confident = found is not None and diagnosis.is_conclusive(found)
    return "wrong" if confident else "partly", f"without {lacking}: {verdict.summary[:400]}"


def score_healthy(verdicts: dict[str, Verdict]) -> tuple[str, str]:
    """silent if every check passes, unknown or wrong, and why."""
    others = {c: v for c, v in verdicts.items() if v.status is not Status.PASS}
    why = "; ".join(f"{code} {v.status}: {v.summary[:300]}" for code, v in others.items())
    unknown = all(v.status is Status.UNKNOWN for v in others.values())
    return ("silent" if not others else "unknown" if unknown else "wrong"), why
