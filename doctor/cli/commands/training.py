"""Commands that examine a training: its process, scripts, checkpoints and logs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from doctor.cli import options
from doctor.cli.flag_groups import given
from doctor.cli.requested_output import requested_output


def guard(
    command: Annotated[list[str], typer.Argument(help="The training, after --.")],
    config: options.ConfigFlags,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the records (default: doctor-guard).")
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="End the job at the first failure.")] = False,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Raise no alarm for this code (repeatable).")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also evaluate the codes that are off by default.")
    ] = False,
    fail_on: Annotated[
        Literal["fail", "warn", "never"], typer.Option(help="Lowest status for exit code 1.")
    ] = "fail",
    output: Annotated[
        list[str] | None,
        typer.Option(metavar="FORMAT=FILE", help="Also write a report to a file."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Report warnings and failures only.")
    ] = False,
) -> int:
    """Watch a training while it runs: doctor guard -- torchrun train.py.

    Exit: the training's own code if not 0, else 1 for a failure, 3 if no step was observed.
    """
    from doctor.cli import guard
    from doctor.report import delivery

    output_options = delivery.output_options(
        "console", output or (), "never", annotate=False, keep_names=False, verbose=False,
        quiet=quiet,
    )  # fmt: skip
    flags = {"skip": tuple(ignore)} if ignore else {}
    report, code = guard.guard(
        command, flags, config, out=out, stop=stop, all=every, fail_on=fail_on
    )
    delivery.deliver_on_stderr(report, output_options)
    return code


def lint(
    flags: options.LintFlags,
    selection: options.SelectionFlags,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Files and directories; - for stdin. Default: ."),
    ] = None,
    facts: options.FactsFile = None,
) -> int:
    """Examine training scripts, notebooks and configurations. Executes nothing."""
    from doctor.cli import lint_command

    request = lint_command.LintRequest(
        **given(flags, selection), paths=tuple(paths or ()), facts=facts
    )
    return lint_command.lint(request)


def scan(
    path: Annotated[
        str,
        typer.Argument(help="A directory, a file or an address: https://, s3://, gs://, hf://."),
    ],
    baseline: Annotated[
        str | None, typer.Option(help="An earlier checkpoint, to compare parameters with.")
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read all values and report NaN and Inf.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="List every tensor.")] = False,
    format: Annotated[
        Literal["console", "plain", "json"], typer.Option(help="Report format on stdout.")
    ] = "console",
    no_redact: Annotated[
        bool, typer.Option("--no-redact", help="Show the host's name and home directories.")
    ] = False,
    color: Annotated[
        Literal["auto", "always", "never"], typer.Option(help="Color in the console report.")
    ] = "auto",
) -> int:
    """Examine a checkpoint without executing any of it. Exit codes as for run."""
    from doctor.cli import scan as scanning
    from doctor.report import scan, terminal

    result = scanning.scan(path, baseline, deep=deep, every=every).redacted(keep_names=no_redact)
    if format == "json":
        print(scan.json_text(result))
    elif format == "plain":
        terminal.write(scan.plain_text(result), sys.stdout)
    else:
        scan.show(result, terminal.stdout_console(color))
    return result.report.exit_code


def triage(
    logs: Annotated[
        list[str],
        typer.Argument(help="Logs: files, directories with a log per rank, or - for stdin."),
    ],
    selection: options.SelectionFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    facts: options.FactsFile = None,
    save_facts: options.SaveFacts = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Report problems while the job writes, until it ends."),
    ] = False,
) -> int:
    """Name the first cause in the logs of a failed training. Exit codes as for run."""
    from doctor.cli import triage
    from doctor.report import delivery

    output_options = requested_output(output, save_facts)
    report = triage.triage(
        logs,
        given(selection),
        config,
        facts_file=facts,
        fail_on=output.fail_on,
        following=follow,
    )
    return delivery.deliver(report, output_options)
