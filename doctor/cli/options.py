"""The options that several commands have, in groups: name, type, default and one line of help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from doctor.cli import panels
from doctor.report.formats.table import RENDERERS, Format, parse_format


def complete_code(incomplete: str) -> list[tuple[str, str]]:
    """Codes and slugs with this prefix, for the shell."""
    from doctor.judge.index import entries

    names = [(name, check.title) for check in entries() for name in (check.code, check.slug)]
    return [pair for pair in names if pair[0].startswith(incomplete)]


def complete_command(ctx: typer.Context, incomplete: str) -> list[str]:
    """Commands with this prefix, for the shell."""
    group: Any = ctx.parent and ctx.parent.command
    names = group.list_commands(ctx.parent) if group else ()
    return [name for name in names if name.startswith(incomplete)]


def complete_format(incomplete: str) -> list[str]:
    """Formats with this prefix, for the shell."""
    return [name for name in RENDERERS if name.startswith(incomplete)]


def complete_output(incomplete: str) -> list[str]:
    """The same, to be followed by a file."""
    return [f"{name}=" for name in complete_format(incomplete)]


def parser(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser whose ValueError becomes a usage error with the same message."""

    def with_usage_error(text: str) -> object:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return with_usage_error


CODES = {"metavar": "CODES", "autocompletion": complete_code}
FILE = {"metavar": "FILE"}

ConfigFile = Annotated[
    Path | None,
    panels.job_file("Job file to read (default: the nearest doctor.toml upward).", **FILE),
]
NoConfig = Annotated[bool, panels.job_file("Do not read a job file.", "--no-config")]
FailOn = Annotated[
    Literal["fail", "warn", "never"],
    panels.gate("Lowest status that makes the exit code 1 (default: fail)."),
]
Color = Annotated[
    Literal["auto", "always", "never"],
    panels.output("Color in the console report (default: auto)."),
]
FormatName = Annotated[
    Format,
    panels.output(
        f"Report format on stdout: {', '.join(RENDERERS)} (default: console).",
        parser=parser(parse_format),
        metavar="FORMAT",
        autocompletion=complete_format,
    ),
]
AlsoTo = Annotated[
    list[str] | None,
    panels.output(
        "Also write a report to a file; - is stdout (repeatable).",
        metavar="FORMAT=FILE",
        autocompletion=complete_output,
    ),
]
Quiet = Annotated[bool, panels.output("Omit what passed or was skipped.", "-q", "--quiet")]
FactsFile = Annotated[
    Path | None,
    panels.facts("Saved facts of a machine, which is not examined; - is stdin.", "--facts", **FILE),
]
Deep = Annotated[bool, panels.scope("Read all values and report NaN and Inf.", "--deep")]
SaveFacts = Annotated[
    Path | None,
    panels.facts(
        "Write the facts of this run to a file; - is stdout. %h, %n and %j in its name are the "
        "host, the node's number and the job.",
        **FILE,
    ),
]
Shared = Annotated[
    bool,
    panels.facts("Let other users read the facts or the records, which name people.", "--shared"),
]
Python = Annotated[
    str | None,
    panels.paths("Training interpreter or environment (default: the active one).", metavar="PATH"),
]
Scripts = Annotated[
    list[str] | None,
    panels.model("A training script, to judge for this machine (repeatable).", "--script", **FILE),
]
Context = Annotated[
    Literal["job", "prolog"],
    panels.gate("prolog: print one line, exit 1 only if the machine is at fault (default: job)."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionFlags:
    """Fields of RunOptions. None: not given."""

    only: Annotated[
        list[str] | None,
        panels.scope("Only these comma-separated codes, slugs or families (repeatable).", **CODES),
    ] = None
    skip: Annotated[
        list[str] | None,
        panels.scope(
            "All but these comma-separated codes, slugs or families (repeatable).",
            *("--skip", "--ignore"),
            **CODES,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFlags:
    """Where the job file is, and what overrides it."""

    config: ConfigFile = None
    no_config: NoConfig = False
    no_ignores: Annotated[
        bool,
        panels.job_file("Disregard the [[ignore]] tables of the job file.", "--no-ignores"),
    ] = False
    inject: Annotated[
        list[str] | None,
        panels.gate("Report these checks as failed, whatever they observe (repeatable).", **CODES),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFlags:
    """What is reported, in which format, and where."""

    fail_on: FailOn = "fail"
    format: FormatName = "console"
    output: AlsoTo = None
    annotate: Annotated[
        bool, panels.output("Print what each pass does not show.", "--annotate")
    ] = False
    redact: Annotated[
        bool | None,
        panels.output(
            "Hide or show values of variables, the host's name and home directories (default: "
            "hide; lint shows paths as they are). --redact also hides the names of nodes; in "
            "--save-facts names and UUIDs become pseudonyms.",
            "--redact/--no-redact",
        ),
    ] = None
    color: Color = "auto"
    verbose: Annotated[
        bool,
        panels.output(
            "Hide and fold nothing; add sources, all places and timings.", "-v", "--verbose"
        ),
    ] = False
    quiet: Quiet = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFlags:
    """What `doctor lint` does beside reading."""

    fix: Annotated[bool, panels.fixes("Apply safe fixes.", "--fix")] = False
    diff: Annotated[bool, panels.fixes("Print the fixes, change nothing.", "--diff")] = False
    unsafe_fixes: Annotated[
        bool, panels.fixes("Also fixes that may change what the script does.", "--unsafe-fixes")
    ] = False
    no_backup: Annotated[
        bool, panels.fixes("Keep no copy NAME.orig of a fixed file.", "--no-backup")
    ] = False
    cache: Annotated[
        str,
        panels.scope("Keep results here and lint changed files only.", metavar="DIRECTORY"),
    ] = ""
    habits: Annotated[
        bool, panels.scope("Report each habit that a script lacks, with its place.", "--habits")
    ] = False
    stdin_filename: Annotated[
        str, panels.scope("Name of the script that - reads, for its kind and report.", **FILE)
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalFlags:
    """How a command is rehearsed."""

    budget: Annotated[
        str | None,
        panels.gate("End the rehearsal after this time: 90s, 15m (default: 15m).", metavar="TIME"),
    ] = None
    grace: Annotated[
        str | None,
        panels.gate("Time that the signal leaves to save and end (default: 30s).", metavar="TIME"),
    ] = None
    signal: Annotated[
        Literal["SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP"],
        panels.scope("Signal that stops the job (default: SIGTERM)."),
    ] = "SIGTERM"
    in_output: Annotated[
        bool,
        panels.paths(
            "Start the command in {output}, with links to what is in this directory.",
            "--in-output",
        ),
    ] = False
    resume_command: Annotated[
        str | None,
        panels.scope("How the job is continued, if not by the same command.", metavar="COMMAND"),
    ] = None
    keep_checkpoints: Annotated[
        int | None,
        panels.job("Checkpoints that the real job keeps, for the free space.", metavar="NUMBER"),
    ] = None
    total_steps: Annotated[
        int | None,
        panels.job("Steps of the real job: estimates its hours.", min=1, metavar="NUMBER"),
    ] = None
    total_tokens: Annotated[
        int | None,
        panels.job("Tokens that the real job takes, instead of steps.", min=1, metavar="NUMBER"),
    ] = None
    price: Annotated[
        float | None,
        panels.job("Price of the whole machine per hour, for its hours.", metavar="NUMBER"),
    ] = None
    writable: Annotated[
        list[Path] | None,
        panels.paths("Also let the command write here (repeatable).", metavar="DIRECTORY"),
    ] = None
    network: Annotated[
        bool,
        panels.scope(
            "Leave the network open: only the known ways to upload are refused.",
            *("--network", "--allow-uploads"),
        ),
    ] = False
    access: Annotated[
        list[str] | None,
        panels.scope(
            "Ask hf://MODEL, s3://BUCKET, wandb, mlflow or https:// for access (repeatable).",
            metavar="TARGET",
        ),
    ] = None
    unprotected: Annotated[
        bool, panels.scope("Run where the kernel cannot refuse writes elsewhere.", "--unprotected")
    ] = False
    keep: Annotated[
        bool, panels.output("Keep what the command wrote, and its logs.", "--keep-output")
    ] = False
