"""Every generated file and what it must contain; `.ci/update` writes them.

A new check changes at most `LIMIT` of them, which a test counts: the reports of all machines are in
one file, and the samples of the formats show fixed codes.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import documents_page
import error_index
import figures
import flag_table
import hardware_page
import man_pages
import surface
from paths import FORMATS, MACHINES, ROOT
from pictures import PICTURES, console, is_current, page
from recorded import machines
from recorded_outcomes import AREAS
from samples import REDUCED, SAMPLES, shown

from doctor import catalog
from doctor.errors import index as cause_index
from doctor.errors.causes import TABLES
from doctor.facts.facts import encode
from doctor.job.file import tables
from doctor.judge import index as check_index
from doctor.judge.check import Check
from doctor.judge.engine import examine
from doctor.report import cause_pages, ledger, pages, prescription_json
from doctor.report.formats import explanation_json
from doctor.report.formats import json as report_json
from doctor.report.formats.plain import render
from doctor.report.formats.table import FORMATS as RENDERERS
from doctor.report.redaction import redact
from doctor.report.report import Report

LIMIT = 7
DOCS, SCHEMAS = ROOT / "docs", ROOT / "schemas"
PICTURE = DOCS / "report.png"
FACTS_FILE = MACHINES / "h200_torch2.11.json"
"""A facts file for readers of the README to try."""
SHOWN = "h200_torch2.11"
"""The machine in the pictures."""
FOLDERS = {DOCS / "checks": "*.md", DOCS / "errors": "*.md", MACHINES: "*.txt", FORMATS: "*",
           man_pages.FOLDER: "*"}  # fmt: skip
"""Directories in which every file that fits is generated."""
COUNTS = re.compile(r"\n\d+ (?:pass|warn|fail|skip|unknown) .*\d s(?=\n)")


def generated(checks: Sequence[Check] = catalog.CHECKS) -> dict[Path, str]:
    """Path -> text of every generated text file, with these checks in the catalogue."""
    return {
        **_pages(checks),
        **dict(_schemas()),
        MACHINES / "reports.txt": _reports(checks),
        **dict(_samples()),
        cause_index.FILE: error_index.index(),
        **_causes(),
        **{man_pages.FOLDER / name: text for name, text in man_pages.pages().items()},
        surface.FILE: surface.text(),
        check_index.FILE: check_index.text(checks),
        **figures.pages(),
        DOCS / "commands.md": flag_table.page().rstrip("\n") + "\n",
        DOCS / "documents.md": documents_page.page(),
        DOCS / "hardware.md": hardware_page.page(),
        DOCS / "console.svg": console(shown(machines()[SHOWN])),
        DOCS / "return.svg": console(shown(machines()["gpu_not_started"], "GPU010"), "quiet"),
        **{
            DOCS / f"{name}.svg": console(report(), "quiet", command)
            for name, (report, command) in PICTURES.items()
        },
        FACTS_FILE: encode(machines()[SHOWN]).decode(),
    }


def _pages(checks: Sequence[Check]) -> dict[Path, str]:
    folder = DOCS / "checks"
    examples = tomllib.loads((DOCS / "lint-examples.toml").read_text())
    each = {
        folder / f"{check.code}.md": pages.page(check, examples.get(check.code, ""))
        for check in checks
    }
    return each | {folder / "README.md": pages.index(checks)}


def _causes() -> dict[Path, str]:
    """A page for each table of errors, and their index."""
    folder = DOCS / "errors"
    pages, listed = {}, []
    for table in TABLES:
        name = table.__name__.rpartition(".")[2]
        title = " ".join((table.__doc__ or "").split()).rstrip(".")
        pages[folder / f"{name}.md"] = cause_pages.page(title, table.ROWS)
        listed.append((name, title))
    return pages | {folder / "README.md": cause_pages.index(listed)}


def _schemas() -> Iterator[tuple[Path, str]]:
    schemas = report_json.schemas() | {
        "doctor-toml": tables.schema(),
        "prescription": prescription_json.schema(),
        "explanation": explanation_json.schema(),
        "ledger": ledger.schema(),
    }
    for name, schema in schemas.items():
        yield SCHEMAS / f"{name}.schema.json", json.dumps(schema, indent=2) + "\n"


def _reports(checks: Sequence[Check]) -> str:
    """Whole reports of healthy machines; of the others what is wrong, by area."""
    return "\n\n".join(
        _machine(name, checks, quiet=area != "healthy")
        for area, outcomes in AREAS.items()
        for name in outcomes
    )


def _machine(name: str, checks: Sequence[Check], *, quiet: bool) -> str:
    facts = machines()[name]
    checks = [check for check in checks if check.family not in catalog.ELSEWHERE]
    report = redact(Report(facts, examine(checks, facts)))
    text = render(report, "quiet" if quiet else "normal").strip("\n")
    text = COUNTS.sub("", f"\n{text}").strip("\n") if quiet else text
    return f"=== {name}: exit {report.exit_code}\n\n{text}\n"


def _samples() -> Iterator[tuple[Path, str]]:
    for name, sample, formats in SAMPLES:
        report = sample()
        for format in formats:
            ending, reduced = REDUCED[format]
            yield FORMATS / f"{name}.{ending}", reduced(RENDERERS[format](report)) + "\n"


def stale(texts: dict[Path, str]) -> dict[Path, str]:
    """Those of `texts` that are on the disk with another content, or not at all."""
    return {
        path: text
        for path, text in texts.items()
        if not path.exists() or path.read_bytes().decode() != text
    }


def strays(texts: dict[Path, str]) -> list[Path]:
    """Files in generated directories that nothing generates any more."""
    return [path for folder, kind in FOLDERS.items() for path in folder.glob(kind)
            if path not in texts]  # fmt: skip


def picture_is_stale() -> bool:
    """Whether the PNG shows something older than the page."""
    return not PICTURE.exists() or not is_current(PICTURE.read_bytes(), machines()[SHOWN])


def main() -> None:
    texts = generated()
    for path in strays(texts):
        print("removed", path.relative_to(ROOT))
        path.unlink()
    for path, text in stale(texts).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8", newline="")
        print("written", path.relative_to(ROOT))
    if not picture_is_stale():
        return
    if shutil.which("chromium") and shutil.which("chromedriver"):
        PICTURE.write_bytes(page(machines()[SHOWN]))
        print("written", PICTURE.relative_to(ROOT))
    else:
        print("not drawn: docs/report.png needs chromium and chromedriver", file=sys.stderr)


if __name__ == "__main__":
    main()
