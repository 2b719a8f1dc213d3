"""`doctor init`: a commented job file from what is found here. Nothing is ever overwritten."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doctor._util.errors import UserError
from doctor._util.records import Unknown
from doctor._util.units import GIB
from doctor.collect.children import Children, background, read
from doctor.facts.machine import Gpu
from doctor.facts.views import visible_gpus

NAME = "doctor.toml"
NVML_SECONDS = 8.0
LOOK_SECONDS = 5.0
ENTRIES = 2000
"""Entries of the working directory, and of the folders in it, that are looked at."""
ACCELERATE = ("accelerate_config.yaml", "default_config.yaml", "accelerate.yaml")
LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Here:
    """What was found. Paths are relative to the working directory."""

    checkpoint: str | None = None
    """The folder checkpoint-N with the highest N."""
    model: str | None = None
    """A folder with a transformers config.json."""
    accelerate: str | None = None
    precision: str | None = None
    processes: int | None = None


def init(folder: Path, *, to_stdout: bool) -> str:
    """Write doctor.toml into a folder, or return its text only. Raises UserError."""
    path = folder / NAME
    if not to_stdout and (path.exists() or path.is_symlink()):
        raise UserError(f"{NAME} is there already and is never overwritten; --stdout prints one")
    gpus, driver = look_at_gpus()
    found = background(lambda: look_around(folder))
    try:
        text = render(gpus, driver, found.result(LOOK_SECONDS))
    except TimeoutError:
        raise UserError(f"{folder} gives no answer in {LOOK_SECONDS:g} s") from None
    if not to_stdout:
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise UserError(f"{NAME}: {error.strerror}") from None
    return text


def look_at_gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """The visible GPUs, () where NVML does not answer, and the driver's version."""
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


def look_around(folder: Path) -> Here:
    """Names in a folder and in those right below it; of files only small ones are read."""
    names = list(_names(folder))
    steps = [(int(found[1]), name) for name in names if (found := _numbered(name))]
    model = next((name for name in ("", *names) if _is_model(folder / name)), None)
    settings = next((name for name in names if name in ACCELERATE), None)
    told = _settings(folder / settings) if settings else {}
    precision = told.get("mixed_precision", "")
    processes = told.get("num_processes", "")
    return Here(
        checkpoint=max(steps)[1] if steps else None,
        model=None if model is None else model or ".",
        accelerate=settings,
        precision=precision if precision in ("bf16", "fp16") else None,
        processes=int(processes) if re.fullmatch(r"[1-9]\d{0,4}", processes) else None,
    )


def _names(folder: Path) -> Iterator[str]:
    """Printable names of entries, those of folders below as "folder/name"."""
    left = ENTRIES
    for entry in _entries(folder):
        yield entry.name
        left -= 1
        for below in _entries(entry) if entry.is_dir() and left > 0 else ():
            yield f"{entry.name}/{below.name}"
            left -= 1


def _entries(folder: Path) -> list[Path]:
    try:
        found = sorted(entry for entry in folder.iterdir() if entry.name.isprintable())
    except OSError:
        return []
    return [entry for entry in found if not entry.name.startswith(".")][:ENTRIES]


def _numbered(name: str) -> re.Match[str] | None:
    return re.fullmatch(r"(?:.*/)?checkpoint-(\d{1,9})", name)


def _is_model(folder: Path) -> bool:
    try:
        told: Any = json.loads(_text(folder / "config.json"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(told, dict) and isinstance(told.get("model_type"), str)


def _settings(path: Path) -> dict[str, str]:
    """The lines "key: value" at the top level of a YAML file."""
    try:
        text = _text(path)
    except OSError:
        return {}
    return dict(re.findall(r"^(\w+):[ \t]*['\"]?([\w.-]*)['\"]?[ \t]*$", text, re.MULTILINE))


def _text(path: Path) -> str:
    if not path.is_file():
        raise OSError(f"{path} is no file")
    with path.open("rb") as file:
        return file.read(LIMIT).decode("utf-8", "replace")


def render(gpus: tuple[Gpu, ...], driver: str | None, here: Here) -> str:
    """The file's text: what was found is set, the rest stands in comments."""
    return "\n".join([*_job(gpus, here), "", *_expect(gpus, driver), "", *_rest(), ""])


def _job(gpus: tuple[Gpu, ...], here: Here) -> Iterator[str]:
    yield "# The job that this machine is examined for. Flags of `doctor run` come before it."
    yield "# All keys: docs/job-file.md"
    yield "[job]"
    yield from _line("gpus", len(gpus) or None, 8, "GPUs that the job needs")
    precision = here.precision if gpus else None
    said = f"from {here.accelerate}" if precision else "auto: what the GPU is good at"
    yield from _line("precision", precision, "auto", said)
    yield '# recipe = "amp"  # fp32 weights under autocast; or "pure-bf16"'
    yield from _line("checkpoint", here.checkpoint, "runs/checkpoint-100", "looked into, not run")
    yield '# output_dir = "runs"  # a small file is written there, synced and deleted'
    yield '# params = "8B"  # what must fit; with these four, activations too'
    yield "# batch_size = 4"
    yield "# seq_len = 2048"
    yield "# checkpointing = true  # gradient checkpointing"
    yield '# optimizer = "adamw"  # adamw-8bit, adafactor, sgd, sgd-momentum, lion, lion-8bit'
    model = json.dumps(here.model or "models/llama", ensure_ascii=False)
    yield f"# hf = {model}  # trains a real step of this transformers model"
    if here.processes and here.processes != len(gpus):
        yield f"# {here.accelerate} starts {here.processes} processes"


def _expect(gpus: tuple[Gpu, ...], driver: str | None) -> Iterator[str]:
    yield "# What was paid for or agreed; each line is a finding of its own (JOB001-010)."
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
    yield "# Findings that are known and accepted: they are counted and gate nothing."
    yield "# [[ignore]]"
    yield '# code = "DSK001"  # a code, a slug or a family'
    yield '# reason = "the disk is made larger tomorrow"'
    yield "# until = 2030-01-31  # the last day, may be left out"
    yield '# host = "node-*"  # only there, may be left out'
    yield ""
    yield "# [severity]"
    yield '# MEM003 = "warn"  # or "fail"'


def _line(key: str, value: Any, example: Any, said: str) -> Iterator[str]:
    """The key as it was found, or as an example in a comment."""
    shown = json.dumps(value or example, ensure_ascii=False)
    comment = f"  # {said}" if said else ""
    yield f"{'' if value else '# '}{key} = {shown}{comment}"
