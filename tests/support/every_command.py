"""Every command that reports, run once on something small that has a fault, in all formats."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jsonschema
from command import doctor
from hostile_texts import safetensors
from node_summaries import node_facts
from paths import ROOT
from recorded import machine_file

from doctor.facts.facts import encode
from doctor.report.formats.table import RENDERERS

SCHEMAS = {
    schema["$id"]: schema
    for path in (ROOT / "schemas").glob("*.schema.json")
    if "$id" in (schema := json.loads(path.read_text()))
}
FACTS = machine_file("row_remap_failed")
SCRIPT = """import torch
import torch.nn.functional as F
for x in loader:
    torch.log(F.softmax(x, dim=1)).mean().backward()
"""
LOG = "step 1 loss 2.0\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
ROWS = '{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}\n' * 9
FILES = {
    "issue.txt": "Failed to initialize NVML: Driver/library version mismatch\n",
    "train.log": LOG,
    "train.py": SCRIPT,
    "weights.pkl": "not a pickle",
    "rows.jsonl": ROWS,
}
ALONE = ("--nodes", "1", "--node-rank", "0", "--address", "127.0.0.1")
EXAMINE = ("--device", "cpu", "--quick", "--no-smoke")
COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("run", "--facts", FACTS),
    "report": ("report", FACTS),
    "read": ("read", "issue.txt"),
    "triage": ("triage", "train.log"),
    "lint": ("lint", "train.py"),
    "scan": ("scan", "weights.pkl"),
    "scan --merged-from": ("scan", "merged", "--merged-from", "base", "--adapter", "base"),
    "scan --equals": ("scan", "merged", "--equals", "other"),
    "data": ("data", "rows.jsonl"),
    "compare": ("compare", "nodes", "--expect-nodes", "4"),
    "rehearse": ("rehearse", "--", "sh", "-c", "echo x > {output}/x; exit 3"),
    "guard": ("guard", "--", sys.executable, "-c", "print('hello')"),
    "fleet scan": ("fleet", "scan", "merged", "--deep", *ALONE),
    "fleet triage": ("fleet", "triage", "train.log", *ALONE),
    "fleet run": ("fleet", "run", *EXAMINE, *ALONE),
}
"""Name -> words; -- ends the doctor's own."""
PROBES = {
    "run": "GPU", "report": "GPU", "read": "DRV", "triage": "LOG", "lint": "SCR", "scan": "CKP",
    "data": "DAT", "compare": "FLT", "rehearse": "RHS", "guard": "GRD",
    "fleet run": "DRV", "fleet scan": "CKP", "fleet triage": "LOG",
    "scan --merged-from": "CKP", "scan --equals": "CKP",
}  # fmt: skip
"""A family that the command judges."""


def validated(document: Any) -> Any:
    """The document, after its schema has been looked up by the name that it gives."""
    first = document[0] if isinstance(document, list) else document
    jsonschema.Draft202012Validator(SCHEMAS[first["schema"]]).validate(document)
    return document


def plant(directory: Path) -> None:
    """What the commands examine."""
    for name, text in FILES.items():
        (directory / name).write_text(text)
    for name, shape in {"merged": [2, 2], "base": [2, 2], "other": [2, 3]}.items():
        (directory / name).mkdir()
        data = safetensors("model.layers.0.q_proj.weight", "F32", shape)
        (directory / name / "model.safetensors").write_bytes(data)
    (directory / "nodes").mkdir()
    for number in range(3):
        (directory / f"nodes/{number}.json").write_bytes(encode(node_facts(number)))


def words(name: str, *flags: str) -> list[str]:
    """The command line, with more flags of the doctor."""
    line = [*COMMANDS[name]]
    end = line.index("--") if "--" in line else len(line)
    return [*line[:end], "--no-config", *flags, *line[end:]]


@dataclass(frozen=True)
class Ran:
    """A command that ended, with its report in every format."""

    name: str
    directory: Path
    exit_code: int
    stdout: str
    stderr: str

    def text(self, format: str) -> str:
        return (self.directory / f"{format}.out").read_text("utf-8")

    @cached_property
    def report(self) -> Any:
        return json.loads(self.text("json"))


def run(name: str, directory: Path) -> Ran:
    plant(directory)
    outputs = [f"--output={format}={format}.out" for format in RENDERERS]
    done = doctor(*words(name, *outputs, "--format", "plain"), cwd=directory)
    return Ran(name, directory, done.returncode, done.stdout, done.stderr)
