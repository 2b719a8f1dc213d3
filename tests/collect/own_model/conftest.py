"""Real factories in real processes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import preloaded
import pytest
from own_code import Own, job_of

from doctor.collect import own_training
from doctor.collect.children import Children
from doctor.collect.own_training import collect_in, collect_own
from doctor.collect.torch_child import TorchChild
from doctor.facts.own_model import OwnModel
from doctor.job.job import Chosen, Precision


@pytest.fixture
def own(warm: TorchChild, tmp_path: Path) -> Own:
    """Trains what the source's `make` returns."""

    def train(source: str, precision: str = "fp32", asked: str = "auto", **fields: Any) -> OwnModel:
        directory = Path(tempfile.mkdtemp(dir=tmp_path))  # the process caches modules by path
        job = job_of(directory / "train.py", source, precision=asked, **fields)
        chosen = Chosen(precision, "here")  # type: ignore[arg-type]
        record = collect_in(warm, job, "cpu", chosen, lambda stage: None)
        assert isinstance(record, OwnModel), record
        return record

    return train


@pytest.fixture
def own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Own]:
    """The same in a process of its own, in the directory of the file."""
    children = Children()
    monkeypatch.chdir(tmp_path)

    def train(source: str, precision: Precision = "fp32", **fields: Any) -> OwnModel:
        job = job_of(Path("train.py"), source, **fields)
        chosen = Chosen(precision, "here")
        python = preloaded.python()
        record = collect_own(children, python, job, "cpu", chosen, lambda stage: None)
        assert isinstance(record, OwnModel), record
        return record

    yield train
    children.interrupt()


@pytest.fixture
def without_diagnosis(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The calls of the bisection, which is not run."""
    calls: list[object] = []
    monkeypatch.setattr(own_training, "diagnose", lambda *inputs, **options: calls.append(inputs))
    return calls
