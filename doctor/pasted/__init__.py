"""Reports that people paste -> sections of the facts.

In: text with the output of `python -m torch.utils.collect_env`, `nvidia-smi` (table, -q, -q -x),
ROCm's tools, tools that list links, `ds_report`, an `env` command, a Python prompt, `pip list`,
files of a cgroup or a kernel log, alone or inside a longer text.
Out: a `Reading`: what of host, driver, GPUs and torch the text says. The rest stays unknown.
A module reads one kind of report; `merge` puts what they read together.
Imports `facts`, `errors` and `_util`; no checks, no collecting, no logs.
"""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts.host import Reported
from doctor.pasted import (
    collect_env,
    cores,
    diagnoses,
    driver_parts,
    ds_report,
    host_tools,
    kernel_log,
    links,
    not_available,
    packages,
    printed,
    ranks,
    rocm,
    smi_lists,
    smi_query,
    smi_table,
    stated,
    torch_messages,
    version_lists,
)
from doctor.pasted.lines import clean
from doctor.pasted.reading import Reading, merge

__all__ = ["Reading", "read"]

READERS = (
    collect_env.read,
    smi_query.read,
    smi_table.read,
    smi_lists.read,
    rocm.read,
    links.read,
    version_lists.read,
    printed.read,
    ds_report.read,
    packages.read,
    diagnoses.read,
    ranks.read,
    cores.read,
)
"""The one that comes first decides where two state the same thing."""


NO_HANDLE = "Unable to determine the device handle"
ON_HOST = re.compile(
    r"\bon the host,? (?:nvidia-smi (?:still )?(?:works|is (?:fine|ok))|"
    r"(?:nvidia-smi|it) (?:still )?lists (?:it|all|every|the)\b)",
    re.IGNORECASE,
)
"""Somebody says that nvidia-smi works outside of the container."""
XPU = re.compile(r"\bXPU available ?: True|\d\+xpu\b|Intel(?:\(R\))? Arc\b")
"""A build for Intel's GPUs, for which code that asks for CUDA is no reason to install another."""
LOST = re.compile(r"GPU is lost|\bXid\b|\bno (?:docker|containers?)\b", re.IGNORECASE)
"""A GPU that its host lost as well, or no container at all."""


def read(text: str, *, alone: bool = True) -> Reading:
    """What the reports in the text state; `kinds` is empty if there is none.

    `alone`: an error line that is known counts without a report. Raises ReportError for a text that
    cannot be read safely.
    """
    lines = clean(text)
    reports = [reader(lines) for reader in READERS]
    if not alone and not any(reports):
        return Reading()
    errors = torch_messages.read(lines)
    if alone:
        reports.append(stated.read(lines, [*reports, errors]))
    explained = bool(errors) or any(each.nvml_error for each in reports)
    known = torch_messages.reported(lines, is_explained=explained, is_report=any(reports))
    reading = merge([*reports, errors, known])
    unjudged = reading.cudnn_error if reading.cuda is None and not reading.hip else None
    if unjudged:
        known_as = torch_messages.reported_as(unjudged)
        reading = replace(reading, reported=(*known_as, *reading.reported))
    if reading.cuda_available:
        reading = replace(reading, reported=tuple(filter(_is_open, reading.reported)))
    if reading.release == "microsoft":
        reading = replace(reading, reported=tuple(filter(_is_of_wsl, reading.reported)))
    if reading.torch == "" and not reading.import_error and printed.answers(lines):
        reading = replace(reading, torch=None)  # collect_env ran in another Python
    if reading.torch is None and torch_messages.WITHOUT_CUDA in (reading.cuda_error or ""):
        is_xpu = any(map(XPU.search, lines)) and not (reading.gpus or reading.driver)
        reading = reading if is_xpu else _without_cuda(reading)
    reading = not_available.with_note(packages.with_loaded_nccl(reading, lines), lines)
    reading = driver_parts.with_versions(_of_container(reading, lines), lines)
    reading = kernel_log.add_log(reading, lines)
    return host_tools.add_tools(reading, lines) if alone or reading else reading


def _without_cuda(reading: Reading) -> Reading:
    """A build for the CPU: a fault where a GPU or a driver is known, else a line to look up."""
    if reading.gpus or reading.driver:
        return replace(reading, torch="of unknown version", cuda="")
    line = Reported(cause="cuda-unavailable", line=reading.cuda_error or "")
    return replace(reading, reported=(line, *reading.reported))


def _of_container(reading: Reading, lines: list[str]) -> Reading:
    """The reading without GPUs that only a container lost: its host has them."""
    gpus = tuple(gpu for gpu in reading.gpus if not (gpu.lost or "").startswith(NO_HANDLE))
    if len(gpus) == len(reading.gpus) or not any(map(ON_HOST.search, lines)):
        return reading
    if any(map(LOST.search, lines)):
        return reading
    lost = Reported(cause="container-lost-gpus", line=f"{NO_HANDLE}, and the host lists it")
    return replace(reading, gpus=gpus, reported=(lost, *reading.reported))


def _is_of_wsl(line: Reported) -> bool:
    """Whether WSL leaves it open: it has no module amdgpu, and needs none."""
    return line.cause != "driver-module-fails" or "amdgpu" not in line.line


def _is_open(line: Reported) -> bool:
    """Whether CUDA that starts leaves it open: without NVSwitches no fabric manager is needed."""
    return line.cause != "fabric-service-not-ready" or "fabricmanager" not in line.line
