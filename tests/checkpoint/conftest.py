"""Libraries that save checkpoints warn of their own future."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture
def quietly() -> Iterator[None]:
    """Warnings of a library are no error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
