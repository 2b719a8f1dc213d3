"""[expect]: met, not met, not readable, not set."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from judges import judge
from recorded import unread
from recorded_expect import machines
from recorded_parts import A100, GB, GIB, H100, MIB, T4, TORCH_2_15, gpu, host, job, machine, place

from doctor import catalog
from doctor._util.records import Ended, Unknown
from doctor.checks.expected import CHECKS
from doctor.collect.session import roles
from doctor.facts.facts import Facts, decode, encode
from doctor.facts.interpreter import Torch as TorchSection
from doctor.facts.machine import Driver, Gpu, Place
from doctor.job.expect import Expect
from doctor.judge.check import Finding, Owner, Status
from doctor.judge.engine import examine
from doctor.report.report import Outcome, Report

DARK = Unknown(reason="the driver hangs")


def judged(code: str, facts: Facts) -> Finding:
    findings = examine(CHECKS, facts)
    return next(finding for finding in findings if finding.check.code == code)


def wanting(*gpus: Any, **expect: Any) -> Facts:
    return machine(*(gpus or (H100,)), torch=TORCH_2_15, expect=Expect(**expect))


def status(code: str, facts: Facts) -> Status:
    return judged(code, facts).status


def test_only_what_is_expected_is_evaluated() -> None:
    for facts in (machine(H100, torch=TORCH_2_15), wanting(), unread()):
        assert {finding.status for finding in examine(CHECKS, facts)} == {Status.SKIP}


def test_every_check_passes_fails_and_is_unknown() -> None:
    statuses = {
        name: {finding.status for finding in examine(CHECKS, facts)}
        for name, facts in machines().items()
    }
    assert statuses == {
        "as_agreed": {Status.PASS},
        "not_as_agreed": {Status.FAIL},
        "agreed_and_unread": {Status.UNKNOWN},
    }


def test_a_summary_states_observed_and_expected() -> None:
    for finding in examine(CHECKS, machines()["not_as_agreed"]):
        assert "expected" in finding.verdict.summary
        assert any(letter.isdigit() for letter in finding.verdict.summary)


def test_expectations_travel_with_the_facts() -> None:
    facts = machines()["as_agreed"]
    assert decode(encode(facts)) == facts
    with pytest.raises(ValueError, match="not a facts file"):
        decode(encode(facts).replace(b'"80GB"', b'"80"'))


@pytest.mark.parametrize(
    ("pattern", "cards", "expected"),
    [
        ("H100", (H100,), Status.PASS),
        ("*80GB*", (H100, A100), Status.PASS),
        ("H100", (H100, A100), Status.FAIL),
        ("A100", (H100,), Status.FAIL),
        ("H100", (gpu("", (9, 0), 80 * GIB),), Status.UNKNOWN),
    ],
)
def test_the_gpus_model(pattern: str, cards: Any, expected: Status) -> None:
    assert status("JOB001", wanting(*cards, gpu=pattern)) is expected


def test_another_gpu_is_a_machine_to_return() -> None:
    facts = wanting(A100, gpu="H100")
    finding = judged("JOB001", facts)
    assert "GPU 0 (NVIDIA A100-SXM4-80GB)" in finding.verdict.summary
    assert "H100 expected" in finding.verdict.summary
    assert finding.owner is Owner.MACHINE
    report = Report(facts, examine(catalog.MACHINE_CHECKS, facts))
    assert report.outcome is Outcome.RETURN
    assert "JOB001" in report.next_action


def test_gpus_that_cannot_be_read_are_not_the_wrong_ones() -> None:
    facts = wanting(gpu="H100", count=1, memory="80GB").with_(gpus=DARK, cuda=DARK)
    for code in ("JOB001", "JOB002", "JOB003"):
        assert status(code, facts) is Status.UNKNOWN
    report = Report(facts, examine(catalog.MACHINE_CHECKS, facts))
    assert report.outcome in (Outcome.UNKNOWN, Outcome.RETURN)


def test_no_gpu_at_all() -> None:
    facts = wanting(gpu="H100", count=1, memory="80GB").with_(gpus=(), cuda=None)
    assert status("JOB001", facts) is Status.FAIL
    assert status("JOB002", facts) is Status.FAIL
    assert status("JOB003", facts) is Status.UNKNOWN


def test_the_number_of_gpus() -> None:
    assert status("JOB002", wanting(H100, A100, count=2)) is Status.PASS
    assert status("JOB002", wanting(H100, A100, count=1)) is Status.PASS
    few = judged("JOB002", wanting(count=8))
    assert (few.status, few.owner) == (Status.FAIL, Owner.MACHINE)
    assert "1 visible" in few.verdict.summary
    assert "8 expected" in few.verdict.summary


def test_gpus_that_a_variable_hides_are_not_the_machines_fault() -> None:
    facts = wanting(H100, A100, count=2)
    hidden = facts.with_(host=host(env={"CUDA_VISIBLE_DEVICES": "0"}), cuda=None)
    finding = judged("JOB002", hidden)
    assert (finding.status, finding.owner) == (Status.FAIL, Owner.ENVIRONMENT)
    assert "CUDA_VISIBLE_DEVICES=0" in finding.verdict.summary


def test_gpus_that_a_control_group_hides_are_not_the_machines_fault() -> None:
    """As in Slurm's cgroups: NVML counts the GPUs, and refuses to open them."""
    facts = wanting(H100, A100, gpu="H100", count=2)
    assert isinstance(facts.gpus, tuple)
    closed = {"uuid": "Insufficient Permissions (4)"}
    hidden = [Gpu(index=n, uuid="", name="", unread=closed) for n in range(2)]
    partly = facts.with_(gpus=(facts.gpus[0], hidden[1]), cuda=None)
    finding = judged("JOB002", partly)
    assert (finding.status, finding.owner) == (Status.FAIL, Owner.ENVIRONMENT)
    assert "may not open 1 of them" in finding.verdict.summary
    assert status("JOB001", partly) is Status.PASS
    for code in ("JOB001", "JOB002"):
        finding = judged(code, facts.with_(gpus=tuple(hidden), cuda=None))
        assert (finding.status, finding.owner) == (Status.FAIL, Owner.ENVIRONMENT)


def test_a_variable_that_hides_every_gpu_is_not_the_wrong_gpu() -> None:
    facts = wanting(H100, gpu="H100")
    hidden = facts.with_(host=host(env={"CUDA_VISIBLE_DEVICES": ""}), cuda=None)
    finding = judged("JOB001", hidden)
    assert (finding.status, finding.owner) == (Status.FAIL, Owner.ENVIRONMENT)


@pytest.mark.parametrize(
    ("size", "memory", "expected"),
    [
        (81559 * MIB, "80GB", Status.PASS),  # H100, 85.5e9 bytes
        (81559 * MIB, "80GiB", Status.PASS),  # 79.6 GiB
        (22731 * MIB, "24GB", Status.PASS),  # A10G with ECC, 23.8e9 bytes
        (15079 * MIB, "16GB", Status.PASS),  # T4 with ECC, 15.8e9 bytes
        (15079 * MIB, "16GiB", Status.PASS),  # 14.7 GiB
        (40960 * MIB, "80GB", Status.FAIL),
        (40960 * MIB, "40GB", Status.PASS),
        (73 * GB, "80GB", Status.FAIL),
        (None, "80GB", Status.UNKNOWN),
    ],
)
def test_memory_of_each_gpu(size: int | None, memory: str, expected: Status) -> None:
    card = gpu("card", (9, 0), 0, memory_total=size)
    facts = wanting(card, memory=memory).with_(cuda=None)
    assert status("JOB003", facts) is expected


def test_memory_is_reported_in_the_unit_of_the_job_file() -> None:
    binary = judged("JOB003", wanting(memory="90GiB")).verdict.summary
    decimal = judged("JOB003", wanting(memory="100GB")).verdict.summary
    assert "79.6 GiB" in binary
    assert "90GiB" in binary
    assert "85.5 GB" in decimal
    assert "100GB" in decimal


def test_the_smallest_of_several_gpus_decides() -> None:
    small = msgspec.structs.replace(T4, uuid="GPU-1", index=1)
    finding = judged("JOB003", wanting(H100, small, memory="80GB"))
    assert finding.status is Status.FAIL
    assert "Tesla T4" in finding.verdict.summary
    assert "H100" not in finding.verdict.summary


@pytest.mark.parametrize(
    ("code", "key", "versions", "expected"),
    [
        ("JOB004", "driver", "580", Status.PASS),
        ("JOB004", "driver", ">=570,<600", Status.PASS),
        ("JOB004", "driver", ">=590", Status.FAIL),
        ("JOB005", "torch", "2.15", Status.PASS),
        ("JOB005", "torch", "2.1", Status.FAIL),
        ("JOB006", "cuda", "13", Status.PASS),
        ("JOB006", "cuda", "12.8", Status.FAIL),
    ],
)
def test_versions(code: str, key: str, versions: str, expected: Status) -> None:
    facts = wanting(**{key: versions})
    finding = judged(code, facts)
    assert finding.status is expected
    assert finding.owner is (Owner.MACHINE if key == "driver" else Owner.ENVIRONMENT)


def test_versions_that_cannot_be_read() -> None:
    facts = wanting(driver=">=1", torch=">=1", cuda=">=1")
    blind = facts.with_(
        driver=Driver(nvml=Ended(how="timeout"), cuda=Ended(how="timeout")), torch=DARK
    )
    for code in ("JOB004", "JOB005", "JOB006"):
        assert status(code, blind) is Status.UNKNOWN
    odd = facts.with_(torch=TorchSection(version="built by hand", cuda="odd"))
    assert status("JOB005", odd) is Status.UNKNOWN
    assert status("JOB006", odd) is Status.UNKNOWN


def test_a_torch_without_cuda_fails() -> None:
    facts = wanting(cuda="13").with_(torch=TorchSection(version="2.15.0+cpu"))
    assert "built without CUDA" in judged("JOB006", facts).verdict.summary
    assert status("JOB006", facts) is Status.FAIL


def of_host(expect: dict[str, Any], **fields: Any) -> Facts:
    return wanting(**expect).with_(host=host(**fields))


@pytest.mark.parametrize(
    ("size", "expected"),
    [(8 * GIB, Status.PASS), (8 * GIB - 1, Status.FAIL), (None, Status.FAIL)],
)
def test_shared_memory(size: int | None, expected: Status) -> None:
    facts = of_host({"shm": "8GiB"}, shm_total=size)
    finding = judged("JOB007", facts)
    assert (finding.status, finding.owner) == (expected, Owner.ENVIRONMENT)
    assert status("JOB007", facts.with_(host=DARK)) is Status.UNKNOWN


@pytest.mark.parametrize(
    ("total", "limit", "expected", "owner"),
    [
        (251 * GIB, None, Status.PASS, Owner.MACHINE),  # of 256 GiB the kernel keeps some
        (200 * GIB, None, Status.FAIL, Owner.MACHINE),
        (251 * GIB, 64 * GIB, Status.FAIL, Owner.ENVIRONMENT),
        (100 * GIB, 64 * GIB, Status.FAIL, Owner.MACHINE),
        (512 * GIB, 256 * GIB, Status.PASS, Owner.MACHINE),
        (None, None, Status.UNKNOWN, Owner.MACHINE),
    ],
)
def test_host_memory(total: int | None, limit: int | None, expected: Status, owner: Owner) -> None:
    facts = of_host({"host_memory": "256GiB"}, memory_total=total, cgroup_memory_limit=limit)
    finding = judged("JOB008", facts)
    assert (finding.status, finding.owner) == (expected, owner)


@pytest.mark.parametrize(
    ("cpus", "quota", "expected", "owner"),
    [
        (16, None, Status.PASS, Owner.MACHINE),
        (8, None, Status.FAIL, Owner.MACHINE),
        (64, 7.5, Status.FAIL, Owner.ENVIRONMENT),
        (8, 4.0, Status.FAIL, Owner.MACHINE),
        (None, None, Status.UNKNOWN, Owner.MACHINE),
    ],
)
def test_processors(cpus: int | None, quota: float | None, expected: Status, owner: Owner) -> None:
    finding = judged("JOB009", of_host({"cpus": 16}, cpus=cpus, cgroup_cpus=quota))
    assert (finding.status, finding.owner) == (expected, owner)


@pytest.mark.parametrize(
    ("fields", "expected", "owner"),
    [
        ({}, Status.PASS, Owner.ENVIRONMENT),
        ({"free": 999 * GB}, Status.FAIL, Owner.ENVIRONMENT),
        ({"free": 100 * GB, "total": 200 * GB}, Status.FAIL, Owner.MACHINE),
        ({"exists": False, "nearest": "/"}, Status.FAIL, Owner.ENVIRONMENT),
        ({"free": None, "looked": Ended(how="timeout")}, Status.UNKNOWN, Owner.ENVIRONMENT),
    ],
)
def test_disks(fields: dict[str, Any], expected: Status, owner: Owner) -> None:
    looked: Place = place("expected", "/data", **fields)
    facts = wanting(disk={"/data": "1TB"}).with_(places=(looked,))
    finding = judged("JOB010", facts)
    assert (finding.status, finding.owner) == (expected, owner)


def test_a_disk_that_was_not_examined_is_unknown() -> None:
    facts = wanting(disk={"/data": "1TB", "/other": "1GB"})
    finding = judged("JOB010", facts.with_(places=(place("expected", "/other"),)))
    assert finding.status is Status.UNKNOWN
    assert "/data" in finding.verdict.summary
    assert status("JOB010", facts.with_(places=DARK)) is Status.UNKNOWN


def test_an_expected_disk_is_not_judged_as_one_to_write_to() -> None:
    full = place("expected", "/", writable=False, free=0)
    facts = wanting(disk={"/": "1GB"})
    assert isinstance(facts.places, tuple)
    findings = examine(catalog.MACHINE_CHECKS, facts.with_(places=(*facts.places, full)))
    written = next(finding for finding in findings if finding.check.code == "DSK002")
    assert written.status is Status.PASS


def test_a_job_on_the_cpu_leaves_the_gpus_out() -> None:
    facts = machine(H100, torch=TORCH_2_15, job=job(device="cpu"))
    facts = facts.with_(expect=Expect(gpu="A100", cpus=1))
    assert status("JOB001", facts) is Status.SKIP
    assert status("JOB009", facts) is Status.PASS


def test_an_expectation_that_was_not_readable_leaves_no_verdict() -> None:
    facts = wanting(cpus=16).with_(host=host(cpus=None))
    report = Report(facts, examine(CHECKS, facts))
    assert report.exit_code == 3


def test_an_expected_disk_is_looked_at_and_never_written_to() -> None:
    asked = job(cache_dir="/cache", output_dir="/runs")
    assert roles(asked, Expect(disk={"/data": "1GB"}), {"TMPDIR": "/t", "HF_HOME": "/home"}) == [
        ("output", "/runs", True),
        ("cache", "/cache", False),
        ("temporary", "/t", False),
        ("expected", "/data", False),
    ]


def test_no_gpu_on_the_bus_is_none_and_a_bus_that_was_not_read_is_not_known() -> None:
    def count(**fields: object) -> Status:
        linux = host(nvidia_devices=0, device_nodes=(), kernel_driver=None, **fields)
        no_driver = Unknown(reason="no driver")
        return judge("JOB002")(Expect(count=8), linux, None, no_driver).status

    assert count() is Status.FAIL
    assert count(pci_listed=False) is Status.UNKNOWN
    assert count(amd_devices=8) is Status.UNKNOWN
