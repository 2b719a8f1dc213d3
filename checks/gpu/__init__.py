"""GPU: the devices of the job, at rest, under load and between each other."""

from __future__ import annotations

from doctor.checks.gpu import device, load, peers

CHECKS = (
    *device.CHECKS,
    *load.CHECKS,
    *peers.CHECKS,
)
