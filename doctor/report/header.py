"""The head of a report: when and what was examined, and what was not read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from doctor import __version__
from doctor._util.records import Unknown
from doctor._util.units import counted, gb, gib, shown
from doctor.facts.data import Data, Split
from doctor.facts.data_rows import SplitFiles
from doctor.facts.facts import Facts
from doctor.facts.fleet import Fleet
from doctor.facts.flight_recorder import FlightRecorder
from doctor.facts.guard import Guarded
from doctor.facts.host import Host
from doctor.facts.interpreter import Torch
from doctor.facts.log import Log
from doctor.facts.machine import Driver
from doctor.facts.views import UNNAMED, JobGpu, JobGpus
from doctor.report.checkpoint import checkpoint_parts
from doctor.report.fleet import fleet_parts
from doctor.report.line import Line
from doctor.report.origin import origin_of
from doctor.report.report import Report

NARROW, WIDE = 9, 12
"""Columns of the names: of "examined", of "checkpoint"."""
MOST_FILES = 5
"""Files that were not read and are named."""


def header_lines(report: Report) -> Iterator[Line]:
    facts = report.facts
    replayed = f", judging {report.replayed} ({facts.origin})" if report.replayed else ""
    yield Line("", f"doctor {__version__}{replayed}", body_style="bold", hang=2)
    width = WIDE if facts.subject == "checkpoint" else NARROW
    for name, value in header_parts(report):
        yield Line(f"  {name:<{width}}", value)


def time_lines(report: Report) -> Iterator[Line]:
    """Where the time went."""
    examination = report.facts.examination
    timed = examination.stages.items() if examination else ()
    parts = [f"{shown(name)} {seconds:.1f} s" for name, seconds in timed if seconds >= 0.1]
    if parts:
        yield Line(f"  {'time':<9}", ", ".join(parts))


def note_lines(report: Report) -> Iterator[Line]:
    """What was left out or not read: a quiet READY without it would be misleading."""
    for note in report.notes:
        yield Line("note ", shown(note, 500))


def header_parts(report: Report) -> Iterator[tuple[str, str]]:
    """When and what was examined: the machine, the interpreter, the job."""
    facts = report.facts
    origin = origin_of(facts)
    if origin.started:
        host = f" on {shown(origin.host)}" if origin.host else ""
        yield "examined", f"{shown(examined_on(report))}{host}, in {facts.seconds:.1f} s"
    if origin.command:
        yield "command", shown(origin.command, 1000)
    yield from _subject_parts(report)
    if report.config:
        yield "job file", shown(report.config, 500)
    for note in report.notes:
        yield "note", shown(note, 500)


def subject(report: Report) -> str:
    """What was examined, in a few words: "8 × NVIDIA H100 80GB HBM3 80.0 GiB", "log train.log"."""
    if report.facts.subject == "machine":
        return " · ".join(_gpus(report.facts)) or next(_host(report.facts), "machine")
    if report.facts.subject == "scripts":
        return f"{counted(report.files, 'script')}"
    name, value = next(_subject_parts(report), ("", ""))
    value = value.split(" · ")[0]
    return name if name == "training" and not value[:1].isdigit() else f"{name} {value}".strip()


def examined_on(report: Report) -> str:
    """ "2026-01-31 09:05:00 UTC", "" where that was not recorded."""
    started = origin_of(report.facts).started
    return started.replace("T", " ").replace("Z", " UTC") if started else ""


def _subject_parts(report: Report) -> Iterator[tuple[str, str]]:
    """What was examined."""
    facts = report.facts
    match facts.subject:
        case "log" if isinstance(facts.log, Log):
            yield from _log_parts(facts.log, facts)
        case "training" if facts.guard is not None:
            yield "training", training(facts.guard)
        case "scripts":
            yield "scripts", f"{counted(report.files, 'file')}"
        case "checkpoint":
            yield from checkpoint_parts(facts)
        case "data":
            yield from data_parts(facts.data)
        case "fleet" if isinstance(facts.fleet, Fleet):
            yield from fleet_parts(facts.fleet)
        case _:
            yield from _machine_parts(report)


def _machine_parts(report: Report) -> Iterator[tuple[str, str]]:
    """The machine, the interpreter and the job."""
    facts = report.facts
    yield "machine", " · ".join([*_host(facts), *_gpus(facts)])
    if not isinstance(facts.interpreter, Unknown):
        listed = facts.interpreter.installed or ()
        absent = "torch of unknown version" if facts.interpreter.importing.ok else "no torch"
        torch = next((each for each in listed if each.startswith("torch==")), absent)
        if isinstance(facts.torch, Torch):
            torch = f"torch {facts.torch.version}"
        path = f"{facts.interpreter.path} ({facts.interpreter.chosen})"
        version = facts.interpreter.version
        parts = [path, f"Python {version}" if version else "", torch]
        yield "python", " · ".join(filter(None, parts))
    yield "job", " · ".join(_job(report))
    yield from data_parts(facts.data)


def _log_parts(log: Log, facts: Facts) -> Iterator[tuple[str, str]]:
    """What was read, and which versions and steps it names."""
    recorder = facts.flight_recorder
    if log.files:
        names = f"{len(log.files):,} files" if len(log.files) > 1 else shown(log.files[0].path, 300)
        yield "log", " · ".join([names, f"{log.lines:,} lines", gb(log.bytes)])
    if isinstance(recorder, FlightRecorder):
        library = f"NCCL {shown(recorder.library)}" if recorder.library else ""
        dumps = f"{len(recorder.ranks):,} flight-recorder dumps"
        yield "dumps", " · ".join(filter(None, [dumps, library]))
    for file in [file for file in log.files if file.problem][:MOST_FILES]:
        yield "not read", f"{shown(file.path, 300)}: {shown(file.problem, 200)}"
    for file in [file for file in log.files if len(file.starts) > 1][:MOST_FILES]:
        lines = ", ".join(f"{line:,}" for line in file.starts[:MOST_FILES])
        more = ", ..." * (len(file.starts) > MOST_FILES)
        text = f"trainings begin at lines {lines}{more} of {shown(file.path, 300)}"
        yield "runs", f"{text}; each is judged by itself"
    if log.versions:
        versions = [f"{shown(name)} {shown(version)}" for name, version in log.versions.items()]
        yield "versions", " · ".join(versions)
    if log.last_step is not None:
        sampled = max((curve.thinned for curve in log.curves), default=1)
        read = f"1 of {sampled:,} rows of metrics was read, and all that are not finite"
        yield "progress", f"last step {log.last_step:,}{f' · {read}' * (sampled > 1)}"


def training(guard: Guarded | Unknown) -> str:
    """ "2 ranks · 300 steps · AdamW · torch 2.13.0"."""
    if isinstance(guard, Unknown) or not guard.processes:
        return "no step was observed"
    process = guard.processes[0]
    ranks = f"{len(guard.processes)} ranks" if len(guard.processes) > 1 else "1 process"
    parts = [ranks, f"{guard.steps:,} steps", *process.counts.optimizers, f"torch {process.torch}"]
    return shown(" · ".join(parts), 300)


def _host(facts: Facts) -> Iterator[str]:
    host = facts.host
    if isinstance(host, Host):
        yield f"{host.system} {host.arch}".strip()
        if host.sandbox:
            yield f"in {shown(host.sandbox)}"
        cpus = [count for count in (host.cpus, host.cgroup_cpus) if count]
        if cpus:
            yield f"{min(cpus):g} CPUs"
        limits = [size for size in (host.memory_total, host.cgroup_memory_limit) if size]
        if limits:
            yield f"{gib(min(limits))} memory"
    if isinstance(facts.driver, Driver) and facts.driver.version:
        yield f"driver {facts.driver.version}"


def _gpus(facts: Facts) -> Iterator[str]:
    gpus = facts.job_gpus
    if isinstance(gpus, JobGpus):
        for (name, size, is_known), same in groupby(gpus.gpus, key=_model):
            count = f"{len(list(same))} × " if is_known and name != UNNAMED else ""
            yield f"{count}{name}" + (f" {gib(size)}" if size else "")


def _model(gpu: JobGpu) -> tuple[str, int | None, bool]:
    """Name and memory, or the place of one that a log alone has: a list may name it as well."""
    is_known = not (gpu.nvml and gpu.nvml.unnumbered)
    return gpu.name if is_known else gpu.label, gpu.memory_total, is_known


def _job(report: Report) -> Iterator[str]:
    facts = report.facts
    yield f"{facts.target.kind} ({facts.target.why})"
    chosen = facts.chosen
    if isinstance(chosen, Unknown):
        yield f"precision unknown: {chosen.reason}"
    else:
        yield f"{chosen.precision} ({chosen.why})"
    yield f"recipe {facts.job.recipe or 'amp (assumed)'}"


def data_parts(data: Data | Unknown | None) -> Iterator[tuple[str, str]]:
    """Name and text of each line of the head."""
    if not isinstance(data, Data):
        return
    yield "data", " · ".join(filter(None, [shown(data.target, 300), _tokenizer(data)]))
    if data.shards is not None and data.shards.splits:
        yield "files", " · ".join(map(_files, data.shards.splits))
    for split in data.splits:
        yield shown(split.name, 9), coverage(split)


def _files(files: SplitFiles) -> str:
    """ "train: a.csv, b.csv and 3 more"."""
    more = f" and {files.files - len(files.names)} more" if files.files > len(files.names) else ""
    return f"{shown(files.split) or 'not read'}: {', '.join(map(shown, files.names))}{more}"


def _tokenizer(data: Data) -> str:
    if data.tokenizer:
        return f"tokenizer of {data.tokenizer}"
    texts = any(split.kind == "file" and split.texts is not None for split in data.splits)
    return "texts only: --tokenizer DIR judges and shows what the model gets" if texts else ""


ENDINGS = {
    "hang": "then no batch came",
    "error": "then reading failed",
    "time": "until --sample-time was over",
}


def coverage(split: Split) -> str:
    """ "256 of 51,000 rows in 32 batches, 4.0 s"."""
    if split.total is None:
        rows = f"{split.rows:,} rows" + " in all" * (split.ended == "complete")
    elif split.rows >= split.total:
        rows = f"all {split.total:,} rows"
    else:
        rows = f"{split.rows:,} of {split.total:,} rows"
    batches = f" in {split.batches:,} batches" if split.kind == "loader" else ""
    ending = ENDINGS.get(split.ended, "")
    return f"{rows}{batches}, {split.seconds:.1f} s" + (f", {ending}" if ending else "")
