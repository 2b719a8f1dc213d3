"""The seconds that `doctor run` takes on GPUs beyond `import torch`: estimated and measured.

The estimate is the counts of a run with pretended GPUs times the seconds of UNITS. It assumes
persistence mode, files in the page cache and more processors than GPUs. MEASURED has what an H100
took; machines with several GPUs were not measured.
"""

from __future__ import annotations

import ast
import math
from typing import NamedTuple

from paths import ROOT
from pretend import Counts

LOAD = ROOT / "doctor" / "probes" / "training_side" / "load" / "load.py"
READING = "by reading the code, not measured"


class Unit(NamedTuple):
    """Seconds of one of something."""

    low: float
    high: float
    source: str


UNITS = {
    "CUDA starts in torch": Unit(0.15, 0.25, READING),
    "the same, for each GPU": Unit(0.05, 0.15, READING),
    "a context": Unit(0.25, 0.5, f"{READING}; the driver makes one after the other"),
    "the first kernel": Unit(0.15, 0.3, READING),
    "cuBLAS and cuDNN are loaded": Unit(0.35, 1.05, READING),
    "a plan of cuDNN": Unit(
        0.055, 0.495,
        "0.055 to 0.07: flashinfer-ai/flashinfer#5245; 0.4: sgl-project/sglang#4650 (H20); "
        "0.44 forward and 0.55 backward: modelscope/FunASR#3704 (B200)",
    ),
    "a call of attention": Unit(0.005, 0.02, "measured on a CPU with its reference"),
    "other kernels of the smoke step": Unit(0.1, 0.6, f"{READING}: loaded at their first use"),
    "the load besides its timed parts": Unit(0.85, 1.25, f"{READING}: warm-up, calibration"),
    "the same, for each further GPU": Unit(0.04, 0.1, READING),
    "host copies besides their timed parts": Unit(0.1, 0.2, f"{READING}: pinning memory"),
    "NCCL starts on eight GPUs": Unit(
        0.75, 3.8, "logs of NCCL in public repositories; 2.46 on H100: NVIDIA/nccl#534"
    ),
    "sums of the all-reduce": Unit(0.3, 0.7, READING),
    "a process ends": Unit(0.3, 0.3, READING),
    "each further one": Unit(0.1, 0.2, READING),
}  # fmt: skip


class Measured(NamedTuple):
    """Seconds beyond `import torch` of runs one after the other on one machine."""

    cold: float | None
    """The first run after the machine started, with files that were not in the page cache."""
    warm: tuple[float, float]
    """The fastest and the slowest of the later runs."""
    runs: int
    """Number of the later runs."""

    def __str__(self) -> str:
        low, high = self.warm
        warm = f"{low:.1f} - {high:.1f}"
        return warm if self.cold is None else f"{warm}, cold {self.cold:.1f}"


MEASURED = {
    (1, False): Measured(cold=7.3, warm=(3.12, 3.23), runs=3),
    (1, True): Measured(cold=None, warm=(1.60, 1.71), runs=3),
}
"""(GPUs, --quick) -> what it took on one H100 80GB HBM3 with torch 2.11.0+cu130 and driver
580.159.04, persistence mode on, 16 processors. Importing torch took 5.2 s cold and 3.4 to 4.3 s
warm. Of the cold run, 3.4 s were attention kernels (0.7 to 0.8 warm) and 1.3 s the first kernel and
its libraries (0.4 warm); the load took 1.4 s in both.
"""


def shares() -> dict[str, float]:
    """Seconds of the timed parts of the load."""
    for node in ast.parse(LOAD.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SHARES":
            return dict(ast.literal_eval(node.value))
    raise AssertionError(f"no SHARES in {LOAD}")


def uses(counts: Counts, gpus: int, *, quick: bool, numa_nodes: int = 2) -> dict[str, float]:
    """How many of each unit a run takes, one after the other."""
    number = {
        "CUDA starts in torch": 1,
        "the same, for each GPU": gpus,
        "a context": gpus,
        "the first kernel": 1,
        "cuBLAS and cuDNN are loaded": 1,
        "a plan of cuDNN": counts.plans,
        "a call of attention": counts.calls,
        "other kernels of the smoke step": 1,
        "a process ends": 1,
        "each further one": counts.imports - 1,
    }
    if quick:
        return number
    number |= {
        "the load besides its timed parts": 1,
        "the same, for each further GPU": gpus - 1,
        "host copies besides their timed parts": math.ceil(gpus / numa_nodes),
    }
    return number | dict.fromkeys(("NCCL starts on eight GPUs", "sums of the all-reduce"), gpus > 1)


def estimate(counts: Counts, gpus: int, *, quick: bool, numa_nodes: int = 2) -> tuple[float, float]:
    """Lowest and highest seconds; `numa_nodes`: host copies run at the same time on each."""
    number = uses(counts, gpus, quick=quick, numa_nodes=numa_nodes)
    timed = shares()
    copies = (timed.pop("to") + timed.pop("from")) * math.ceil(gpus / numa_nodes)
    fixed = 0.0 if quick else sum(timed.values()) + copies
    low = sum(count * UNITS[name].low for name, count in number.items())
    high = sum(count * UNITS[name].high for name, count in number.items())
    return low + fixed, high + fixed
