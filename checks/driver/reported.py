"""Lines of the kernel log, or beside a pasted report, that name a known fault."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import listed, visible
from doctor.errors.cause import Cause
from doctor.errors.fitted import fitted
from doctor.errors.index import ENTRIES
from doctor.errors.match import REPORTS, row, table_of
from doctor.facts.host import Host
from doctor.facts.machine import Driver
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, warn

LONGEST, MOST_OTHERS = 200, 4
OBSERVED = ("host_tools", "gpu_readings", "started", "installed", "fabric",
            "clocks", "accelerators")  # fmt: skip
"""Of what tools show of the machine as the job uses it: no error of the program."""
OF_PROGRAM = ("cuda-illegal-access",)
"""Rows that seldom are of the machine: a kernel of the program reads outside of its memory."""
UNHARMED = ("wheel-for-other-torch-listed", "nccl-packages-listed", "cpu-build-listed",
            "cuda-not-available-listed", "wsl1-listed")  # fmt: skip
"""Rows of facts of which the text shows no harm."""
OF_LOGS = ("kernel_modules", "machine_log", "host_log")
"""Tables of lines that a kernel log keeps after what they report has passed."""


def none_known(host: Host, driver: Driver | Unknown | None) -> Verdict:
    if host.reported is None:
        return skip("no kernel log is readable, and no report was pasted")
    known = [(row(each.cause), each.line) for each in host.reported if each.cause in ENTRIES]
    if not known:
        return ok("no known fault in the lines that no other check judges")
    cause, line = decisive(known)
    others = dict.fromkeys(each.id for each, _ in known if each.id != cause.id)
    more = f"; further lines: {listed(list(others), MOST_OTHERS)}" if others else ""
    shown = visible(" ".join(line.split()))[:LONGEST]
    cause = fitted(cause, line)
    summary = f'"{shown}" ({cause.id}): {cause.why}{more}'
    if _is_program(cause) or _is_past(cause, driver) or cause.id in UNHARMED:
        return note(summary, fix=cause.fix, owner=cause.owner, causes=(cause.id,))
    problem = warn if cause.role == "warning" else fail
    return problem(
        summary,
        *cause.commands,
        fix=cause.fix,
        owner=cause.owner,
        sources=cause.sources,
        causes=(cause.id,),
    )


def _is_program(cause: Cause) -> bool:
    is_of_job = cause.owner is Owner.JOB and table_of(cause) not in OBSERVED
    return is_of_job or cause.id in OF_PROGRAM


def _is_past(cause: Cause, driver: Driver | Unknown | None) -> bool:
    """Whether the driver responds now: a failure in a log without an end is of an earlier try."""
    responds = isinstance(driver, Driver) and driver.nvml.ok and driver.cuda.ok
    return responds and cause.role != "warning" and table_of(cause) in OF_LOGS


def decisive(known: list[tuple[Cause, str]]) -> tuple[Cause, str]:
    """The line whose row says most, of equal ones the first: no error of the program, no warning,
    no account of another failure, and not less than the row of another line."""
    less = {id for cause, _ in known for id in (*cause.refines, *_yielding(known, cause))}

    def order(each: tuple[Cause, str]) -> tuple[bool, bool, bool, bool]:
        cause = each[0]
        return _is_program(cause), cause.role == "warning", cause.role in REPORTS, cause.id in less

    return min(known, key=order)


def _yielding(known: list[tuple[Cause, str]], cause: Cause) -> list[str]:
    """Rows among them that yield to this one."""
    return [each.id for each, _ in known if cause.id in each.yields_to]


NONE_KNOWN = Check(
    code="DRV003",
    slug="no-known-fault",
    title="No line of the kernel log or of a report names a known fault",
    why="The driver's libraries report that something is wrong, and the kernel log says what: a "
    "module that Secure Boot refused, no memory window for the GPU, another kernel. Of a pasted "
    "report each line is looked up that no other check judges.",
    passes=("no such line is in what could be read",),
    notes=(
        "a line is an error of the program, not of the machine",
        "a line of a log reports a failure of the driver, which responds now",
        "packages that were built for different releases are listed, and nothing failed to load",
        "a list of versions says that torch has no GPU to use, and nothing shows that there is one",
    ),
    warns=("a line reports errors that the machine survives, as of the PCIe link",),
    fails=("a line has the message of a known fault; the remedy is that fault's",),
    fix="Follow the remedy of the line.",
    limits="that the machine is healthy: most faults leave no line there.",
    owner=Owner.ENVIRONMENT,
    judge=none_known,
    also=("read",),
    leads=True,
)

CHECKS = (NONE_KNOWN,)
