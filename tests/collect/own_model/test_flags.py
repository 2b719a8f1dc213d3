"""The flags of the user's own training, through the command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import command
import preloaded
import pytest
from own_code import NET

from doctor._util.errors import UserError
from doctor.collect.own_names import factory_of, find_directory
from doctor.facts.facts import decode
from doctor.facts.own_model import OwnModel

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("asked", ["train.py", "train.py:", "train.py:1a", "absent.py:make", "a:b"])
def test_a_factory_that_is_not_there_is_an_error_of_usage(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    with pytest.raises(UserError, match="--model"):
        factory_of(asked)
    assert factory_of("train.py:make") == ("train.py", "make")


def test_a_folder_that_is_no_model_is_an_error_of_usage(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UserError, match="--hf"):
            find_directory(str(folder))
    with pytest.raises(UserError, match="not downloaded"):
        find_directory("meta-llama/Llama-3.2-1B")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--model", "absent.py:make"), "no such Python file: absent.py"),
        (("--hf", "absent"), "--hf absent"),
        (("--lora", "4"), "--lora"),
        (("--compile",), "--compile"),
        (("--model", "a.py:b", "--no-smoke"), "--no-smoke"),
    ],
)
def test_flags_that_make_no_sense_exit_2(
    arguments: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    done = doctor(tmp_path, *arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_factory_is_judged_through_the_command(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        NET + "print('noise')\ndef make():\n    return Net(True), batch()\n", "utf-8"
    )
    done = doctor(
        tmp_path, "--model", "train.py:make", "--save-facts", "facts.json", "--format", "json"
    )
    report = json.loads(done.stdout)
    statuses = {finding["code"]: finding for finding in report["findings"]}
    assert done.returncode == 1
    assert statuses["SMK001"]["status"] == "pass"
    assert statuses["SMK007"]["status"] == "fail"
    assert statuses["SMK007"]["owner"] == "job"
    assert "the environment is sound" in statuses["SMK007"]["summary"]
    facts = decode((tmp_path / "facts.json").read_bytes())
    assert isinstance(facts.own, OwnModel)
    assert facts.settings == facts.own.settings


def doctor(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    training = ("--device", "cpu", "--python", preloaded.python())
    return command.doctor("run", *training, *arguments, cwd=folder)
