"""The help of the commands, and what a mistake in their words is answered."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import command
import pytest
import typer.main
from recorded import machine_file

from doctor import catalog
from doctor.cli.app import COMMANDS, EVERY, command_line
from doctor.cli.inputs import resolve
from doctor.cli.options import ConfigFlags
from doctor.cli.panels import PANELS

PARSED = typer.main.get_command(command_line()).commands  # type: ignore[attr-defined]
OPTIONS = [
    pytest.param(option, id=f"{name} {option.opts[0]}")
    for name, parsed in PARSED.items()
    for option in parsed.params
    if option.param_type_name == "option"
]


def doctor(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return command.doctor(*arguments, cwd=cwd, env={**os.environ, "COLUMNS": "80"})


def test_the_list_of_commands_is_cut_off_nowhere() -> None:
    text = doctor("--help").stdout
    assert all(re.search(rf"(?m)^  {name} +\S.*[^.]\.$", text) for name in COMMANDS), text


@pytest.mark.parametrize("name", EVERY)
def test_the_help_fits_80_columns_and_ends_with_an_example(name: str) -> None:
    lines = doctor(*name.split(), "--help").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].strip() == f"Example: {EVERY[name][1]}"


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_states_what_it_expects_and_its_default(option: Any) -> None:
    assert option.rich_help_panel in PANELS
    if not option.is_flag:
        assert option.metavar
        assert option.metavar.isupper() or "|" in option.metavar or "." in option.metavar \
            or "=" in option.metavar  # fmt: skip
    if option.default not in (None, False, ""):
        assert f"(default: {option.default})" in option.help


def test_the_options_of_run_are_below_headings() -> None:
    text = doctor("run", "--help").stdout
    headings = re.findall(r"(?m)^(\S.*):$", text)
    assert headings == ["Arguments", *(panel for panel in PANELS if panel in headings)]
    assert len(headings) > 6
    assert re.search(r"(?ms)^Job:\n.*--device.*^Scope:\n.*--only.*^Output:\n.*--format", text)


@pytest.mark.parametrize("name", ["triage", "guard", "scan", "report", "read", "explain"])
def test_a_missing_argument_is_answered_with_an_example(name: str) -> None:
    done = doctor(name)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f"example: {COMMANDS[name][1]}\n")


@pytest.mark.parametrize("name", ["run", "prescribe", "report", "guard", "lint", "triage", "init"])
def test_commands_that_read_a_job_file_can_do_without(name: str) -> None:
    flags = {flag for option in PARSED[name].params for flag in option.opts}
    assert ("--no-config" in flags) == (name != "init")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["train.py"], "--script train.py or --model train.py:make_model"),
        (["plain.py", "--device", "cpu"], "by an option: --script plain.py\n"),
        (["runs"], "--checkpoint runs or --output-dir runs"),
        (["runs/model.safetensors"], "--checkpoint runs/model.safetensors\n"),
        (["absent.py"], "require --model FILE.py:factory"),
        (["--", "--lr", "3"], "--lr 3: arguments require --model FILE.py:factory"),
        (["--facts", machine_file("t4"), "train.py"], "--script train.py"),
    ],
)
def test_a_word_without_its_option_is_named_with_it(
    words: list[object], answer: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import absent\n\ndef make_model(): ...\n")
    (tmp_path / "plain.py").write_text("def main(): ...\n")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/model.safetensors").touch()
    done = doctor("run", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert answer in done.stderr


def test_arguments_of_a_model_in_the_job_file_are_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "doctor.toml").write_text('[job]\nmodel = "train.py:make"\n')
    file = ConfigFlags(config=tmp_path / "doctor.toml")
    job = resolve({"arguments": (str(tmp_path),)}, file, None, catalog.MACHINE_CHECKS).request.job
    assert (job.model, job.arguments) == (f"{tmp_path}/train.py:make", (str(tmp_path),))


def test_arguments_in_the_job_file_do_not_concern_saved_facts(tmp_path: Path) -> None:
    job = '[job]\nmodel = "train.py:make"\narguments = ["--lr", "3"]\n'
    (tmp_path / "doctor.toml").write_text(job)
    flags = ("--facts", machine_file("h100_torch2.15"), "--config", tmp_path / "doctor.toml")
    done = doctor("run", *flags)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        (["GPU00", "host-m"], [*(f"GPU00{number}" for number in range(1, 10)), "MEM002"]),
        (["MEM"], ["MEM001", "MEM002", "MEM003"]),
        (["dsk001,vram"], ["MEM001", "DSK001"]),
    ],
)
def test_list_takes_families_and_beginnings(names: list[str], codes: list[str]) -> None:
    lines = doctor("list", *names).stdout.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == codes
    assert lines[0] == {"G": "GPU: device", "M": "MEM: memory"}[codes[0][0]]
    assert "holds when the check passes" in lines[-2]


def test_list_names_what_is_near_a_wrong_name() -> None:
    done = doctor("list", "MEM9")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nearest: MEM003" in done.stderr


@pytest.mark.parametrize(
    ("words", "beginning"),
    [
        (["RuntimeError:", "element", "0", "of", "tensors", "does", "not", "require"], "LOG041"),
        (["NUM001,", "tf32-setting"], "NUM001 "),
        (["frozen", "norms"], "frozen-norms-report"),
    ],
)
def test_explain_joins_the_words_of_a_text_without_quotes(words: list[str], beginning: str) -> None:
    done = doctor("explain", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(beginning)
    assert doctor("explain", *words, "--format", "markdown").returncode == 0


def test_an_injected_failure_has_no_remedy_but_to_omit_the_flag() -> None:
    flags = ("--only", "MEM003", "--inject", "MEM003", "--format", "plain")
    text = doctor("run", "--facts", machine_file("h100_torch2.15"), *flags).stdout
    assert text.endswith("\nFIX: MEM003: Omit --inject, which forced this failure\n")
    assert "without it: pass, /dev/shm is 64.0 GiB" in text
    assert not re.search(r"None|see: |  \$ ", text)
