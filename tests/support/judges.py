"""Checks by their code, as tests call them."""

from __future__ import annotations

from collections.abc import Callable

from doctor.catalog import CHECKS
from doctor.judge.check import Check, Verdict

BY_CODE = {check.code: check for check in CHECKS}


def check(code: str) -> Check:
    return BY_CODE[code]


def judge(code: str) -> Callable[..., Verdict]:
    return BY_CODE[code].judge
