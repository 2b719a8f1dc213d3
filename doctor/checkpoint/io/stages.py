"""Stages: what a reader is about to do, announced before it may block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager

Stage = Callable[[str], AbstractContextManager[None]]
"""Entered with a description of the step, such as "read model.safetensors"."""


def no_stage(name: str) -> AbstractContextManager[None]:
    """A stage that is not reported."""
    return contextlib.nullcontext()
