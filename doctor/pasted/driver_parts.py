"""A kernel module and libraries of the driver that are of different releases on the disk.

A restart loads the newer of the two where the module was upgraded as well; it changes nothing where
the module on the disk is the other one, or where the machine has just started.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from doctor.facts.host import Reported
from doctor.pasted.reading import Reading

CAUSE = "driver-parts-differ"
DIFFERS = re.compile(r"Driver/library version mismatch|NVML/RM version mismatch|API mismatch: the")
VERSION = r"(\d{3}\.\d{2,3}(?:\.\d{2})?)"
LIBRARY = (
    re.compile(rf"NVML library version: {VERSION}"),
    re.compile(rf"the client (?:'[^']{{1,60}}' \(pid \d{{1,8}}\) )?has the version {VERSION}"),
    re.compile(rf"\bii\s+(?:nvidia-(?:smi|utils-\d{{3}})|libnvidia-ml1)\S{{0,12}}\s+{VERSION}-"),
)
LOADED = re.compile(
    rf"(?:this kernel module has the version|NVRM version: .{{4,40}}Kernel Module.{{0,24}}?)\s+"
    rf"{VERSION}"
)
ON_DISK = re.compile(rf"\s*version:\s+{VERSION}\s*$")
"""Of modinfo, which reads the file of the kernel that runs."""
MODINFO = re.compile(r"\bmodinfo\b.{0,20}nvidia|filename:.{0,120}nvidia\S{0,20}\.ko")
CONTINUED = re.compile(r"\s*(?:\[[ \d.]{3,16}\]\s*)?NVRM: (?!API)(.*)")
"""The kernel log breaks this message into lines."""
SINCE_BOOT = re.compile(r"\[ {0,8}(\d{1,7})\.\d{3,6}\] NVRM: API mismatch")
JUST_STARTED = 300
"""Seconds after the boot in which nobody upgrades a driver. Our own number."""
RESTARTED = re.compile(
    r"\b(?:still|again) (?:fails|failing|says|prints|the same|broken).{0,30}"
    r"\bafter (?:a |the |\w+ )?re(?:boot|start)\w*|"
    r"\bafter\b.{0,50}\breboot(?:ing)?\b[\s,:`]{1,4}(?:nvidia-smi|it)\b`? (?:still )?"
    r"(?:fails|says|prints)|"
    r"\breboot\w*.{0,20}\b(?:did|does) ?(?:not|n't) ?(?:help|fix|solv|chang)",
    re.IGNORECASE,
)
"""The failure and the restart in one clause: another one may tell of an earlier restart."""
IN_VAIN = re.compile(
    r"\b(?:tried|after) (?:to )?reboot\w*.{0,20}\bbut (?:it |this )?still\b", re.IGNORECASE
)
"""A restart that changed nothing, wherever in the text."""
UP_FOR_DAYS = re.compile(r"\bup \d+ days?\b")
CONTAINER = re.compile(r"\bcontainers?\b|docker|podman|kubectl|\bpods?\b", re.IGNORECASE)
"""Its libraries come from its image or from its host, not from the disk of the module."""
WORDS = "the driver's libraries are"
UNANSWERED = "couldn't communicate with the NVIDIA driver"
ASKED = re.compile(r"\buname -r\s*$")
KERNEL = re.compile(r"\s*(\d+\.\d+\.\d+[\w.+-]*)\s*$")
BUILT = re.compile(rf"\s*nvidia\S{{0,12}}/{VERSION}, (\S+), \w+: installed")
"""A line of dkms status."""


def read(lines: Sequence[str]) -> Iterator[Reported]:
    """One line, where both versions are known to differ after a restart as well."""
    differs = next((n for n, line in enumerate(lines) if DIFFERS.search(line)), None)
    if differs is None or any(map(CONTAINER.search, lines)):
        return
    library, loaded = _versions(_joined(lines))
    is_asked = any(map(MODINFO.search, lines))
    disk = next((m[1] for line in lines if is_asked and (m := ON_DISK.match(line))), "")
    # A restart that came before the error in the text did not help.
    is_restarted = any(map(RESTARTED.search, lines[: differs + 1])) or any(
        map(IN_VAIN.search, lines)
    )
    built = {match[1] for line in lines if (match := BUILT.match(line))}
    installed = disk or (built.pop() if len(built) == 1 else "")
    stays = is_restarted and loaded and installed and loaded != installed
    if stays and installed.startswith(library):
        yield Reported(
            cause=CAUSE,
            line=f"the module that is loaded is {loaded}, {WORDS} {installed} as on the disk",
        )
        return
    if disk and library:
        if not disk.startswith(library) and not any(_answers(line, disk) for line in lines):
            yield Reported(
                cause=CAUSE, line=f"the kernel module on the disk is {disk}, {WORDS} {library}"
            )
        return
    at = next((int(m[1]) for line in lines if (m := SINCE_BOOT.search(line))), JUST_STARTED)
    if at < JUST_STARTED or (is_restarted and not any(map(UP_FOR_DAYS.search, lines))):
        module = f"the kernel module is {loaded or 'of another version'}"
        yield Reported(cause=CAUSE, line=f"{module}, {WORDS} {library or 'not'}, after a restart")


def with_versions(reading: Reading, lines: Sequence[str]) -> Reading:
    """The reading whose error of a mismatch names the two versions, as far as the text has them."""
    if not reading.nvml_error or not DIFFERS.search(reading.nvml_error):
        return reading
    found = zip(("library", "kernel module"), _versions(_joined(lines)), strict=True)
    stated = ", ".join(f"{name} {version}" for name, version in found if version)
    error = f"{reading.nvml_error} ({stated})" if stated else reading.nvml_error
    return replace(reading, nvml_error=error)


def _versions(text: str) -> tuple[str, str]:
    """Of the driver's library and of the module that is loaded, "" where the text has none."""
    library = next((m[1] for each in LIBRARY if (m := each.search(text))), "")
    loaded = LOADED.search(text)
    return library, loaded[1] if loaded else ""


def other_kernel(lines: Sequence[str]) -> Iterator[Reported]:
    """One line, where dkms built the module for other kernels than the one that runs."""
    asked = pairwise(lines)
    kernels = {m[1] for line, next_ in asked if ASKED.search(line)
               and (m := KERNEL.match(next_))}  # fmt: skip
    running = kernels.pop() if len(kernels) == 1 else ""
    built = [match[2] for line in lines if (match := BUILT.match(line))]
    if not running or not built or running in built or "microsoft" in running:
        return
    if any(UNANSWERED in line for line in lines):
        others = ", ".join(dict.fromkeys(built))
        yield Reported(
            cause="driver-module-fails",
            line=f"dkms built the module for {others}, and the kernel that runs is {running}",
        )


def _answers(line: str, version: str) -> bool:
    """Whether an nvidia-smi of this version worked: the other one is not this machine's."""
    return line.strip() == version or f"Driver Version: {version}" in line


def _joined(lines: Sequence[str]) -> str:
    """The text in one line, the kernel's messages without what begins their lines."""
    return " ".join(
        (match[1] if (match := CONTINUED.match(line)) else line).strip() for line in lines
    )
