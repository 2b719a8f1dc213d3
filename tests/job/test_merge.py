"""Flags over variables over the job file."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doctor._util.errors import UserError
from doctor.job.expect import Expect
from doctor.job.file.config import JobFile
from doctor.job.job import Job
from doctor.job.merge import HOW_TO_EXAMINE, THIS_MACHINE, Request, merge
from doctor.job.run_options import RunOptions

BASE = Request(Job())


def merged(flags: dict[str, Any], file: dict[str, Any], **variables: Any) -> Request:
    return merge(flags, variables, JobFile(path="doctor.toml", job=file), BASE, replayed=False)


def test_flags_override_variables_and_those_the_job_file() -> None:
    file = {"keep": 1, "shards": 1, "gpus": 1}
    job, options, expect = merged({"keep": 3}, file, keep=2, shards=2)
    assert job == Job(keep=3, shards=2, gpus=1)
    assert (options, expect) == (RunOptions(), Expect())


def test_each_setting_goes_to_the_struct_that_holds_it() -> None:
    flags = {"quick": False, "only": ("NUM",), "budget": 8.0, "lora": 4}
    job, options, _ = merged(flags, {"quick": True, "smoke": False, "hf": "m"})
    assert job == Job(hf="m", lora=4)
    assert options == RunOptions(quick=False, smoke=False, only=("NUM",), budget=8.0)


@pytest.mark.parametrize(
    ("flags", "file", "job"),
    [
        ({"device": "cpu"}, {"gpus": 8}, {"device": "cpu"}),
        ({"model": "a.py:f"}, {"hf": "m", "layers": 2, "weights": True}, {"model": "a.py:f"}),
        ({"hf": "m"}, {"model": "a.py:f", "layers": 2}, {"hf": "m", "layers": 2}),
        ({"recipe": "pure-bf16"}, {"precision": "fp32"}, {"recipe": "pure-bf16"}),
        ({"precision": "fp16"}, {"recipe": "pure-bf16"}, {"precision": "fp16"}),
        ({"params": 10**6}, {"trainable": 10**9}, {"params": 10**6}),
    ],
)
def test_a_flag_removes_settings_of_the_file_that_contradict_it(
    flags: dict[str, Any], file: dict[str, Any], job: dict[str, Any]
) -> None:
    assert merged(flags, file).job == Job(**job)


def test_a_contradiction_names_where_the_settings_are() -> None:
    with pytest.raises(UserError, match=r"^--gpus .* --device cpu$"):
        merged({"device": "cpu", "gpus": 2}, {})
    with pytest.raises(UserError, match=r"by doctor.toml\)$"):
        merged({}, {"device": "cpu", "gpus": 2})
    with pytest.raises(UserError, match=r"by doctor.toml or DOCTOR_ variables\)$"):
        merged({}, {"gpus": 2}, device="cpu")


@pytest.mark.parametrize(
    ("flags", "flag"),
    [
        ({"layers": 4}, "--layers"),
        ({"weights": True}, "--weights"),
        ({"lora": 4}, "--lora"),
        ({"compile": True}, "--compile"),
    ],
)
def test_settings_of_a_training_require_one(flags: dict[str, Any], flag: str) -> None:
    assert merged(flags, {"hf": "m"}).job == Job(hf="m", **flags)
    with pytest.raises(UserError, match=flag):
        merged(flags, {})


def test_no_smoke_omits_the_training_of_a_file_and_contradicts_a_flag() -> None:
    job, options, _ = merged({"smoke": False}, {"hf": "m"})
    assert (job.hf, options.smoke) == ("m", False)
    with pytest.raises(UserError, match="--no-smoke"):
        merged({"smoke": False, "hf": "m"}, {})


def test_a_path_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(UserError, match="--output-dir"):
        merged({"output_dir": "/data/\udcff"}, {})


def test_saved_facts_keep_what_names_something_on_their_machine() -> None:
    keys = dict.fromkeys((*THIS_MACHINE, *HOW_TO_EXAMINE), "x")
    file = JobFile(job={**keys, "keep": 4}, expect=Expect(cpus=1))
    base = Request(Job(keep=9, hf="m"), RunOptions(quick=True), Expect(gpu="H100"))
    request = merge({}, {}, file, base, replayed=True)
    assert request == Request(
        msgspec.structs.replace(base.job, keep=4), base.options, Expect(cpus=1)
    )
    assert merge({}, {}, JobFile(), base, replayed=True) == base
