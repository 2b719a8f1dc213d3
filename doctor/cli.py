"""The commands: parse, call, print, exit. No logic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from doctor import __version__

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

Format = Literal["console", "plain", "json"]
Color = Literal["auto", "always", "never"]


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
    device: Annotated[
        Literal["auto", "cuda", "cpu", "mps"] | None,
        typer.Option(help="Device to train on. auto: a GPU (on a Mac, MPS)."),
    ] = None,
    precision: Annotated[
        Literal["auto", "bf16", "fp16", "fp32"] | None,
        typer.Option(help="Precision to train in. auto: what the device is good at."),
    ] = None,
    recipe: Annotated[
        Literal["amp", "pure-bf16"] | None,
        typer.Option(help="amp: fp32 weights under autocast. pure-bf16: all in bf16."),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Checkpoint to examine: a folder, a file or an address.")
    ] = None,
    output_dir: Annotated[
        str | None, typer.Option(help="Folder that will hold the checkpoints.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Checkpoints kept on disk (default 2).")
    ] = None,
    params: Annotated[str | None, typer.Option(help="Parameters of the model, e.g. 8B.")] = None,
    trainable: Annotated[
        str | None, typer.Option(help="Parameters that train, e.g. 40M for LoRA.")
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, help="GPUs that share the state (FSDP, ZeRO-3).")
    ] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs the job needs.")] = None,
    python: Annotated[
        str | None, typer.Option(help="Training interpreter, or its environment's folder.")
    ] = None,
    facts: Annotated[
        Path | None, typer.Option(help="Judge saved facts instead of this machine.")
    ] = None,
    save_facts: Annotated[
        Path | None, typer.Option(help="Write the facts of this run to a file.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this code or family (repeatable).")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Not this code or family (repeatable).")
    ] = None,
    no_smoke: Annotated[
        bool, typer.Option("--no-smoke", help="Leave out the training step.")
    ] = False,
    fail_on: Annotated[
        Literal["fail", "warn", "never"], typer.Option(help="What makes the exit code 1.")
    ] = "fail",
    format: Annotated[Format, typer.Option(help="Form of the report on stdout.")] = "console",
    color: Annotated[Color, typer.Option(help="Colour in the console report.")] = "auto",
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show every check.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Show complaints only.")] = False,
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
        "smoke": False if no_smoke else None,
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
    report: Report, format: Format, color: Color, detail: Literal["quiet", "normal", "verbose"]
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
    format: Annotated[Format, typer.Option(help="Form of the report on stdout.")] = "console",
    color: Annotated[Color, typer.Option(help="Colour in the console report.")] = "auto",
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
