"""Commands that examine this machine, or what is known of another one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from doctor._util.errors import UserError
from doctor.cli import job_options, options, panels
from doctor.cli.flag_groups import set_flags
from doctor.cli.requested_output import requested_output
from doctor.prescribe import forms


def run(
    training: job_options.TrainingFlags,
    job: job_options.JobFlags,
    selection: options.SelectionFlags,
    run_flags: job_options.RunFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    facts: options.FactsFile = None,
    save_facts: options.SaveFacts = None,
    shared: options.Shared = False,
    context: options.Context = "job",
    script: options.Scripts = None,
) -> int:
    """Examine this machine for a job.

    Exit codes: 0 nothing at or above --fail-on, 1 something is, 2 usage error, 3 unknown.
    """
    from doctor.cli.run import run
    from doctor.report import delivery

    output_options = requested_output(
        output, save_facts, shared=shared, one_line=context == "prolog"
    )
    delivery.prepare(output_options)
    report = run(
        set_flags(training, job, run_flags, selection),
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
        typer.Argument(
            metavar="FACTS",
            help="A file written by --save-facts, - for stdin, or a directory of doctor guard.",
        ),
    ],
    selection: options.SelectionFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
) -> int:
    """Judge and print saved facts again, in any format.

    Exit codes as for run.
    """
    from doctor.report import delivery

    output_options = requested_output(output)
    if facts.is_dir():
        from doctor.cli.guard_report import report_directory

        if not any(facts.iterdir()):
            raise UserError(f"{facts} is empty; name a directory that doctor guard wrote")
        judged = report_directory(facts, set_flags(selection), config, fail_on=output.fail_on)
        return delivery.deliver(judged, output_options)
    from doctor.cli.replay import replayed

    judged = replayed(facts, set_flags(selection), config, output.fail_on)
    return delivery.deliver(judged, output_options)


def read(
    pasted: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The output of collect_env, nvidia-smi (also -q, -q -x) or ds_report; "
            "- for stdin.",
        ),
    ],
    selection: options.SelectionFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    save_facts: options.SaveFacts = None,
    shared: options.Shared = False,
) -> int:
    """Judge a machine by a pasted report.

    Exit codes as for run.
    """
    from doctor.cli.read import read_report
    from doctor.report import delivery

    output_options = requested_output(output, save_facts, shared=shared)
    report = read_report(pasted, set_flags(selection), config, output.fail_on)
    return delivery.deliver(report, output_options)


def prescribe(
    training: job_options.TrainingFlags,
    facts: options.FactsFile = None,
    mode: Annotated[
        Literal["stable", "fast", "diagnostic"],
        panels.settings(
            "stable: to start with. fast: proven here. diagnostic: to isolate a fault "
            "(default: stable)."
        ),
    ] = "stable",
    purpose: Annotated[
        forms.Form,
        panels.settings("What to paste; text is for reading (default: text).", "--for"),
    ] = "text",
    format: Annotated[
        str,
        panels.output(
            "Output format (default: plain).",
            parser=options.parser(forms.parse_format),
            metavar="plain|json",
        ),
    ] = "plain",
    deterministic: Annotated[
        bool, panels.settings("Also fix seeds and use repeatable kernels.", "--deterministic")
    ] = False,
    config: options.ConfigFile = None,
    no_config: options.NoConfig = False,
    fail_on: options.FailOn = "fail",
) -> int:
    """Print settings to train with on this machine.

    Exit codes as for run.
    """
    from doctor.cli.run import run
    from doctor.prescribe import rules
    from doctor.report import prescription, prescription_json, terminal
    from doctor.report.names import this_machine
    from doctor.report.redaction import redact

    file = options.ConfigFlags(config=config, no_config=no_config)
    report = run(set_flags(training), file, facts_file=facts, fail_on=fail_on, progress=True)
    final = redact(report, here=this_machine())
    settings = rules.prescribe(final.facts, final.findings, mode, deterministic=deterministic)
    form = forms.form_of(format) or purpose
    draw = prescription_json.render if format == "json" else prescription.render
    terminal.write(draw(final, settings, mode, form), sys.stdout)
    return report.exit_code


def init(
    stdout: Annotated[
        bool, panels.output("Print to stdout instead of writing doctor.toml.", "--stdout")
    ] = False,
    factory_for: Annotated[
        Path | None,
        panels.model(
            "Write FILE_preflight.py, a factory for --model; nothing of FILE.py is run.",
            "--factory-for",
            metavar="FILE.py",
        ),
    ] = None,
) -> int:
    """Write a commented doctor.toml for this machine.

    With --factory-for: a factory for a training script. A file that exists is never overwritten.
    """
    if factory_for is not None:
        return _write_factory(factory_for, to_stdout=stdout)
    from doctor.cli import init_template
    from doctor.report import terminal

    text = init_template.init(Path(), to_stdout=stdout)
    message = text.rstrip("\n") if stdout else f"{init_template.NAME} was written"
    terminal.write(message, sys.stdout)
    return 0


def _write_factory(script: Path, *, to_stdout: bool) -> int:
    from doctor._util.units import visible
    from doctor.cli import factory_template
    from doctor.report import terminal

    if to_stdout:
        terminal.write(factory_template.text_for(script).rstrip("\n"), sys.stdout)
        return 0
    target = factory_template.write(script)
    terminal.write(
        f"{visible(str(target))} was written; read it, then:\n"
        f"doctor run --model {visible(str(target))}:make",
        sys.stdout,
    )
    return 0
