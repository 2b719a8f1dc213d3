"""Fixtures for the tests of a GPU runner. In the topmost conftest.py:

    pytest_plugins = ["preflight_doctor.pytest_plugin"]

The machine is examined once in a session, when the first test asks for it.
"""

from __future__ import annotations

import pytest

import preflight_doctor
from preflight_doctor import Report, Settings


@pytest.fixture(scope="session")
def preflight_settings() -> Settings:
    """The job: override this fixture to return other settings of `preflight_doctor.run`."""
    return {"quick": True}


@pytest.fixture(scope="session")
def preflight_report(preflight_settings: Settings) -> Report:
    """The report on this machine, whatever its outcome is."""
    return preflight_doctor.run(**preflight_settings)


@pytest.fixture(scope="session")
def preflight(preflight_report: Report) -> Report:
    """The same report; a test that uses it fails with the verdict unless that is READY."""
    if preflight_report.outcome != "ready":
        text = preflight_doctor.render(preflight_report)
        pytest.fail(f"{preflight_report.verdict_line}\n\n{text}", pytrace=False)
    return preflight_report
