"""A second seed before a training is called sound: real factories in a real process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import patience
import pytest
import shims

from doctor.checks.training import own_model as checks
from doctor.collect import other_seed
from doctor.collect.children import Children
from doctor.collect.own_training import collect_in
from doctor.collect.torch_child import TorchChild
from doctor.facts.own_model import OtherSeed, OwnModel
from doctor.job.job import Chosen, Job
from doctor.judge.check import Status

pytestmark = pytest.mark.slow

HEAD = """
import torch
from torch import nn

CALLS = []
SHARED = nn.Linear(8, 4)
FIRST = {first}

def parts():
    CALLS.append(torch.initial_seed())
    return nn.Linear(8, 4), (torch.randn(4, 8), torch.randint(4, (4,)))

def loss_of(module, batch, divisor=1.0):
    return nn.functional.cross_entropy(module(batch[0]) / divisor, batch[1])

def make():
    module, batch = parts()
    first = CALLS[-1] == FIRST
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TorchChild]:
    python = shims.python(tmp_path_factory.mktemp("interpreter"), patience.IN_THE_PROBE)
    child = TorchChild(Children(), python)
    yield child
    child.end()


@pytest.fixture
def train(warm: TorchChild, tmp_path: Path) -> Callable[[str], OwnModel]:
    """Trains what these lines of `make` return."""

    def run(lines: str) -> OwnModel:
        file = Path(tempfile.mkdtemp(dir=tmp_path)) / "train.py"
        body = "".join(f"    {line}\n" for line in lines.splitlines())
        file.write_text(HEAD.format(first=other_seed.SEEDS[0]) + body, "utf-8")
        job, chosen = Job(device="cpu", model=f"{file}:make"), Chosen("fp32", "here")
        record = collect_in(warm, job, "cpu", chosen, lambda stage: None)
        assert isinstance(record, OwnModel), record
        return record

    return run


def other(record: OwnModel) -> OtherSeed:
    assert record.seed == other_seed.SEEDS[0]
    assert record.other_seed
    assert record.other_seed.seed == other_seed.SEEDS[1]
    return record.other_seed


def test_both_seeds_are_sound(train: Callable[[str], OwnModel]) -> None:
    record = train("return module, batch, nn.CrossEntropyLoss()")
    first, second = record.smoke, other(record).smoke
    assert first
    assert second
    assert [step.loss for step in first.steps] != [step.loss for step in second.steps]
    assert checks.completes(record, None).status is Status.PASS
    assert checks.loss_finite(record, None).status is Status.PASS


def test_a_fault_of_one_seed_is_reported_with_it(train: Callable[[str], OwnModel]) -> None:
    record = train("return module, batch, lambda m, b: loss_of(m, b, 1.0 if first else 0.0)")
    assert checks.completes(record, None).status is Status.PASS
    verdict = checks.loss_finite(record, None)
    assert verdict.status is Status.FAIL
    assert "with seed 2 " in verdict.summary
    assert f"not with {other_seed.SEEDS[0]}" in verdict.summary
    assert "div" in verdict.summary, "the diagnosis is of that seed"


def test_an_error_of_one_seed_is_reported_with_it(train: Callable[[str], OwnModel]) -> None:
    record = train("return module, batch, lambda m, b: loss_of(m, b, 1.0 if first else [][1])")
    verdict = checks.completes(record, None)
    assert verdict.status is Status.FAIL
    assert "IndexError" in verdict.summary
    assert "with seed 2 " in verdict.summary


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("return SHARED, batch, nn.CrossEntropyLoss()", "the model of its first call"),
        ("assert len(CALLS) < 2\nreturn module, batch, nn.CrossEntropyLoss()", "AssertionError"),
        (
            "count = len(CALLS)\n"
            "return module, batch, lambda m, b: loss_of(m, b, float(count == 1))",
            "did not return in a new process",
        ),
    ],
    ids=["the same model", "called once only", "a fault of the second call"],
)
def test_a_second_call_that_proves_nothing_is_no_fault(
    lines: str, reason: str, train: Callable[[str], OwnModel]
) -> None:
    record = train(lines)
    assert reason in other(record).reason
    assert other(record).smoke is None
    assert checks.completes(record, None).status is Status.PASS
    assert checks.loss_finite(record, None).status is Status.PASS


def test_slow_trainings_are_not_repeated(
    train: Callable[[str], OwnModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_seed, "AT_MOST", 0.0)
    assert "to be repeated" in other(train("return module, batch, nn.CrossEntropyLoss()")).reason


def test_a_failed_training_has_no_second_seed(train: Callable[[str], OwnModel]) -> None:
    assert train("return module, batch, lambda m, b: loss_of(m, b, [][1])").other_seed is None
