"""The pictures of the README, drawn from the report of one recorded machine."""

from __future__ import annotations

import hashlib
import io
import re
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import logs
import msgspec
from node_summaries import summary, with_value
from recorded import machines
from reports import judged

from doctor import catalog
from doctor.cli.lint.report import lint_report
from doctor.cli.lint.run import LintOptions, run_lint
from doctor.cli.read import to_facts
from doctor.facts.facts import Facts, without_machine
from doctor.facts.guard import GuardAlarm, GuardCounts, Guarded, GuardedProcess
from doctor.facts.rehearsal import Rehearsal, RehearsedStage
from doctor.facts.rehearsal_resume import Lost, Resumed
from doctor.facts.rehearsal_runs import OnDisk, RehearsedRank, RehearsedRun, SavedFile
from doctor.fleet.compare import compare, fleet_facts
from doctor.fleet.expected import Expected
from doctor.job.job import Job
from doctor.judge.check import Check
from doctor.judge.engine import examine
from doctor.pasted import read
from doctor.prescribe.rules import prescribe
from doctor.report.formats.html.page import render
from doctor.report.line import Detail
from doctor.report.redaction import redact
from doctor.report.report import Report

WIDTH, HEIGHT = 1080, 1180
SIGNATURE = b"\x89PNG\r\n\x1a\n"
KEYWORD = b"drawn-from\0"


LOG = """step 90 loss 2.31 lr 2.9e-05
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total \
capacity of 23.64 GiB of which 1.02 GiB is free. Of the allocated memory 19.1 GiB is allocated by \
PyTorch, and 3.2 GiB is reserved by PyTorch but unallocated.
[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: \
WorkNCCL(SeqNum=412, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600013 milliseconds.
"""


def triaged() -> Report:
    """A log whose first cause is that memory ran out."""
    facts = without_machine(
        "a log only", job=Job(device="cpu"), log=logs.read(**{"train.log": LOG})
    )
    return _problems(facts, catalog.of_families("LOG"))


def compared() -> Report:
    """Eleven equal nodes, one with an older driver, and two that are missing."""
    nodes = [summary(number) for number in range(12)]
    nodes[5] = with_value(nodes[5], "software", "driver", "570.86.10")
    facts = fleet_facts(compare(nodes, Expected(count=14)))
    return _problems(facts, catalog.of_families("FLT"))


MODULES = """\
NVRM: API mismatch: the client has the version 580.95.05, but
NVRM: this kernel module has the version 570.86.10.
Failed to initialize NVML: Driver/library version mismatch
"""


def pasted() -> Report:
    """Lines that somebody pasted: the libraries and the kernel module are of other versions."""
    return _of(to_facts(read(MODULES)), "DRV001")


SCRIPT = """\
import torch

for x, y in loader:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x, labels=y).loss
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


def linted() -> Report:
    """A script that clips gradients before they are unscaled."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "finetune.py"
        file.write_text(SCRIPT)
        report = lint_report(run_lint(LintOptions(paths=(str(file),))), None, "")
    found = [each for each in report.findings if each.check.code == "SCR101"]
    named = [
        replace(each, verdict=replace(each.verdict, places=tuple(
            replace(place, path=file.name) for place in each.places)))
        for each in found
    ]  # fmt: skip
    return redact(replace(report, facts=report.facts.with_(seconds=0.0), findings=tuple(named)))


def scanned() -> Report:
    """A checkpoint whose norms never changed."""
    facts = machines()["swallowed_updates"]
    alone = without_machine("a checkpoint only", job=facts.job, checkpoint=facts.checkpoint)
    return _of(alone, "CKP004")


def guarded() -> Report:
    """A training of which a gradient was not finite."""
    text = (
        "the step was applied with gradients whose norm is nan; first non-finite value: the "
        "backward pass; the loss is finite, 21 of 21 gradients are not, nearest to the loss: "
        "lm_head.weight"
    )
    process = GuardedProcess(
        rank=0, world=1, pid=7, started=0, torch="2.13.0", ended="exit",
        counts=GuardCounts(steps=240, backwards=240, losses=240, norms=240),
        alarms=(GuardAlarm(code="GRD002", status="fail", step=117, text=text),),
    )  # fmt: skip
    guard = Guarded(processes=(process,), exit_code=0, watched=1)
    return _of(without_machine("a training only", job=Job(), guard=guard), "GRD002")


STAGES: tuple[Any, ...] = ("runs", "saves", "stops", "continues")


def rehearsed() -> Report:
    """A resume that brought back the weights, and neither the optimizer's state nor its rate."""
    rank = RehearsedRank(rank=0, world=1, steps=20, seconds=(0.1, 0.1), ended=True)
    run = RehearsedRun(
        name="run", code=0, seconds=10.0, ranks=(rank,), written=2**20,
        saved=(SavedFile(step=5, what="torch.save", path="/o/5.pt", seconds=0.1),),
        checkpoints=(OnDisk(path="5.pt", bytes=2**20),),
    )  # fmt: skip
    stop = msgspec.structs.replace(run, name="stop", code=-15, signalled=9.0, signal="SIGTERM")
    lost = Lost(kind="optimizer", names=("AdamW",), count=7, of=7, fresh=True)
    resumed = Resumed(
        saved_step=5, newest_step=5, looked=True, opened="5.pt", steps=15, expected_steps=15,
        compared=7, lost=(lost,),
    )  # fmt: skip
    rehearsal = Rehearsal(
        output="/o", takes_output=True, free=2**40, resumed=resumed,
        runs=(run, stop, msgspec.structs.replace(run, name="resume")),
        stages=tuple(RehearsedStage(name=name, tried=True) for name in STAGES),
    )  # fmt: skip
    return _of(without_machine("a job only", job=Job(), rehearsal=rehearsal), "RHS011")


def _of(facts: Facts, code: str) -> Report:
    """What one check finds."""
    return _problems(facts, tuple(each for each in catalog.CHECKS if each.code == code))


PICTURES = {
    "lint": (linted, "doctor lint finetune.py -q"),
    "scan": (scanned, "doctor scan runs/llama/checkpoint-200 -q"),
    "read": (pasted, "doctor read dmesg.txt -q"),
    "guard": (guarded, "doctor guard -q -- python train.py"),
    "rehearse": (rehearsed, "doctor rehearse -q -- python train.py"),
    "triage": (triaged, "doctor triage train.log -q"),
    "compare": (compared, "doctor compare facts -q"),
}
"""Name in docs -> report and command line."""


def _problems(facts: Facts, checks: tuple[Check, ...]) -> Report:
    """What is wrong alone: a new check changes no picture."""
    found = tuple(each for each in examine(checks, facts) if each.is_problem)
    return redact(Report(facts, found))


def console(report: Report, detail: Detail = "normal", title: str = "") -> str:
    """A report as the terminal shows it, as SVG; rich's web fonts are left out."""
    from rich.console import Console

    from doctor.report.terminal import show

    terminal = Console(
        record=True, width=100, file=io.StringIO(), force_terminal=True, highlight=False
    )
    show(report, terminal, detail)
    title = title or ("doctor run -q" if detail == "quiet" else "doctor run")
    svg = terminal.export_svg(title=title, unique_id="doctor")
    alone = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return alone.replace("Fira Code", "ui-monospace")


def _with_settings(facts: Facts) -> Report:
    report = judged(facts)
    return replace(report, settings=tuple(prescribe(facts, report.findings)))


def digest(facts: Facts) -> bytes:
    """What the picture shows: the top of the page, without the checks that pass or skip."""
    report = _with_settings(facts)
    problems = tuple(finding for finding in report.findings if finding.is_problem)
    return hashlib.sha256(render(replace(report, findings=problems)).encode()).hexdigest().encode()


def page(facts: Facts) -> bytes:
    """The top of the HTML report as PNG, with `digest` in a text chunk. Needs Chromium."""
    from browser import browser

    with TemporaryDirectory() as folder, browser() as chromium:
        file = Path(folder) / "report.html"
        file.write_text(render(_with_settings(facts)), "ascii")
        chromium.open(file, WIDTH)
        picture = chromium.picture(HEIGHT)
    body = b"tEXt" + KEYWORD + digest(facts)
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    end = len(SIGNATURE) + 25  # behind the header chunk, which is always 25 bytes
    return picture[:end] + chunk + picture[end:]


def is_current(picture: bytes, facts: Facts) -> bool:
    """Whether a picture was drawn from what the page shows now."""
    return KEYWORD + digest(facts) in picture
