"""transformers 4 and what it needs, installed once for all workers of a test run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import preloaded
import pytest

PACKAGES = (
    "transformers==4.57.6",
    "peft==0.17.1",
    "huggingface-hub==0.36.0",
    "tokenizers==0.22.1",
    "requests==2.32.5",
    "charset-normalizer==3.4.4",
)


def transformers_4(tmp_path_factory: pytest.TempPathFactory, worker: str) -> str:
    """An interpreter with it, over the torch of this environment; skips where pip cannot."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if worker else base) / "transformers-4"
    folder.mkdir(exist_ok=True)
    failure = folder / "failure"
    with preloaded.alone(folder):
        if not failure.exists():
            failure.write_text(_install(folder))
    if why := failure.read_text():
        pytest.skip(f"{' '.join(PACKAGES)} could not be installed: {why}")
    return preloaded.python(preloaded.TRAINER, PYTHONPATH=str(folder))


def _install(folder: Path) -> str:
    """Why it failed; "" where it did not."""
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    command = [*pip, "--no-compile", "--no-deps", "--target", str(folder), *PACKAGES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    except subprocess.TimeoutExpired:
        return "the package registry gave no answer in 240 s"
    return done.stderr.strip()[-200:] or "no reason given" if done.returncode else ""
