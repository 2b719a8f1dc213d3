"""The report on records: the earliest failure first, the job file's notes, the last checkpoint."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from doctor.catalog import of_families
from doctor.cli.guard_report import report_directory
from doctor.cli.options import ConfigFlags
from doctor.collect.earlier_checkpoint import Span, find_between, places
from doctor.facts.guard import GuardSaved
from doctor.report.formats import plain
from doctor.report.report import Outcome

META = {"kind": "meta", "rank": 0, "world": 1, "pid": 5, "started": 100, "torch": "2.13"}
STEP = {"kind": "step", "o": 0, "s": 1, "t": 0.1, "loss": 2.0, "norm": 1.0}


def write(folder: Path, *lines: dict[str, Any]) -> None:
    (folder / "rank0-5.jsonl").write_text("\n".join(map(json.dumps, (META, STEP, *lines))))


def alarm(code: str, step: int, status: str = "fail") -> dict[str, Any]:
    return {"kind": "alarm", "code": code, "status": status, "step": step, "text": "x"}


@pytest.mark.parametrize(
    ("alarms", "first"),
    [
        ([alarm("GRD001", 9), alarm("GRD002", 3)], "GRD002"),
        ([alarm("GRD001", 3), alarm("GRD002", 3)], "GRD001"),
        ([alarm("GRD003", 2, "warn"), alarm("GRD007", 3), alarm("GRD002", 8)], "GRD007"),
    ],
)
def test_the_earliest_failure_is_named_first(
    alarms: list[dict[str, Any]], first: str, tmp_path: Path
) -> None:
    write(tmp_path, *alarms)
    report = report_directory(tmp_path, {}, ConfigFlags(no_config=True), fail_on="fail")
    assert report.verdict_line.startswith(f"FIX: {first}:")


def test_a_training_that_died_is_not_ready_and_its_end_comes_after_what_failed_before(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({"command": ["python"], "exit_code": 134}))
    report = report_directory(tmp_path, {}, ConfigFlags(no_config=True), fail_on="fail")
    assert (report.outcome, report.exit_code) == (Outcome.FIX, 1)
    assert report.verdict_line.startswith("FIX: GRD022:")
    write(tmp_path, alarm("GRD001", 9))
    report = report_directory(tmp_path, {}, ConfigFlags(no_config=True), fail_on="fail")
    assert report.verdict_line.startswith("FIX: GRD001:")


def test_a_program_without_a_step_has_one_reason(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"command": ["python", "hello.py"]}))
    report = report_directory(tmp_path, {}, ConfigFlags(no_config=True), fail_on="fail")
    assert report.exit_code == 3
    (line,) = [line for line in plain.render(report).splitlines() if "GRD001" in line]
    assert line.split()[1] == f"GRD001-{of_families('GRD')[-1].code[3:]}"
    assert "no training step was observed" in line


def test_an_expired_ignore_is_a_note(tmp_path: Path) -> None:
    write(tmp_path, alarm("GRD001", 9))
    file = tmp_path / "doctor.toml"
    file.write_text('[[ignore]]\ncode = "GRD001"\nreason = "known"\nuntil = 2020-01-01\n')
    report = report_directory(tmp_path, {}, ConfigFlags(config=file), fail_on="fail")
    assert any("expired on 2020-01-01" in note for note in report.notes)
    assert report.exit_code == 1


def saved(path: Path, moment: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"weights")
    os.utime(path, (moment, moment))


def test_the_newest_complete_checkpoint_before_the_failure(tmp_path: Path) -> None:
    for number in (1, 2):
        saved(tmp_path / "out" / "checkpoint-10" / f"model-{number}.safetensors", 100.0 + number)
        saved(tmp_path / "out" / "checkpoint-20" / f"model-{number}.safetensors", 199.0 + number)
    saved(tmp_path / "out" / "checkpoint-20" / "training_args.bin", 150.0)  # no weights
    saved(tmp_path / "data" / "train.bin", 190.0)
    saved(tmp_path / "other" / "model.pt", 99.0)  # of a program that ran before
    written = (
        GuardSaved(
            path=str(tmp_path / "out" / "checkpoint-10" / "optimizer.pt"), step=10, moment=102_500
        ),
    )
    where = places(["python", "train.py"], tmp_path)
    checkpoint = find_between(Span(100.0, 200.5), where, written)
    assert checkpoint.path == str(tmp_path / "out" / "checkpoint-10")
    assert (checkpoint.seconds, checkpoint.later, checkpoint.complete) == (98.5, 1, True)
    assert checkpoint.step == 10
    assert find_between(Span(150.0, 200.5), where).path == ""


def test_directories_of_the_command_line_are_searched_too(tmp_path: Path) -> None:
    saved(tmp_path / "far" / "last.ckpt", 100.0)
    saved(tmp_path / "far" / "epoch=1.ckpt", 150.0)
    (tmp_path / "cwd").mkdir()
    command = ["python", "train.py", f"--output_dir={tmp_path / 'far'}", "--lr", "1e-3"]
    where = places(command, tmp_path / "cwd")
    assert where == (tmp_path / "cwd", tmp_path / "far")
    assert find_between(Span(0.0, 120.0), where).path == str(tmp_path / "far" / "last.ckpt")
    assert find_between(Span(0.0, 90.0), where).path == ""


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("ck20.pt", True), ("net.pth", True), ("x.safetensors", True), ("pytorch_model.bin", True),
        ("optimizer.pt", False), ("rng_state_0.pth", False), ("train.bin", False),
        ("scheduler.pt", False), ("model.json", False), ("optim.pt", False),
        ("features.pt", False), ("ema_stats.pth", False),
    ],
)  # fmt: skip
def test_files_with_weights_are_told_by_their_names(
    name: str, weights: bool, tmp_path: Path
) -> None:
    saved(tmp_path / name, 100.0)
    assert bool(find_between(Span(0.0, 120.0), (tmp_path,)).path) is weights


def test_what_torch_finished_goes_before_what_a_failure_cut_off(tmp_path: Path) -> None:
    saved(tmp_path / "ck5.pt", 100.0)
    saved(tmp_path / "ck6.pt", 110.0)  # the disk was full
    written = (GuardSaved(path=str(tmp_path / "ck5.pt"), step=5, moment=100_000),)
    assert find_between(Span(50.0, 120.0), (tmp_path,), written).step == 5


def test_a_directory_into_which_torch_saved_is_searched(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "deep" / "ck20.pt"
    saved(path, 100.0)
    (tmp_path / "cwd").mkdir()
    written = (GuardSaved(path=str(path), step=20, moment=100_000),)
    where = places(["python", "train.py"], tmp_path / "cwd", written)
    found = find_between(Span(50.0, 120.0), where, written)
    assert (found.path, found.step) == (str(path), 20)


def test_the_note_says_what_was_searched(tmp_path: Path) -> None:
    write(tmp_path, alarm("GRD001", 9))
    checkpoint = {"type": "EarlierCheckpoint", "examined": ["/work"], "complete": False}
    (tmp_path / "run.json").write_text(json.dumps({"checkpoint": checkpoint}))
    report = report_directory(tmp_path, {}, ConfigFlags(no_config=True), fail_on="fail")
    assert any(
        "wrote no checkpoint before its first failure" in n and "/work" in n for n in report.notes
    )
