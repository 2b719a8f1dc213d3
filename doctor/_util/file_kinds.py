"""Which command reads a file, by the end of its name."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from doctor._util.errors import UserError
from doctor._util.regular_file import read_regular

READ_BY = {
    "lint": (".py", ".ipynb", ".pyw"),
    "triage": (".log", ".out", ".err"),
    "scan": (".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".gguf"),
    "data": (".jsonl", ".csv", ".parquet"),
}


def command_for(path: str) -> str:
    """The command that reads such a file; "" where its name or its beginning does not tell."""
    command = next((command for command, names in READ_BY.items() if path.endswith(names)), "")
    try:
        begins = read_regular(path, 512) if command == "triage" else b""
    except OSError:  # a pipe, a device
        return ""
    return "" if begins.startswith(b"#!") or b"\0" in begins else command


def refuse_others(path: str, what: str, commands: Collection[str]) -> None:
    """Raise UserError for a file on this machine that one of these other commands reads."""
    other = command_for(path)
    if other in commands and Path(path).is_file():
        raise UserError(f"{path} is no {what}; doctor {other} {path} reads it")
