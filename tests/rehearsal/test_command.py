"""`doctor rehearse` on real trainings: a sample of benchmarks/rehearse.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command import doctor
from paths import ROOT

from doctor.collect.child import PROBES
from doctor.collect.rehearsal import landlock
from doctor.collect.rehearsal.own import PROBE

JOBS = ROOT / "benchmarks" / "rehearsal_jobs"

pytestmark = [
    pytest.mark.skipif(not landlock.version(), reason="the kernel has no Landlock"),
    pytest.mark.skipif(not JOBS.exists(), reason="the sources are not at hand"),
]


def rehearse(*words: str, cwd: Path) -> tuple[dict[str, Any], int]:
    ended = doctor("rehearse", "--no-config", "--format", "json", "--network", *words, cwd=cwd)
    assert ended.stdout, ended.stderr
    return json.loads(ended.stdout), ended.returncode


def job(*words: str) -> tuple[str, ...]:
    return "--", sys.executable, str(JOBS / "plain.py"), "--out", "{output}", *words


def statuses(report: dict[str, Any]) -> dict[str, str]:
    return {finding["code"]: finding["status"] for finding in report["findings"]}


@pytest.mark.slow
def test_a_healthy_job_runs_saves_stops_and_continues(tmp_path: Path) -> None:
    words = "--total-steps", "1000", "--price", "2", *job("--kind", "handler", "--steps", "20")
    report, code = rehearse(*words, cwd=tmp_path)
    found = statuses(report)
    assert code == 0
    assert found["RHS015"] == "note"
    assert (found["RHS008"], found["RHS011"]) == ("note", "note")  # it saves in the handler, code 0
    assert {found[f"RHS{n:03}"] for n in (3, 5, 6, 7, 9, 10, 12)} == {"pass"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_script_with_a_relative_path_is_started_in_its_output(tmp_path: Path) -> None:
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt" / "notes.txt").write_text("mine")
    script = str(JOBS / "plain.py")
    words = "--in-output", "--", sys.executable, script, "--out", "ckpt", "--steps", "20"
    report, _ = rehearse(*words, cwd=tmp_path)
    found = statuses(report)
    assert {found[f"RHS{n:03}"] for n in (1, 3, 6, 9, 10, 11, 12)} == {"pass"}
    assert [path.name for path in tmp_path.rglob("*")] == ["ckpt", "notes.txt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "code", "text"),
    [
        ("as text", "RHS009", "ckpt-12.pt is newer and whole"),
        ("removes first", "RHS006", "is removed after step 6"),
    ],
)
def test_a_keeper_of_checkpoints_is_named(fault: str, code: str, text: str, tmp_path: Path) -> None:
    words = "--", sys.executable, str(JOBS / "keeper.py"), "--out", "{output}", "--fault", fault
    report, _ = rehearse(*words, cwd=tmp_path)
    problems = {f["code"]: f["summary"] for f in report["findings"] if f["status"] != "pass"}
    problems = {c: s for c, s in problems.items() if statuses(report)[c] in ("fail", "warn")}
    assert list(problems) == [code]
    assert text in problems[code]


@pytest.mark.slow
def test_what_a_resume_loses_is_named(tmp_path: Path) -> None:
    report, code = rehearse(*job("--fault", "prefix"), cwd=tmp_path)
    found = {finding["code"]: finding for finding in report["findings"]}
    assert code == 1
    assert found["RHS010"]["status"] == "fail"
    assert "module." in found["RHS010"]["fix"]


@pytest.mark.slow
def test_two_ranks_whose_epochs_have_other_lengths(tmp_path: Path) -> None:
    """One run: the command has no {output}."""
    launcher = f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node 2"
    line = f"exec {launcher} {JOBS / 'chars.py'} --out $TMPDIR --fault shards"
    report, _ = rehearse("--", "sh", "-c", line, cwd=tmp_path)
    found = statuses(report)
    assert found["RHS018"] == "note"
    assert (found["RHS013"], found["RHS014"], found["RHS019"]) == ("pass", "pass", "skip")


BEGINS_ANEW = """
import os, sys, torch
out, kind = sys.argv[1], sys.argv[3]
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
path = os.path.join(out, "last.pt")
if kind == "opens" and os.path.exists(path):
    torch.load(path)  # and then forgets to use it
for step in range(6):
    model(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 2:
        torch.save({"model": model.state_dict(), "step": step + 1}, path)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "status", "text"),
    [("no resume", "warn", "weights alone"), ("opens", "fail", "it opened last.pt")],
)
def test_beginning_anew_is_a_failure_only_with_evidence(
    kind: str, status: str, text: str, tmp_path: Path
) -> None:
    script = tmp_path / "resume" / "train.py"
    script.parent.mkdir()
    script.write_text(BEGINS_ANEW)
    command = "--", sys.executable, str(script), "{output}", "--kind", kind
    report, code = rehearse(*command, cwd=tmp_path)
    found = {finding["code"]: finding for finding in report["findings"]}["RHS009"]
    assert found["status"] == status
    assert text in found["summary"]
    assert code == (status == "fail")


FACTORY = """
import torch
from torch import nn

rows = torch.utils.data.TensorDataset(torch.randn(97, 8), torch.randint(0, 4, (97,)))


def make():
    loader = torch.utils.data.DataLoader(rows, batch_size=8)
    norm = nn.BatchNorm1d(16)
    model = nn.Sequential(nn.Linear(8, 16), norm, nn.ReLU(), nn.Linear(16, 4))
    return {"model": model, "batch": loader, "loss": nn.CrossEntropyLoss()}
"""


SCHEDULED = """
import decimal
import torch


def make():
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, Rate())
    return {"model": model, "batch": torch.ones(2, 4), "optimizer": optimizer, "scheduler": rate,
            "loss": lambda module, batch: module(batch).square().mean()}


class Rate:
    def __init__(self):
        self.factor = decimal.Decimal("0.5")

    def __call__(self, step):
        return float(self.factor) ** step
"""


@pytest.mark.slow
def test_the_small_training_restores_a_schedule_with_an_object_and_prints_nothing(
    tmp_path: Path,
) -> None:
    """The state of its schedule has an object of the job's, which weights_only=True refuses."""
    (tmp_path / "train.py").write_text(SCHEDULED)
    subject = {"kind": "factory", "file": "train.py", "name": "make", "directory": ".",
               "arguments": [], "seed": 0, "batch": 2, "length": None}  # fmt: skip
    request = {"subject": subject, "device": "cpu", "precision": "fp32", "recipe": "amp",
               "shards": 1}  # fmt: skip
    words = str(PROBES / "launch.py"), "2", PROBE, json.dumps(request), "."
    saved: list[list[str]] = []
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
        saved = [
            path for path in sorted(tmp_path.glob("step-*")) if (path / "training.pt").exists()
        ]
        assert [path.name for path in saved] == ["step-00003", "step-00006"][-len(saved) :]
        (tmp_path / "step-00003" / "training.pt").unlink(missing_ok=True)
    assert [path.name for path in saved] == ["step-00006"]  # the second run began after it


@pytest.mark.slow
def test_a_factory_is_rehearsed_with_its_worst_batches(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FACTORY)
    words = "--device", "cpu", "--model", "train.py:make", "--rehearse", "--only", "RHS"
    ended = doctor("run", "--no-config", "--format", "json", *words, cwd=tmp_path)
    assert ended.stdout, ended.stderr
    report = json.loads(ended.stdout)
    found = {finding["code"]: finding for finding in report["findings"]}
    assert {found[f"RHS{n:03}"]["status"] for n in (3, 5, 6, 9, 10, 11, 12)} == {"pass"}
    assert found["RHS016"]["status"] == "fail"
    assert "last batch (1 samples)" in found["RHS016"]["summary"]
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["train.py"]


@pytest.mark.slow
def test_a_job_that_would_overwrite_a_run_is_named_and_does_not(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "last.pt").write_bytes(b"")
    words = "--", sys.executable, str(JOBS / "plain.py"), "--out", str(tmp_path / "run")
    report, code = rehearse(*words, "--kind", "never loads", cwd=tmp_path)
    assert code == 1
    assert statuses(report)["RHS001"] == "fail"
    assert (tmp_path / "run" / "last.pt").read_bytes() == b""


HANGS = ["no training step", "ended at --budget"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("echo ValueError: no data; exit 3", ["exit code 3", "ValueError: no data"]),
        ("echo done", ["no training step", "exit code 0", "done"]),
        ("sleep 600", HANGS),
        ("trap '' TERM; while :; do sleep 1; done", HANGS),
        ("exec python3 -c 'input()'", ["exit code 1", "EOF when reading a line"]),
        ("exec no-such-program", ["exit code 127", "not found"]),
        ("kill -9 $$", ["exit code -9"]),
    ],
)
def test_a_command_that_does_not_train_is_a_failure_in_one_line(
    line: str, words: list[str], tmp_path: Path
) -> None:
    budget = "4s" if words == HANGS else "300s"
    report, code = rehearse("--budget", budget, "--", "sh", "-c", line, "{output}", cwd=tmp_path)
    found = {finding["code"]: finding for finding in report["findings"]}
    assert code == 1
    assert not [word for word in words if word not in found["RHS003"]["summary"]]
    saved = {found[f"RHS{n:03}"]["status"] for n in (6, 7)}
    continued = {found[f"RHS{n:03}"]["status"] for n in (8, 9, 10, 11, 12)}
    assert saved == {"skip"}
    assert continued == {"unknown" if words == HANGS else "skip"}  # what --budget left out


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["failure", "SIGTERM"])
def test_no_secret_of_the_environment_is_left_in_a_file(ending: str, tmp_path: Path) -> None:
    secret = "hf_" + "Zq7" * 11
    (tmp_path / "out").mkdir()
    line = "exit 3" if ending == "failure" else "echo begun; exec sleep 600"
    process = subprocess.Popen(
        [sys.executable, "-m", "doctor", "rehearse", "--no-config", "--network", "--output-dir",
         "out", "--", "sh", "-c", line],
        cwd=tmp_path, env={**os.environ, "HF_TOKEN": secret}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    logs = tmp_path.glob("out/*/records/run/output.log")
    deadline = time.monotonic() + 60
    while ending == "SIGTERM" and not any(log.stat().st_size for log in logs):
        assert time.monotonic() < deadline
        time.sleep(0.1)
        logs = tmp_path.glob("out/*/records/run/output.log")
    if ending == "SIGTERM":
        process.terminate()
    assert process.wait(60)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert bool(files) is (ending == "failure")  # the records of one that was ended are removed
    assert not [path for path in files if secret.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--", "no-such-program"), "not on PATH"),
        (("--", "srun", "python", "train.py"), "rehearse -- python train.py"),
        (("--budget", "soon", "--", "true"), "--budget soon"),
        (("--grace", "0", "--", "true"), "--grace 0"),
        (("--price", "2", "--", "true"), "--total-tokens"),
        (("--price", "nan", "--total-steps", "9", "--", "true"), "--price nan"),
        (("--resume-command", "'", "--", "true"), "--resume-command"),
    ],
)
def test_a_usage_error_is_one_line(words: tuple[str, ...], text: str, tmp_path: Path) -> None:
    ended = doctor("rehearse", "--no-config", *words, cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert text in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_output_beside_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs" / "llama" / "checkpoint-200").mkdir(parents=True)
    words = ("--output-dir", "runs/rehearsal", "--", "true")
    ended = doctor("rehearse", "--no-config", *words, cwd=tmp_path)
    assert ended.returncode == 2
    assert "checkpoint-200" in ended.stderr
    assert not (tmp_path / "runs" / "rehearsal").exists()
