"""Machines with pretended GPUs: an interpreter, a driver and the environment of `doctor run`.

It proves code, not hardware. torch is the CPU build that answers as one for CUDA
(pretend_cuda/pretend_tensors.py); NVML and the CUDA driver are the fakes of tests/fake_nvml.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import command
import preloaded
from fake_driver import sizes_of_the_binding
from paths import FAKES

SOURCES = Path(__file__).parent / "pretend_cuda"
CU130 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120")
CU126 = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
TERA = 1e12
NO_ECC = ("nvmlDeviceGetEccMode", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows")
MISSING = (
    "gcc and g++ build the fake driver, for Linux"
    if sys.platform != "linux" or not (shutil.which("gcc") and shutil.which("g++"))
    else ""
)
"""Why there can be no pretended GPUs here; "" where there can."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A GPU model, and the torch build that goes with it. Rates are in FLOP/s."""

    name: str
    capability: tuple[int, int]
    mib: int
    half: float
    tf32: float
    fp32: float
    copy: float
    """Bytes per second within the memory."""
    cuda: str = "13.0"
    archs: tuple[str, ...] = CU130
    integrated: bool = False
    nvlinks: int = 0
    refused: tuple[str, ...] = ()
    """NVML's functions that this model answers "Not Supported"."""

    def config(self, count: int) -> dict[str, Any]:
        """PRETEND_CUDA as pretend_record.py describes it, but for the files."""
        rates = {"bf16": self.half, "fp16": self.half, "tf32": self.tf32, "fp32": self.fp32}
        return {
            "name": self.name,
            "capability": self.capability,
            "memory": self.mib * 2**20,
            "count": count,
            "integrated": self.integrated,
            "cuda": self.cuda,
            "archs": self.archs,
            "cudnn": 91900,
            "rates": {**rates, "copy": self.copy, "host": 50e9},
        }


PROFILES = {
    "H100": Profile(
        "NVIDIA H100 80GB HBM3", (9, 0), 81559, 700 * TERA, 350 * TERA, 50 * TERA, 2.8e12,
        nvlinks=18,
    ),
    "RTX 4090": Profile(
        "NVIDIA GeForce RTX 4090", (8, 9), 24564, 160 * TERA, 80 * TERA, 55 * TERA, 0.9e12,
        refused=NO_ECC,
    ),
    "RTX 5090": Profile(
        "NVIDIA GeForce RTX 5090", (12, 0), 32607, 220 * TERA, 110 * TERA, 75 * TERA, 1.5e12,
        refused=NO_ECC,
    ),
    "T4": Profile(
        "Tesla T4", (7, 5), 15360, 40 * TERA, 1.0, 7 * TERA, 0.25e12,
        refused=("nvmlDeviceGetRemappedRows",),
    ),
    "V100": Profile(
        "Tesla V100-SXM2-16GB", (7, 0), 16384, 95 * TERA, 1.0, 14 * TERA, 0.75e12,
        cuda="12.6", archs=CU126, nvlinks=6, refused=("nvmlDeviceGetRemappedRows",),
    ),
    "GB10": Profile(
        "NVIDIA GB10", (12, 1), 122880, 90 * TERA, 45 * TERA, 25 * TERA, 0.2e12, integrated=True,
        refused=(*NO_ECC, "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"),
    ),
}  # fmt: skip


def build(folder: Path) -> Path:
    """The driver's libraries and torch's accelerator in `folder`/lib, for all machines there."""
    libraries = folder / "lib"
    libraries.mkdir(parents=True)
    shared = ("-shared", "-fPIC", "-o")
    torch = importlib.util.find_spec("torch")
    assert torch
    assert torch.origin
    top = Path(torch.origin).parent
    commands = (
        ["gcc", *sizes_of_the_binding(), str(FAKES / "nvml.c"), *shared, "libnvidia-ml.so.1"],
        ["gcc", str(FAKES / "peers.c"), *shared, "libcuda.so.1"],
        [
            "g++",
            "-O0",
            "-std=c++20",
            f"-I{top / 'include'}",
            str(SOURCES / "accelerator.cpp"),
            f"-L{top / 'lib'}",
            f"-Wl,-rpath,{top / 'lib'}",
            "-lc10",
            "-ltorch_cpu",
            *shared,
            "accelerator.so",
        ],
    )
    running = [subprocess.Popen(command, cwd=libraries) for command in commands]
    assert [each.wait() for each in running] == [0, 0, 0]
    return libraries


def interpreter(libraries: Path) -> str:
    """One that has torch imported on top of the accelerator; each process makes its own GPUs."""
    return preloaded.python(
        ("pretend_accelerator", *preloaded.TORCH, "torch.distributed.tensor"),
        LD_LIBRARY_PATH=str(libraries),
        PRETEND_LIBRARY=str(libraries / "accelerator.so"),
        PYTHONPATH=str(SOURCES),
    )


@dataclass(frozen=True, slots=True)
class Machine:
    """A folder with an interpreter and what it recorded, and the environment it runs in."""

    folder: Path
    env: dict[str, str]

    @property
    def python(self) -> str:
        return str(self.folder / "python")

    @property
    def facts(self) -> Path:
        return self.folder / "facts.json"

    def doctor(self, *options: str) -> subprocess.CompletedProcess[str]:
        """`doctor run` on this machine, its facts saved."""
        line = ("run", "--no-config", "--save-facts", str(self.facts), "--python", self.python)
        return command.doctor(*line, *options, cwd=self.folder, env=self.env)

    def record(self) -> list[dict[str, Any]]:
        """Everything that the processes recorded, each line as pretend_record.py describes it."""
        path = self.folder / "record"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def machine(
    folder: Path,
    libraries: Path,
    profile: Profile,
    count: int = 1,
    errors: tuple[dict[str, Any], ...] = (),
    forgets: dict[str, Any] | None = None,
    **environment: str,
) -> Machine:
    """A machine with so many GPUs of a profile; `errors` and `forgets` as pretend_record.py
    describes them."""
    folder.mkdir(parents=True)
    (folder / "memory").mkdir()
    record = str(folder / "record")
    config = profile.config(count) | {
        "record": record,
        "library": str(libraries / "accelerator.so"),
        "errors": errors,
        "forgets": forgets,
    }
    python = folder / "python"
    python.write_text(f'#!/bin/bash\nPYTHONPATH={SOURCES} exec {interpreter(libraries)} "$@"\n')
    python.chmod(0o755)
    fakes = {
        "FAKE_COUNT": str(count),
        "FAKE_NAME": profile.name,
        "FAKE_CAPABILITY": "{}.{}".format(*profile.capability),
        "FAKE_MEMORY_MIB": str(profile.mib),
        "FAKE_MEMORY": str(folder / "memory"),
        "FAKE_CONTEXTS": record,
        "LD_LIBRARY_PATH": str(libraries),
        "PRETEND_CUDA": json.dumps(config),
    }
    if profile.refused:
        fakes["FAKE_FAIL"] = ",".join(f"{name}:3" for name in profile.refused)
    if profile.nvlinks:
        fakes["FAKE_NVLINKS"] = "1" * profile.nvlinks
    return Machine(folder, {**os.environ, **fakes, **environment})


@dataclass(frozen=True, slots=True)
class Counts:
    """What a run costs, in numbers that no other load on this machine changes."""

    imports: int
    """Of torch, one for each process that has it."""
    contexts: dict[int, int]
    """GPU -> processes that had a context there."""
    plans: int
    """Plans that cuDNN builds in the process that builds most: one forward and one backward for
    each layout, dtype, mask and dropout. The processes build theirs at the same time."""
    calls: int
    """Different calls of attention in the process that has most, of all backends."""
    stages: int
    """Stages of the probes in all processes."""
    serial: int
    """Stages of the process that has most of them: these run one after the other."""


def counted(record: list[dict[str, Any]]) -> Counts:
    stages = Counter(each["pid"] for each in record if "stage" in each)
    calls = Counter(each["pid"] for each in record if "attention" in each)
    plans = Counter(
        each["pid"]
        for each in record
        if (each.get("attention") or each.get("backward") or [""])[0] == "cudnn"
    )
    contexts = Counter(each["context"] for each in record if "context" in each)
    return Counts(
        imports=sum("import" in each for each in record),
        contexts=dict(sorted(contexts.items())),
        plans=max(plans.values(), default=0),
        calls=max(calls.values(), default=0),
        stages=stages.total(),
        serial=max(stages.values(), default=0),
    )
