"""When a check must have an answer, as data on the check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from judges import check

from doctor.catalog import CHECKS
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Required


@pytest.mark.parametrize(
    ("required", "job", "options", "expected"),
    [
        ("never", {"checkpoint": "/c", "output_dir": "/o", "gpus": 2}, {}, False),
        ("always", {}, {"smoke": False}, True),
        ("smoke", {}, {}, True),
        ("smoke", {}, {"smoke": False}, False),
        ("checkpoint", {}, {}, False),
        ("checkpoint", {"checkpoint": "/c"}, {"smoke": False}, True),
        ("output_dir", {"checkpoint": "/c"}, {}, False),
        ("output_dir", {"output_dir": "/o"}, {}, True),
        ("gpus", {}, {}, False),
        ("gpus", {"gpus": 1}, {}, True),
    ],
)
def test_a_check_is_required_by_its_policy_and_the_run(
    required: Required, job: dict[str, Any], options: dict[str, Any], expected: bool
) -> None:
    made = replace(CHECKS[0], required=required)
    assert made.is_required(Job(**job), RunOptions(**options)) is expected


def test_every_policy_is_used_and_names_a_field() -> None:
    fields = {*Job.__struct_fields__, *RunOptions.__struct_fields__}
    assert set(get_args(Required)) - {"never", "always"} <= fields
    assert {check.required for check in CHECKS} == set(get_args(Required))


@pytest.mark.parametrize(
    ("code", "required"),
    [("SMK001", "smoke"), ("CKP001", "checkpoint"), ("DSK002", "output_dir"), ("GPU001", "gpus")],
)
def test_the_policy_of_a_check(code: str, required: Required) -> None:
    assert check(code).required == required
