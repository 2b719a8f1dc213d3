"""The fake driver, compiled once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fake_driver import HANG_SECONDS, Ask, begin, sizes_of_the_binding
from paths import FAKES
from shims import wait_until

from doctor.collect.child_messages import Answer


@pytest.fixture(scope="session")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders with the fake libraries: new, old, ancient, and one that has none."""
    top = tmp_path_factory.mktemp("drivers")
    for name, flags in {"new": [], "old": ["-DOLD"], "ancient": ["-DANCIENT"]}.items():
        (top / name).mkdir()
        for source, library in (("nvml.c", "libnvidia-ml.so.1"), ("cuda.c", "libcuda.so.1")):
            line = ["gcc", "-Wall", "-Werror", "-shared", "-fPIC", *sizes_of_the_binding(), *flags]
            done = [*line, str(FAKES / source), "-o", str(top / name / library)]
            subprocess.run(done, check=True)
    (top / "none").mkdir()
    return top


@pytest.fixture
def ask(drivers: Path, tmp_path: Path) -> Ask:
    """Run a probe under a fake driver; if it `hangs`, wait for that before its deadline starts."""

    def run(probe: str = "nvml", kind: str = "new", hangs: bool = False, **fake: str) -> Answer:
        hanging = tmp_path / "hanging"
        hanging.unlink(missing_ok=True)
        child = begin(drivers / kind, probe, HANGING=str(hanging), **fake)
        try:
            if hangs:
                wait_until(hanging.exists)
            return child.wait(HANG_SECONDS if hangs else 100)
        finally:
            child.kill()

    return run
