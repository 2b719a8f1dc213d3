"""Reports that the tests of the formats share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, get_args

import msgspec
from recorded import machines
from recorded_parts import H100, OK, TORCH_2_15, job, machine

from doctor import catalog
from doctor._util.records import Ended
from doctor.checkpoint.records import Checkpoint, Share
from doctor.facts.facts import Facts
from doctor.facts.load import Attention, AttentionCase, Backend, Trial
from doctor.judge.check import Check, Finding, Owner, Status, Verdict, skip
from doctor.judge.engine import examine
from doctor.judge.place import Place
from doctor.report.redaction import redact
from doctor.report.report import Report

HOSTILE = (
    "</script><img src=x onerror=alert(1)> | `a` @octocat https://evil.example www.evil.example "
    "#1 [x](javascript:1) a%0Ab\n::error::owned\r\n::set-output name=x::y\x00\x1b[31m\u202e"
)


def judged(facts: Facts, **fields: Any) -> Report:
    """The report of a run over these facts."""
    return redact(Report(facts, examine(catalog.MACHINE_CHECKS, facts), **fields))


@cache
def every_report() -> dict[str, Report]:
    """The reports of all recorded machines."""
    return {name: judged(facts) for name, facts in machines().items()}


@contextmanager
def about(name: str) -> Iterator[None]:
    """An assertion that fails inside is reported with that name."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the report of {name}")
        raise


def finding(
    code: str,
    status: Status,
    summary: str = "observed value",
    *,
    owner: Owner = Owner.JOB,
    returns: bool = False,
    **fields: Any,
) -> Finding:
    check = Check(
        code=code,
        slug="made-up",
        title="The value is correct",
        why="because",
        passes=("the value is correct",),
        fix="correct it",
        limits="that it stays correct",
        owner=owner,
        returns=returns,
        judge=lambda: skip("made for a test"),
    )
    verdict = {
        name: fields.pop(name) for name in ("commands", "seconds", "places") if name in fields
    }
    return Finding(check, Verdict(status, summary, **verdict), **fields)


def report(*findings: Finding, **fields: Any) -> Report:
    """A report of these findings."""
    flags = fields.pop("job", {})
    return Report(machine(H100, torch=TORCH_2_15, job=job(**flags)), findings, **fields)


def hostile() -> Report:
    """A report in which all untrusted texts are hostile."""
    facts = machines()["swallowed_updates"]
    place = Place(path=HOSTILE, line=3, column=7, text=HOSTILE, message=HOSTILE)
    findings = tuple(
        replace(
            each,
            verdict=replace(each.verdict, summary=HOSTILE, commands=(HOSTILE,), places=(place,)),
        )
        for each in examine(catalog.MACHINE_CHECKS, facts)
    )
    return Report(facts, findings, replayed=HOSTILE, notes=(HOSTILE,))


def showcase() -> Facts:
    """Facts with content for every section of the HTML page."""
    facts = machines()["swallowed_updates"]
    cases = (
        AttentionCase(
            name="causal 2048", batch=1, heads=16, kv_heads=16, queries=2048, keys=2048,
            head_dim=128, causal=True,
        ),
        AttentionCase(
            name="padded keys", batch=2, heads=16, kv_heads=16, queries=512, keys=576,
            head_dim=128, mask="padding", trigger="pytorch-196678",
        ),
    )  # fmt: skip
    ran: dict[str, Any] = {"ended": OK, "errors": {"output": 0.0021, "dq": 0.0034}}
    odd: dict[tuple[str, str], dict[str, Any]] = {
        ("padded keys", "flash"): {"refused": "attn_mask is not supported", "errors": {}},
        ("padded keys", "cudnn"): {"nonfinite": {"dq": 128}},
        ("padded keys", "math"): {"ended": Ended(how="error", detail="CUDA out of memory")},
    }
    trials = tuple(
        Trial(
            backend=backend, dtype=dtype, case=case.name, **ran | odd.get((case.name, backend), {})
        )
        for case in cases
        for backend in get_args(Backend)
        for dtype in ("bf16", "fp16")
    )
    shares = (
        Share(dtype="BF16", kind="MLP", tensors=700, parameters=28 * 10**8, bytes=56 * 10**8),
        Share(dtype="F32", kind="head", tensors=110, parameters=10**8, bytes=4 * 10**8),
    )
    assert isinstance(facts.checkpoint, Checkpoint)
    return facts.with_(
        attention=Attention(
            device="cuda:0",
            cases=cases,
            trials=trials,
            seconds=8.2,
            defaults={"causal 2048/bf16": "cudnn", "padded keys/bf16": "cudnn"},
        ),
        checkpoint=msgspec.structs.replace(
            facts.checkpoint,
            contents=msgspec.structs.replace(facts.checkpoint.contents, shares=shares),
        ),
    )
