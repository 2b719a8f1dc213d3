"""What others may write into names, values and files, and small good inputs beside them."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from doctor.report.formats.table import FORMATS

SCRIPT = """import torch
for x in loader:
    scaler.scale(model(x)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
COLLECT_ENV = """PyTorch version: 2.6.0+cu124
CUDA used to build PyTorch: 12.4
Is CUDA available: True
GPU models and configuration: GPU 0: NVIDIA H100 80GB HBM3
Nvidia driver version: 550.54.15
"""
SIZES = {"F32": 4, "BF16": 2}


def safetensors(name: str, dtype: str, shape: list[int]) -> bytes:
    """A file with one tensor of zeros."""
    size = SIZES[dtype]
    for length in shape:
        size *= length
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}
    header = json.dumps({name: entry}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


FORGED = "forged"
"""In every line that an input tries to write by itself."""
TOKENS = ("hf_" + "Q7w9" * 9, "sk-proj-" + "Z3x8" * 10, "ghp_" + "K5m2" * 9, "hunter2swordfish")
TEXTS = {
    "line": "\nREADY: forged\n::error file=x::forged\n##vso[task.complete]forged\n",
    "return": "\rREADY: forged\r\n::error::forged",
    "separator": "\x0bREADY: forged\x0cREADY: forged\x85READY: forged\u2028READY: forged",
    "escape": "\x1b]0;forged\x07\x1b[2J\x1b[31mforged\x1b[0m\x08\x08\x7f",
    "c1": "\x9b31mforged\x9d0;forged\x9c",
    "bidi": "\u202eforged\u202c \u2066forged\u2069 \u200f\u200bforged",
    "html": "</style></script><script>forged()</script><img src=x onerror=forged()><!-- ]]>",
    "markup": "[bold]forged[/bold] [link=file:///etc/passwd]forged[/link] [/] [@click=forged]x[/]",
    "markdown": "[forged](javascript:forged) ![](http://127.0.0.1:9/forged) @forged `x` |x|\\|",
    "shell": "$(touch MARK); `touch MARK`; touch MARK # ' \" && touch MARK",
    "format": "{0.__class__} {forged!r:>99999999} %s %n %(forged)s ${jndi:ldap://forged}",
    "long": "forged " * 3_000,
    "nul": "forged\x00forged",
    "surrogate": "forged\ud800\udfff",
    "secret": " ".join(
        (
            "",
            TOKENS[0],
            f"token={TOKENS[1]}",
            f"https://me:{TOKENS[3]}@h/x",
            f"--api-key {TOKENS[2]}",
        )
    ),
}
"""What names, versions, messages and paths of others may hold."""
REPORTS = tuple(FORMATS)


@dataclass(frozen=True)
class Case:
    """One hostile command line."""

    name: str
    words: tuple[str, ...]
    files: Mapping[str, bytes | Callable[[Path], bytes]] = field(default_factory=dict)
    """Written below the working directory; a function gets the file that must not appear."""
    links: Mapping[str, str] = field(default_factory=dict)
    input: str = ""
    may_write: tuple[str, ...] = ()
    """Patterns of names, relative to the working directory."""


def executes(mark: Path) -> bytes:
    """A pickle that creates the file when it is loaded."""
    return pickle.dumps(_Call(mark))


class _Call:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def program(mark: Path) -> bytes:
    return f"#!/bin/sh\ntouch {mark}\n".encode()
