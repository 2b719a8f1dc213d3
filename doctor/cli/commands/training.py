"""Commands that examine a training: its process, scripts, checkpoints and logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from doctor.cli import options, panels
from doctor.cli.flag_groups import set_flags
from doctor.cli.options import parser
from doctor.cli.requested_output import requested_output
from doctor.cli.scan_flags import ContinueFlags, OtherFlags
from doctor.job.quantities import parse_seconds


def guard(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="The training, after --.")
    ],
    selection: options.SelectionFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    output_dir: Annotated[
        Path | None,
        panels.output(
            "Directory for the records (default: doctor-guard).",
            *("--output-dir", "--out"),
            metavar="DIRECTORY",
        ),
    ] = None,
    shared: options.Shared = False,
    on_alarm: Annotated[
        str,
        panels.output(
            "Run a command line for each alarm, with the finding as JSON on its stdin.",
            "--on-alarm",
            metavar="COMMAND",
        ),
    ] = "",
    stall: Annotated[
        float | None,
        panels.gate(
            "Time without a step that is a stall (default: ten times the usual, at least 300s).",
            "--stall",
            parser=parser(parse_seconds),
            metavar="SECONDS",
        ),
    ] = None,
    stop: Annotated[
        bool, panels.gate("End the job where no healthy training gets (GRD002, GRD007).", "--stop")
    ] = False,
    every: Annotated[
        bool, panels.scope("Also evaluate the codes that are off by default.", "--all")
    ] = False,
) -> int:
    """Watch a training while it runs; the report is on stderr.

    Exit code: the training's own if not 0, else 1 for a failure, 3 if no step was observed.
    """
    from doctor.cli import guard
    from doctor.report import delivery

    output_options = requested_output(output, stdout_taken=True)
    report, code = guard.guard(
        command,
        set_flags(selection),
        config,
        out=output_dir,
        shared=shared,
        stop=stop,
        all=every,
        on_alarm=on_alarm,
        stall_seconds=stall,
        fail_on=output.fail_on,
    )
    delivery.deliver_on_stderr(report, output_options)
    return code


def rehearse(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND...", help="The job in few steps, after --; {output} is a directory."
        ),
    ],
    selection: options.SelectionFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    rehearsal: options.RehearsalFlags,
    output_dir: Annotated[
        Path | None,
        panels.output(
            "Directory for {output}, outside of every run (default: doctor-rehearsal).",
            "--output-dir",
            metavar="DIRECTORY",
        ),
    ] = None,
    save_facts: options.SaveFacts = None,
) -> int:
    """Try the job's own command: run, save, stop, continue.

    It writes only into {output}; uploads are refused. Exit codes as for run.
    """
    from doctor.cli import rehearse
    from doctor.report import delivery

    output_options = requested_output(output, save_facts)
    report = rehearse.rehearse(
        command,
        set_flags(selection),
        set_flags(rehearsal),
        config,
        output_dir=output_dir,
        fail_on=output.fail_on,
        quiet=output.quiet,
    )
    return delivery.deliver(report, output_options)


def lint(
    flags: options.LintFlags,
    selection: options.SelectionFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH...]", help="Files and directories; - is stdin (default: .)."),
    ] = None,
    facts: options.FactsFile = None,
) -> int:
    """Examine training scripts, notebooks and configurations.

    Executes nothing. Exit codes as for run.
    """
    from doctor.cli.lint import command

    request = command.LintRequest(
        **set_flags(flags, selection, config, output), paths=tuple(paths or ()), facts=facts
    )
    return command.lint(request)


def scan(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A directory, a file or an address: https://, s3://, gs://, hf://.",
        ),
    ],
    selection: options.SelectionFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    other: OtherFlags,
    continued: ContinueFlags,
    deep: options.Deep = False,
    tensors: Annotated[bool, panels.output("List every tensor.", "--tensors", "--all")] = False,
    save_facts: options.SaveFacts = None,
) -> int:
    """Examine a checkpoint without executing any of it.

    Exit codes as for run.
    """
    from doctor.cli import continuing, scan
    from doctor.report import delivery

    output_options = requested_output(output, save_facts)
    report = scan.scan(
        path,
        set_flags(selection),
        config,
        scan.ScanOptions(
            baseline=other.baseline,
            deep=deep,
            tensors=tensors,
            merged_from=other.merged_from,
            adapters=tuple(other.adapter or ()),
            equals=other.equals,
            plan=continuing.plan_of(
                continued.resume, continued.gpus, continued.script, continued.facts
            ),
        ),
        fail_on=output.fail_on,
        progress=not output.quiet,
    )
    return delivery.deliver(report, output_options)


def triage(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...", help="Files, directories with a log per rank, or - for stdin."
        ),
    ],
    selection: options.SelectionFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    facts: options.FactsFile = None,
    save_facts: options.SaveFacts = None,
    shared: options.Shared = False,
    follow: Annotated[
        bool,
        panels.scope("Report problems while the job writes, until it ends.", "--follow"),
    ] = False,
) -> int:
    """Name the first cause in the logs of a failed training.

    Exit codes as for run.
    """
    from doctor.cli import triage
    from doctor.report import delivery

    output_options = requested_output(output, save_facts, shared=shared)
    report = triage.triage(
        logs,
        set_flags(selection),
        config,
        facts_file=facts,
        fail_on=output.fail_on,
        following=follow,
    )
    return delivery.deliver(report, output_options)


def data(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="FILE.py:make, or a file or directory of rows: .jsonl, .parquet, .csv, .txt.",
        ),
    ],
    selection: options.SelectionFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    evaluation: Annotated[
        str | None,
        typer.Argument(metavar="[EVAL]", help="A second file of rows: those of the evaluation."),
    ] = None,
    tokenizer: Annotated[
        Path | None, panels.model("Local directory of the tokenizer.", metavar="DIRECTORY")
    ] = None,
    split: Annotated[
        str, panels.scope("Splits to read (default: train,eval).", metavar="NAMES")
    ] = "train,eval",
    samples: Annotated[
        int, panels.scope("Rows to read of each split (default: 256).", min=1, metavar="N")
    ] = 256,
    sample_time: Annotated[
        float,
        panels.scope(
            "Time to read each split for (default: 10s).",
            parser=options.parser(parse_seconds),
            metavar="TIME",
        ),
    ] = "10s",  # type: ignore[assignment]
    show: Annotated[
        int | None,
        panels.output("Print the content of so many samples.", min=0, max=100, metavar="N"),
    ] = None,
    python: options.Python = None,
    save_facts: options.SaveFacts = None,
) -> int:
    """Examine the data that reach the model.

    Runs the code that TARGET names, offline. Exit codes as for run.
    """
    from doctor.cli import data
    from doctor.report import delivery

    output_options = requested_output(output, save_facts)
    report = data.data(
        data.request((target, evaluation), tokenizer, split, samples, sample_time, show or 0),
        set_flags(selection),
        config,
        python=python,
        fail_on=output.fail_on,
        progress=not output.quiet,
    )
    return delivery.deliver(report, output_options)
