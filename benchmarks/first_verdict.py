"""From nothing to the first verdict by one line: python benchmarks/first_verdict.py [--torch]

In bash, zsh and fish, as far as they are installed: `uvx` on the last commit of this checkout, with
an empty cache and again. --torch: beside `pip install torch` alone. Needs uv and git. A busy
machine prolongs the seconds; those of the processor and the megabytes are steadier.

2026-11-29, two quiet cores, packages from an index on this disk; on 2026-11-28, under a load of 20
to 40, `pip install torch` alone took 197 seconds, 32 of a processor and 938 MB:

                          seconds  of a processor  MB on disk
    bash, first                 7               7         150
    bash, again                 2               2
    zsh, first                  5               7         150
    zsh, again                  2               2
    fish, first                 5               7         150
    fish, again                 2               2

The doctor and its packages are a download of 24 MB, that torch is one of 210 MB.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
FLAGS = "doctor run --no-config --device cpu --fail-on never -q"


def megabytes(folder: Path) -> int:
    """On disk; files with several names once."""
    found = {s.st_ino: s.st_blocks for p in folder.rglob("*") for s in [p.lstat()]}
    return sum(found.values()) * 512 // 10**6


def measure(title: str, command: list[str], folder: Path) -> None:
    """Print what a command takes, and the size of the folder afterwards."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    environ = os.environ | {
        "UV_CACHE_DIR": str(folder),
        "UV_NO_PROGRESS": "1",
        "UV_HTTP_TIMEOUT": "300",
    }
    pipe = subprocess.PIPE  # errors of uv are shown
    done = subprocess.run(command, env=environ, stdout=pipe, text=True, check=True)
    seconds = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    verdict = (done.stdout.strip().splitlines() or [""])[-1]
    print(f"{title:20} {seconds:5.0f} s {processor:5.0f} s {megabytes(folder):5} MB  {verdict}")


def main() -> None:
    with TemporaryDirectory() as scratch:
        clone = Path(scratch) / "clone"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        line = f"uvx --from git+file://{clone} {FLAGS}"
        for shell in filter(shutil.which, ("bash", "zsh", "fish")):
            for turn in ("first", "again"):
                cache = Path(scratch) / f"cache-{shell}"
                measure(f"{shell}, {turn}", [shell, "-c", line], cache)
        if "--torch" in sys.argv[1:]:
            place = Path(scratch) / "torch"
            subprocess.run([sys.executable, "-m", "venv", place], check=True)
            words = ["-m", "pip", "install", "-q", "--no-cache-dir", "torch"]
            measure("pip install torch", [str(place / "bin/python"), *words], place)


if __name__ == "__main__":
    main()
