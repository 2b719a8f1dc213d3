"""`--help`: options below headings, each with what it expects and its default."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from typer import Option
from typer.core import TyperCommand


def _option(panel: str, help: str, *names: str, **settings: Any) -> object:
    """An option; its help states the default as "(default: value)"."""
    return Option(*names, help=help, rich_help_panel=panel, show_default=False, **settings)


def _below(panel: str) -> Callable[..., Any]:
    return partial(_option, panel)


PANELS = ("Job", "Model and script", "Paths", "Scope", "Fleet", "Fixes", "Settings", "Job file",
          "Gate", "Facts", "Output", "Options")  # fmt: skip
"""Headings in the order of the help; those without a heading of their own are the last."""

(job, model, paths, scope, fleet, fixes, settings, job_file, gate, facts, output, _) = map(
    _below, PANELS
)

NAMES = 27
"""Columns of the longest name beside its help; the help of a longer one begins below it."""


class Command(TyperCommand):
    """A command whose options are listed below headings. A metavar is printed as it is written."""

    def collect_usage_pieces(self, ctx: object) -> list[str]:
        return ["[OPTIONS]", *(argument.metavar for argument in self._params(ctx, "argument"))]

    def format_options(self, ctx: object, formatter: object) -> None:
        for heading, records in self.sections(ctx):
            _write(formatter, heading, records)

    def sections(self, ctx: object) -> list[tuple[str, list[tuple[str, str]]]]:
        """Heading -> names and help of each argument or option below it."""
        arguments = self._params(ctx, "argument")
        panels: dict[str, list[Any]] = {panel: [] for panel in PANELS}
        for option in self._params(ctx, "option"):
            panel = getattr(option, "rich_help_panel", None)
            record = _without_old_names(option, *option.get_help_record(ctx))
            panels[panel or PANELS[-1]].append(record)
        first = [(each.metavar, each.help or "") for each in arguments]
        return [(name, rows) for name, rows in [("Arguments", first), *panels.items()] if rows]

    def _params(self, ctx: Any, kind: str) -> list[Any]:
        return [param for param in self.get_params(ctx) if param.param_type_name == kind]


def _without_old_names(option: Any, names: str, help: str) -> tuple[str, str]:
    """The record without older names of an option: long ones after the first."""
    for old in [name for name in option.opts if name.startswith("--")][1:]:
        names = names.replace(f", {old}", "")
    return names, help


def _write(formatter: Any, heading: str, records: list[tuple[str, str]]) -> None:
    with formatter.section(heading):
        padded = [(f"{name:<{NAMES}}", help) for name, help in records]
        formatter.write_dl(padded, col_max=NAMES)
