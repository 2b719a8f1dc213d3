"""The commands: parse, call, print, exit. No logic."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Literal

import typer

from doctor import __version__
from doctor.cli import options

app = typer.Typer(
    name="doctor",
    help="Examine this machine, its torch, a checkpoint and one real training step before GPU "
    "hours are paid for.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion="_DOCTOR_COMPLETE" in os.environ,  # else it costs options that write files
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
def run(
    device: options.Device = None,
    precision: options.Precision = None,
    recipe: options.Recipe = None,
    checkpoint: options.Checkpoint = None,
    output_dir: options.OutputDir = None,
    keep: options.Keep = None,
    params: options.Params = None,
    trainable: options.Trainable = None,
    shards: options.Shards = None,
    gpus: options.Gpus = None,
    python: options.Python = None,
    model: options.Model = None,
    hf: options.Hf = None,
    layers: options.Layers = None,
    weights: options.Weights = None,
    lora: options.Lora = None,
    expect_no_grad: options.ExpectNoGrad = None,
    optimizer: options.Optimizer = None,
    checkpointing: options.Checkpointing = None,
    compile: options.Compile = None,
    batch_size: options.BatchSize = None,
    seq_len: options.SeqLen = None,
    attention: options.Attention = None,
    cache_dir: options.CacheDir = None,
    smoke: options.Smoke = None,
    quick: options.Quick = None,
    config: options.Config = None,
    no_config: options.NoConfig = False,
    no_ignores: options.NoIgnores = False,
    inject: options.Inject = None,
    budget: options.Budget = None,
    facts: options.FactsFile = None,
    save_facts: options.SaveFacts = None,
    only: options.Only = None,
    skip: options.Skip = None,
    fail_on: options.FailOn = "fail",
    context: options.Context = "job",
    format: options.Format = "console",
    output: options.Output = None,
    annotate: options.Annotate = False,
    no_redact: options.NoRedact = False,
    color: options.Color = "auto",
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
) -> int:
    """Examine this machine and judge it. Exit 0 READY, 1 not, 2 usage, 3 not known."""
    from doctor.cli import examine as session
    from doctor.report import delivery

    output_options = delivery.output_options(
        format, output or (), color, save_facts=save_facts, annotate=annotate, keep_names=no_redact,
        verbose=verbose, quiet=quiet,
    )  # fmt: skip

    flags = {
        "device": device,
        "precision": precision,
        "recipe": recipe,
        "checkpoint": checkpoint,
        "output_dir": output_dir,
        "keep": keep,
        "params": params,
        "trainable": trainable,
        "shards": shards,
        "gpus": gpus,
        "python": python,
        "model": model,
        "hf": hf,
        "layers": layers,
        "weights": weights,
        "lora": lora,
        "expect_no_grad": tuple(expect_no_grad or ()) or None,
        "optimizer": optimizer,
        "checkpointing": checkpointing,
        "compile": compile,
        "batch_size": batch_size,
        "seq_len": seq_len,
        "attention": attention,
        "cache_dir": cache_dir,
        "smoke": smoke,
        "quick": quick,
    }
    wishes = session.wishes(config, no_config, no_ignores, inject, budget)
    report = session.examine_job(
        flags, facts, save_facts, only or [], skip or [], fail_on, progress=not quiet, wishes=wishes
    )
    if context == "prolog":
        return delivery.deliver_in_prolog(report, output_options)
    return delivery.deliver(report, output_options)


@app.command()
def report(
    facts: options.ReportFile,
    only: options.Only = None,
    skip: options.Skip = None,
    fail_on: options.FailOn = "fail",
    format: options.Format = "console",
    output: options.Output = None,
    annotate: options.Annotate = False,
    no_redact: options.NoRedact = False,
    color: options.Color = "auto",
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
) -> int:
    """Judge and print a saved run again, in any format. Exit codes as those of run."""
    from doctor.cli import examine as session
    from doctor.report import delivery

    output_options = delivery.output_options(
        format, output or (), color, annotate=annotate, keep_names=no_redact,
        verbose=verbose, quiet=quiet,
    )  # fmt: skip
    found = session.examine_job({}, facts, None, only or [], skip or [], fail_on, progress=False)
    return delivery.deliver(found, output_options)


@app.command()
def scan(
    path: Annotated[
        str, typer.Argument(help="A folder, a file, or an address: https://, s3://, gs://, hf://.")
    ],
    baseline: Annotated[
        str | None, typer.Option(help="An earlier checkpoint: which parameters moved since.")
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every value and look for NaN and Inf.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="List every tensor.")] = False,
    format: options.ScanFormat = "console",
    no_redact: options.NoRedact = False,
    color: options.Color = "auto",
) -> int:
    """Examine a checkpoint without running a byte of it. Exit codes as those of run."""
    from doctor.cli import scan as scanning
    from doctor.report import scan, terminal

    found = scanning.scan(path, baseline, deep=deep, every=every).redacted(keep_names=no_redact)
    if format == "json":
        print(scan.json_text(found))
    elif format == "plain":
        terminal.write(scan.plain_text(found), sys.stdout)
    else:
        scan.show(found, terminal.stdout_console(color))
    return found.report.exit_code


@app.command()
def prescribe(
    device: options.Device = None,
    precision: options.Precision = None,
    recipe: options.Recipe = None,
    python: options.Python = None,
    hf: options.Hf = None,
    lora: options.Lora = None,
    compile: options.Compile = None,
    facts: options.FactsFile = None,
    mode: options.Mode = "stable",
    format: options.Form = "text",
    deterministic: options.Deterministic = False,
) -> int:
    """Print the settings that this machine should train with. Exit codes as those of run."""
    from doctor.cli import examine as session
    from doctor.prescribe import rules
    from doctor.report import prescription as prescribe
    from doctor.report import terminal
    from doctor.report.redaction import redact

    flags = {
        "device": device,
        "precision": precision,
        "recipe": recipe,
        "python": python,
        "hf": hf,
        "lora": lora,
        "compile": compile,
    }
    report = session.examine_job(flags, facts, None, [], [], "fail", progress=True)
    settings = rules.prescribe(report.facts, report.findings, mode, deterministic=deterministic)
    terminal.write(prescribe.render(redact(report), settings, mode, format), sys.stdout)
    return report.exit_code


@app.command()
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell.")],
) -> int:
    """Print what completes commands, flags and codes: eval "$(doctor completion bash)"."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name="doctor", complete_var="_DOCTOR_COMPLETE", shell=shell))
    return 0


@app.command()
def init(
    stdout: Annotated[
        bool, typer.Option("--stdout", help="Print it instead of writing doctor.toml.")
    ] = False,
) -> int:
    """Write a commented doctor.toml from what is found here. Never overwrites one."""
    from pathlib import Path

    from doctor.cli import init_template as starter
    from doctor.report import terminal

    text = starter.init(Path(), to_stdout=stdout)
    terminal.write(text.rstrip("\n") if stdout else f"{starter.NAME} was written", sys.stdout)
    return 0


@app.command()
def explain(
    name: Annotated[
        str,
        typer.Argument(
            help="A code, a slug, or a document section: P10, U28.",
            autocompletion=options.complete_code,
        ),
    ],
    format: Annotated[Literal["plain", "markdown", "json"], typer.Option(help="Form.")] = "plain",
) -> int:
    """Print what a check means, when it complains, the remedy and its sources."""
    from doctor.judge import catalog
    from doctor.report import explain, pages, terminal
    from doctor.report.formats import json

    found = catalog.lookup(name)
    if format == "json":
        print(json.render_checks(found))
    elif format == "markdown":
        terminal.write("\n".join(pages.page(check) for check in found), sys.stdout)
    else:
        terminal.write(explain.explain(found), sys.stdout)
    return 0


@app.command("list")
def list_checks(
    format: Annotated[Literal["plain", "markdown", "json"], typer.Option(help="Form.")] = "plain",
) -> int:
    """Print every check: code, slug and what is true when it passes."""
    from doctor.judge import catalog
    from doctor.report import explain, terminal
    from doctor.report.formats import json

    if format == "json":
        print(json.render_checks(catalog.CHECKS))
    else:
        draw = explain.table if format == "plain" else explain.markdown_table
        terminal.write(draw(catalog.CHECKS), sys.stdout)
    return 0
