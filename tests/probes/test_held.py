"""GPU memory that the caller holds itself, on a driver that reports the memory of all processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_driver import UUIDS

pytestmark = pytest.mark.slow

CODE = """
import json, sys
from doctor.collect.children import Children
from doctor.collect.driver import read_driver
from doctor.facts.views import JobGpu

children = Children()
_, gpus = read_driver(children, 60.0, {sys.argv[1]: 39 << 30})
print(json.dumps([[gpu.memory_used, gpu.use_by_others] for gpu in (JobGpu(nvml=g) for g in gpus)]))
children.interrupt()
"""


def test_only_the_callers_part_is_not_foreign(drivers: Path) -> None:
    fakes = {"LD_LIBRARY_PATH": str(drivers / "new"), "FAKE_USED_MIB": "40960"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, UUIDS[0]],
        env={**os.environ, **fakes, "FAKE_PROCESSES": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    mine, other = json.loads(done.stdout)
    assert mine == [1 << 30, ""]
    assert other == [40 << 30, "40.0 GiB used before torch"]
