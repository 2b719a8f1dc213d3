"""Workers on the CPU that leave no process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import shims
from loads import Make

from doctor.collect.children import Children
from doctor.collect.torch_child import TorchChild
from doctor.collect.workers import Worker, end


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Workers on the CPU, one for each interpreter; none of their processes may be left."""
    name = f"DOCTOR_TEST_{uuid.uuid4().hex}"
    monkeypatch.setenv(name, "1")
    children = Children()
    made: list[Worker] = []

    def workers(*pythons: str) -> tuple[Worker, ...]:
        made.extend(Worker("cpu", None, "CPU", TorchChild(children, path)) for path in pythons)
        return tuple(made)

    yield workers
    end(tuple(made))
    assert shims.left(name) == []
