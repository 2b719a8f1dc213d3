"""DRV: the NVIDIA driver."""

from __future__ import annotations

from doctor.checks.driver import cuda_version, driver, reported

CHECKS = (*driver.CHECKS, *cuda_version.CHECKS, *reported.CHECKS)
