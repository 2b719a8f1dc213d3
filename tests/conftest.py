"""Settings of all tests, made before any library reads them."""

from __future__ import annotations

import gc
import os
import sys

import older
import pytest
from hypothesis import settings

# Threads of several tests that wait for each other on a busy machine take ten times as long.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# Hundreds of children import the doctor: without cached bytecode each compiles it anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# pytest --hypothesis-profile=thorough, or HYPOTHESIS_PROFILE=thorough, tries many more examples.
settings.register_profile("quick", max_examples=15, deadline=None)
settings.register_profile("thorough", max_examples=100, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(scope="session")
def transformers_4(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has transformers 4.57.6 and its peft imported already."""
    return older.transformers_4(tmp_path_factory, os.environ.get("PYTEST_XDIST_WORKER", ""))


def pytest_collection_finish() -> None:
    """What is imported until here stays: collections of garbage need not examine it again."""
    gc.collect()
    gc.freeze()
