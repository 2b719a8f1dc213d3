"""The memory and processor limits that control groups set for this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

UNLIMITED = 2**60
"""Version 1 writes "no limit" as a page-rounded 2^63; no real limit is this large."""


class _Files(NamedTuple):
    """Names of the files of one version; `cache` is the part of `used` that can be reclaimed."""

    limit: str
    used: str
    cache: str


FILES = {
    "v1": _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    "v2": _Files("memory.max", "memory.current", "inactive_file"),
}


def read_limits(root: Path) -> dict[str, Any]:
    """Fields of Host. Every group up to the root applies: the one that leaves the least decides."""
    groups = read_text(root / "proc/self/cgroup")
    if groups is None:
        return {}
    mount = root / "sys/fs/cgroup"
    unified = _directories(mount, groups, "", "v2")
    memory = _directories(mount, groups, "memory", "v1")
    version: Literal["v1", "v2"] = "v1" if memory else "v2"
    memory, cpu = memory or unified, _directories(mount, groups, "cpu", "v1") or unified
    limits = [each for path in memory if (each := _memory(path, FILES[version]))]
    limit, used = min(limits, key=lambda pair: pair[0] - (pair[1] or 0), default=(None, None))
    return {
        "cgroup": version if memory else None,
        "cgroup_memory_limit": limit,
        "cgroup_memory_used": used,
        "cgroup_cpus": min(
            (share for path in cpu if (share := _cpus(path)) is not None), default=None
        ),
    }


def _directories(mount: Path, groups: str, controller: str, version: str) -> list[Path]:
    """The group of this process and its ancestors, as far as they are mounted here.

    In a container the path may be the host's, with only its root mounted.
    """
    group = _group(groups, controller)
    if group is None:
        return []
    path, controllers = group
    tops = (controllers, controller) if version == "v1" else ("unified", "")
    top = next((mount / name for name in tops if _exists(mount / name)), None)
    if top is None or (version == "v2" and not _exists(top / "cgroup.controllers")):
        return []
    parts = [part for part in PurePosixPath(path).parts if part not in ("/", "..")]
    chain = [top.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]
    return [directory for directory in chain if _exists(directory)]


def _group(groups: str, controller: str) -> tuple[str, str] | None:
    """The path of this process in a hierarchy and the names of its controllers; "" is version 2."""
    for number, controllers, path in _lines(groups):
        if controller in controllers.split(",") and (controller or number == "0"):
            return path, controllers
    return None


def _lines(groups: str) -> Iterator[tuple[str, str, str]]:
    for line in groups.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path:
            yield number, controllers, path


def _memory(directory: Path, files: _Files) -> tuple[int, int | None] | None:
    """A group's limit, and its use without the reclaimable cache; None without a limit."""
    limit = _number(read_text(directory / files.limit))
    if limit is None or limit >= UNLIMITED:
        return None
    used = _number(read_text(directory / files.used))
    for line in (read_text(directory / "memory.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == files.cache and used is not None:
            used = max(0, used - (_number(value) or 0))
    return limit, used


def _cpus(directory: Path) -> float | None:
    """Quota over period; None where time is not limited."""
    both = (read_text(directory / "cpu.max") or "").split()
    if len(both) != 2:
        both = [read_text(directory / f"cpu.cfs_{name}_us") or "" for name in ("quota", "period")]
    quota, period = (_number(text) for text in both)
    return quota / period if quota is not None and quota > 0 and period else None


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except OSError:
        return False
    return True


def read_names(directory: Path) -> list[str] | None:
    """What is in a directory of /proc, /sys or /dev, sorted; None if it cannot be read."""
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except OSError:
        return None


def read_text(path: Path) -> str | None:
    """A small file's text; None if it cannot be read."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return None
