"""`doctor init`: a commented job file for this machine. Never overwrites a file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from doctor._util.errors import UserError
from doctor._util.records import Unknown
from doctor._util.units import GIB
from doctor.cli.examine import check_installed
from doctor.collect.background import background
from doctor.collect.children import Children, read
from doctor.facts.machine import Gpu
from doctor.facts.views import visible_gpus

NAME = "doctor.toml"
NVML_SECONDS = 8.0
DIRECTORY_SECONDS = 5.0
ENTRIES = 2000
"""Entries of the working directory and its subdirectories that are examined at most."""
ACCELERATE = ("accelerate_config.yaml", "default_config.yaml", "accelerate.yaml")
LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Project:
    """Files of a training project. Paths are relative to the working directory."""

    checkpoint: str | None = None
    """The directory checkpoint-N with the highest N."""
    model: str | None = None
    """A directory with a transformers config.json."""
    accelerate: str | None = None
    precision: str | None = None
    processes: int | None = None


def init(directory: Path, *, to_stdout: bool) -> str:
    """Write doctor.toml into a directory, or return its text only. Raises UserError."""
    path = directory / NAME
    if not to_stdout and (path.exists() or path.is_symlink()):
        raise UserError(f"{NAME} already exists and is not overwritten; --stdout prints one")
    check_installed()
    gpus, driver = query_gpus()
    project = background(lambda: find_project(directory))
    try:
        text = render(gpus, driver, project.result(DIRECTORY_SECONDS))
    except TimeoutError:
        raise UserError(
            f"timed out after {DIRECTORY_SECONDS:g} s reading {directory}; is its disk reachable?"
        ) from None
    if not to_stdout:
        _write(path, text)
    return text


def _write(path: Path, text: str) -> None:
    """Write a new file, or none where the disk is full. Raises UserError."""
    try:
        with path.open("xb") as file:
            try:
                file.write(text.encode())
                file.flush()
            except OSError:
                path.unlink()
                raise
    except OSError as error:
        raise UserError(f"{NAME}: {error.strerror}") from None


def query_gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """The visible GPUs, () where NVML does not respond, and the driver's version."""
    children = Children()
    try:
        answer = children.run_probe("nvml", seconds=NVML_SECONDS)
    finally:
        children.interrupt()
    gpus = read(answer, "gpus", tuple[Gpu, ...]) if answer.ended.ok else ()
    version = (answer.answer or {}).get("version")
    listed = () if isinstance(gpus, Unknown) else gpus
    visible = visible_gpus(listed, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return tuple(gpu.nvml for gpu in visible if gpu.nvml), version


def find_project(directory: Path) -> Project:
    """Files in a directory and its subdirectories, by name; only small ones are read."""
    names = list(_names(directory))
    steps = [(int(match[1]), name) for name in names if (match := _match_checkpoint(name))]
    model = next((name for name in ("", *names) if _is_model(directory / name)), None)
    settings = next((name for name in names if name in ACCELERATE), None)
    values = _top_level_values(directory / settings) if settings else {}
    precision = values.get("mixed_precision", "")
    processes = values.get("num_processes", "")
    return Project(
        checkpoint=max(steps)[1] if steps else None,
        model=None if model is None else model or ".",
        accelerate=settings,
        precision=precision if precision in ("bf16", "fp16") else None,
        processes=int(processes) if re.fullmatch(r"[1-9]\d{0,4}", processes) else None,
    )


def _names(directory: Path) -> Iterator[str]:
    """Printable names of entries, those of subdirectories as "directory/name"."""
    remaining = ENTRIES
    for entry in _entries(directory):
        yield entry.name
        remaining -= 1
        for below in _entries(entry) if entry.is_dir() and remaining > 0 else ():
            yield f"{entry.name}/{below.name}"
            remaining -= 1


def _entries(directory: Path) -> list[Path]:
    try:
        entries = sorted(entry for entry in directory.iterdir() if entry.name.isprintable())
    except OSError:
        return []
    return [entry for entry in entries if not entry.name.startswith(".")][:ENTRIES]


def _match_checkpoint(name: str) -> re.Match[str] | None:
    return re.fullmatch(r"(?:.*/)?checkpoint-(\d{1,9})", name)


def _is_model(directory: Path) -> bool:
    try:
        config: object = json.loads(_text(directory / "config.json"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and isinstance(config.get("model_type"), str)


def _top_level_values(path: Path) -> dict[str, str]:
    """The lines "key: value" at the top level of a YAML file."""
    try:
        text = _text(path)
    except OSError:
        return {}
    return dict(re.findall(r"^(\w+):[ \t]*['\"]?([\w.-]*)['\"]?[ \t]*$", text, re.MULTILINE))


def _text(path: Path) -> str:
    if not path.is_file():
        raise OSError(f"{path} is not a regular file")
    with path.open("rb") as file:
        return file.read(LIMIT).decode("utf-8", "replace")


def render(gpus: tuple[Gpu, ...], driver: str | None, project: Project) -> str:
    """The file's text: values of this machine are set, other keys are comments."""
    return "\n".join([*_job(gpus, project), "", *_expect(gpus, driver), "", *_rest(), ""])


def _job(gpus: tuple[Gpu, ...], project: Project) -> Iterator[str]:
    yield "# The job that this machine is examined for. Flags of `doctor run` override it."
    yield "# All keys: docs/job-file.md"
    yield "[job]"
    source = f"from {project.accelerate}"
    needed = "GPUs that the job needs"
    processes = project.processes
    yield from _line("gpus", processes or len(gpus) or None, 8, source if processes else needed)
    auto = "auto: the best one that the GPU supports"
    yield from _line("precision", project.precision, "auto", source if project.precision else auto)
    yield '# recipe = "amp"  # fp32 weights under autocast; or "pure-bf16"'
    yield from _line(
        "checkpoint", project.checkpoint, "runs/checkpoint-100", "read, never executed"
    )
    yield '# output_dir = "runs"  # a small file is written, synced and deleted there'
    yield '# params = "8B"  # to estimate memory; the next four add activations'
    yield "# batch_size = 4"
    yield "# seq_len = 2048"
    yield "# checkpointing = true  # gradient checkpointing"
    yield '# optimizer = "adamw"  # adamw-8bit, adafactor, sgd, sgd-momentum, lion, lion-8bit'
    step = "trains one real step of this transformers model"
    yield from _line("hf", project.model, "models/llama", step)
    if not (project.model or project.checkpoint or project.accelerate or gpus):
        yield "# Nothing was found here: as it is, this file changes nothing."


def _expect(gpus: tuple[Gpu, ...], driver: str | None) -> Iterator[str]:
    yield "# What you expect of the machine; each line is one finding (JOB001-010)."
    yield "[expect]"
    kinds = {gpu.name for gpu in gpus}
    kind = kinds.pop() if len(kinds) == 1 else ""
    plain = kind.isprintable() and not set(kind) & set("*?[")
    yield from _line("gpu", kind if plain else None, "H100", "the name, or words of it")
    yield from _line("count", len(gpus) or None, 8, "GPUs, at least")
    sizes = [gpu.memory_total for gpu in gpus if gpu.memory_total and not gpu.mig]
    least = min(sizes) // GIB if sizes and len(sizes) == len(gpus) else 0
    yield from _line("memory", f"{least}GiB" if least else None, "80GB", "of each GPU, at least")
    major = (driver or "").split(".")[0]
    yield from _line("driver", f">={major}" if major.isdecimal() else None, ">=570", "")
    for example in ('torch = ">=2.9"', 'cuda = "13"', 'shm = "8GB"', 'host_memory = "256GB"'):
        yield f"# {example}"
    yield "# cpus = 16"
    yield '# disk = { "/data" = "500GB" }  # free, at least'


def _rest() -> Iterator[str]:
    yield "# Findings that are known and accepted: they do not affect the exit code."
    yield "# [[ignore]]"
    yield '# code = "DSK001"  # a code, a slug or a family'
    yield '# reason = "the disk is enlarged tomorrow"'
    yield "# until = 2030-01-31  # the last day, optional"
    yield '# host = "node-*"  # only on these hosts, optional'
    yield ""
    yield "# [severity]"
    yield '# MEM003 = "warn"  # or "fail"'


def _line(key: str, value: object, example: object, comment: str) -> Iterator[str]:
    """The key with its value, or an example in a comment."""
    text = json.dumps(value or example, ensure_ascii=False)
    end = f"  # {comment}" if comment else ""
    yield f"{'' if value else '# '}{key} = {text}{end}"
