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

from reports import judged

from doctor.facts.facts import Facts
from doctor.prescribe.rules import prescribe
from doctor.report.formats.html.page import render
from doctor.report.line import Detail
from doctor.report.report import Report

WIDTH, HEIGHT = 1080, 1180
SIGNATURE = b"\x89PNG\r\n\x1a\n"
KEYWORD = b"drawn-from\0"


def console(report: Report, detail: Detail = "normal") -> str:
    """A report as the terminal shows it, as SVG; rich's web fonts are left out."""
    from rich.console import Console

    from doctor.report.terminal import show

    terminal = Console(
        record=True, width=100, file=io.StringIO(), force_terminal=True, highlight=False
    )
    show(report, terminal, detail)
    title = "doctor run -q" if detail == "quiet" else "doctor run"
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
