"""Where the tests' data lies."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
MACHINES = TESTS / "machines"
FORMATS = TESTS / "formats"
FAKES = TESTS / "fake_nvml"
