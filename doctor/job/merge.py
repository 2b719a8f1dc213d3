"""Flags over DOCTOR_ variables over the job file, as one request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from doctor._util.errors import UserError
from doctor._util.units import printable
from doctor.job.expect import Expect
from doctor.job.file.config import JobFile
from doctor.job.job import Job
from doctor.job.run_options import RunOptions

Struct = TypeVar("Struct", bound=msgspec.Struct)

THIS_MACHINE = (
    "checkpoint", "output_dir", "cache_dir", "python", "model", "arguments", "hf", "data", "lora",
    "compile", "attention",
)  # fmt: skip
"""Fields that name something to examine on this machine, so that saved facts cannot answer them."""
FEWEST = 1000
"""Parameters; fewer are a number without its unit. Our own number."""
CPU_LIKE = ("cpu", "mps")
"""Devices without memory of their own."""
HOW_TO_EXAMINE = ("layers", "weights", "quick", "memory_test")
"""Fields that state how to examine it. A job file's are dropped where facts are replayed."""


class Request(NamedTuple):
    """What a run is requested to examine."""

    job: Job
    options: RunOptions = RunOptions()
    expect: Expect = Expect()


def merge(
    flags: Mapping[str, object],
    variables: Mapping[str, object],
    file: JobFile,
    base: Request,
    *,
    replayed: bool,
) -> Request:
    """`base` with every field that a flag, else a variable, else the job file sets.

    The keys of `flags` and `variables` are fields of Job or RunOptions. `replayed`: saved facts
    are judged, so the job file's statements about this machine are dropped. Raises UserError where
    two settings contradict each other.
    """
    _check_consistent(flags)
    below = {**(file.job or {}), **variables}
    for key in _overridden(flags) + (THIS_MACHINE + HOW_TO_EXAMINE if replayed else ()):
        below.pop(key, None)
    merged = {**below, **flags}
    try:
        _check_consistent(merged)
    except UserError as error:
        places = (file.path, "DOCTOR_ variables" if variables else "")
        raise UserError(f"{error} (one is set by {' or '.join(filter(None, places))})") from None
    _check_own_training(merged)
    _check_encoding(merged)
    if merged.get("memory_test") and (merged.get("quick") or merged.get("device") in CPU_LIKE):
        raise UserError("--memory-test requires a GPU under load: omit --quick and --device")
    if merged.get("ranks") is not None and not merged.get("rehearse"):
        raise UserError("--ranks requires --rehearse: it is how many processes that starts")
    if merged.get("rehearse") and not (merged.get("model") or merged.get("hf")):
        raise UserError("--rehearse requires --model or --hf; for a command: doctor rehearse")
    if flags.get("smoke") is False and (flags.get("model") or flags.get("hf")):
        raise UserError("--no-smoke cannot be combined with --model or --hf: it omits their step")
    return Request(
        _replace(base.job, merged), _replace(base.options, merged), file.expect or base.expect
    )


def _replace(struct: Struct, values: Mapping[str, object]) -> Struct:
    """The struct with those of the values that are its fields."""
    fields = {name: values[name] for name in struct.__struct_fields__ if name in values}
    return msgspec.structs.replace(struct, **fields)


def _overridden(flags: Mapping[str, object]) -> tuple[str, ...]:
    """Keys of variables and the job file that make no sense beside a flag."""
    keys: tuple[str, ...] = ()
    if "model" in flags:
        keys += ("hf", "data", "layers", "weights", "lora")
    if "hf" in flags:
        keys += ("model", "arguments")
    if flags.get("device") in CPU_LIKE:
        keys += ("gpus",)
    if flags.get("recipe") == "pure-bf16":
        keys += ("precision",)
    if flags.get("precision") in ("fp16", "fp32"):
        keys += ("recipe",)
    if "params" in flags:
        keys += ("trainable",)
    return keys


def _check_consistent(settings: Mapping[str, Any]) -> None:
    """Raise UserError for settings that contradict each other."""
    params, trainable = settings.get("params", math.inf), settings.get("trainable", 0)
    if params < FEWEST:
        raise UserError(f"--params {params}: write 8B for 8 billion, 40M for 40 million")
    if trainable > params:
        raise UserError(f"--trainable {trainable} is more than --params {params}")
    if settings.get("device") in CPU_LIKE and settings.get("gpus"):
        raise UserError(f"--gpus cannot be combined with --device {settings['device']}")
    if settings.get("model") and settings.get("hf"):
        raise UserError("--model cannot be combined with --hf; each names a training")
    if settings.get("recipe") == "pure-bf16" and settings.get("precision") in ("fp16", "fp32"):
        precision = settings["precision"]
        raise UserError(f"--recipe pure-bf16 cannot be combined with --precision {precision}")


def _check_own_training(settings: Mapping[str, object]) -> None:
    """Raise UserError for settings of the user's own training where none is named."""
    if not settings.get("hf") and any(settings.get(name) for name in ("layers", "weights")):
        raise UserError("--layers and --weights require --hf DIRECTORY")
    if settings.get("data") and not settings.get("hf"):
        raise UserError("--data requires --hf DIRECTORY; a factory of --model has its own loader")
    if settings.get("lora") and not settings.get("hf"):
        raise UserError("--lora requires --hf DIRECTORY; the factory of --model adds its own")
    if settings.get("compile") and not (settings.get("model") or settings.get("hf")):
        raise UserError("--compile requires --model or --hf")


def _check_encoding(settings: Mapping[str, object]) -> None:
    """Raise UserError for a path that is not UTF-8: facts and reports are text."""
    for name, value in settings.items():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, str) and printable(part) != part:
                flag = name.replace("_", "-")
                raise UserError(f"--{flag} {printable(part)} is not UTF-8; name it by a link")
