"""What the checks say of how the nodes of a fleet met."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from node_summaries import summaries

from doctor import catalog
from doctor._util.records import Ended
from doctor.facts.meeting import Absence, Arrival, Meeting, Pair, Shared
from doctor.fleet.compare import compare, fleet_facts
from doctor.judge.check import Finding, Status
from doctor.judge.engine import examine

ARRIVAL = Arrival(node="n1", rank=1, interface="eth0", resolving=0.002, connecting=0.01)
SILENT = Absence(node="n2", rank=2, joined=True)
REFUSED = Absence(node="n2", rank=2, joined=False, reason="it is sealed with another key")
GONE = Absence(node="n2", rank=2, joined=False)
OK = Ended(how="ok")
SEEN = Shared(path="/out", written=OK, seen=("n1", "n2"))
UNSEEN = Shared(path="/out", written=OK, seen=("n1",), unseen={"n2": "No such file"})
SILENT_ONE = Shared(path="/out", written=OK, seen=("n1",), silent=("n2",))
UNWRITTEN = Shared(path="/out", written=Ended(how="error", detail="Read-only file system"))


def pair(first: int, second: int, wrong: int = 0) -> Pair:
    return Pair(first=f"n{first}", second=f"n{second}", ended=OK, wrong=wrong, rate=1e9)


def hung(first: int, second: int) -> Pair:
    ended = Ended(how="timeout", detail="no answer in 30 s")
    return Pair(first=f"n{first}", second=f"n{second}", ended=ended)


def cut_off(first: int, second: int) -> Pair:
    ended = Ended(how="budget", detail="not tried: 3 s were left")
    return Pair(first=f"n{first}", second=f"n{second}", ended=ended)


def findings(meeting: Meeting | None) -> dict[str, Finding]:
    fleet = msgspec.structs.replace(compare(summaries(3)), meeting=meeting)
    checks = catalog.of_families("FLT")
    return {each.check.code: each for each in examine(checks, fleet_facts(fleet))}


@pytest.mark.parametrize(
    ("code", "fields", "status", "word"),
    [
        ("FLT015", {}, Status.PASS, "2 nodes joined"),
        ("FLT015", {"absences": (GONE,)}, Status.PASS, "2 nodes joined"),
        ("FLT015", {"absences": (SILENT,)}, Status.FAIL, "n2"),
        ("FLT015", {"absences": (REFUSED,)}, Status.FAIL, "another key"),
        ("FLT015", {"failed": "taken", "arrivals": ()}, Status.UNKNOWN, "taken"),
        ("FLT016", {}, Status.PASS, "eth0"),
        ("FLT016", {"open_files": None}, Status.PASS, "agent"),
        ("FLT016", {"open_files": 64}, Status.FAIL, "67 required"),
        ("FLT016", {"failed": "OSError: Address already in use"}, Status.FAIL, "port 20001"),
        ("FLT016", {"arrivals": ()}, Status.UNKNOWN, "no other node"),
        (
            "FLT016",
            {"arrivals": (msgspec.structs.replace(ARRIVAL, resolving=24.6),)},
            Status.WARN,
            "24.6 s",
        ),
        ("FLT017", {}, Status.NOTE, "not authenticated"),
        ("FLT017", {"authenticated": True}, Status.PASS, "key"),
        ("FLT018", {}, Status.SKIP, "--output-dir"),
        ("FLT018", {"shared": (SEEN,)}, Status.PASS, "2 nodes"),
        ("FLT018", {"shared": (UNSEEN,)}, Status.WARN, "n2"),
        ("FLT018", {"shared": (UNWRITTEN,)}, Status.UNKNOWN, "Read-only"),
        ("FLT018", {"shared": (Shared(path="/out", written=OK),)}, Status.UNKNOWN, "every other"),
        ("FLT018", {"shared": (SILENT_ONE,)}, Status.UNKNOWN, "n2"),
        ("FLT019", {}, Status.SKIP, "--collectives"),
        ("FLT019", {"pairs": ()}, Status.UNKNOWN, "paired"),
        ("FLT019", {"pairs": (pair(0, 1), pair(2, 3))}, Status.PASS, "2 pairs"),
        ("FLT019", {"pairs": (pair(0, 1), hung(2, 3))}, Status.FAIL, "1 pair of 2"),
        ("FLT019", {"pairs": (pair(0, 1), cut_off(2, 3))}, Status.UNKNOWN, "not tried"),
        ("FLT019", {"pairs": (cut_off(0, 1), hung(2, 3))}, Status.FAIL, "1 pair of 2"),
        ("FLT019", {"pairs": (pair(0, 1), pair(2, 3, wrong=7))}, Status.FAIL, "7 wrong"),
        (
            "FLT019",
            {"pairs": (pair(0, 1), hung(2, 3), hung(1, 3), pair(0, 2))},
            Status.FAIL,
            "n3 failed with every partner",
        ),
    ],
)
def test_the_meeting_is_judged(
    code: str, fields: dict[str, Any], status: Status, word: str
) -> None:
    base: dict[str, Any] = {
        "nodes": 3,
        "launcher": "slurm",
        "address": "n0",
        "port": 20001,
        "deadline": 300.0,
        "open_files": 1024,
        "arrivals": (ARRIVAL,),
    }
    found = findings(Meeting(**base | fields))[code]
    assert (found.status, word in found.verdict.summary) == (status, True), found.verdict


def test_files_that_are_compared_met_nowhere() -> None:
    found = findings(None)
    assert {found[f"FLT0{number}"].status for number in range(15, 20)} == {Status.SKIP}
