"""The commands: parse, call, print, exit. No logic."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from doctor import __version__
from doctor.cli import options
from doctor.cli.flag_groups import given, grouped

if TYPE_CHECKING:
    from doctor.report.delivery import OutputOptions

PlainFormat = Annotated[Literal["plain", "markdown", "json"], typer.Option(help="Output format.")]

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


@app.command()
@grouped
def run(
    training: options.TrainingFlags,
    job: options.JobFlags,
    run_flags: options.RunFlags,
    selection: options.SelectionFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    facts: options.FactsFile = None,
    save_facts: options.SaveFacts = None,
    context: options.Context = "job",
    script: options.Scripts = None,
) -> int:
    """Examine this machine. Exit 0: READY, 1: not ready, 2: usage error, 3: unknown."""
    from doctor.cli.run import run
    from doctor.report import delivery

    output_options = _output_options(output, save_facts, one_line=context == "prolog")
    report = run(
        given(training, job, run_flags, selection),
        config,
        facts_file=facts,
        fail_on=output.fail_on,
        progress=not output.quiet,
        scripts=tuple(script or ()),
    )
    if context == "prolog":
        return delivery.deliver_in_prolog(report, output_options)
    return delivery.deliver(report, output_options)


def _output_options(
    output: options.OutputFlags, save_facts: Path | None = None, *, one_line: bool = False
) -> OutputOptions:
    from doctor.report import delivery

    return delivery.output_options(
        output.format,
        output.output or (),
        output.color,
        save_facts=save_facts,
        one_line=one_line,
        annotate=output.annotate,
        keep_names=output.no_redact,
        verbose=output.verbose,
        quiet=output.quiet,
    )


@app.command()
@grouped
def report(
    facts: Annotated[
        Path,
        typer.Argument(help="A file written by --save-facts, - for stdin, or a guard's directory."),
    ],
    selection: options.SelectionFlags,
    output: options.OutputFlags,
) -> int:
    """Judge and print saved facts again, in any format. Exit codes as for run."""
    from doctor.report import delivery

    output_options = _output_options(output)
    if facts.is_dir():
        from doctor.cli.guard import report_directory

        judged = report_directory(
            facts, given(selection), options.ConfigFlags(), fail_on=output.fail_on
        )
        return delivery.deliver(judged, output_options)
    from doctor.cli.run import run

    judged = run(given(selection), options.ConfigFlags(), facts_file=facts, fail_on=output.fail_on)
    return delivery.deliver(judged, output_options)


@app.command(context_settings={"allow_interspersed_args": False})
@grouped
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


@app.command()
@grouped
def read(
    pasted: Annotated[
        Path,
        typer.Argument(
            help="A file with the output of collect_env, nvidia-smi (also -q, -q -x) or ds_report; "
            "- for stdin."
        ),
    ],
    output: options.OutputFlags,
    save_facts: options.SaveFacts = None,
) -> int:
    """Judge a machine by a pasted report. Exit codes as for run."""
    from doctor.cli.read import read_report
    from doctor.report import delivery

    output_options = _output_options(output, save_facts)
    return delivery.deliver(read_report(pasted, output.fail_on), output_options)


@app.command()
@grouped
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


@app.command()
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


@app.command()
@grouped
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

    output_options = _output_options(output, save_facts)
    report = triage.triage(
        logs,
        given(selection),
        config,
        facts_file=facts,
        fail_on=output.fail_on,
        following=follow,
    )
    return delivery.deliver(report, output_options)


@app.command()
@grouped
def prescribe(
    training: options.TrainingFlags,
    facts: options.FactsFile = None,
    mode: Annotated[
        Literal["stable", "fast", "diagnostic"],
        typer.Option(
            help="stable: to start with. fast: proven here. diagnostic: to isolate a fault."
        ),
    ] = "stable",
    format: Annotated[
        Literal["text", "python", "loop", "env", "trainer", "accelerate"],
        typer.Option(help="Format to paste."),
    ] = "text",
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Also fix seeds and use repeatable kernels.")
    ] = False,
) -> int:
    """Print settings to train with on this machine. Exit codes as for run."""
    from doctor.cli.run import run
    from doctor.prescribe import rules
    from doctor.report import prescription, terminal
    from doctor.report.redaction import redact

    report = run(given(training), options.ConfigFlags(), facts_file=facts, progress=True)
    settings = rules.prescribe(report.facts, report.findings, mode, deterministic=deterministic)
    terminal.write(prescription.render(redact(report), settings, mode, format), sys.stdout)
    return report.exit_code


@app.command()
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell.")],
) -> int:
    """Print a shell completion script: eval "$(doctor completion bash)"."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name="doctor", complete_var="_DOCTOR_COMPLETE", shell=shell))
    return 0


@app.command()
def init(
    stdout: Annotated[
        bool, typer.Option("--stdout", help="Print to stdout instead of writing doctor.toml.")
    ] = False,
) -> int:
    """Write a commented doctor.toml for this machine. Never overwrites a file."""
    from doctor.cli import init_template
    from doctor.report import terminal

    text = init_template.init(Path(), to_stdout=stdout)
    message = text.rstrip("\n") if stdout else f"{init_template.NAME} was written"
    terminal.write(message, sys.stdout)
    return 0


@app.command()
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


@app.command("list")
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
