"""What to send to the provider of a machine at fault, as plain text.

One line where nothing is to be returned.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from doctor import __version__
from doctor._util.owner import OWNERS
from doctor._util.units import visible
from doctor.facts.load import Watched
from doctor.facts.machine import Gpu
from doctor.facts.views import JobGpu, JobGpus
from doctor.judge.check import Finding
from doctor.report.header import examined_on, header_parts, subject
from doctor.report.report import Outcome, Report

STATES = {
    "remap_failed": "row remap failed",
    "remap_pending": "row remap pending",
    "retired_pages_pending": "page retirement pending",
}
COUNTERS = {"uncorrected": "uncorrected memory errors", "corrected": "corrected memory errors"}
"""Counters that are read before the test; their increase is read after it."""
INCREASES = {
    "remapped_rows": "remapped rows",
    "pcie_replays": "PCIe replays",
    "nvlink_errors": "NVLink errors",
}
"""Counters of which the increase alone is recorded."""


def render(report: Report) -> str:
    """The letter; no value of the machine begins or ends a line of it."""
    return "\n".join(map(visible, lines(report)))


def lines(report: Report) -> Iterator[str]:
    """The lines of the letter, with values as they were read."""
    faults = report.faults
    if report.outcome is not Outcome.RETURN:
        yield f"nothing to send: the verdict is {report.verdict_line}"
        return
    codes = ", ".join(finding.check.code for finding in faults)
    yield f"Subject: machine at fault: {subject(report)} ({codes})"
    yield ""
    yield _paragraph(report, faults)
    for finding in faults:
        yield ""
        yield f"{finding.check.code} {finding.check.slug}: {finding.verdict.summary}"
        yield f"  required: {finding.check.title}"
    yield from _gpus(report, faults)
    yield ""
    yield "Instance: (add the provider's name or number of it)"
    for name, value in header_parts(report):
        if name == "machine" or (name == "examined" and not report.facts.is_pasted):
            yield f"{name.capitalize()}: {value}"
    yield ""
    yield "To repeat on that machine:"
    for command in _commands(report, faults):
        yield f"  {command}"


def _paragraph(report: Report, faults: tuple[Finding, ...]) -> str:
    date = examined_on(report)
    when = f"On {date}, before" if date else "Before"
    found = "this failure" if len(faults) == 1 else f"these {len(faults)} failures"
    owner = OWNERS[faults[0].owner]
    reader = f"preflight doctor {__version__}"
    observed = (
        f"In the attached output of this machine {reader} finds"
        if report.facts.is_pasted
        else f"{when} a training, {reader} examined this machine and observed"
    )
    return (
        f"{observed} {found}, to be fixed by the {owner}, not in the training's code or "
        "environment. Please replace the machine or the device, or tell me what was changed, so "
        "that I can repeat the test."
    )


def _gpus(report: Report, faults: tuple[Finding, ...]) -> Iterator[str]:
    """The GPUs that the faults name, all of the job where they name none."""
    gpus = report.facts.job_gpus
    if not isinstance(gpus, JobGpus):
        return
    texts = " ".join(finding.verdict.summary for finding in faults)
    watched = report.facts.watched
    runs = {run.uuid: run for run in watched} if isinstance(watched, tuple) else {}
    for gpu in [gpu for gpu in gpus.gpus if _is_named(gpu, texts)] or gpus.gpus:
        yield ""
        yield gpu.label
        of_gpu = _gpu(gpu, runs, pasted=report.facts.is_pasted)
        yield from (f"  {line}" for line in of_gpu)


def _is_named(gpu: JobGpu, text: str) -> bool:
    return f"{gpu.label}" in text or bool(gpu.nvml and gpu.nvml.uuid and gpu.nvml.uuid in text)


def _gpu(gpu: JobGpu, runs: dict[str, Watched], *, pasted: bool) -> Iterator[str]:
    nvml = gpu.nvml
    uuid = (nvml and nvml.uuid) or (gpu.torch and gpu.torch.uuid) or "not readable"
    if not pasted or "-" in uuid.removeprefix("GPU-"):  # GPU-0 stands for one that is not stated
        yield f"UUID: {uuid}"
    if nvml is None:
        return
    if nvml.bus_id:
        yield f"PCI bus: {nvml.bus_id}"
    if nvml.lost:
        yield f"NVML: {nvml.lost}"
    yield from _counters(nvml, runs.get(nvml.uuid), pasted=pasted)


def _counters(gpu: Gpu, run: Watched | None, *, pasted: bool) -> Iterator[str]:
    """Each counter before and after the doctor's own run on the GPU, as far as it was read."""
    during = "" if pasted else " during the test"
    for field, name in STATES.items():
        state = getattr(gpu, field)
        if state is not None:
            yield f"{name}: {'yes' if state else 'no'}"
    for field, name in COUNTERS.items():
        before, increase = getattr(gpu, field), run and getattr(run, field)
        if before is not None:
            after = "not read after it" if increase is None else f"{before + increase:,} after it"
            yield f"{name}: {before:,}" + f" before the test, {after}" * (not pasted)
    for field, name in INCREASES.items():
        if run and (increase := getattr(run, field)) is not None:
            yield f"{name}: {increase:,}{during}"
    if run and run.xids is not None:
        yield f"Xids{during}: {', '.join(map(str, run.xids)) or 'none'}"


def _commands(report: Report, faults: tuple[Finding, ...]) -> Iterator[str]:
    """The checks' own commands, and the doctor's."""
    yield from dict.fromkeys(command for finding in faults for command in finding.commands)
    codes = ",".join(dict.fromkeys(finding.check.code for finding in faults))
    gpus = report.facts.job.gpus
    yield shlex.join(["doctor", "run", "--only", codes, *(["--gpus", str(gpus)] if gpus else [])])
