"""Every command of README and of the site runs, or is marked here with the reason why not."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from command import doctor
from every_command import plant
from hostile_texts import COLLECT_ENV
from node_summaries import node_facts
from paths import MACHINES, ROOT

from doctor.facts.facts import encode

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("users/*.md"))]
NOT_HERE = {
    "pip install": ".ci/run runs README's two install lines, in a fresh environment",
    "uvx ": "it needs the published repository",
    "srun ": "benchmarks/fleet_launchers.py runs them under Slurm",
    "torchrun ": "it needs GPUs; tests/guard and tests/rehearsal start torchrun",
    "mpirun ": "the same, under Open MPI",
    "sbatch ": "it needs a scheduler",
    "ssh ": "it needs another machine",
    "nvidia-smi ": "it needs a GPU; tests/pasted has its output",
    "export ": "it sets a variable of the reader's shell",
    "openssl ": "the same",
    "mkdir ": "a directory of the reader",
    "--secret-file": "... stands for the reader's flags; tests/fleet/test_fleet_runs.py",
    "://": "it needs a network; tests/checkpoint/test_remote.py",
    "models/llama-3-8b": "it needs a model of the reader; tests/collect/own_model",
    "doctor rehearse ": "tests/rehearsal/test_command.py runs these jobs",
    "doctor guard ": "tests/guard/test_command.py",
    "git ": "of the person who publishes",
    ".ci/": "it is run before a release: docs/releasing.md",
    "runs/llama": "a training of the reader; tests/cli/test_scan_command.py",
    "doctor ledger ": "tests/fleet/test_ledger.py; the transcript's machines are made up",
    "--ledger": "the same",
    "--adapter lora": "tests/checkpoint/test_merges.py",
    "scan merged ": "the same",
    "--continue": "tests/checkpoint/test_continuing.py",
    "finetune.py:make": "the reader's loader; tests/cli/test_data_command.py",
}
"""Part of a line -> why no test runs it as it stands."""
SHELL = re.compile(r"(?ms)^ *```(\w*)\n(.*?)^ *```")
QUICK = {"run": ("--no-smoke",), "prescribe": ()}
CODES = (0, 1, 3)
FACTORY = """import torch


def make():
    return torch.nn.Linear(2, 1), {"input": torch.ones(1, 2)}
"""


def lines_of(path: Path) -> list[str]:
    """The commands of a page's blocks: of shell blocks each line, of transcripts those after $."""
    found = []
    for language, block in SHELL.findall(path.read_text("utf-8")):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            if language == "sh" and line.strip():
                found.append(line.strip())
            elif language in ("", "console") and line.startswith("$ "):
                found.append(line[2:])
    return found


def reason(line: str) -> str:
    """Why a line is not run, "" if it is."""
    return next((why for part, why in NOT_HERE.items() if part in line), "")


LINES = dict.fromkeys(line for page in PAGES for line in lines_of(page))
RUN = [line for line in LINES if not reason(line)]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a reader who has what the pages name."""
    place = tmp_path_factory.mktemp("reader")
    (place / ".git").mkdir()  # no job file above it is read
    plant(place)
    (place / "train.py").write_text(FACTORY)
    (place / "finetune.py").write_text(FACTORY)
    shutil.copytree(MACHINES, place / "tests/machines", ignore=lambda *_: ["public"])
    for name in ("machine.json", "box.json", "node-017.json"):
        shutil.copy(MACHINES / "h200_torch2.11.json", place / name)
    for name in ("issue.md", "issue.txt"):
        (place / name).write_text(COLLECT_ENV)
    (place / "corpus").mkdir()
    (place / "corpus/a.txt").write_text("one line of text\n" * 9)
    for name in ("train.csv", "valid.csv"):
        rows = "".join(f"row {n} of {name},{n % 2}\n" for n in range(9))
        (place / name).write_text(f"text,label\n{rows}")
    (place / "facts").mkdir()
    for number in range(3):
        (place / f"facts/{number}.json").write_bytes(encode(node_facts(number)))
    for name in ("model", "converted"):
        shutil.copytree(place / "base", place / name)
    return place


@pytest.mark.skipif(not DOCS.exists(), reason="the documents are not at hand")
def test_what_is_not_run_has_a_reason_that_is_needed() -> None:
    assert len(RUN) > 25
    assert {part for part in NOT_HERE if not any(part in line for line in LINES)} == set()


@pytest.mark.slow
@pytest.mark.parametrize("line", RUN)
def test_a_command_of_the_documents_runs(line: str, reader: Path) -> None:
    command = re.sub(r"\s+#.*", "", line).replace("/data/runs", str(reader))
    command = command.replace('"$SLURM_JOB_NODELIST"', "gpu-[00-02]")
    source, _, piped = command.rpartition("collect_env | ")
    text = COLLECT_ENV if source else None
    command = re.split(r" (?:&&|\||>) ", piped)[0]
    words = shlex.split(command)
    assert words[0] == "doctor", line
    quick = QUICK.get(words[1], ()) if "--no-smoke" not in words and "--model" not in words else ()
    done = doctor(*words[1:], *quick, cwd=reader, input=text)
    assert done.returncode in CODES, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
