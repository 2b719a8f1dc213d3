"""The command line: its commands, their names and the version."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated

import typer

from doctor import __version__
from doctor.cli.commands import about, machine, nodes, training
from doctor.cli.commands.fleet import FLEET
from doctor.cli.flag_groups import grouped
from doctor.cli.panels import Command


def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
) -> int:
    if version:
        print(f"doctor {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())
    return 0


Commands = dict[str, tuple[Callable[..., int], str]]
COMMANDS: Commands = {
    "run": (machine.run, "doctor run --params 8B --recipe amp --output-dir /data/runs"),
    "report": (machine.report, "doctor report machine.json --format html"),
    "rehearse": (training.rehearse, "doctor rehearse -- python train.py --output_dir {output}"),
    "guard": (training.guard, "doctor guard -- torchrun --nproc-per-node 8 train.py"),
    "read": (machine.read, "doctor read issue.txt"),
    "lint": (training.lint, "doctor lint train.py configs/"),
    "scan": (training.scan, "doctor scan runs/llama/checkpoint-200"),
    "data": (training.data, "doctor data train.py:make --tokenizer models/llama-3-8b"),
    "triage": (training.triage, "doctor triage train.log"),
    "compare": (nodes.compare, "doctor compare facts/ --expect-nodes 64"),
    "ledger": (nodes.ledger, "doctor ledger list /shared/ledger"),
    "prescribe": (machine.prescribe, "doctor prescribe --for python"),
    "completion": (about.completion, 'eval "$(doctor completion bash)"'),
    "init": (machine.init, "doctor init"),
    "explain": (about.explain, "doctor explain NUM003"),
    "list": (about.list_checks, "doctor list GPU"),
    "help": (about.help_command, "doctor help scan"),
}
"""Function and example, in the order of `doctor --help`."""

EVERY = COMMANDS | {f"fleet {name}": command for name, command in FLEET.items()}
"""The same of all commands, by the words that call them."""


def command_line(word: str | None = None) -> typer.Typer:
    """The commands; with the first word of a command line the parameters of the command that it
    names alone, as those of all take as long to read as typer to import."""
    app = typer.Typer(
        name="doctor",
        help="Examine this machine, its torch, a checkpoint and one real training step before "
        "spending GPU hours.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion="_DOCTOR_COMPLETE"
        in os.environ,  # otherwise it adds options that write files
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(root)
    fleet = typer.Typer(
        help="Run a command on several nodes at once, one doctor on each.",
        rich_markup_mode=None,
        epilog="Example: srun --ntasks-per-node=1 doctor fleet run",
    )
    _add(app, COMMANDS, word)
    _add(fleet, FLEET, None if word in (None, "fleet") else "")
    app.add_typer(fleet, name="fleet")
    return app


def _add(group: typer.Typer, commands: Commands, word: str | None) -> None:
    for name, (command, example) in commands.items():
        # Of a training's own command line, after --, no flag is the doctor's.
        settings = {"allow_interspersed_args": name not in ("guard", "rehearse")}
        group.command(name, cls=Command, context_settings=settings, epilog=f"Example: {example}")(
            grouped(command) if word in (None, name) else _without_parameters(command)
        )


def _without_parameters(command: Callable[..., int]) -> Callable[[], int]:
    def stub() -> int:
        raise NotImplementedError

    stub.__doc__ = command.__doc__
    return stub
