"""The torch that a remedy installs runs: judged again on the same machine, it has no failure."""

from __future__ import annotations

import itertools
import re
import shlex

import msgspec
import pytest
from recorded_parts import host as linux
from recorded_parts import interpreter
from wheel_grid import DRIVERS, GPUS

from doctor._util.records import Ended, Unknown
from doctor.checks.driver.cuda_version import RUNS_TORCH_CUDA
from doctor.checks.torch_build import wheel_table, wheels
from doctor.checks.torch_build.gpu_code import JETSONS
from doctor.checks.torch_build.has_code import HAS_GPU_CODE
from doctor.checks.torch_build.imports import TORCH_IMPORTS
from doctor.checks.torch_build.replacement import JETSON
from doctor.checks.torch_build.vendor import BUILT_FOR_THIS_GPU
from doctor.facts.facts import Facts
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Interpreter, Torch, TorchGpu
from doctor.facts.machine import Driver, Gpu
from doctor.hardware.product import Capability
from doctor.job.job import Job
from doctor.judge.check import Finding, Status
from doctor.judge.engine import examine

CHECKS = (TORCH_IMPORTS, RUNS_TORCH_CUDA, BUILT_FOR_THIS_GPU, HAS_GPU_CODE)
OK = Ended(how="ok", seconds=0.2)
FAILED = Ended(how="error", detail="RuntimeError: CUDA driver initialization failed")
CPU = Torch(version="2.13.0+cpu")
ROCM = Torch(version="2.9.1+rocm6.4", hip="6.4")
TORCHES = [("2.1", "12.1"), ("2.4", "12.1"), ("2.6", "12.4"), ("2.8", "12.8"), ("2.10", "12.8"),
           ("2.11", "13.0"), ("2.13", "13.0"), ("2.15", "13.2")]  # fmt: skip


def of_wheel(wheel: wheel_table.Wheel) -> Torch:
    version = f"{wheel.torch[0]}.{wheel.torch[1]}.0+{wheel.index}"
    return Torch(version=version, cuda=f"{wheel.cuda[0]}.{wheel.cuda[1]}", archs=wheel.codes)


def published(torch: str, cuda: str, platform: str) -> Torch:
    """The wheel; where its code on this platform is not known, that of x86_64."""
    fitting = [
        wheel
        for wheel in wheel_table.WHEELS
        if (f"{wheel.torch[0]}.{wheel.torch[1]}", f"{wheel.cuda[0]}.{wheel.cuda[1]}")
        == (torch, cuda)
    ]
    return of_wheel(max(fitting, key=lambda wheel: wheel.platform == platform))


def machine(
    capability: Capability, driver: str, torch: Torch | Unknown, platform: str = "x86_64"
) -> Facts:
    """torch starts CUDA where the driver is new enough; no kernel was run."""
    newest = wheels.Driver.read(driver).newest_cuda
    number = newest[0] * 1000 + newest[1] * 10 if newest else 10020
    gpu = Gpu(index=0, uuid="GPU-0", name="GPU", capability=capability)
    return Facts(
        job=Job(),
        host=linux(arch=platform),
        driver=Driver(nvml=OK, cuda=OK, version=driver, cuda_version=number),
        gpus=(gpu,),
        interpreter=interpreter(),
        torch=torch,
        cuda=Cuda(started=FAILED),
        libraries=Unknown(reason="not examined"),
        places=(),
    )


def failures(facts: Facts) -> list[Finding]:
    return [each for each in examine(CHECKS, facts) if each.status is Status.FAIL]


def installed(commands: tuple[str, ...], facts: Facts) -> Torch | None:
    """The torch that the command of a remedy installs, None if there is no command."""
    (line,) = commands or ("",)
    match = re.search(
        r'-m pip install (?:--force-reinstall )?"torch==(.+)\.\*" .*/cu(\d+)(\d)$', line
    )
    if match is None:
        assert not commands, line
        return None
    assert isinstance(facts.host, Host)
    wheel = published(match[1], f"{match[2]}.{match[3]}", facts.host.arch)
    return wheel


def check_remedies(facts: Facts, case: object) -> None:
    """Each failure has a command whose wheel passes, or says which driver is needed."""
    found = failures(facts)
    for finding in found:
        torch = installed(finding.commands, facts)
        if torch is None:
            none = r"(Wheels of|No wheel of) PyTorch \S+ or newer (need driver [\d.]+|has code)"
            assert re.search(none, finding.fix) or finding.fix == JETSON, (case, finding.fix)
            continue
        again = facts.with_(torch=torch)
        codes = [each.check.code for each in failures(again)]
        assert codes == [], (case, finding.check.code, finding.commands)
        judged = {each.check.code: each.status for each in examine(CHECKS, again)}
        # a note: driver 525 lacks a feature of CUDA 12.1
        assert set(judged.values()) <= {Status.PASS, Status.NOTE}, (case, judged)


@pytest.mark.parametrize("platform", ["x86_64", "aarch64"])
@pytest.mark.parametrize("name", GPUS)
def test_no_remedy_leads_to_another_failure(name: str, platform: str) -> None:
    torches = [published(*each, platform) for each in TORCHES]
    for driver, torch in itertools.product(DRIVERS, [*torches, CPU]):
        facts = machine(GPUS[name], driver, torch, platform)
        check_remedies(facts, (name, driver, torch.version, platform))


@pytest.mark.parametrize("name", GPUS)
def test_an_environment_without_torch_gets_a_wheel_that_runs(name: str) -> None:
    missing = Ended(how="error", detail="ModuleNotFoundError: No module named 'torch'")
    for driver in DRIVERS:
        facts = machine(GPUS[name], driver, Unknown(reason="not imported")).with_(
            interpreter=interpreter(missing)
        )
        (finding,) = failures(facts)
        assert finding.check.code == "TOR001"
        torch = installed(finding.commands, facts)
        assert torch is None or not failures(facts.with_(torch=torch, interpreter=interpreter())), (
            name,
            driver,
        )


@pytest.mark.parametrize(
    ("capability", "driver", "torch", "code", "command"),
    [
        ((9, 0), "535.104.12", CPU, "TOR002", '"torch==2.14.*" --index-url {}cu126'),
        ((12, 0), "570.124.06", ("2.6", "12.4"), "TOR003", '"torch==2.11.*" --index-url {}cu128'),
        ((8, 6), "515.65.01", CPU, "TOR002", '"torch==2.7.*" --index-url {}cu118'),
        ((7, 0), "470.82.01", ("2.1", "12.1"), "DRV002", '"torch==2.7.*" --index-url {}cu118'),
        ((9, 0), "550.90.07", ROCM, "TOR002", '"torch==2.14.*" --index-url {}cu126'),
        ((8, 0), "535.104.05", ("2.15", "13.2"), "DRV002", '"torch==2.14.*" --index-url {}cu126'),
    ],
)
def test_reported_machines_get_a_wheel_that_their_driver_runs(
    capability: Capability,
    driver: str,
    torch: Torch | tuple[str, str],
    code: str,
    command: str,
) -> None:
    made = torch if isinstance(torch, Torch) else published(*torch, "x86_64")
    (finding,) = failures(machine(capability, driver, made))
    assert finding.check.code == code
    line = command.format("https://download.pytorch.org/whl/")
    assert finding.commands == (f"/opt/train/bin/python -m pip install {line}",)


def test_torch_knows_better_which_cuda_the_driver_has() -> None:
    """A compatibility package in the doctor's path, for example, is not in torch's."""
    old = Ended(
        how="error",
        detail="RuntimeError: The NVIDIA driver on your system is too old (found version 12020).",
    )
    facts = machine((9, 0), "580.95.05", published("2.15", "13.2", "x86_64"))
    (finding,) = failures(facts.with_(cuda=Cuda(started=old)))
    assert finding.check.code == "DRV002"
    assert "cu126" in finding.commands[0]
    unread = facts.with_(cuda=Cuda(started=old), torch=Unknown(reason="not recorded"))
    assert [each.check.code for each in failures(unread)] == ["DRV002"]


def test_several_gpus_get_one_wheel_or_are_told_apart() -> None:
    facts = machine((9, 0), "570.124.06", CPU)
    assert isinstance(facts.gpus, tuple)
    for second, commands in (((7, 0), 1), ((6, 0), 1), ((12, 0), 1)):
        pair = (*facts.gpus, Gpu(index=1, uuid="GPU-1", name="GPU", capability=second))
        (finding,) = failures(facts.with_(gpus=pair))
        assert len(finding.commands) == commands
    ends = ((6, 0), (12, 0))
    pair = tuple(
        Gpu(index=i, uuid=f"GPU-{i}", name="GPU", capability=c) for i, c in enumerate(ends)
    )
    (finding,) = failures(facts.with_(gpus=pair))
    assert finding.commands == ()
    assert "CUDA_VISIBLE_DEVICES" in finding.fix


def test_a_jetson_is_known_by_its_kernel() -> None:
    """It is on no PCI bus, and NVML does not say what it is."""
    jetson = linux(nvidia_devices=0, device_nodes=(), release="5.15.148-tegra", arch="aarch64")
    facts = machine((8, 7), "540.4.0", CPU, "aarch64").with_(host=jetson, gpus=())
    (finding,) = failures(facts)
    assert (finding.check.code, finding.fix, finding.commands) == ("TOR002", JETSON, ())
    assert {(5, 3), (8, 7)} < JETSONS


def test_another_python_gets_a_wheel_that_exists_for_it() -> None:
    facts = machine((9, 0), "580.95.05", CPU)
    assert isinstance(facts.interpreter, Interpreter)
    old = msgspec.structs.replace(facts.interpreter, version="3.9.18")
    (finding,) = failures(facts.with_(interpreter=old))
    assert "torch==2.8.*" in finding.commands[0]


@pytest.mark.parametrize(
    ("capability", "driver", "python", "range_", "torch"),
    [
        ((12, 0), "580.95.05", "3.8.18", "3.11 to 3.14", "2.15"),
        ((9, 0), "580.95.05", "3.15.0", "3.11 to 3.14", "2.15"),
        ((12, 0), "570.124.06", "3.8.18", "3.10 to 3.14", "2.11"),
        ((9, 0), "470.82.01", "3.14.0", "3.9 to 3.13", "2.7"),
    ],
)
def test_a_python_without_wheels_is_told_which_python_has_them(
    capability: Capability, driver: str, python: str, range_: str, torch: str
) -> None:
    facts = machine(capability, driver, CPU)
    assert isinstance(facts.interpreter, Interpreter)
    other = msgspec.structs.replace(facts.interpreter, version=python)
    (finding,) = failures(facts.with_(interpreter=other))
    install = f'run there: python -m pip install "torch=={torch}.*"'
    assert f"Python {range_}, and {install}" in finding.fix
    assert finding.commands == ()  # in this interpreter it would find no wheel


@pytest.mark.parametrize(
    ("path", "pip", "start"),
    [
        ("/opt/train/bin/python", True, "/opt/train/bin/python -m pip install "),
        ("/opt/train/bin/python", None, "/opt/train/bin/python -m pip install "),
        ("/my env/bin/python", True, "'/my env/bin/python' -m pip install "),
        ("/my env/bin/python", False, "uv pip install --python '/my env/bin/python' "),
        ("~/my env/bin/python", False, "uv pip install --python ~/'my env/bin/python' "),
    ],
)
def test_commands_install_into_the_training_interpreter(
    path: str, pip: bool | None, start: str
) -> None:
    """Also where torch is missing; the path stands in the line once."""
    missing = Ended(how="error", detail="ModuleNotFoundError: No module named 'torch'")
    facts = machine((9, 0), "580.95.05", Unknown(reason="not imported"))
    python = Interpreter(path=path, chosen="x", version="3.12.3", importing=missing, pip=pip)
    (finding,) = failures(facts.with_(interpreter=python))
    (line,) = finding.commands
    assert line.startswith(start)
    assert line.count("bin/python") == 1
    assert '"torch==2.15.*"' in line
    assert "torch==2.15.*" in shlex.split(line)
    cpu = msgspec.structs.replace(facts.job, device="cpu")
    (finding,) = failures(facts.with_(interpreter=python, job=cpu))
    assert finding.commands == (f"{start}torch",)


def test_a_kernel_that_finds_no_code_gets_the_same_wheel() -> None:
    raised = Ended(how="error", detail="CUDA error: no kernel image is available for execution")
    facts = machine((12, 0), "570.124.06", published("2.6", "12.4", "x86_64"))
    gpu = TorchGpu(
        index=0, uuid="GPU-0", name="GPU", capability=(12, 0), memory_total=1, kernel=raised
    )
    (by_table,) = failures(facts)
    (by_kernel,) = failures(facts.with_(cuda=Cuda(started=OK, gpus=(gpu,))))
    assert by_kernel.commands == by_table.commands


@pytest.mark.parametrize(("driver", "platform", "words"), [
    ("550.54.14", "x86_64", "every GPU that this driver drives"),
    ("535.183.01", "x86_64", "every GPU that this driver drives"),
    ("570.86.15", "x86_64", "is not known"), ("470.256.02", "x86_64", "is not known"),
    ("550.54.14", "aarch64", "is not known"),
])  # fmt: skip
def test_an_older_driver_tells_which_wheel_runs_on_any_gpu(
    driver: str, platform: str, words: str
) -> None:
    facts = machine((8, 0), driver, CPU, platform)
    gpu = Gpu(index=0, uuid="GPU-0", name="", unread={"capability": "not in the report"})
    (finding, *_) = failures(facts.with_(gpus=(gpu,)))
    assert words in finding.fix
    if finding.commands:
        wheel = installed(finding.commands, facts)
        for capability in ((5, 0), (6, 1), (7, 5), (8, 9), (9, 0)):
            assert failures(machine(capability, driver, wheel or CPU, platform)) == []
