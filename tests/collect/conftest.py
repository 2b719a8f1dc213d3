"""Real processes of the installed torch."""

from __future__ import annotations

from collections.abc import Iterator

import preloaded
import pytest

from doctor.collect.children import Children
from doctor.collect.torch_child import TorchChild


@pytest.fixture(scope="session")
def warm() -> Iterator[TorchChild]:
    """One process for what leaves it as it was; a new one after a death."""
    child = TorchChild(Children(), preloaded.python())
    yield child
    child.end()


@pytest.fixture
def children() -> Iterator[Children]:
    made = Children()
    yield made
    made.interrupt()
