"""Flags over variables over the job file."""

from __future__ import annotations

from typing import Any

import pytest

from doctor._util.errors import UserError
from doctor.job.expect import Expect
from doctor.job.file.config import JobFile
from doctor.job.merge import ABOUT_THEM, LOOKED_AT, merge


def merged(flags: dict[str, Any], file: dict[str, Any], **variables: Any) -> dict[str, Any]:
    return merge(flags, variables, JobFile(path="doctor.toml", job=file), replayed=False)


def test_the_nearest_to_the_user_wins() -> None:
    file = {"keep": 1, "shards": 1, "gpus": 1}
    told = merged({"keep": 3, "shards": None, "gpus": None}, file, keep=2, shards=2)
    assert told == {"keep": 3, "shards": 2, "gpus": 1}
    assert merged({"quick": False}, {"quick": True}) == {"quick": False}


@pytest.mark.parametrize(
    ("flags", "file", "left"),
    [
        ({"device": "cpu"}, {"gpus": 8}, {"device": "cpu"}),
        ({"model": "a.py:f"}, {"hf": "m", "layers": 2, "weights": True}, {"model": "a.py:f"}),
        ({"hf": "m"}, {"model": "a.py:f", "layers": 2}, {"hf": "m", "layers": 2}),
        ({"recipe": "pure-bf16"}, {"precision": "fp32"}, {"recipe": "pure-bf16"}),
        ({"precision": "fp16"}, {"recipe": "pure-bf16"}, {"precision": "fp16"}),
        ({"params": "1M"}, {"trainable": 10**9}, {"params": 10**6}),
    ],
)
def test_what_makes_no_sense_beside_a_flag_gives_way(
    flags: dict[str, Any], file: dict[str, Any], left: dict[str, Any]
) -> None:
    assert merged(flags, file) == left


def test_a_contradiction_names_who_said_it() -> None:
    with pytest.raises(UserError, match=r"^--gpus does not go with --device cpu$"):
        merged({"device": "cpu", "gpus": 2}, {})
    with pytest.raises(UserError, match=r"\(with what doctor.toml says\)$"):
        merged({}, {"device": "cpu", "gpus": 2})
    with pytest.raises(UserError, match=r"doctor.toml and DOCTOR_ variables says\)$"):
        merged({}, {"gpus": 2}, device="cpu")


def test_a_flag_may_speak_of_what_the_file_names() -> None:
    assert merged({"layers": 4}, {"hf": "m"}) == {"hf": "m", "layers": 4}
    assert merged({"compile": True}, {"hf": "m"}) == {"hf": "m", "compile": True}
    with pytest.raises(UserError, match="--layers and --weights are about"):
        merged({"layers": 4}, {})


def test_no_smoke_leaves_out_the_training_that_a_file_names() -> None:
    assert merged({"smoke": False}, {"hf": "m"}) == {"hf": "m", "smoke": False}
    with pytest.raises(UserError, match="--no-smoke leaves out every training step"):
        merged({"smoke": False, "hf": "m"}, {})


def test_saved_facts_answer_nothing_that_must_be_looked_at() -> None:
    keys = dict.fromkeys((*LOOKED_AT, *ABOUT_THEM), "x")
    file = JobFile(job={**keys, "keep": 4}, expect=Expect(cpus=1))
    assert merge({}, {}, file, replayed=True) == {"keep": 4, "expect": Expect(cpus=1)}
