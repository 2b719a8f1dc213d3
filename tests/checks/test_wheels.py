"""The wheel that is recommended runs: on every GPU, driver, Python and platform of a grid."""

from __future__ import annotations

import itertools
import re

import pytest
from wheel_grid import DRIVERS, GPUS

from doctor._util.records import Unknown
from doctor.checks.torch_build.gpu_code import runs_as_cubin
from doctor.checks.torch_build.wheel_table import DEFAULT, PYTHONS, SOURCES, WHEELS, Wheel
from doctor.checks.torch_build.wheels import (
    DRIVER_CUDA,
    MINIMUM,
    Driver,
    candidates,
    capability_of,
    choose,
    pip_command,
)
from doctor.hardware.product import Capability

TORCHES = (None, (2, 4), (2, 6), (2, 7), (2, 8), (2, 9), (2, 11), (2, 15))
PLATFORMS = ("x86_64", "aarch64")
PYTHON = ((3, 9), (3, 12))
GRID = list(itertools.product(GPUS.values(), DRIVERS, TORCHES, PLATFORMS, PYTHON))


def test_each_choice_of_the_grid_runs_or_names_what_is_missing() -> None:
    for capability, version, torch, platform, python in GRID:
        driver = Driver.read(version)
        case = (capability, version, torch, platform, python)
        got = choose([capability], driver, python=python, platform=platform, minimum_torch=torch)
        fitting = candidates([capability], python, platform, torch)
        if isinstance(got, Wheel):
            assert driver.runs(got), case
            assert any(runs_as_cubin(code, capability) for code in got.codes), case
            assert PYTHONS[got.torch][0] <= python <= PYTHONS[got.torch][1], case
            assert got.platform == platform, case
            assert torch is None or got.torch >= torch, case
            assert not any(w.torch > got.torch for w in fitting if driver.runs(w)), case
        elif fitting:
            needed = re.search(r"driver (\d+\.\d+\.\d+)", got.reason)
            assert needed, case
            later = choose(
                [capability],
                Driver.read(needed[1]),
                python=python,
                platform=platform,
                minimum_torch=torch,
            )
            assert isinstance(later, Wheel), case
            assert not any(driver.runs(wheel) for wheel in fitting), case
        else:
            assert re.search(r"no wheel of PyTorch \S+ or newer has code for", got.reason), case


def test_what_nvml_says_and_what_the_version_says_lead_to_the_same_wheel() -> None:
    for capability, version, platform in itertools.product(GPUS.values(), DRIVERS[1:], PLATFORMS):
        newest = Driver.read(version).newest_cuda
        assert newest is not None
        by_number = Driver.read(None, newest[0] * 1000 + newest[1] * 10)
        assert choose([capability], by_number, platform=platform) == choose(
            [capability], Driver.read(version), platform=platform
        )


def test_every_gpu_and_driver_of_today_has_a_wheel() -> None:
    """From driver 525 on, each GPU that any x86_64 wheel has code for gets one."""
    for name, capability in GPUS.items():
        for version in DRIVERS[4:]:
            got = choose([capability], Driver.read(version), python=(3, 12))
            assert isinstance(got, Wheel) or name in ("Orin", "NVIDIA Thor"), (name, version)


@pytest.mark.parametrize(
    ("capabilities", "driver", "command"),
    [
        ([(9, 0)], "535.104.12", '"torch==2.14.*" --index-url {}cu126'),
        ([(12, 0)], "570.124.06", '"torch==2.11.*" --index-url {}cu128'),
        ([(8, 6)], "515.65.01", '"torch==2.7.*" --index-url {}cu118'),
        ([(7, 0)], "470.82.01", '"torch==2.7.*" --index-url {}cu118'),
        ([(6, 0)], "550.90.07", '"torch==2.14.*" --index-url {}cu126'),
        ([(7, 0)], "580.95.05", '"torch==2.14.*" --index-url {}cu126'),
        ([(6, 1), (8, 6)], "580.95.05", '"torch==2.14.*" --index-url {}cu126'),
        ([(7, 0), (12, 0)], "570.124.06", '"torch==2.10.*" --index-url {}cu128'),
        ([(9, 0)], "580.95.05", '"torch==2.15.*" --index-url {}cu130'),
        ([(9, 0)], "595.71.05", '"torch==2.15.*" --index-url {}cu132'),
    ],
)
def test_reported_machines(capabilities: list[Capability], driver: str, command: str) -> None:
    got = choose(capabilities, Driver.read(driver), python=(3, 12))
    assert isinstance(got, Wheel)
    address = "https://download.pytorch.org/whl/"
    assert pip_command(got) == f"python -m pip install {command.format(address)}"


@pytest.mark.parametrize(
    ("capabilities", "driver"),
    [
        ([(8, 0)], Driver()),
        ([], Driver.read("580.95.05")),
        ([(6, 0), (10, 0)], Driver.read("580.95.05")),
        ([(8, 7)], Driver.read("580.95.05")),
        ([(9, 0)], Driver.read("440.33.01")),
        ([(3, 0)], Driver.read("580.95.05")),
        ([(13, 0)], Driver.read("610.43.02")),
    ],
)
def test_where_there_is_none(capabilities: list[Capability], driver: Driver) -> None:
    assert isinstance(choose(capabilities, driver), Unknown)


def test_another_build_of_the_same_release_must_be_forced_out() -> None:
    wheel = choose([(9, 0)], Driver.read("535.104.12"))
    assert isinstance(wheel, Wheel)
    assert "--force-reinstall" in pip_command(wheel, "2.14.1+cu130")
    assert "--force-reinstall" not in pip_command(wheel, "2.1.2+cu121")
    assert "--force-reinstall" not in pip_command(wheel, None)


def test_cudnn_that_dropped_volta_is_not_chosen_for_it() -> None:
    """torch from 2.10 on raises where cuDNN 9.11 or newer meets a GPU below 7.5."""
    for capability in ((5, 2), (6, 0), (6, 1), (7, 0)):
        for version in DRIVERS[1:]:
            got = choose([capability], Driver.read(version))
            assert isinstance(got, Wheel)
            assert got.cudnn is not None
            assert tuple(map(int, got.cudnn.split(".")[:2])) < (9, 11)


@pytest.mark.parametrize(("name", "capability"), GPUS.items())
def test_names(name: str, capability: Capability) -> None:
    assert capability_of(name) == capability


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA GeForce RTX 4070 Laptop GPU", (8, 9)),
        ("NVIDIA RTX 6000 Ada Generation", (8, 9)),
        ("NVIDIA RTX A6000", (8, 6)),
        ("Quadro RTX 6000", (7, 5)),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", (12, 0)),
        ("NVIDIA GH200 144G HBM3e", (9, 0)),
        ("NVIDIA H20-3e", (9, 0)),
        ("NVIDIA A100-SXM-64GB", (8, 0)),
        ("GRID V100D-32C", (7, 0)),
        ("NVIDIA RTX PRO 4500 Blackwell", (12, 0)),
        ("NVIDIA RTX 4500 Ada Generation", (8, 9)),
        ("NVIDIA RTX 4000 SFF Ada Generation", (8, 9)),
        ("NVIDIA L20", (8, 9)),
        ("NVIDIA RTX A4500", (8, 6)),
        ("NVIDIA A16", (8, 6)),
        ("NVIDIA T1000 8GB", (7, 5)),
        ("Quadro P5000", (6, 1)),
        ("NVIDIA TITAN Xp", (6, 1)),
        ("NVIDIA TITAN X", None),  # there is a Maxwell and a Pascal
        ("AMD Instinct MI300X", None),
        ("NVIDIA Graphics Device", None),
    ],
)
def test_more_names(name: str, capability: Capability | None) -> None:
    assert capability_of(name) == capability


@pytest.mark.parametrize(
    ("torch", "cuda", "codes", "cudnn"),
    [
        ((2, 1), (12, 1), "50 60 70 75 80 86 90", "8.9.2.26"),
        ((2, 4), (12, 1), "50 60 70 75 80 86 90", "9.1.0.70"),
        ((2, 5), (12, 4), "50 60 70 75 80 86 90", "9.1.0.70"),
        ((2, 6), (12, 4), "50 60 70 75 80 86 90", "9.1.0.70"),
        ((2, 7), (12, 6), "50 60 70 75 80 86 90", "9.5.1.17"),
        ((2, 8), (12, 8), "70 75 80 86 90 100 120", "9.10.2.21"),
        ((2, 9), (12, 8), "70 75 80 86 90 100 120", "9.10.2.21"),
        ((2, 10), (12, 8), "70 75 80 86 90 100 120", "9.10.2.21"),
        ((2, 11), (13, 0), "75 80 86 90 100 120", "9.19.0.56"),
        ((2, 12), (13, 0), "75 80 86 90 100 120", "9.20.0.48"),
        ((2, 13), (13, 0), "75 80 86 90 100 120", "9.20.0.48"),
        ((2, 14), (13, 0), "75 80 86 90 100 120", "9.24.0.43"),
        ((2, 15), (13, 2), "75 80 86 90 100 120", "9.26.0.51"),
    ],
)
def test_rows_agree_with_the_default_wheels_as_measured(
    torch: tuple[int, int], cuda: tuple[int, int], codes: str, cudnn: str
) -> None:
    """Arch lists and cuDNN pins read from the wheels of the default index, 2026-11-20."""
    (row,) = [w for w in WHEELS if (w.torch, w.cuda, w.platform) == (torch, cuda, "x86_64")]
    assert [c for c in row.codes if c.startswith("sm_")] == [f"sm_{c}" for c in codes.split()]
    assert row.cudnn == cudnn
    assert DEFAULT.get(torch, cuda) == cuda
    assert "wheel" in row.sources


def test_tables_are_whole() -> None:
    assert len({(w.torch, w.cuda, w.platform) for w in WHEELS}) == len(WHEELS)
    assert list(DRIVER_CUDA.values()) == sorted(DRIVER_CUDA.values())
    for wheel in WHEELS:
        assert wheel.sources
        assert set(wheel.sources) <= set(SOURCES)
        assert wheel.cuda[0] in MINIMUM
        assert wheel.torch in PYTHONS
    named = {(w.torch, w.cuda) for w in WHEELS}
    assert set(DEFAULT.items()) <= named
    assert not [w for w in WHEELS if w.torch >= (2, 15) and w.cuda < (13, 0)]
