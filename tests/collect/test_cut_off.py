"""Sections that --budget cut off are unknown, whatever was read of them before."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import preloaded
import pytest
import shims
from recorded_parts import H100, TORCH_2_15, machine

from doctor import catalog
from doctor._util.records import Ended, Unknown
from doctor.collect import attention_trial, gpus, own_training, peers, torch_child
from doctor.collect.child import CUT_OFF
from doctor.collect.children import Children, NotStartedError, unless_cut_off
from doctor.collect.collect import collect
from doctor.collect.torch_child import TorchChild
from doctor.collect.workers import Worker
from doctor.facts.facts import decode, encode
from doctor.facts.own_model import LoraOrder, OwnModel
from doctor.facts.training import Smoke
from doctor.job.expect import Expect
from doctor.job.job import Chosen, Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Status
from doctor.judge.engine import examine

OK = Ended(how="ok")
BF16 = Chosen("bf16", "a test")
CUT = Unknown(reason=CUT_OFF.detail)


def ignore(stage: str) -> None:
    pass


@pytest.fixture
def late() -> TorchChild:
    """A torch child of a run whose budget is spent."""
    return TorchChild(Children(0.0), sys.executable)


def test_a_section_is_kept_unless_one_of_its_calls_was_cut_off() -> None:
    assert unless_cut_off("section", OK, None, Ended(how="timeout")) == "section"
    cut = Ended(how="budget", detail="cut off by --budget inside cuInit")
    assert unless_cut_off("section", OK, cut, CUT_OFF) == Unknown(reason=cut.detail)


def test_no_probe_starts_once_the_budget_is_spent() -> None:
    with pytest.raises(NotStartedError) as error:
        Children(0.0).start(sys.executable, "doctor_side.nvml")
    assert error.value.ended == CUT_OFF


def test_the_import_and_the_smoke_step(late: TorchChild) -> None:
    interpreter, torch = torch_child.read_import(sys.executable, "a test", late)
    assert interpreter == CUT
    assert isinstance(torch, Unknown)
    assert torch_child.run_smoke(late, Job(), "cpu", BF16, ignore) == CUT


def test_the_other_gpus_have_no_smoke_steps_if_one_was_cut_off(late: TorchChild) -> None:
    workers = tuple(Worker(f"cuda:{index}", None, "GPU", late) for index in range(3))
    assert gpus.PerGpuSmoke(workers, machine(H100, torch=TORCH_2_15), BF16).smokes() == ()


def test_load_and_peers(late: TorchChild) -> None:
    workers = tuple(Worker(f"cuda:{index}", None, "GPU", late) for index in range(2))
    facts = gpus.run_load_tests(Children(0.0), workers, machine(H100, torch=TORCH_2_15), ignore)
    assert (facts.load, facts.peers) == (CUT, CUT)
    assert peers.try_peers(Children(0.0), workers, "gloo") == CUT


def test_the_attention_trial(late: TorchChild) -> None:
    facts = machine(H100, torch=TORCH_2_15)
    assert attention_trial.try_attention(late, facts, "cpu", BF16, ignore) == CUT


def test_a_part_of_the_own_training_makes_all_of_it_unknown() -> None:
    order = LoraOrder(order="LoRA first", reentrant=False, ended=CUT_OFF)
    own = OwnModel(description="train.py:make", built=OK, lora=(order,))
    assert CUT_OFF in own_training._calls(own)
    assert CUT_OFF not in own_training._calls(msgspec.structs.replace(own, lora=()))


@pytest.mark.slow
def test_a_run_that_is_cut_off_while_torch_is_imported_fails_nothing(tmp_path: Path) -> None:
    python = shims.python(tmp_path, "time.sleep(600)")
    facts = collect(Job(device="cpu", python=python), RunOptions(budget=1.5), Expect(), ignore)
    for section in (facts.interpreter, facts.torch, facts.smoke):
        assert isinstance(section, Unknown)
    assert decode(encode(facts)) == facts
    statuses = {
        finding.check.code: finding.status for finding in examine(catalog.MACHINE_CHECKS, facts)
    }
    assert Status.FAIL not in statuses.values()
    assert statuses["TOR001"] is Status.UNKNOWN


@pytest.mark.slow
def test_a_whole_run_is_not_cut_off(tmp_path: Path) -> None:
    job = Job(device="cpu", python=preloaded.python())
    facts = collect(job, RunOptions(quick=True, budget=600), Expect(), ignore)
    assert isinstance(facts.smoke, Smoke)
    assert facts.smoke.completed


def test_facts_files_written_before_budget_was_a_way_to_end_are_read() -> None:
    facts = machine(H100, torch=TORCH_2_15)
    assert isinstance(facts.places, tuple)
    old = Ended(how="error", detail="cut off by --budget inside statvfs")
    places = (msgspec.structs.replace(facts.places[0], looked=old),)
    again: Any = decode(encode(facts.with_(places=places))).places
    assert again[0].looked == old
