"""The job file: where it is found, what it may say, whom it is trusted from, errors in a line."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import command
import jsonschema
import msgspec
import pytest
from paths import ROOT
from recorded import machine_file

from doctor._util.errors import UserError
from doctor.job.expect import Expect, admits, names, parse_size
from doctor.job.file import config
from doctor.job.file.config import JobFile, environment, load
from doctor.job.file.tables import JOB_KEYS, NOT_IN_FILE, Ignore, decode, schema
from doctor.job.job import Job

SCHEMA = ROOT / "schemas" / "doctor-toml.schema.json"
ROOT = os.geteuid() == 0
FULL = """
[job]
device = "cuda"
precision = "bf16"
recipe = "amp"
gpus = 8
params = "8B"
trainable = 40_000_000
hf = "model"
optimizer = "adamw-8bit"
batch-size = 4
seq_len = 2048
lora = 16
shards = 8
checkpointing = true
checkpoint = "runs/checkpoint-5"
output-dir = "runs"
cache_dir = "~/cache"
keep = 3
quick = true
smoke = false
attention = [1, 32, 2048, 128]
compile = false
layers = 2
weights = true
expect-no-grad = ["*.bias"]

[expect]
gpu = "H100"
count = 8
memory = "80GB"
driver = ">=570"
torch = "2.11"
cuda = "13.0"
shm = "8GiB"
host-memory = "1TB"
cpus = 64
disk = { "/data" = "500GB", scratch = "1.5TB" }

[[ignore]]
code = "NUM003"
reason = "known"
until = 2030-01-31
host = "node-*"

[severity]
MEM = "warn"
"""
WRONG = [
    ("gpus = 8", "gpus: no such key"),
    ("[jobs]", "jobs: no such key; did you mean job?"),
    ("[job]\ngpu = 8", "job.gpu: no such key; did you mean gpus?"),
    ("[job]\nbatch-sise = 8", "did you mean batch_size?"),
    ("[job]\nbatch-size = 1\nbatch_size = 1", "job.batch_size is there twice"),
    ("[job]\nworking_dir = '/'", "job.working_dir: no such key"),
    ("[job]\nexpect = {}", "job.expect: no such key"),
    ("[job]\ntype = 'Job'", "job.type: no such key"),
    ("job = 5", "job: a table is wanted, not a whole number: 5"),
    ("[job]\ngpus = '8'", "job.gpus: a whole number is wanted, not text: '8'"),
    ("[job]\ngpus = 0", "job.gpus: a whole number from 1 on is wanted: 0"),
    ("[job]\ndevice = 'tpu'", "job.device: one of auto, cuda, cpu, mps is wanted: 'tpu'"),
    ("[job]\nquick = 1", "job.quick: true or false is wanted"),
    ("[job]\nparams = 'many'", "job.params: 'many' is not a count"),
    ("[job]\nparams = 1.5", "job.params: a whole number or text in quotes is wanted"),
    ("[job]\nattention = [1, 2]", "job.attention: a list of 4 is wanted"),
    ("[expect]\nmemory = 80", "expect.memory: text in quotes is wanted"),
    ("[expect]\nmemory = '80'", "expect.memory: a size such as 80GB or 79.5GiB is wanted: '80'"),
    ("[expect]\ntorch = 2.9", "expect.torch: text in quotes is wanted, not a number: 2.9"),
    ("[expect]\ndriver = 'new'", "expect.driver: a version such as >=2.9 is wanted: 'new'"),
    ("[expect]\ntorch = '~=2'", "expect.torch: '~=2' is no version"),
    ("[expect]\ntype = 'Expect'", "expect.type: no such key"),
    ("[expect.disk]\n'/data' = 5", "expect.disk: text in quotes is wanted"),
    ("[[ignore]]\ncode = 'NUM003'", "[[ignore]] 1: reason is missing"),
    ("[ignore]\ncode = 'NUM003'", "ignore: a list is wanted, not a table"),
    ("[[ignore]]\ncode = 'X'\nreason = 'x'\nuntill = 1", "[[ignore]] 1: untill: no such key"),
    ("[[ignore]]\ncode = 'X'\nreason = 'x'\nuntil = 'soon'", "until: a date such as 2026-12-31"),
    ("[severity]\nMEM = 'off'", "severity: one of warn, fail is wanted: 'off'"),
    ("[job", "is not TOML"),
    ("a = " + "[" * 5000, "is not TOML"),
]


def write(folder: Path, text: str, name: str = "doctor.toml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def found(start: Path) -> JobFile:
    return load(None, {}, str(start))


def test_every_key_is_decoded(tmp_path: Path) -> None:
    told = found(write(tmp_path, FULL).parent)
    assert told.job is not None
    assert set(told.job) == set(JOB_KEYS) - {"model", "python"}
    assert told.job["params"] == 8_000_000_000
    assert told.job["attention"] == (1, 32, 2048, 128)
    assert Job(**told.job, expect=told.expect).batch_size == 4
    assert told.expect is not None
    assert told.expect.host_memory == "1TB"
    assert told.ignores[0].until is not None
    assert told.severity == {"MEM": "warn"}


def test_the_file_knows_every_field_of_a_job() -> None:
    fields = {field.name for field in msgspec.structs.fields(Job)}
    assert fields == set(JOB_KEYS) | set(NOT_IN_FILE)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    told = found(write(tmp_path, FULL).parent)
    assert told.job is not None
    assert told.job["hf"] == str(tmp_path / "model")
    assert told.job["output_dir"] == str(tmp_path / "runs")
    assert told.job["cache_dir"] == "~/cache"
    assert told.expect is not None
    assert set(told.expect.disk) == {"/data", str(tmp_path / "scratch")}


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_a_mistake_is_told_in_one_line_with_file_and_key(
    text: str, said: str, tmp_path: Path
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UserError) as error:
        found(tmp_path)
    assert str(error.value).startswith(str(path))
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert "$." not in str(error.value)


def test_it_is_found_upward_to_the_repositorys_root(tmp_path: Path) -> None:
    deep = tmp_path / "repository" / "a" / "b"
    deep.mkdir(parents=True)
    write(tmp_path, "[job]\ngpus = 1")
    assert found(deep).job == {"gpus": 1}
    (tmp_path / "repository" / ".git").mkdir()
    assert found(deep).path == ""
    write(tmp_path / "repository", "[job]\ngpus = 2")
    assert found(deep).job == {"gpus": 2}


def test_pyproject_counts_where_it_has_the_table(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    write(tmp_path / "a", "[tool.ruff]\n", "pyproject.toml")
    write(tmp_path, "[tool.doctor.job]\ngpus = 3", "pyproject.toml")
    assert found(tmp_path / "a").job == {"gpus": 3}
    assert found(tmp_path).path == str(tmp_path / "pyproject.toml")
    write(tmp_path, "[job]\ngpus = 4")
    assert found(tmp_path).job == {"gpus": 4}
    write(tmp_path / "a", "this is not TOML", "pyproject.toml")
    assert found(tmp_path / "a").job == {"gpus": 4}
    write(tmp_path / "a", "[tool.doctor", "pyproject.toml")
    with pytest.raises(UserError, match="is not TOML"):
        found(tmp_path / "a")
    write(tmp_path / "a", "[tool]\ndoctor = 5", "pyproject.toml")
    with pytest.raises(UserError, match=r"tool\.doctor must be a table"):
        found(tmp_path / "a")


def test_a_named_file_comes_before_the_variable_and_that_before_a_found_one(tmp_path: Path) -> None:
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


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no job file is"):
        load(write(tmp_path, "#" * (config.LIMIT + 1)), {}, None)


CODE = '[job]\nmodel = "evil.py:make"\npython = "bin/python"\ncheckpoint = "https://host/x"'


def test_what_runs_code_counts_only_in_a_file_that_was_named(tmp_path: Path) -> None:
    path = write(tmp_path, CODE + "\nkeep = 4")
    told = found(tmp_path)
    assert told.job == {"keep": 4}
    (note,) = told.notes
    assert "model and python and checkpoint" in note
    assert f"--config {path}" in note
    named = load(path, {}, None)
    assert named.notes == ()
    assert named.job == {
        "model": str(tmp_path / "evil.py:make"),
        "python": str(tmp_path / "bin/python"),
        "checkpoint": "https://host/x",
        "keep": 4,
    }


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_found_file_that_others_can_write_is_not_read(what: str, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    write(tmp_path, "[job]\ngpus = 1")
    path = write(tmp_path / "open", "[job]\ngpus = 2")
    assert found(tmp_path / "open").job == {"gpus": 2}
    (path if what == "file" else path.parent).chmod(0o777)
    told = found(tmp_path / "open")
    assert told.job == {"gpus": 1}
    assert "was not read, every user can" in told.notes[0]
    assert load(path, {}, None).job == {"gpus": 2}


def test_a_sticky_folder_protects_the_users_own_file(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    write(tmp_path / "tmp", "[job]\ngpus = 2")
    (tmp_path / "tmp").chmod(0o1777)
    assert found(tmp_path / "tmp").job == {"gpus": 2}


@pytest.mark.skipif(not ROOT, reason="only root can make another user's file")
def test_a_found_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path, "[job]\ngpus = 2")
    os.chown(path, 12345, 12345)
    told = found(tmp_path)
    assert told.job is None
    assert "another user owns it" in told.notes[0]


def test_variables_set_keys_of_the_job() -> None:
    told = environment(
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
    assert told == {
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


def as_json(text: str) -> Any:
    return json.loads(json.dumps(tomllib.loads(text), default=str))


def test_the_published_schema_is_the_decoders() -> None:
    assert json.loads(SCHEMA.read_text("utf-8")) == json.loads(json.dumps(schema()))
    jsonschema.Draft202012Validator.check_schema(schema())


def test_schema_and_decoder_accept_the_same() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    for text in (FULL, "", "[job]\n", CODE):
        validator.validate(as_json(text))
        decode(tomllib.loads(text))


IN_WORDS_ONLY = ("is there twice", "'many' is not a count", "is no version", "is not TOML")


@pytest.mark.parametrize(
    "text", [text for text, said in WRONG if not any(word in said for word in IN_WORDS_ONLY)]
)
def test_the_schema_refuses_what_the_decoder_refuses(text: str) -> None:
    checker = jsonschema.FormatChecker(("date",))
    validator = jsonschema.Draft202012Validator(schema(), format_checker=checker)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(as_json(text))
    with pytest.raises(ValueError, match=": "):
        decode(tomllib.loads(text))


@pytest.mark.parametrize(
    ("text", "size"),
    [("80GB", 80 * 10**9), ("79.5GiB", 79.5 * 2**30), ("8 MB", 8 * 10**6), ("1TiB", 2**40)],
)
def test_sizes(text: str, size: float) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "80", "80G", "GB", "-1GB", "1e3GB", "80GBs"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("H100", "NVIDIA H100 80GB HBM3", True),
        ("h100", "NVIDIA H100 PCIe", True),
        ("A100", "NVIDIA RTX A1000", False),
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("RTX 4090", "NVIDIA GeForce RTX 4090", True),
        ("*4090", "NVIDIA GeForce RTX 4090 D", False),
        ("*h[12]00*", "NVIDIA H200", True),
        ("(", "NVIDIA H200", False),
    ],
)
def test_patterns_on_names(pattern: str, name: str, fits: bool) -> None:
    assert names(pattern, name) is fits


@pytest.mark.parametrize(
    ("wanted", "version", "fits"),
    [
        ("570", "570.86.10", True),
        ("57", "570.86.10", False),
        (">=570", "580.95.05", True),
        (">=570,<580", "580.95.05", False),
        ("2.11", "2.11.0+cu130", True),
        ("2.1", "2.11.0", False),
        ("==2.11.0", "2.11.0+cu130", True),
        ("2.9", "2.9.0a0+50eac811a6.nv25.9", True),
        (">=2.12", "2.13.0.dev20261101+cu130", True),
    ],
)
def test_versions(wanted: str, version: str, fits: bool) -> None:
    assert admits(wanted, version) is fits


def doctor(folder: Path, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    machine = machine_file("h100_torch2.15")
    flags = ("run", "--facts", str(machine), *flags)
    return command.doctor(*flags, cwd=folder, env={**os.environ, **variables})


@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        ("[job]\ngpu = 8", (), "job.gpu"),
        ("[[ignore]]\ncode = 'NUM03'\nreason = 'x'", (), "[[ignore]] 1: code: no check"),
        ("[severity]\nNUM03 = 'warn'", (), "severity: no check"),
        ("[job]\ngpus = 2\ndevice = 'cpu'", (), "(with what"),
        ("", ("--no-config",), "--config and --no-config"),
        ("", ("--inject", "NUM999"), "--inject: no check"),
        ("", ("--inject", "NUM001", "--skip", "NUM"), "not among the checks"),
        ("", ("--budget", "soon"), "--budget soon"),
        ("", ("--budget", "0"), "--budget 0"),
    ],
)
def test_every_mistake_is_one_line_and_exit_2(
    text: str, flags: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = doctor(tmp_path, "--config", str(write(tmp_path, text)), *flags)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def job(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stderr == ""
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_flags_come_before_variables_and_those_before_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "[job]\nkeep = 3\nshards = 3\nparams = '3B'\ncheckpointing = true")
    flags = ("--format", "json", "--config", str(path), "--keep", "5", "--no-checkpointing")
    told = job(doctor(tmp_path, *flags, DOCTOR_KEEP="4", DOCTOR_SHARDS="4"))
    assert told["config"] == str(path)
    assert told["notes"] == [
        "set by variables, unless a flag says otherwise: DOCTOR_KEEP, DOCTOR_SHARDS"
    ]
    kept = {key: told["job"][key] for key in ("keep", "shards", "params", "checkpointing")}
    assert kept == {"keep": 5, "shards": 4, "params": 3 * 10**9, "checkpointing": False}


def test_saved_facts_are_judged_with_a_named_file_only(tmp_path: Path) -> None:
    path = write(tmp_path, "[job]\nkeep = 7\nhf = 'm'\nlayers = 1\n[expect]\ngpu = 'A100'")
    told = job(doctor(tmp_path, "--format", "json"))
    assert (told["config"], told["job"]["keep"]) == ("", 2)
    named = job(doctor(tmp_path, "--format", "json", "--config", str(path)))
    assert (named["job"]["keep"], named["job"]["hf"]) == (7, None)
    assert named["verdict"] == "return"
    left = job(doctor(tmp_path, "--format", "json", "--no-config", DOCTOR_CONFIG=str(path)))
    assert left["verdict"] == "ready"


def test_the_documents_example_decodes_and_its_tables_name_every_key() -> None:
    text = (SCHEMA.parents[1] / "docs" / "job-file.md").read_text("utf-8")
    example = text.split("```toml\n")[1].split("```")[0]
    assert decode(tomllib.loads(example)).job["gpus"] == 8
    expected = [field.name for field in msgspec.structs.fields(Expect)]
    ignored = [field.name for field in msgspec.structs.fields(Ignore)]
    assert [key for key in (*JOB_KEYS, *expected, *ignored) if f"`{key}`" not in text] == []
