"""The report that every format is compared with, and a recorded machine's, for its pictures."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from json import dumps, loads

from recorded import machines
from recorded_parts import H100, TORCH_2_15, job, machine
from reports import HOSTILE, judged

from doctor.facts.facts import Facts
from doctor.judge.check import Check, Finding, Owner, Status, Verdict
from doctor.report.report import Report

FAIL_WITH_EVERYTHING = Check(
    code="CKP901",
    slug="norms-are-trained",
    title="Every norm differs from its initial value",
    why="A norm that never changes is not trained.",
    passes=("every norm changed",),
    warns=("some norms are unchanged",),
    fails=("no norm changed",),
    fix="Keep the trained weights in fp32.\n  column A  column B\nThen train again.",
    commands=("python train.py --precision fp32",),
    sources=("ps-P17", "optimi"),
    limits="that later steps change them",
    owner=Owner.JOB,
    judge=lambda: None,
)


def _finding(code: str, status: Status, summary: str, **fields: str) -> Finding:
    check = replace(FAIL_WITH_EVERYTHING, code=code, slug=f"sample-{status}")
    return Finding(check, Verdict(status, summary), **fields)


def every_status() -> Report:
    """Invented checks with every status, an ignored one, and hostile text wherever it can occur."""
    facts = machine(H100, torch=TORCH_2_15, job=job(checkpoint="runs/step 1/model.safetensors"))
    findings = (
        _finding("DRV901", Status.PASS, "driver 580.95.05; 570 or newer required"),
        _finding("NUM901", Status.UNKNOWN, "could not be read: permission denied"),
        _finding("NUM902", Status.UNKNOWN, "could not be read: permission denied"),
        _finding("NUM903", Status.WARN, "TF32 is on", ignored="accepted until 2030"),
        _finding("MEM901", Status.WARN, "60.0 GiB needed, 64.0 GiB available | 4 GiB required"),
        _finding("CKP901", Status.FAIL, "all 49 norms are exactly 1.0; 0 allowed"),
        replace(
            _finding("CKP902", Status.FAIL, ""),
            verdict=Verdict(
                Status.FAIL, HOSTILE, commands=(HOSTILE,), fix=HOSTILE, owner=Owner.MACHINE
            ),
        ),
        _finding("CKP903", Status.UNKNOWN, "the file changed during the scan"),
        _finding("SMK901", Status.SKIP, "omitted by --no-smoke"),
        _finding("SMK902", Status.SKIP, "omitted by --no-smoke"),
    )
    return Report(facts, findings, notes=(HOSTILE,), annotate=True)


SHOWN = (
    "DRV001", "DRV002", "TOR001", "TOR003", "GPU001", "GPU003", "GPU005", "NUM001", "NUM003",
    "NUM005", "MEM002", "DSK002", "CKP001", "CKP002", "SMK001", "SMK002", "SMK003", "SMK004",
)  # fmt: skip
"""Fixed codes, as with --only: a new check leaves samples and pictures alone."""


def shown(facts: Facts, *more: str) -> Report:
    """A report with these checks only."""
    report, codes = judged(facts), {*SHOWN, *more}
    return replace(report, findings=tuple(f for f in report.findings if f.check.code in codes))


def h200() -> Report:
    """Findings of a recorded machine."""
    return shown(machines()["h200_torch2.11"])


def _without_style(page: str) -> str:
    assets = r"sha256-[^']+|<style>.*?</style>|<script>.*?</script>"
    markup = re.sub(assets, "", page, flags=re.DOTALL)
    return markup.replace("><", ">\n<")


def _without_rules(text: str) -> str:
    log = loads(text)
    del log["runs"][0]["tool"]["driver"]["rules"]
    return _without_indices(dumps(log, indent=2))


def _without_indices(text: str) -> str:
    return re.sub(r',\s*"ruleIndex": \d+', "", text)


def _without_token(text: str) -> str:
    """The plain report, which stands between the tokens, has a file of its own."""
    stopped = r"(::stop-commands::)(\w+)\n.*\n::\2::"
    fixed = re.sub(stopped, r"\1TOKEN\n::TOKEN::", text, flags=re.DOTALL)
    return re.sub(r"[^\n -~]", lambda match: ascii(match[0])[1:-1], fixed)


REDUCED: dict[str, tuple[str, Callable[[str], str]]] = {
    "plain": ("txt", str),
    "json": ("json", str),
    "jsonl": ("jsonl", str),
    "junit": ("junit.xml", str),
    "github": ("github.txt", _without_token),
    "markdown": ("md", str),
    "sarif": ("sarif", _without_rules),
    "gitlab": ("gitlab.json", str),
    "nagios": ("nagios.txt", str),
    "html": ("html", _without_style),
    "letter": ("letter.txt", str),
}
"""Format -> the ending of its files, and what is kept of it."""
SAMPLES: tuple[tuple[str, Callable[[], Report], tuple[str, ...]], ...] = (
    ("every_status", every_status, tuple(REDUCED)),
    ("h200", h200, ("html",)),
)
"""Name, report, formats."""
