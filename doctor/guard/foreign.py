"""The type of what is not the guard's own."""

from __future__ import annotations

from typing import Any

Foreign = Any
"""An object of the user's process, or of a library in it: what it has is not known, and reading it
may raise. The one alias of Any in the guard."""
