"""Facts that are true and not the matter, and faults that another fact hides.

The texts are our own, in the structure that the tools print. Each fault stands beside what
resembles it and is none.
"""

from __future__ import annotations

import pytest

from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.judge.check import Finding

ENV = "PyTorch version: {}\nCUDA used to build PyTorch: {}\nIs CUDA available: False\n"
DOCKER = "$ docker run -it --shm-size=8g serve python run.py\n"


def findings(text: str) -> dict[str, Finding]:
    return {each.check.code: each for each in findings_of(facts_of_text(text, "report"))}


def causes(text: str) -> tuple[str, ...]:
    found = findings(text)["DRV003"]
    return found.verdict.causes if found.is_problem else ()


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        (ENV.format("2.6.0+cu124", "12.4") + DOCKER, True),
        (ENV.format("2.6.0+cpu", "None") + DOCKER, False),
        (ENV.format("2.6.0", "None") + DOCKER, False),
        ("torch==2.6.0+cpu\ntorchvision==0.21.0+cpu\nCUDA available: False\n" + DOCKER, False),
    ],
)
def test_a_build_for_the_cpu_misses_no_gpus_in_its_container(text: str, is_named: bool) -> None:
    assert ("container-started-without-gpus" in causes(text)) == is_named


TOOLKIT = (
    "RuntimeError:\n The detected CUDA version (12.4) mismatches the version that was used to "
    "compile\n PyTorch (11.8). Please make sure to use the same CUDA versions.\n"
)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Error: install fails, cuda version mismatch\n", None),
        ("Error: install fails, cuda version mismatch\n" + TOOLKIT, "cuda-toolkit-mismatch"),
        ("WARNING: CUDA VERSION MISMATCH: Requested CUDA version 12.1\n", "bitsandbytes-setup"),
        ("bitsandbytes: error, CUDA version mismatch\n", "bitsandbytes-setup"),
        ("bitsandbytes: error, CUDA version mismatch\n" + TOOLKIT, "cuda-toolkit-mismatch"),
    ],
)
def test_a_mismatch_of_cuda_is_bitsandbytes_only_where_it_says_so(
    text: str, first: str | None
) -> None:
    found = causes(ENV.format("2.6.0+cu118", "11.8") + text)
    assert (found[0] if found else None) == first
