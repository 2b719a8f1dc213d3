"""Which job file a command reads, and what overrides it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class ConfigChoice(Protocol):
    """`options.ConfigFlags`, or what a command line without the parser says."""

    @property
    def config(self) -> Path | None: ...
    @property
    def no_config(self) -> bool: ...
    @property
    def no_ignores(self) -> bool: ...
    @property
    def inject(self) -> Sequence[str] | None: ...


class PlainConfig(NamedTuple):
    """The same without the command-line parser."""

    config: Path | None = None
    no_config: bool = False
    no_ignores: bool = False
    inject: tuple[str, ...] = ()
