"""DRV: the NVIDIA driver."""

from __future__ import annotations

from doctor.checks.driver import driver

CHECKS = driver.CHECKS
