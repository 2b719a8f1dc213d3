"""TOR: the torch build."""

from __future__ import annotations

from doctor.checks.torch_build import has_code, imports, libraries, vendor

CHECKS = (*imports.CHECKS, *vendor.CHECKS, *has_code.CHECKS, *libraries.CHECKS)
