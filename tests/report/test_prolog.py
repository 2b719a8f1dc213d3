"""A prolog prints one line, and fails only for a machine observed to be at fault."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import hanging
import msgspec
import preloaded
import pytest
from command import doctor
from judges import BY_CODE
from paths import ROOT
from recorded import machine_file, machines

from doctor._util.records import Ended
from doctor.collect.driver import driver_seconds
from doctor.facts.facts import encode
from doctor.facts.host import Host
from doctor.facts.machine import Driver

pytestmark = pytest.mark.slow


def prolog(*arguments: str) -> tuple[int, str]:
    done = doctor("run", *arguments)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("machine", "code", "word"),
    [
        ("row_remap_failed", 1, "RETURN"),
        ("hung_driver", 1, "RETURN"),
        ("titan_rtx_bf16", 0, "FIX"),
        ("full_disk", 0, "FIX"),
        ("nothing_readable", 0, "UNKNOWN"),
        ("a100", 0, "READY"),
    ],
)
def test_only_a_machine_at_fault_fails(machine: str, code: int, word: str) -> None:
    facts = str(machine_file(machine))
    got, line = prolog("--context", "prolog", "--facts", facts)
    assert (got, word in line) == (code, True)
    assert line.endswith("the job may start\n") == (code == 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--context=prolog", "--no-such-flag"),
        ("--context", "prolog", "--facts", "no/such/file.json"),
        ("--only", "NOTHING", "--context", "prolog"),
        ("--context=prolog", "--precision", "int3"),
    ],
)
def test_a_usage_error_lets_the_job_start(arguments: tuple[str, ...]) -> None:
    code, line = prolog(*arguments)
    assert code == 0
    assert line.startswith("doctor: not examined, the job may start: ")


@pytest.mark.parametrize(("machine", "code"), [("row_remap_failed", 1), ("a100", 0)])
@pytest.mark.parametrize("ends", [">/dev/full", ">&-", "| sleep 0; exit ${PIPESTATUS[0]}"])
def test_an_unwritable_log_does_not_change_the_exit_code(
    ends: str, machine: str, code: int
) -> None:
    command = f"{sys.executable} -m doctor run --no-config --context prolog --facts"
    done = subprocess.run(
        ["bash", "-c", f"{command} {machine_file(machine)} {ends}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, "")


def test_a_usage_error_with_an_unwritable_log_lets_the_job_start() -> None:
    command = f"{sys.executable} -m doctor run --context prolog --no-such-flag >/dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_files_are_written_and_a_write_error_does_not_change_the_exit_code(tmp_path: Path) -> None:
    facts = str(machine_file("row_remap_failed"))
    code, _ = prolog("--context=prolog", "--facts", facts, "--output", f"json={tmp_path}/a.json")
    assert code == 1
    assert json.loads((tmp_path / "a.json").read_text())["verdict"] == "return"


def recipe(doctor: str, folder: Path, **variables: str) -> int:
    """The exit code of the recipe where the doctor is that script."""
    script = folder / "doctor"
    script.write_text(f"#!/bin/sh\n{doctor}\n")
    script.chmod(0o755)
    text = (ROOT / "docs/recipes/slurm-prolog.sh").read_text("utf-8")
    script_text = text.replace("/opt/doctor/environment/bin/doctor", str(script))
    assert script_text != text
    done = subprocess.run(["bash", "-c", script_text], env=variables, timeout=60, check=False)
    return done.returncode


def test_the_recipe_drains_only_for_a_verdict(tmp_path: Path) -> None:
    gpus = {"SLURM_JOB_GPUS": "0", "PATH": "/usr/bin:/bin"}
    codes = [recipe(f"exit {code}", tmp_path, **gpus) for code in (0, 1, 2, 3, 127, 137)]
    assert codes == [0, 1, 0, 0, 0, 0]
    assert recipe("exit 1", tmp_path, PATH="/usr/bin:/bin") == 0


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc builds the libraries that hang")
@pytest.mark.parametrize("kernel", [{}, {"HANGS_IN_KERNEL": "1"}], ids=["asleep", "in kernel"])
def test_the_recipe_drains_a_node_whose_driver_hangs(
    kernel: dict[str, str], tmp_path: Path
) -> None:
    env = {**os.environ, **hanging.build(tmp_path), **kernel, "SLURM_JOB_GPUS": "0"}
    (tmp_path / "program.py").write_text(hanging.IMPATIENT)
    python = tmp_path / "python"  # torch itself is not given the libraries that hang
    python.write_text(f'#!/bin/sh\nunset LD_LIBRARY_PATH\nexec {preloaded.python()} "$@"\n')
    python.chmod(0o755)
    words = f"{sys.executable} {tmp_path}/program.py"
    assert recipe(f'exec {words} "$@" --python {python}', tmp_path, **env) == 1


def test_the_recipe_has_time_for_two_starts_of_eight_gpus_and_slurm_waits_for_it() -> None:
    text = (ROOT / "docs/recipes/slurm-prolog.sh").read_text("utf-8")
    page = (ROOT / "docs/where-it-runs.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d) \| (\d+) s \| (\d+)s \| (\d+) \|$", page, re.MULTILINE)
    assert [row[0] for row in rows] == ["1", "4", "8"]
    for gpus, deadline, budget, batch_start in (tuple(map(int, row)) for row in rows):
        assert deadline == driver_seconds(Host(system="Linux", nvidia_devices=gpus))
        assert 2 * deadline < budget < batch_start
    assert f"--budget {budget}s" in text
    assert f"BatchStartTimeout={batch_start}" in text
    assert "30 s, and 5 s" in " ".join(BY_CODE["DRV001"].why.split())


def driver_facts(tmp_path: Path, **driver: Any) -> str:
    facts = machines()["hung_driver"]
    assert isinstance(facts.driver, Driver)
    path = tmp_path / "facts.json"
    path.write_bytes(encode(facts.with_(driver=msgspec.structs.replace(facts.driver, **driver))))
    return str(path)


def test_a_driver_that_the_budget_cut_off_is_a_warning_that_names_the_call(tmp_path: Path) -> None:
    cut = Ended(how="budget", detail="cut off by --budget inside nvmlInit", seconds=7.0)
    facts = driver_facts(tmp_path, nvml=cut, cuda=cut, blocked="once")
    code, line = prolog("--context=prolog", "--facts", facts)
    assert code == 0
    assert "DRV001 driver-answers" in line
    assert "inside nvmlInit" in line


def test_the_recipe_lets_jobs_start_without_a_doctor(tmp_path: Path) -> None:
    file = ROOT / "docs/recipes/slurm-prolog.sh"
    done = subprocess.run(["bash", str(file)], env={"SLURM_JOB_GPUS": "0"}, timeout=60, check=False)
    assert done.returncode == 0


def test_the_health_check_drains_the_node_with_the_line_of_a_verdict(tmp_path: Path) -> None:
    """Slurm ignores its exit code, so it calls scontrol itself."""
    doctor, called = tmp_path / "doctor", tmp_path / "called"
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{called}\n')
    (tmp_path / "scontrol").chmod(0o755)
    text = (ROOT / "docs/recipes/slurm-health-check.sh").read_text("utf-8")
    script = text.replace("/opt/doctor/environment/bin/doctor", str(doctor))
    assert script != text
    for code in (0, 2, 3, 137, 1):
        assert not called.exists()
        doctor.write_text(f"#!/bin/sh\necho 'doctor: RETURN: GPU003'\nexit {code}\n")
        doctor.chmod(0o755)
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", script], env=env, timeout=60, check=False)
        assert done.returncode == 0
    assert called.read_text().splitlines()[2:] == ["State=DRAIN", "Reason=doctor: RETURN: GPU003"]


def test_node_problem_detector_starts_the_command_of_the_prolog() -> None:
    text = (ROOT / "docs/recipes/node-problem-detector.json").read_text("utf-8")
    rule = json.loads(text)["rules"][0]
    recipe = (ROOT / "docs/recipes/slurm-prolog.sh").read_text("utf-8")
    assert f'"$doctor" {" ".join(rule["args"])}\n' in recipe
