"""GPU: the devices of the job, at rest, under load and between each other."""

from __future__ import annotations

from doctor.checks.gpu import (
    all_reduce,
    bus,
    device,
    identity,
    load,
    memory_test,
    pcie_errors,
    peer_copies,
)

CHECKS = (
    *device.CHECKS,
    *load.CHECKS,
    *peer_copies.CHECKS,
    *all_reduce.CHECKS,
    *identity.CHECKS,
    *bus.CHECKS,
    *memory_test.CHECKS,
    *pcie_errors.CHECKS,
)
