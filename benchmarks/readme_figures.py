"""The figures of README: python benchmarks/readme_figures.py

The seconds are those of the run on hardware whose facts are in the repository; the size is that of
the one file, where `release/one_file.py` has built it. `tests/test_docs.py` compares README.
"""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
CAPTURED = ROOT / "tests/machines/captured/h100_torch2.11.json"


def figures() -> dict[str, str]:
    """Name -> the figure as README states it."""
    facts = json.loads(CAPTURED.read_text("utf-8"))
    examination = facts["examination"]
    beyond = facts["seconds"] - examination["stages"]["importing torch"]
    return {
        "seconds beyond import torch on one H100": f"{beyond:.1f} s",
        "day of that run": examination["started"][:10],
    }


def size_of_one_file() -> str:
    """As README rounds it, "" where it is not built."""
    built = ROOT / "dist/doctor.pyz"
    return f"{built.stat().st_size / 1e6:.0f} MB" if built.exists() else ""


if __name__ == "__main__":
    for name, figure in figures().items():
        print(f"{name}: {figure}")
    print(f"size of doctor.pyz: {size_of_one_file() or 'not built'}")
