"""Command lines and their exit codes: 0 well, 1 a finding, 2 a mistake, 3 unknown."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest
from command import doctor
from hostile_texts import COLLECT_ENV, SCRIPT, safetensors
from node_summaries import node_facts
from paths import MACHINES

from doctor.facts.facts import encode

CODES = {
    0: """
        report facts.json
        report facts.json --fail-on warn
        report facts.json --inject GPU001 --fail-on never
        report facts.json --format sarif
        report facts.json --only GPU --quiet
        report facts.json --annotate --verbose
        run --facts facts.json
        run --facts facts.json --script clean.py
        run --facts facts.json --quick
        run --help
        triage oom.log --fail-on never
        lint clean.py
        lint train.py --fail-on never
        lint good --fail-on never
        lint train.py --skip SCR101,SCR438
        lint clean.py --diff
        lint --help
        scan good
        scan good/model.safetensors
        scan norms
        scan good --format sarif
        prescribe --facts facts.json
        prescribe --facts facts.json --for env
        explain GPU001
        explain P10
        explain CUDA out of memory
        list
        list GPU
        list --format json
        init --help
        init --factory-for train.py --stdout
        help compare
        compare nodes
        compare nodes --expect-nodes 3 --format nodes-good
        compare nodes --expect-nodes 4 --fail-on never
        scan good --equals good
        data --help
        rehearse --help
        fleet run --help
        completion bash
        --version
        --help
        -h
    """,
    1: """
        report facts.json --inject GPU001
        report facts.json --inject GPU003 --format json
        run --facts facts.json --script train.py
        triage oom.log
        triage oom.log fine.log
        triage oom.log --only LOG
        triage . --format github
        lint
        lint train.py
        lint . --format junit
        lint train.py --diff
        scan norms --fail-on warn
        scan good --inject CKP001
        compare nodes --expect-nodes 4
        compare nodes --nodes-from gpu-[00-09] --format nodes-bad
        rehearse -- sh -c "exit 3"
        fleet triage oom.log --nodes 1 --node-rank 0 --address 127.0.0.1
    """,
    2: """
        nope
        scan train.py
        triage train.py
        --no-such-flag
        run --gpus 0
        run --gpus many
        run --params 0B
        run --device tpu
        run --config broken.toml
        run --config unknown.toml
        run --config missing.toml
        run --facts facts.json --checkpoint good
        run --facts facts.json --only NOPE
        report
        report missing.json
        report broken.json
        report facts.json --format xml
        report facts.json --output json=missing/report.json
        report facts.json --output json=.
        report facts.json --quiet --verbose
        report facts.json --inject NOPE
        triage
        triage missing.log
        triage oom.log --only NOPE
        read empty.txt
        read missing.txt
        guard
        guard -- no-such-program
        lint nowhere
        lint --fix -
        lint --fix --diff
        lint --unsafe-fixes
        lint --no-backup
        lint - train.py
        scan
        scan missing
        prescribe --format xml
        explain
        explain zzzz
        list NOPE
        completion nope
        help nope
        compare
        compare missing
        compare nodes --expect-nodes 0
        compare nodes --nodes-from gpu-[
        compare nodes --topology missing
        compare nodes --ledger missing
        ledger
        ledger list
        ledger list missing
        ledger list nodes x
        ledger show nodes x
        ledger drop nodes
        data
        data missing.jsonl
        data train.py
        data train.py:make --samples 0
        rehearse
        rehearse -- no-such-program
        rehearse --budget long -- true
        rehearse -- srun true
        fleet
        fleet nope
        fleet run --nodes 0
        fleet triage
        init --factory-for missing.py
        scan good --merged-from missing
        guard --stall soon -- true
    """,
    3: """
        scan norms.safetensors
        report good
        triage fine.log
        triage empty.txt
        lint good
        lint good --diff
        read environment.txt
        guard -- true
        compare broken.json facts.json
        scan good --merged-from good --adapter good
    """,
}
LINES = [(code, line.strip()) for code, lines in CODES.items() for line in lines.split("\n")]
LINES = [(code, line) for code, line in LINES if line]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("commands")
    (place / ".git").mkdir()  # no job file above it is read
    (place / "good").mkdir()
    (place / "nodes").mkdir()
    for number in range(3):
        (place / f"nodes/{number}.json").write_bytes(encode(node_facts(number)))
    shutil.copy(MACHINES / "h200_torch2.11.json", place / "facts.json")
    for name, text in {
        "train.py": SCRIPT,
        "clean.py": "x = 1\n",
        "oom.log": "step 1 loss 2.0\ntorch.OutOfMemoryError: CUDA out of memory.\n",
        "fine.log": "step 1 loss 2.0\nstep 2 loss 1.9\n",
        "environment.txt": COLLECT_ENV,
        "empty.txt": "nothing\n",
        "broken.json": "{",
        "broken.toml": 'gpus = "x',
        "unknown.toml": "[job]\nfoo = 1\n",
    }.items():
        (place / name).write_text(text)
    (place / "good/model.safetensors").write_bytes(safetensors("w", "F32", [2, 2]))
    norms = safetensors("model.layers.0.input_layernorm.weight", "BF16", [8])
    (place / "norms").mkdir()
    (place / "norms/model.safetensors").write_bytes(norms[:-16] + b"\x80\x3f" * 8)
    (place / "norms/trainer_state.json").write_text('{"global_step": 500}')
    (place / "norms.safetensors").write_bytes((place / "norms/model.safetensors").read_bytes())
    return place


@pytest.mark.parametrize(("code", "line"), LINES, ids=[line for _, line in LINES])
def test_exit_code(directory: Path, code: int, line: str) -> None:
    result = doctor(*shlex.split(line), cwd=directory, env={**os.environ, "COLUMNS": "200"})
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    if code == 2:
        assert len(result.stderr.splitlines()) == 1
        assert result.stdout == ""


def test_there_are_enough_command_lines() -> None:
    assert len(LINES) >= 60
    assert {line.split()[0] for _, line in LINES} >= {
        *("run", "report", "triage", "read", "guard", "lint", "scan", "prescribe", "explain"),
        *("list", "init", "completion", "help"),
        *("data", "compare", "ledger", "rehearse", "fleet"),
    }
