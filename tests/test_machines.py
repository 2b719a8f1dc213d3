"""Recorded machines, each with the report it must get. DOCTOR_UPDATE=1 writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from paths import MACHINES as FOLDER
from recorded import machines

from doctor.facts.facts import Facts, decode, encode
from doctor.judge import catalog
from doctor.judge.check import Status
from doctor.judge.engine import examine
from doctor.report.formats.plain import render
from doctor.report.report import Outcome, Report

MADE = machines()
FILES = sorted({FOLDER / f"{name}.json" for name in MADE} | {*FOLDER.glob("*.json")})
UPDATE = bool(os.environ.get("DOCTOR_UPDATE"))

OUTCOMES = {
    "attention_wrong": Outcome.FIX,
    "attention_crash": Outcome.FIX,
    "attention_own_shape": Outcome.FIX,
    "attention_switched_off": Outcome.READY,
    "attention_implementation": Outcome.READY,
    "attention_unfinished": Outcome.READY,
    "own_fp16": Outcome.READY,
    "own_lora": Outcome.READY,
    "own_lora_transformers4.57": Outcome.READY,
    "own_factory_raises": Outcome.FIX,
    "own_silent_adapters": Outcome.FIX,
    "own_nan": Outcome.FIX,
    "own_scaler_bf16": Outcome.FIX,
    "own_images": Outcome.UNKNOWN,
    "h100_torch2.15": Outcome.READY,
    "h200_torch2.11": Outcome.READY,
    "a100": Outcome.READY,
    "rtx4090": Outcome.READY,
    "rtx5090_torch2.6": Outcome.FIX,
    "gb10": Outcome.READY,
    "titan_rtx_bf16": Outcome.FIX,
    "v100_torch2.11": Outcome.FIX,
    "t4": Outcome.READY,
    "mi300_rocm": Outcome.READY,
    "cpu_only": Outcome.READY,
    "cpu_torch_beside_gpu": Outcome.FIX,
    "no_driver": Outcome.FIX,
    "old_driver": Outcome.FIX,
    "hung_driver": Outcome.RETURN,
    "mig_slice": Outcome.FIX,
    "busy_gpu": Outcome.FIX,
    "row_remap_failed": Outcome.RETURN,
    "throttled": Outcome.READY,
    "shm_64mib": Outcome.FIX,
    "cgroup_limit": Outcome.FIX,
    "full_disk": Outcome.FIX,
    "fp32_with_leftovers": Outcome.READY,
    "frozen_norms": Outcome.FIX,
    "swallowed_updates": Outcome.FIX,
    "fp32_checkpoint": Outcome.READY,
    "bf16_adapter": Outcome.UNKNOWN,
    "missing_shard": Outcome.FIX,
    "mixed_checkpoint": Outcome.READY,
    "smoke_segfault": Outcome.FIX,
    "smoke_hang": Outcome.FIX,
    "smoke_nan": Outcome.FIX,
    "smoke_norms_unmoved": Outcome.FIX,
    "torch_import_fails": Outcome.FIX,
    "smoke_no_gradient": Outcome.FIX,
    "two_cudnns": Outcome.FIX,
    "nothing_readable": Outcome.UNKNOWN,
    "diagnosed_cudnn": Outcome.FIX,
    "diagnosed_nothing_mends": Outcome.FIX,
    "diagnosed_comes_and_goes": Outcome.FIX,
    "diagnosed_hang_with_flash": Outcome.FIX,
    "as_agreed": Outcome.READY,
    "not_as_agreed": Outcome.RETURN,
    "agreed_and_unread": Outcome.UNKNOWN,
    "slow_card": Outcome.READY,
    "wrong_product": Outcome.RETURN,
    "xid_during_run": Outcome.RETURN,
    "load_hangs": Outcome.RETURN,
    "broken_p2p": Outcome.RETURN,
    "two_a100": Outcome.READY,
}
HEALTHY = ("h100_torch2.15", "a100", "rtx4090", "two_a100", "cpu_only", "mi300_rocm")


def judged(facts: Facts) -> Report:
    return Report(facts, examine(catalog.CHECKS, facts))


@pytest.mark.parametrize("name", MADE)
def test_a_made_machine_is_what_its_file_says(name: str) -> None:
    path = FOLDER / f"{name}.json"
    if UPDATE:
        path.write_bytes(encode(MADE[name]))
    assert decode(path.read_bytes()) == MADE[name]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_machine_gets_its_report(path: Path) -> None:
    golden = path.with_suffix(".txt")
    got = render(judged(decode(path.read_bytes())), "normal") + "\n"
    if UPDATE:
        golden.write_text(got, "utf-8")
    assert got == golden.read_text("utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_machine_gets_its_verdict(path: Path) -> None:
    facts = decode(path.read_bytes())
    assert facts.origin.startswith(("made from", "recorded"))
    assert judged(facts).outcome is OUTCOMES[path.stem]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_machine_gets_no_complaint_and_no_unknown(name: str) -> None:
    report = judged(decode((FOLDER / f"{name}.json").read_bytes()))
    loud = (Status.FAIL, Status.WARN, Status.UNKNOWN)
    assert [f.check.code for f in report.findings if f.status in loud] == []


def test_nothing_readable_is_never_well() -> None:
    report = judged(MADE["nothing_readable"])
    assert {finding.status for finding in report.findings} <= {Status.UNKNOWN, Status.SKIP}
    assert report.exit_code == 3
