"""Commands that examine this machine, or what is known of another one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from doctor.cli import options
from doctor.cli.flag_groups import given
from doctor.cli.requested_output import requested_output


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

    output_options = requested_output(output, save_facts, one_line=context == "prolog")
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

    output_options = requested_output(output)
    if facts.is_dir():
        from doctor.cli.guard import report_directory

        judged = report_directory(
            facts, given(selection), options.ConfigFlags(), fail_on=output.fail_on
        )
        return delivery.deliver(judged, output_options)
    from doctor.cli.replay import replayed

    judged = replayed(facts, given(selection), options.ConfigFlags(), output.fail_on)
    return delivery.deliver(judged, output_options)


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

    output_options = requested_output(output, save_facts)
    return delivery.deliver(read_report(pasted, output.fail_on), output_options)


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
