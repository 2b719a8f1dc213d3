"""Commands that explain the doctor's checks."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import typer

from doctor._util.errors import UserError
from doctor.cli import options, panels

PlainFormat = Annotated[
    Literal["plain", "markdown", "json"], panels.output("Output format (default: plain).")
]


def explain(
    name: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Codes, slugs, a section or subject of a document (P10, warmup), model (what "
            "--model accepts), or the text of a message, best in quotes; - for stdin.",
            autocompletion=options.complete_code,
        ),
    ],
    format: PlainFormat = "plain",
) -> int:
    """Print what a check or an error message means, and its fix.

    Cites the sources of both.
    """
    from doctor.cli.explain.name import explain
    from doctor.report import terminal

    terminal.write(explain(" ".join(name), format), sys.stdout)
    return 0


def list_checks(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...]",
            help="Families, codes, slugs or beginnings of them: GPU, LOG02 (default: all).",
            autocompletion=options.complete_code,
        ),
    ] = None,
    format: PlainFormat = "plain",
) -> int:
    """Print the code, slug and title of every check.

    A title is what holds when the check passes.
    """
    from doctor.cli.explain.name import listed
    from doctor.report import terminal

    terminal.write(listed(names or (), format), sys.stdout)
    return 0


def help_command(
    context: typer.Context,
    command: Annotated[
        str,
        typer.Argument(
            metavar="[COMMAND]",
            help="A command (default: all of them).",
            autocompletion=options.complete_command,
        ),
    ] = "",
) -> int:
    """Print the help of a command."""
    parent = context.parent
    assert parent is not None
    if not command:
        print(parent.get_help())
        return 0
    commands: Any = parent.command
    found = commands.get_command(parent, command)
    if found is None:
        names = ", ".join(commands.list_commands(parent))
        raise UserError(f"No such command {command!r}; commands: {names}")
    print(found.get_help(type(context)(found, info_name=command, parent=parent)))
    return 0


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"],
        typer.Argument(metavar="SHELL", help="Your shell: bash, zsh or fish."),
    ],
) -> int:
    """Print a completion script for your shell."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    for name in ("doctor", "preflight-doctor"):
        print(get_completion_script(prog_name=name, complete_var="_DOCTOR_COMPLETE", shell=shell))
    return 0
