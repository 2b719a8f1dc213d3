"""Public incidents with Xids: the kernel's lines, and what each turned out to be.

xid_incidents.jsonl was labelled before the first run: the owner, the verdicts that are right, and
words of what helped. `lines` is "rebuilt" where the thread tells only the numbers. `first` is what
the first run gave, which stays as it was: 38 of 48 right.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doctor._util.records import Ended
from doctor.checks.gpu.bus import ALL_LISTED
from doctor.checks.gpu.device import MEMORY_HEALTHY
from doctor.facts.host import Host, KernelEvent
from doctor.facts.kernel_lines import events
from doctor.facts.load import Watched
from doctor.facts.machine import Driver, Gpu
from doctor.facts.views import JobGpu, JobGpus
from doctor.judge.check import Verdict

OK = Ended(how="ok")
CORPUS = Path(__file__).parents[1] / "corpus" / "xid_incidents.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]


def judged(row: dict[str, Any]) -> Verdict:
    """The worst GPU of the incident, which happens while the doctor watches; NVML states no
    recovery action beside the log's."""
    logged = events(row["log"])
    addresses = dict.fromkeys(event.address for event in logged if event.xid is not None)
    found = [_watched(address, logged) for address in addresses]
    if not addresses:
        found = [_not_started(logged[0].address, logged)]
    return max(found, key=lambda verdict: ("pass", "warn", "fail").index(verdict.status.value))


def _watched(address: str, logged: tuple[KernelEvent, ...]) -> Verdict:
    gpu = Gpu(
        index=0, uuid="GPU-0", name="NVIDIA H100", bus_id=address,
        remap_pending=False, remap_failed=False, uncorrected=0, corrected=0,
    )  # fmt: skip
    own = [event for event in logged if event.address == address]
    run = Watched(
        uuid=gpu.uuid, samples=20, mask=4, uncorrected=0, corrected=0, remapped_rows=0,
        xids=tuple(event.xid for event in own if event.xid is not None),
    )  # fmt: skip
    return MEMORY_HEALTHY.judge(
        job_gpus=JobGpus(gpus=(JobGpu(nvml=gpu),), by="environment"),
        watched=(run,),
        host=Host(system="Linux", kernel_events=logged),
    )


def _not_started(address: str, logged: tuple[KernelEvent, ...]) -> Verdict:
    """One of two GPUs on the bus, which NVML does not list."""
    other = Gpu(index=0, uuid="GPU-0", name="NVIDIA H100", bus_id="0000:ff:00.0", pci_id=0x2330)
    host = Host(
        system="Linux",
        gpu_drivers={address: "", other.address: "nvidia"},
        gpu_ids={address: 0x2330, other.address: 0x2330},
        kernel_events=logged,
    )
    return ALL_LISTED.judge(host=host, gpus=(other,), driver=Driver(nvml=OK, cuda=OK))


def outcome(row: dict[str, Any]) -> str:
    verdict = judged(row)
    if verdict.status.value not in row["status"]:
        return f"{verdict.status.value} instead of {' or '.join(row['status'])}"
    fix = (verdict.fix or "").lower()
    missing = [word for word in row["action"] if word not in fix]
    return f"remedy without {', '.join(missing)}" if missing else "right"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_an_incident_is_judged_as_it_turned_out(row: dict[str, Any]) -> None:
    assert outcome(row) == "right"
