"""What counts as a request to resume, and as a checkpoint that was opened."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from doctor.collect.rehearsal.resume_request import (
    opened_checkpoint,
    requesting_flag,
    requesting_setting,
)
from doctor.facts.rehearsal_runs import OnDisk

REQUESTS = {
    "python train.py --out {output} --resume": "--resume",
    "python train.py --resume --out {output}": "--resume",
    "python train.py --auto-resume --steps 3": "--auto-resume",
    "python train.py --resume=auto": "--resume",
    "python train.py --resume_from_checkpoint True": "--resume_from_checkpoint",
    "python train.py --resume_from_checkpoint {output}/checkpoint-8": "--resume_from_checkpoint",
    "python train.py --continue_training=1": "--continue_training",
    "python train.py --load_from {output}/last.pt": "--load_from",
    "python train.py --init-from-checkpoint={output}": "--init-from-checkpoint",
    "python train.py trainer.resume=true": "trainer.resume",
    "bash -c 'python train.py --resume --out {output}'": "--resume",
    "torchrun --max-restarts 0 train.py --restart yes": "--restart",
}
NO_REQUESTS = (
    "python resume/train.py --out {output}",
    "python train.py --data /data/continue/restart --out {output}",
    "python train.py --kind 'no resume'",
    "python train.py --kind resume=true",
    "python train.py --note=--resume",
    "python train.py --resume false",
    "python train.py --resume=None",
    "python train.py --no-resume",
    "python train.py --no-resume=true",
    "python train.py --resume_download",
    "python train.py --wandb.resume=true",
    "python train.py --continue-on-error",
    "torchrun --max-restarts 3 train.py",
    "python train.py --lr_restart true",
    "python train.py --resume_from_checkpoint {output}/checkpoint-9",
    "python train.py --resume /no/such/checkpoint",
    "python train.py --load_from gpt2",
    "python train.py --ckpt_dir {output}",
    "bash -c 'python train.py --out resume",
)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """{output} as a stopped run leaves it."""
    made = tmp_path / "outputs" / "stop"
    (made / "checkpoint-8").mkdir(parents=True)
    (made / "last.pt").write_bytes(b"")
    return made


@pytest.mark.parametrize(("line", "flag"), REQUESTS.items())
def test_a_flag_asks_for_a_resume(line: str, flag: str, output: Path) -> None:
    assert requesting_flag(shlex.split(line), output) == flag


@pytest.mark.parametrize("line", NO_REQUESTS)
def test_a_word_elsewhere_is_no_request(line: str, output: Path) -> None:
    words = line.split() if line.count("'") == 1 else shlex.split(line)
    assert requesting_flag(words, output) == ""


@pytest.mark.parametrize(
    ("name", "value", "asks"),
    [
        ("resume", "True", True),
        ("resume_from_checkpoint", "latest", True),
        ("resume_from_checkpoint", "/no/such/checkpoint", False),
        ("resume_download", "True", False),
        ("max_restarts", "True", False),
    ],
)
def test_a_setting_of_the_program_asks_for_a_resume(
    name: str, value: str, asks: bool, output: Path
) -> None:
    assert requesting_setting([(name, value)], output) == (f"{name}={value}" if asks else "")


@pytest.mark.parametrize("begun", [False, True])
def test_a_relative_path_is_one_of_where_the_command_starts(begun: bool, output: Path) -> None:
    words, place = ["python", "train.py", "--resume", "last.pt"], output if begun else None
    assert requesting_flag(words, output, place) == "--resume" * begun
    asks = [("resume", "last.pt")]
    assert requesting_setting(asks, output, place) == "resume=last.pt" * begun


def test_a_checkpoint_outside_of_output_is_where_every_run_begins(output: Path) -> None:
    base = output.parent / "base.pt"
    base.write_bytes(b"")
    assert requesting_flag(["python", "train.py", "--resume", str(base)], output) == ""


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("last.pt", "last.pt"),
        ("checkpoint-8/trainer_state.json", "checkpoint-8/trainer_state.json"),
        ("log.txt", ""),
        ("cache.pt", ""),
        ("../base.pt", ""),
    ],
)
def test_only_a_file_of_a_checkpoint_counts_as_opened(path: str, name: str, output: Path) -> None:
    found = (
        OnDisk(path="last.pt", bytes=1),
        OnDisk(path="checkpoint-8", bytes=1),
        OnDisk(path="cache.pt", bytes=1, weights=False),
    )
    assert opened_checkpoint([str(output / path)], found, output) == name


def test_weights_in_output_itself_do_not_make_every_file_a_checkpoint(output: Path) -> None:
    found = (OnDisk(path=".", bytes=1),)
    paths = [str(output / name) for name in ("config.json", "model.safetensors")]
    assert opened_checkpoint(paths, found, output) == "model.safetensors"
