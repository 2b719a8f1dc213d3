"""Writes dist/doctor.pyz, which runs the doctor on a machine that has only Python and torch.

    python release/one_file.py      # UV_OFFLINE=1: with the packages in uv's cache alone

One file for all of PYTHONS on all of SYSTEMS: the packages in pure Python once, msgspec for each.
It has no numpy: that of the Python that runs it is used. Equal bytes for equal versions.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = {
    "linux-x86_64": "x86_64-manylinux2014",
    "linux-aarch64": "aarch64-manylinux2014",
    "darwin-arm64": "aarch64-apple-darwin",
}
COMPILED = "msgspec"
TYPER = "typer==0.28.0"
"""The newest that needs nothing compiled: 0.29 needs pydantic."""
NOT_PACKED = ("numpy", COMPILED)
MEGABYTES = 30
"""What is copied to a machine within seconds on a slow line."""
DATE = (2020, 2, 2, 0, 0, 0)


def install(folder: Path, *words: str) -> None:
    """Unpack wheels into a folder."""
    flags = ["--quiet", "--only-binary", ":all:", "--python", sys.executable]
    uv = shutil.which("uv") or sys.exit("uv is not on PATH")
    subprocess.run([uv, "pip", "install", *flags, "--target", str(folder), *words], check=True)


def requirements(wheel: Path) -> list[str]:
    """What the doctor requires, without what is compiled."""
    name = next(n for n in zipfile.ZipFile(wheel).namelist() if n.endswith(".dist-info/METADATA"))
    path = zipfile.Path(wheel, name.rpartition("/")[0] + "/")
    needs = [Requirement(line) for line in PathDistribution(path).requires or ()]
    plain = [str(need) for need in needs if not need.marker and need.name not in NOT_PACKED]
    return [TYPER, *(need for need in plain if not need.startswith("typer"))]


def pinned() -> list[str]:
    """The tested versions, without that of typer."""
    lines = CONSTRAINTS.read_text("utf-8").splitlines()
    return [line for line in lines if line[:1] != "#" and not line.startswith("typer=")]


def fill(folder: Path) -> None:
    """packages/ and parts/PYTHON_SYSTEM/ of the file."""
    scratch = folder.parent
    command = ["build", "--wheel", "--no-isolation", "-o", str(scratch / "wheel"), str(ROOT)]
    subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = (scratch / "wheel").iterdir()
    versions = scratch / "versions.txt"
    versions.write_text("\n".join(pinned()), "utf-8")
    install(folder / "packages", "-c", str(versions), *requirements(wheel))
    install(folder / "packages", "--no-deps", "--upgrade", str(wheel))
    (compiled,) = [line for line in pinned() if line.startswith(f"{COMPILED}==")]
    for python in PYTHONS:
        for system, platform in SYSTEMS.items():
            part = folder / "parts" / f"CPython {python}_{system}"
            install(
                part,
                "--no-deps",
                "--python-version",
                python,
                "--python-platform",
                platform,
                compiled,
            )
    if strays := [*folder.glob("packages/**/*.so")]:
        sys.exit(f"compiled: {strays}")


def contents(folder: Path) -> dict[str, bytes]:
    """Name -> bytes, without what an installer writes for itself."""
    own = {".lock", "INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json"}
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in own]
    wanted = [p for p in files if not {"bin", "share"} & set(p.relative_to(folder).parts[1:2])]
    return {str(path.relative_to(folder)): path.read_bytes() for path in wanted}


def write(target: Path, files: dict[str, bytes]) -> None:
    """A zip that Python runs. Its entries have one date and one mode."""
    digest = hashlib.sha256(b"".join(name.encode() + data for name, data in files.items()))
    start = (ROOT / "release/start.py").read_bytes()
    files = {"__main__.py": start, "contents": digest.hexdigest().encode(), **files}
    target.parent.mkdir(exist_ok=True)
    with target.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, data in files.items():
                entry = zipfile.ZipInfo(name, DATE)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, data)
    target.chmod(0o755)


def main() -> None:
    target = ROOT / "dist/doctor.pyz"
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "files"
        fill(folder)
        write(target, contents(folder))
    size = target.stat().st_size / 1e6
    print(f"{target.relative_to(ROOT)}: {size:.1f} MB")
    if size > MEGABYTES:
        sys.exit(f"more than {MEGABYTES} MB")


if __name__ == "__main__":
    main()
