"""doctor init: what it finds, that it decodes, and that it never overwrites."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import command
import jsonschema
import msgspec
import preloaded
import pytest
from recorded_parts import A100, H100, T4, TORCH_2_15, gpu, machine

from doctor import catalog
from doctor._util.errors import UserError
from doctor.cli.init_template import Project, find_project, init, render
from doctor.facts.machine import Gpu
from doctor.job.file.config import load
from doctor.job.file.tables import schema
from doctor.job.job import Job
from doctor.judge.check import Status
from doctor.judge.engine import examine


def decoded(text: str, folder: Path) -> Any:
    path = folder / "made.toml"
    path.write_text(text, "utf-8")
    as_json = json.loads(json.dumps(tomllib.loads(text), default=str))
    jsonschema.Draft202012Validator(schema()).validate(as_json)
    return load(path, {}, None)


MACHINES: dict[str, tuple[Gpu, ...]] = {
    "none": (),
    "one": (H100,),
    "two": (H100, msgspec.structs.replace(H100, index=1, uuid="GPU-1")),
    "mixed": (A100, msgspec.structs.replace(T4, index=1, uuid="GPU-1")),
    "unread": (gpu("GB10 [engineering sample]", (12, 1), 0, memory_total=None),),
}


@pytest.mark.parametrize("name", MACHINES)
def test_it_decodes_and_brings_no_finding_of_its_own(name: str, tmp_path: Path) -> None:
    gpus = MACHINES[name]
    file = decoded(render(gpus, "580.95.05" if gpus else None, Project()), tmp_path)
    job = Job(**dict(file.job))
    assert file.expect.count == (len(gpus) or None)
    findings = examine(
        catalog.MACHINE_CHECKS, machine(*gpus, torch=TORCH_2_15, job=job, expect=file.expect)
    )
    complaints = [f.verdict.summary for f in findings if f.family == "JOB" and f.is_problem]
    assert complaints == []
    assert [f.verdict.summary for f in findings if f.status is Status.UNKNOWN and gpus] == []


def test_what_it_says_in_comments_decodes_too(tmp_path: Path) -> None:
    text = render((), None, Project())
    lines = [line.removeprefix("# ") for line in text.splitlines()]
    said = [line for line in lines if line.startswith("[") or " = " in line]
    file = decoded("\n".join(said), tmp_path)
    assert file.job["params"] == 8 * 10**9
    assert file.expect.disk == {"/data": "500GB"}
    assert file.ignores[0].host == "node-*"
    assert file.severity == {"MEM003": "warn"}


def test_it_looks_for_checkpoints_models_and_accelerate(tmp_path: Path) -> None:
    assert find_project(tmp_path) == Project()
    for name in ("runs/checkpoint-9", "runs/checkpoint-10", "other/checkpoint-x", ".git"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "odd\nname").mkdir()
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "config.json").write_text("[" * 100_000)
    (tmp_path / "default_config.yaml").write_text(
        "compute_environment: LOCAL_MACHINE\nmixed_precision: 'bf16'\nnum_processes: 8\n"
    )
    here = find_project(tmp_path)
    assert here == Project("runs/checkpoint-10", "llama", "default_config.yaml", "bf16", 8)
    text = render((H100,), None, here)
    file = decoded(text, tmp_path)
    assert file.job["checkpoint"] == str(tmp_path / "runs/checkpoint-10")
    assert file.job["precision"] == "bf16"
    assert file.job["hf"] == str(tmp_path / "llama")
    assert file.job["gpus"] == 8
    assert "gpus = 8  # from default_config.yaml" in text


def test_a_configuration_that_says_something_else_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "accelerate.yaml").write_text("mixed_precision: fp8\nnum_processes: many\n")
    os.mkfifo(tmp_path / "default_config.yaml")
    here = find_project(tmp_path)
    assert (here.precision, here.processes) == (None, None)
    assert render((H100,), None, here)


def doctor(folder: Path, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return command.doctor(*flags, cwd=folder, env={**os.environ, **variables})


def test_the_command_writes_one_and_never_overwrites_it(tmp_path: Path) -> None:
    done = doctor(tmp_path, "init")
    assert (done.returncode, done.stdout) == (0, "doctor.toml was written\n")
    written = (tmp_path / "doctor.toml").read_text()
    (tmp_path / "doctor.toml").write_text("mine")
    again = doctor(tmp_path, "init")
    assert again.returncode == 2
    assert again.stderr.startswith("doctor: doctor.toml ")
    assert len(again.stderr.splitlines()) == 1
    assert (tmp_path / "doctor.toml").read_text() == "mine"
    printed = doctor(tmp_path, "init", "--stdout")
    assert (printed.returncode, printed.stdout) == (0, written)


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "doctor.toml").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"doctor\.toml"):
        init(tmp_path, to_stdout=False)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_takes_no_file_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="Permission denied"):
        init(tmp_path, to_stdout=False)


@pytest.mark.slow
def test_a_run_in_its_folder_uses_it_and_complains_of_nothing_new(tmp_path: Path) -> None:
    flags = ("run", "--device", "cpu", "--no-smoke", "--format", "json")
    flags += ("--python", preloaded.python())
    before = json.loads(doctor(tmp_path, *flags).stdout)
    doctor(tmp_path, "init")
    after = json.loads(doctor(tmp_path, *flags).stdout)
    assert (before["config"], after["config"]) == ("", str(tmp_path / "doctor.toml"))
    assert after["verdict"] == before["verdict"] == "ready"
    assert after["counts"]["warn"] == before["counts"]["warn"]


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc builds the library that hangs")
@pytest.mark.slow
def test_a_driver_that_hangs_leaves_the_gpus_out(tmp_path: Path) -> None:
    source = tmp_path / "hang.c"
    source.write_text(
        "#include <unistd.h>\n__attribute__((constructor)) static void h(void){for(;;)pause();}\n"
    )
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    done = doctor(tmp_path, "init", "--stdout", LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 0
    assert "# gpus = 8" in done.stdout
