"""Runs the doctor against several training environments, and prints a table of what it reports.

    python benchmarks/versions.py [--cases base,fp16] [--keep DIRECTORY] PYTHON [PYTHON ...]

Each PYTHON is the interpreter of an environment with a torch of its own. A cell holds the exit
code, the codes that warn or fail (! = fail, ? = a required check is unknown) and the seconds; a
traceback or an empty report is named. Everything runs on the CPU. --keep stores each report as JSON
and what the run printed on stderr. Compare the table of two versions of the doctor: a cell that
changes has to be explained by a line of the changelog.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from turns import ROOT

MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, broken=False):
        super().__init__()
        self.up, self.down, self.broken = nn.Linear(8, 16), nn.Linear(16, 4), broken

    def forward(self, x, labels):
        hidden = self.up(x).relu()
        hidden = torch.log(hidden * 0) * 0 if self.broken else hidden
        return nn.functional.cross_entropy(self.down(hidden).float(), labels)

def batch():
    torch.manual_seed(0)
    return {"x": torch.randn(4, 8), "labels": torch.tensor([0, 1, 2, 3])}

def make():
    return Model(), batch()

def nan():
    return Model(broken=True), batch()
"""
SAVE = """
import sys, torch, torch.distributed.checkpoint as dcp
directory, model = sys.argv[1], torch.nn.Linear(4, 4)
torch.save(model.state_dict(), directory + "/zip.pt")
torch.save(model.state_dict(), directory + "/old.pt", _use_new_zipfile_serialization=False)
state, writer = {"model": model.state_dict()}, dcp.FileSystemWriter(directory + "/dcp")
if hasattr(dcp, "save"):
    dcp.save(state, storage_writer=writer)
else:  # before torch 2.2
    dcp.save_state_dict(state, writer, no_dist=True)
"""
CASES: dict[str, tuple[str, ...]] = {
    "base": (),
    "fp16": ("--precision", "fp16"),
    "fp32": ("--precision", "fp32"),
    "pure-bf16": ("--recipe", "pure-bf16"),
    "no-smoke": ("--no-smoke",),
    "model": ("--model", "MODEL:make"),
    "model-fp16": ("--model", "MODEL:make", "--precision", "fp16"),
    "model-nan": ("--model", "MODEL:nan"),
    "compile": ("--model", "MODEL:make", "--compile"),
    "attention": ("--attention", "2,4,128,64"),
    "no-gpu": ("--device", "auto"),
}
"""MODEL stands for a file with the factories above."""
SCANS = ("zip.pt", "old.pt", "dcp")
"""Files that each environment saves, for `doctor run --checkpoint`."""


def report(python: str, *flags: str, keep: Path | None = None) -> str:
    """A cell: what one run reports. `keep`: the file for the report, without a suffix."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "doctor", "run", "--no-config", "--device", "cpu"]
    done = subprocess.run(
        [*command, "--format", "json", "--python", python, *flags],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if keep:
        Path(f"{keep}.json").write_text(done.stdout, "utf-8")
        Path(f"{keep}.err").write_text(done.stderr, "utf-8")
    seconds = f"{time.perf_counter() - began:.0f}s"
    try:
        findings = json.loads(done.stdout)["findings"]
    except ValueError:
        return f"{done.returncode} NO REPORT {seconds}"
    marks = {"fail": "!", "warn": ""}
    codes = [each["code"] + marks[each["status"]] for each in findings if each["status"] in marks]
    if done.returncode == 3:
        codes += [f"{each['code']}?" for each in findings if each["status"] == "unknown"][:1]
    if "Traceback" in done.stderr:
        codes.append("TRACEBACK")
    return " ".join((str(done.returncode), *codes, seconds))


def version(python: str) -> str:
    """ "3.11 2.13.0+cpu", or why there is none."""
    code = "import platform, torch; print(platform.python_version(), torch.__version__)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no torch"


def row(python: str, cases: list[str], directory: Path, keep: Path | None) -> list[str]:
    """The cells of one environment."""
    model = directory / "train.py"
    model.write_text(MODEL)
    cells = [version(python)]
    subprocess.run([python, "-c", SAVE, str(directory)], capture_output=True, check=False)
    for case in cases:
        file = keep / f"{cells[0].replace(' ', '-')}-{case}" if keep else None
        if case in SCANS:
            flags: tuple[str, ...] = ("--no-smoke", "--checkpoint", str(directory / case))
            exists = (directory / case).exists()
            cells.append(report(python, *flags, keep=file) if exists else "not saved")
        else:
            flags = tuple(flag.replace("MODEL", str(model)) for flag in CASES[case])
            cells.append(report(python, *flags, keep=file))
    return cells


def main() -> None:
    names = [*CASES, *SCANS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default=",".join(names))
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY")
    parser.add_argument("python", nargs="+")
    options = parser.parse_args()
    cases = options.cases.split(",")
    if unknown := set(cases) - set(names):
        parser.error(f"unknown cases {', '.join(sorted(unknown))}; known: {', '.join(names)}")
    rows = []
    for python in options.python:
        with tempfile.TemporaryDirectory() as directory:
            rows.append(row(python, cases, Path(directory), options.keep))
            print(f"done: {rows[-1][0]}", file=sys.stderr)
    table = list(zip(["python torch", *cases], *rows, strict=True))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


if __name__ == "__main__":
    main()
