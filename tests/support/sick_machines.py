"""Machines of public issues with a cause that their thread names: tests/corpus/machines.jsonl.

A row has the report as it was pasted (`text`), or, where the thread states only the error, `facts`:
the error, and a machine that fits it. `codes` are the checks of which one must complain, `fix` has
words that the remedy contains, and `returned` says whether the thread ends with other hardware.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from public_machines import facts_of

from doctor._util.records import Ended
from doctor.cli.read import facts_of_text
from doctor.facts.facts import Facts
from doctor.facts.interpreter import Cuda, Interpreter, Torch
from doctor.facts.machine import Driver

CORPUS = Path(__file__).parents[1] / "corpus" / "machines.jsonl"


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]


def facts_of_row(row: dict[str, Any]) -> Facts:
    """The facts of one row."""
    if "text" in row:
        return facts_of_text(row["text"], row["id"])
    stated = row["facts"]
    facts = facts_of({"source": row["source"], **stated})
    replace = msgspec.structs.replace
    if "import_error" in stated:
        failed = Ended(how="error", detail=stated["import_error"])
        program = Interpreter(path="python", chosen="the report's", version="", importing=failed)
        facts = facts.with_(interpreter=program)
    if "cuda_error" in stated:
        facts = facts.with_(cuda=Cuda(started=Ended(how="error", detail=stated["cuda_error"])))
    if "driver_code" in stated:
        assert isinstance(facts.driver, Driver)
        failed = Ended(how="error", detail="cuInit", code=stated["driver_code"])
        facts = facts.with_(driver=replace(facts.driver, cuda=failed))
    if "cudnn_error" in stated:
        assert isinstance(facts.torch, Torch)
        facts = facts.with_(torch=replace(facts.torch, cudnn_error=stated["cudnn_error"]))
    if "kernel_error" in stated:
        assert isinstance(facts.cuda, Cuda)
        kernel = Ended(how="error", detail=stated["kernel_error"])
        gpus = tuple(replace(gpu, kernel=kernel) for gpu in facts.cuda.gpus)
        facts = facts.with_(cuda=replace(facts.cuda, gpus=gpus))
    return facts
