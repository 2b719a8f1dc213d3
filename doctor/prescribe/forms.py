"""What a prescription is printed for."""

from __future__ import annotations

from typing import Literal

Form = Literal["text", "python", "loop", "env", "trainer", "accelerate"]
