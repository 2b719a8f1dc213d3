"""What is asked: flags over DOCTOR_ variables over the job file, as the fields of one Job."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from doctor._util.errors import UserError
from doctor._util.units import parse_count, printable
from doctor.job.file.config import JobFile

LOOKED_AT = (
    "checkpoint",
    "output_dir",
    "cache_dir",
    "python",
    "model",
    "hf",
    "lora",
    "compile",
    "attention",
)
"""Flags that name what must be looked at here, so that a facts file cannot answer them."""
ABOUT_THEM = ("layers", "weights", "quick")
"""Keys that say how to look: where nothing is looked at, a job file's are left out."""


def merge(
    flags: Mapping[str, Any], variables: Mapping[str, Any], file: JobFile, *, replayed: bool
) -> dict[str, Any]:
    """Fields of the Job that anybody named. Raises UserError where they contradict each other.

    `replayed`: saved facts are judged, so what a file says of this machine is left out.
    """
    given = _parsed(flags)
    _consistent(given)
    below = {**(file.job or {}), **variables}
    for key in _given_up(given) + (LOOKED_AT + ABOUT_THEM if replayed else ()):
        below.pop(key, None)
    merged = {**below, **given}
    if file.expect is not None:
        merged["expect"] = file.expect
    try:
        _consistent(merged)
    except UserError as error:
        whose = " and ".join(filter(None, (file.path, "DOCTOR_ variables" * bool(variables))))
        raise UserError(f"{error} (with what {whose} says)") from None
    _one_training(merged)
    _legible(merged)
    if given.get("smoke") is False and (given.get("model") or given.get("hf")):
        raise UserError("--no-smoke leaves out every training step, that of --model or --hf too")
    return merged


def _given_up(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys of a file that make no sense beside a flag."""
    keys: tuple[str, ...] = ()
    if "model" in given:
        keys += ("hf", "layers", "weights", "lora")
    if "hf" in given:
        keys += ("model",)
    if given.get("device") in ("cpu", "mps"):
        keys += ("gpus",)
    if given.get("recipe") == "pure-bf16":
        keys += ("precision",)
    if given.get("precision") in ("fp16", "fp32"):
        keys += ("recipe",)
    if "params" in given:
        keys += ("trainable",)
    return keys


def _parsed(flags: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in flags.items() if value is not None}
    for name in ("params", "trainable"):
        if name in given:
            try:
                given[name] = parse_count(given[name])
            except ValueError as error:
                raise UserError(f"--{name}: {error}") from None
    if "attention" in given:
        given["attention"] = _attention(given["attention"])
    return given


def _attention(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.split(",") if part.strip().isdecimal())
    if len(sizes) != 4 or text.count(",") != 3 or not all(0 < size < 2**20 for size in sizes):
        raise UserError("--attention wants batch,heads,tokens,head_dim, as in 1,32,2048,128")
    return sizes


def _consistent(given: Mapping[str, Any]) -> None:
    """Flags that contradict each other describe no job."""
    if given.get("trainable", 0) > given.get("params", math.inf):
        raise UserError("--trainable is more than --params; only a part of the model can train")
    if given.get("device") in ("cpu", "mps") and given.get("gpus"):
        raise UserError(f"--gpus does not go with --device {given['device']}")
    if given.get("model") and given.get("hf"):
        raise UserError("--model and --hf are two trainings; name one of them")
    if given.get("recipe") == "pure-bf16" and given.get("precision") in ("fp16", "fp32"):
        raise UserError(f"--recipe pure-bf16 does not go with --precision {given['precision']}")


def _legible(given: Mapping[str, Any]) -> None:
    """Facts and reports are text: a path of other bytes has no place in them."""
    for name, value in given.items():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, str) and printable(part) != part:
                flag = name.replace("_", "-")
                raise UserError(f"--{flag} {printable(part)} is no UTF-8 text; reach it by a link")


def _one_training(given: Mapping[str, Any]) -> None:
    """What is asked of the user's own training needs one."""
    own = given.get("model") or given.get("hf")
    if not given.get("hf") and any(given.get(name) for name in ("layers", "weights")):
        raise UserError("--layers and --weights are about the model of --hf FOLDER")
    if given.get("lora") and not given.get("hf"):
        raise UserError("--lora puts adapters on the model of --hf FOLDER; a factory adds its own")
    if given.get("compile") and not own:
        raise UserError("--compile is about the training of --model or --hf; name one of them")
