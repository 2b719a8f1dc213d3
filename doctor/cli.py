"""The commands: parse, call, print, exit. No logic."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from doctor import __version__, options

if TYPE_CHECKING:
    from doctor.report import Report

app = typer.Typer(
    name="doctor",
    help="Examine this machine, its torch, a checkpoint and one real training step before GPU "
    "hours are paid for.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
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
    weights: options.Weights = False,
    lora: options.Lora = None,
    expect_no_grad: options.ExpectNoGrad = None,
    compile: options.Compile = False,
    batch_size: options.BatchSize = None,
    seq_len: options.SeqLen = None,
    attention: options.Attention = None,
    no_smoke: options.NoSmoke = False,
    quick: options.Quick = False,
    facts: options.FactsFile = None,
    save_facts: options.SaveFacts = None,
    only: options.Only = None,
    skip: options.Skip = None,
    fail_on: options.FailOn = "fail",
    format: options.Format = "console",
    color: options.Color = "auto",
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
) -> int:
    """Examine this machine and judge it. Exit 0 READY, 1 not, 2 usage, 3 not known."""
    from doctor import session

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
        "weights": weights or None,
        "lora": lora,
        "expect_no_grad": tuple(expect_no_grad or ()) or None,
        "compile": compile or None,
        "batch_size": batch_size,
        "seq_len": seq_len,
        "attention": attention,
        "smoke": False if no_smoke else None,
        "quick": quick or None,
    }
    report = session.examine_job(
        flags, facts, save_facts, only or [], skip or [], fail_on, progress=not quiet
    )
    detail: Literal["quiet", "normal", "verbose"] = (
        "quiet" if quiet else "verbose" if verbose else "normal"
    )
    _print_report(report, format, color, detail)
    return report.exit_code


def _print_report(
    report: Report, format: str, color: options.When, detail: Literal["quiet", "normal", "verbose"]
) -> None:
    from doctor.render import json, plain, terminal

    if format == "json":
        print(json.render(report))
    elif format == "plain":
        terminal.write(plain.render(report, detail), sys.stdout)
    else:
        terminal.show(report, terminal.stdout_console(color), detail)


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
    color: options.Color = "auto",
) -> int:
    """Examine a checkpoint without running a byte of it. Exit codes as those of run."""
    from doctor import scanning
    from doctor.render import scan, terminal

    found = scanning.scan(path, baseline, deep=deep, every=every)
    if format == "json":
        print(scan.json_text(found))
    elif format == "plain":
        terminal.write(scan.plain_text(found), sys.stdout)
    else:
        scan.show(found, terminal.stdout_console(color))
    return found.report.exit_code


@app.command()
def explain(
    name: Annotated[str, typer.Argument(help="A code, a slug, or a document section: P10, U28.")],
    format: Annotated[Literal["plain", "json"], typer.Option(help="Form.")] = "plain",
) -> int:
    """Print what a check means, when it complains, the remedy and its sources."""
    from doctor import catalog
    from doctor.render import explain, json, terminal

    found = catalog.lookup(name)
    if format == "json":
        print(json.render_checks(found))
    else:
        terminal.write(explain.explain(found), sys.stdout)
    return 0


@app.command("list")
def list_checks(
    format: Annotated[Literal["plain", "markdown", "json"], typer.Option(help="Form.")] = "plain",
) -> int:
    """Print every check: code, slug and what is true when it passes."""
    from doctor import catalog
    from doctor.render import explain, json, terminal

    if format == "json":
        print(json.render_checks(catalog.in_families(catalog.CHECKS)))
    else:
        draw = explain.table if format == "plain" else explain.markdown_table
        terminal.write(draw(catalog.in_families(catalog.CHECKS)), sys.stdout)
    return 0
