"""Faults planted in real trainings, in real processes, and their diagnosis."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import preloaded
import pytest
from bisections import PLANTED, SECONDS, SMALL, OneProcess, Train, diagnosed, factory_of
from probe_code import REGISTERED, RUN

from doctor.collect import changes as possible
from doctor.collect import child as child_process
from doctor.collect.changes import CHANGES
from doctor.collect.children import Children
from doctor.collect.torch_child import TorchChild
from doctor.facts.training import Smoke


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Train]:
    """Trains a subject with `prelude` planted in every process of the probe, and diagnoses it.

    `code` is a file with a factory `make`, which is trained instead of the small model.
    `separate`: the bisection has a process of its own, as in a run of the doctor. `changes` are
    those that the bisection tries.
    """
    probes = tmp_path / "probes"
    probes.mkdir()
    monkeypatch.setattr(child_process, "PROBES", probes)
    running: list[TorchChild] = []

    def run(
        prelude: str = "",
        code: str = "",
        separate: bool = False,
        hanging: tuple[str, ...] = (),
        changes: tuple[str, ...] = CHANGES,
        **how: Any,
    ) -> Smoke:
        script = REGISTERED + textwrap.dedent(prelude) + RUN
        (probes / "launch.py").write_text(script, "utf-8")
        monkeypatch.setattr(possible, "CHANGES", changes)
        child = (TorchChild if separate else OneProcess)(Children(), preloaded.python())
        running.append(child)
        if isinstance(child, OneProcess):
            child.hanging, child.hangs = hanging, tmp_path / "hangs"
        subject: dict[str, Any] = SMALL
        if code:
            subject = factory_of(tmp_path / "planted.py", code)
        return diagnosed(child, subject, **how)

    yield run
    for child in running:
        TorchChild.end(child)


@pytest.fixture(scope="session")
def planting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    """One process for the faults that are planted in torch and leave it alive."""
    probes = tmp_path_factory.mktemp("probes")
    (probes / "launch.py").write_text(REGISTERED + PLANTED + RUN, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child_process, "PROBES", probes)
        child = OneProcess(Children(), preloaded.python())
        assert child.imported().ended.ok
    yield child
    child.close()


@pytest.fixture
def train_planted(planting: OneProcess, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Trains a subject, the small model by default, with a fault planted in torch."""

    def run(
        plant: str, changes: tuple[str, ...] = CHANGES, subject: dict[str, Any] = SMALL, **how: Any
    ) -> Smoke:
        monkeypatch.setattr(possible, "CHANGES", changes)
        assert planting.request(SECONDS, stage="plant", code=textwrap.dedent(plant)).ended.ok
        return diagnosed(planting, subject, **how)

    return run
