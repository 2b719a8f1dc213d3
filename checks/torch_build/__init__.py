"""TOR: the torch build."""

from __future__ import annotations

from doctor.checks.torch_build import build, libraries

CHECKS = (*build.CHECKS, *libraries.CHECKS)
