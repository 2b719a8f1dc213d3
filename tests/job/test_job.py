from __future__ import annotations

from typing import Literal

import pytest

from doctor._util.records import Unknown
from doctor.facts.host import Host
from doctor.facts.views import find_target
from doctor.job.job import Job, Target, TargetKind, choose_precision


def target(kind: TargetKind) -> Target:
    return Target(kind, "the test says so")


@pytest.mark.parametrize(
    ("capability", "precision"),
    [
        ((9, 0), "bf16"),
        ((12, 1), "bf16"),
        ((8, 0), "bf16"),
        ((7, 5), "fp16"),
        ((7, 0), "fp16"),
        ((6, 1), "fp32"),
        ((5, 2), "fp32"),
    ],
)
def test_auto_follows_the_capability(capability: tuple[int, int], precision: str) -> None:
    chosen = choose_precision(Job(), target("nvidia"), capability)
    assert chosen is not None
    assert chosen.precision == precision
    assert f"{capability[0]}.{capability[1]}" in chosen.why


def test_an_unread_capability_chooses_nothing() -> None:
    assert choose_precision(Job(), target("nvidia"), None) is None


@pytest.mark.parametrize("kind", ["cpu", "rocm"])
def test_auto_elsewhere_is_bf16(kind: TargetKind) -> None:
    chosen = choose_precision(Job(), target(kind), None)
    assert chosen is not None
    assert chosen.precision == "bf16"


@pytest.mark.parametrize(
    ("macos", "precision"),
    [((14, 0), "bf16"), ((26, 1), "bf16"), ((13, 6), "fp32"), (None, "fp32")],
)
def test_mps_needs_macos_14(macos: tuple[int, int] | None, precision: str) -> None:
    chosen = choose_precision(Job(), target("mps"), None, macos)
    assert chosen is not None
    assert chosen.precision == precision


def test_what_was_asked_for_is_taken_even_where_it_does_not_fit() -> None:
    chosen = choose_precision(Job(precision="bf16"), target("nvidia"), (7, 0))
    assert chosen is not None
    assert (chosen.precision, chosen.why) == ("bf16", "--precision bf16")
    assert choose_precision(Job(precision="fp32"), target("nvidia"), None) is not None


def test_pure_bf16_is_bf16() -> None:
    job = Job(recipe="pure-bf16")
    assert job.pure_bf16
    chosen = choose_precision(job, target("nvidia"), (7, 5))
    assert chosen is not None
    assert (chosen.precision, chosen.why) == ("bf16", "--recipe pure-bf16")


@pytest.mark.parametrize(
    ("device", "host", "why"),
    [
        ("auto", Host(system="Linux"), "no NVIDIA GPU was found"),
        ("auto", Host(system="Linux", nvidia_devices=1), "a job trains on a GPU"),
        ("auto", Host(system="Linux", pci_listed=False), "a job trains on a GPU"),
        ("auto", Unknown(reason="not read"), "a job trains on a GPU"),
        ("cuda", Host(system="Linux"), "--device cuda"),
    ],
)
def test_a_gpu_is_assumed_and_never_called_present(
    device: Literal["auto", "cuda"], host: Host | Unknown, why: str
) -> None:
    found = find_target(Job(device=device), host, Unknown(reason="no torch"))
    assert found.kind == "nvidia"
    assert found.why.endswith(why)
