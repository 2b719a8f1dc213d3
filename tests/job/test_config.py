"""The job file: discovery, which files are trusted, variables, and errors in one line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import command
import pytest
from job_files import CODE, FULL
from recorded import machine_file

from doctor._util.errors import UserError
from doctor.job.file import config
from doctor.job.file.config import JobFile, environment, load

IS_ROOT = os.geteuid() == 0


def write(folder: Path, text: str, name: str = "doctor.toml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def discovered(start: Path) -> JobFile:
    return load(None, {}, str(start))


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    file = discovered(write(tmp_path, FULL).parent)
    assert file.job is not None
    assert file.job["hf"] == str(tmp_path / "model")
    assert file.job["output_dir"] == str(tmp_path / "runs")
    assert file.job["cache_dir"] == "~/cache"
    assert file.expect is not None
    assert set(file.expect.disk) == {"/data", str(tmp_path / "scratch")}


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    assert discovered(write(tmp_path, "\ufeff[job]\ngpus = 3").parent).job == {"gpus": 3}


def test_an_interpreter_by_its_name_is_looked_up_on_path(tmp_path: Path) -> None:
    for name, python in (("python3.12", "python3.12"), ("venv", str(tmp_path / "venv"))):
        file = load(write(tmp_path, f"[job]\npython = '{name}'"), {}, str(tmp_path))
        assert (file.job or {})["python"] == python


def test_it_is_discovered_upward_to_the_repositorys_root(tmp_path: Path) -> None:
    deep = tmp_path / "repository" / "a" / "b"
    deep.mkdir(parents=True)
    write(tmp_path, "[job]\ngpus = 1")
    assert discovered(deep).job == {"gpus": 1}
    (tmp_path / "repository" / ".git").mkdir()
    assert discovered(deep).path == ""
    write(tmp_path / "repository", "[job]\ngpus = 2")
    assert discovered(deep).job == {"gpus": 2}


def test_pyproject_is_used_where_it_has_the_table(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    write(tmp_path / "a", "[tool.ruff]\n", "pyproject.toml")
    write(tmp_path, "[tool.doctor.job]\ngpus = 3", "pyproject.toml")
    assert discovered(tmp_path / "a").job == {"gpus": 3}
    assert discovered(tmp_path).path == str(tmp_path / "pyproject.toml")
    write(tmp_path, "[job]\ngpus = 4")
    assert discovered(tmp_path).job == {"gpus": 4}
    write(tmp_path / "a", "this is not TOML", "pyproject.toml")
    assert discovered(tmp_path / "a").job == {"gpus": 4}
    write(tmp_path / "a", "[tool.doctor", "pyproject.toml")
    with pytest.raises(UserError, match="is not TOML"):
        discovered(tmp_path / "a")
    write(tmp_path / "a", "[tool]\ndoctor = 5", "pyproject.toml")
    with pytest.raises(UserError, match=r"tool\.doctor must be a table"):
        discovered(tmp_path / "a")


def test_a_named_file_overrides_the_variable_and_that_a_discovered_one(tmp_path: Path) -> None:
    first = write(tmp_path, "[job]\ngpus = 1", "first.toml")
    second = write(tmp_path, "[job]\ngpus = 2", "second.toml")
    write(tmp_path, "[job]\ngpus = 3")
    variables = {"DOCTOR_CONFIG": str(second)}
    assert load(first, variables, str(tmp_path)).job == {"gpus": 1}
    assert load(None, variables, str(tmp_path)).job == {"gpus": 2}
    assert load(None, {}, str(tmp_path)).job == {"gpus": 3}
    assert load(None, {}, None) == JobFile()


@pytest.mark.parametrize("name", ["nothing.toml", ".", "fifo"])
def test_a_named_file_must_be_there_and_be_a_file(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UserError, match=r"^--config "):
        load(tmp_path / name, {}, None)
    with pytest.raises(UserError, match=r"^DOCTOR_CONFIG "):
        load(None, {"DOCTOR_CONFIG": str(tmp_path / name)}, None)


def test_a_named_pyproject_must_have_the_table(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no table \[tool.doctor\]"):
        load(write(tmp_path, "[tool.ruff]", "pyproject.toml"), {}, None)


def test_a_file_above_the_size_limit_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="1 MiB"):
        load(write(tmp_path, "#" * (config.LIMIT + 1)), {}, None)


@pytest.mark.parametrize("text", ["[job", "a = " + "[" * 5000, "[job]\ngpu = 8"])
def test_an_error_names_the_file_in_one_line(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UserError) as error:
        discovered(tmp_path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_keys_that_execute_code_are_used_from_a_named_file_only(tmp_path: Path) -> None:
    path = write(tmp_path, CODE + "\nkeep = 4")
    file = discovered(tmp_path)
    assert file.job == {"keep": 4}
    (note,) = file.notes
    assert "model and python and checkpoint" in note
    assert f"--config {str(path)[:60]}" in note
    named = load(path, {}, None)
    assert named.notes == ()
    assert named.job == {
        "model": str(tmp_path / "evil.py:make"),
        "python": str(tmp_path / "bin/python"),
        "checkpoint": "https://host/x",
        "keep": 4,
    }


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_discovered_file_that_others_can_write_is_not_read(what: str, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    write(tmp_path, "[job]\ngpus = 1")
    path = write(tmp_path / "open", "[job]\ngpus = 2")
    assert discovered(tmp_path / "open").job == {"gpus": 2}
    (path if what == "file" else path.parent).chmod(0o777)
    file = discovered(tmp_path / "open")
    assert file.job == {"gpus": 1}
    assert str(path) in file.notes[0]
    assert load(path, {}, None).job == {"gpus": 2}


def test_a_sticky_directory_protects_the_users_own_file(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    write(tmp_path / "tmp", "[job]\ngpus = 2")
    (tmp_path / "tmp").chmod(0o1777)
    assert discovered(tmp_path / "tmp").job == {"gpus": 2}


@pytest.mark.skipif(not IS_ROOT, reason="only root can make another user's file")
def test_a_discovered_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path, "[job]\ngpus = 2")
    os.chown(path, 12345, 12345)
    file = discovered(tmp_path)
    assert file.job is None
    assert str(path) in file.notes[0]


def test_variables_set_keys_of_the_job() -> None:
    file = environment(
        {
            "DOCTOR_GPUS": "8",
            "DOCTOR_SMOKE": "false",
            "DOCTOR_PARAMS": "8B",
            "DOCTOR_ATTENTION": "1,32,2048,128",
            "DOCTOR_EXPECT_NO_GRAD": "*.bias, head",
            "DOCTOR_DEVICE": "",
            "DOCTOR_CONFIG": "x",
            "DOCTOR_WORKING_DIR": "/",
        }
    )
    assert file == {
        "gpus": 8,
        "smoke": False,
        "params": 8 * 10**9,
        "attention": (1, 32, 2048, 128),
        "expect_no_grad": ("*.bias", "head"),
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [("DOCTOR_GPUS", "many"), ("DOCTOR_DEVICE", "tpu"), ("DOCTOR_PARAMS", "-1")],
)
def test_a_wrong_variable_is_named(name: str, text: str) -> None:
    with pytest.raises(UserError, match=f"^{name}: "):
        environment({name: text})


def doctor(folder: Path, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    machine = machine_file("h100_torch2.15")
    flags = ("run", "--facts", str(machine), *flags)
    return command.doctor(*flags, cwd=folder, env={**os.environ, **variables})


@pytest.mark.parametrize(
    ("text", "flags", "part"),
    [
        ("[job]\ngpu = 8", (), "job.gpu"),
        ("[[ignore]]\ncode = 'NUM03'\nreason = 'x'", (), "[[ignore]] 1: code: no check"),
        ("[severity]\nNUM03 = 'warn'", (), "severity: no check"),
        ("[severity]\nNUM003 = 'worse'", (), 'severity."NUM003": expected one of warn, fail'),
        ("[expect]\ndisk = { '/a' = '1GB', '/d' = 'big' }", (), 'expect.disk."/d": expected a'),
        ("[expect]\ndisk = { '/a' = '1GB', '/d' = 5 }", (), 'expect.disk."/d": expected text'),
        ("[job]\nformat = 'json'", (), "job.format: cannot be set in a job file; pass --format"),
        ("[job]\nshards = 99999999999", (), "job.shards: expected a whole number <= "),
        ("[job]\nparams = '9999999T'", (), "job.params: "),
        ("[job]\ngpus = 2\ndevice = 'cpu'", (), "one is set by"),
        ("", ("--no-config",), "--no-config"),
        ("", ("--inject", "NUM999"), "--inject: no check"),
        ("", ("--inject", "NUM001", "--skip", "NUM"), "--inject NUM001"),
        ("", ("--budget", "soon"), "--budget"),
        ("", ("--budget", "0"), "--budget"),
    ],
)
def test_an_error_is_one_line_and_exit_2(
    text: str, flags: tuple[str, ...], part: str, tmp_path: Path
) -> None:
    done = doctor(tmp_path, "--config", str(write(tmp_path, text)), *flags)
    assert done.returncode == 2
    assert part in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def report_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stderr == ""
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_flags_override_variables_and_those_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "[job]\nkeep = 3\nshards = 3\nparams = '3B'\ncheckpointing = true")
    flags = ("--format", "json", "--config", str(path), "--keep", "5", "--no-checkpointing")
    file = report_of(doctor(tmp_path, *flags, DOCTOR_KEEP="4", DOCTOR_SHARDS="4"))
    assert file["config"] == str(path)
    assert file["notes"] == [
        "set by variables, unless overridden by a flag: DOCTOR_KEEP, DOCTOR_SHARDS"
    ]
    kept = {key: file["job"][key] for key in ("keep", "shards", "params", "checkpointing")}
    assert kept == {"keep": 5, "shards": 4, "params": 3 * 10**9, "checkpointing": False}


def test_saved_facts_are_judged_with_a_named_file_only(tmp_path: Path) -> None:
    path = write(tmp_path, "[job]\nkeep = 7\nhf = 'm'\nlayers = 1\n[expect]\ngpu = 'A100'")
    file = report_of(doctor(tmp_path, "--format", "json"))
    assert (file["config"], file["job"]["keep"]) == ("", 2)
    named = report_of(doctor(tmp_path, "--format", "json", "--config", str(path)))
    assert (named["job"]["keep"], named["job"]["hf"]) == (7, None)
    assert named["verdict"] == "return"
    left = report_of(doctor(tmp_path, "--format", "json", "--no-config", DOCTOR_CONFIG=str(path)))
    assert left["verdict"] == "ready"
