"""What every job here takes: --out, --kind or --fault, and options of its own."""

from __future__ import annotations

import argparse
from typing import Any

import torch


def options(kind: str = "usual", **more: Any) -> argparse.Namespace:
    """The command line; `more` are further options with their defaults. One thread computes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    for name, default in {"kind": kind, "fault": "", **more}.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    torch.set_num_threads(1)
    return parser.parse_args()
