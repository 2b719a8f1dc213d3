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

import logs
from node_summaries import summary, with_value
from reports import judged

from doctor import catalog
from doctor.facts.facts import Facts, without_machine
from doctor.fleet.compare import compare, fleet_facts
from doctor.fleet.expected import Expected
from doctor.job.job import Job
from doctor.judge.check import Check
from doctor.judge.engine import examine
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
