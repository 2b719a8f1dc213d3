"""FLT: several nodes, compared with each other."""

from __future__ import annotations

from doctor.checks.fleet import meeting, members, rates, settings, together

CHECKS = (*members.CHECKS, *settings.CHECKS, *rates.CHECKS, *meeting.CHECKS, *together.CHECKS)
