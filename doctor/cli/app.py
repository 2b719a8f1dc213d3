"""The command line: its commands, their names and the version."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated

import typer

from doctor import __version__
from doctor.cli.commands import about, machine, training
from doctor.cli.flag_groups import grouped

app = typer.Typer(
    name="doctor",
    help="Examine this machine, its torch, a checkpoint and one real training step before "
    "spending GPU hours.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion="_DOCTOR_COMPLETE" in os.environ,  # otherwise it adds options that write files
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> int:
    if version:
        print(f"doctor {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())
    return 0


COMMANDS: dict[str, Callable[..., int]] = {
    "run": machine.run,
    "report": machine.report,
    "guard": training.guard,
    "read": machine.read,
    "lint": training.lint,
    "scan": training.scan,
    "triage": training.triage,
    "prescribe": machine.prescribe,
    "completion": about.completion,
    "init": machine.init,
    "explain": about.explain,
    "list": about.list_checks,
}
"""In the order of `doctor --help`."""

for name, command in COMMANDS.items():
    # Of a training's own command line, after --, no flag is the guard's.
    settings = {"allow_interspersed_args": name != "guard"}
    app.command(name, context_settings=settings)(grouped(command))
