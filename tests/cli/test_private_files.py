"""What is stored: without secrets, and for its owner alone."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import preloaded
import pytest
from command import doctor

SECRETS = ("hunter2", "pgpw", "sk-0123456789abcdefghij", "hf_abcdefghijklmnopqrstuvwx", "wandb42")
ARGUMENTS = (
    "--api-key",
    SECRETS[2],
    f"--hub_token={SECRETS[3]}",
    "--password",
    SECRETS[0],
    "--db",
    f"postgres://u:{SECRETS[1]}@h/x",
    "--wandb_key",
    SECRETS[4],
)
TRAINING = """
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
FACTORY = """
import os, sys, torch

def make():
    assert "hunter2" in sys.argv
    raise ValueError(f"cannot log in as {os.environ['MY_TOKEN']} with {sys.argv[1:]}")
"""


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def shown_secrets(text: str) -> list[str]:
    return [secret for secret in (*SECRETS, "correct-horse") if secret in text]


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "file", "directory"), [
    ((), 0o600, 0o700),
    (("--shared",), 0o666, 0o777),
])  # fmt: skip
def test_records_of_the_guard(
    flags: tuple[str, ...], file: int, directory: int, tmp_path: Path
) -> None:
    (tmp_path / "t.py").write_text(TRAINING)
    command = ("--", sys.executable, "t.py", *ARGUMENTS)
    ended = doctor("guard", "--output", "json=r.json", *flags, *command, cwd=tmp_path, umask=0)
    assert ended.returncode == 0, ended.stderr
    records = tmp_path / "doctor-guard"
    assert rights(records) == directory
    for path in records.iterdir():
        assert rights(path) == file, path
        assert shown_secrets(path.read_text()) == []
    report = (tmp_path / "r.json").read_text()
    assert shown_secrets(report + ended.stderr) == []
    assert "--password [redacted]" in json.loads(report)["command"]


@pytest.mark.slow
def test_facts_and_reports_of_an_own_model(tmp_path: Path) -> None:
    (tmp_path / "mm.py").write_text(FACTORY)
    flags = ("--device", "cpu", "--no-config", "--python", preloaded.python())
    outputs = ("--save-facts", "f.json", "--output", "json=r.json", "--output", "html=r.html")
    env = {**os.environ, "MY_TOKEN": "correct-horse", "NCCL_DEBUG": "INFO"}
    ended = doctor("run", "--model", "mm.py:make", *flags, *outputs, "--", *ARGUMENTS,
                   cwd=tmp_path, env=env)  # fmt: skip
    assert ended.returncode == 1, ended.stderr
    for name in ("f.json", "r.json", "r.html"):
        text = (tmp_path / name).read_text()
        assert "cannot log in" in text
        assert shown_secrets(text) == [], name
    assert shown_secrets(ended.stdout + ended.stderr) == []
    assert rights(tmp_path / "f.json") == 0o600


@pytest.mark.parametrize("shared", [False, True])
def test_the_rights_of_facts(shared: bool, tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    report.write_text("PyTorch version: 2.9.0\nIs CUDA available: False\nOS: Ubuntu 22.04\n")
    (tmp_path / "f.json").write_text("")
    (tmp_path / "f.json").chmod(0o644)
    flags = ("--shared",) if shared else ()
    doctor("read", report, "--save-facts", "f.json", *flags, cwd=tmp_path, umask=0o022)
    assert rights(tmp_path / "f.json") == (0o644 if shared else 0o600)


def test_a_quoted_source_line_shows_no_part_of_a_password(tmp_path: Path) -> None:
    filler = "a" * 52
    script = f"""import torch
for batch in loader:
    with torch.autocast("cuda", dtype=torch.float16):
        scaler.scale(model(batch)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0); {filler} = b(password="horse battery")
    scaler.step(optimizer)
"""
    (tmp_path / "t.py").write_text(script)
    for format in ("plain", "json", "markdown"):
        ended = doctor("lint", "--format", format, "t.py", cwd=tmp_path)
        assert "t.py" in ended.stdout, ended.stderr
        assert "horse" not in ended.stdout
