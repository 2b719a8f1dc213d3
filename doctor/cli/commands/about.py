"""Commands that explain the doctor's checks."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from doctor.cli import options

PlainFormat = Annotated[Literal["plain", "markdown", "json"], typer.Option(help="Output format.")]


def explain(
    name: Annotated[
        str,
        typer.Argument(
            help="A code, a slug, a document, a section or subject of it (P10, warmup), model "
            "(what --model accepts), or a pasted text; - for stdin.",
            autocompletion=options.complete_code,
        ),
    ],
    format: PlainFormat = "plain",
) -> int:
    """Print what a check, an error message or a log line means, the fix and its sources."""
    from doctor.cli.explain import explain
    from doctor.report import terminal

    terminal.write(explain(name, format), sys.stdout)
    return 0


def list_checks(
    format: PlainFormat = "plain",
) -> int:
    """Print every check: code, slug and title."""
    from doctor.judge import catalog
    from doctor.report import explain, terminal
    from doctor.report.formats import json

    if format == "json":
        print(json.render_checks(catalog.CHECKS))
    else:
        draw = explain.table if format == "plain" else explain.markdown_table
        terminal.write(draw(catalog.CHECKS), sys.stdout)
    return 0


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell.")],
) -> int:
    """Print a shell completion script: eval "$(doctor completion bash)"."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name="doctor", complete_var="_DOCTOR_COMPLETE", shell=shell))
    return 0
