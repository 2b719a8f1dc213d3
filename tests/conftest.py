"""Settings of all tests, made before any library reads them."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
from collections.abc import Generator

import older
import patience
import pytest
from hypothesis import HealthCheck, settings

# Threads of several tests that wait for each other on a busy machine take ten times as long.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# Hundreds of children import the doctor: without cached bytecode each compiles it anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell ignores SIGINT in what it runs in the background, nohup SIGHUP; every child inherits it.
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        ends_by_exception = number is signal.SIGINT
        signal.signal(number, signal.default_int_handler if ends_by_exception else signal.SIG_DFL)

# A test that needs one of them sets it.
for variable in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
    os.environ.pop(variable, None)
os.environ["TERM"] = "xterm-256color"
for variable in list(os.environ):
    if variable.startswith(("SLURM_", "MASTER_")) or variable.endswith(("RANK", "WORLD_SIZE")):
        del os.environ[variable]

# The same examples in every run, with no file in the working directory, which may be read-only.
# pytest --hypothesis-profile=thorough, or HYPOTHESIS_PROFILE=thorough, tries many more examples.
ON_ANY_MACHINE = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
settings.register_profile(
    "quick", max_examples=15, derandomize=True, database=None, **ON_ANY_MACHINE
)
settings.register_profile("thorough", max_examples=100, **ON_ANY_MACHINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


LONGEST = (
    "test_budget.py",
    "test_collect.py",
    "test_docs.py",
    "test_lora.py",
    "test_watch.py",
    "test_compiled.py",
    "test_peers.py",
    "test_pretend_cuda.py",
)
"""Files that take 20 s and more: they begin first, so that no worker is left with one alone."""


def pytest_configure(config: pytest.Config) -> None:
    """xdist keeps the order below; it would begin with the files of the most tests."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """The same random numbers whichever tests ran in this worker before."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def busy_machine() -> None:
    """Verdicts do not depend on how much else runs on this machine."""
    patience.wait_for_a_busy_machine()


@pytest.fixture(scope="session")
def transformers_4(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has transformers 4.57.6 and its peft imported already."""
    return older.transformers_4(tmp_path_factory, os.environ.get("PYTEST_XDIST_WORKER", ""))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported here stays: collections of garbage need not examine it, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
