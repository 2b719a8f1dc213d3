"""Whether the clock of this machine is right."""

from __future__ import annotations

from doctor.facts.machine import Host
from doctor.judge.check import Check, Owner, Verdict, ok, skip, unknown, warn

WARN_SECONDS = 60.0
"""Our own number: TLS and object storage accept minutes, and a service that works keeps
milliseconds."""


def is_right(host: Host) -> Verdict:
    if host.clock_service is None:
        return unknown("the offset of the clock was not recorded")
    if not host.clock_service:
        return skip("no time service answers here, so the offset of the clock is not known")
    if host.clock_offset is None:
        return unknown(f"{host.clock_service} answers, but has no measurement of the offset")
    summary = (
        f"the clock is {host.clock_offset:.3g} s off by {host.clock_service}; "
        f"less than {WARN_SECONDS:g} s required"
    )
    return ok(summary) if host.clock_offset < WARN_SECONDS else warn(summary)


CLOCK = Check(
    code="DSK003",
    slug="clock-is-right",
    title=f"The clock is less than {WARN_SECONDS:g} s off",
    why="Object storage and registries refuse signed requests and certificates of another time, so "
    "uploads of checkpoints fail hours later, and logs of several nodes cannot be put in order. "
    "chronyc or timedatectl is asked; no server on the network is.",
    passes=(
        f"the time service of this machine measured less than {WARN_SECONDS:g} s",
        "skipped where none answers, as in most containers",
    ),
    warns=(f"it measured {WARN_SECONDS:g} s or more",),
    fix="Start time synchronization on the host, and check that it reaches its server. In a "
    "container or a virtual machine ask the provider.",
    commands=("chronyc tracking",),
    limits="that the server of the time service is right.",
    owner=Owner.MACHINE,
    judge=is_right,
    sources=("chronyc", "aws-clock-180"),
)
