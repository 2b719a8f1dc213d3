"""The flags of the commands, in groups: name, type, default and one line of help each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Option

from doctor._util.units import parse_count
from doctor.job.budget import parse_seconds
from doctor.job.job import MOST, parse_attention


def complete_code(incomplete: str) -> list[tuple[str, str]]:
    """Codes and slugs with this prefix, for the shell."""
    from doctor.judge import catalog

    names = [(name, check.title) for check in catalog.CHECKS for name in (check.code, check.slug)]
    return [pair for pair in names if pair[0].startswith(incomplete)]


def _parser(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser whose ValueError becomes a usage error with the same message."""

    def parser(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parser


def _whole(text: str) -> int:
    """A number of things, from 1 to `MOST`. Raises ValueError."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
    if not 1 <= number <= MOST:
        raise ValueError(f"{text!r} is not a whole number from 1 to {MOST}; write one such as 8")
    return number


def _number(help: str) -> Any:
    return Option(parser=_parser(_whole), metavar="N", help=help)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFlags:
    """Fields of Job that settings are prescribed for. None: not given."""

    device: Annotated[
        Literal["auto", "cuda", "cpu", "mps"] | None,
        Option(help="Device to train on. auto: a GPU (on a Mac, MPS)."),
    ] = None
    precision: Annotated[
        Literal["auto", "bf16", "fp16", "fp32"] | None,
        Option(help="Precision to train in. auto: the best one that the device supports."),
    ] = None
    recipe: Annotated[
        Literal["amp", "pure-bf16"] | None,
        Option(help="amp: fp32 weights under autocast. pure-bf16: everything in bf16."),
    ] = None
    python: Annotated[
        str | None, Option(help="Training interpreter, or the directory of its environment.")
    ] = None
    hf: Annotated[
        str | None, Option(help="Directory of a transformers model to train for one step.")
    ] = None
    lora: Annotated[int | None, _number("Train LoRA adapters of this rank on --hf.")] = None
    compile: Annotated[
        bool | None, Option("--compile/--no-compile", help="Compare the step under torch.compile.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFlags:
    """The other fields of Job. None: not given."""

    checkpoint: Annotated[
        str | None, Option(help="Checkpoint to examine: a directory, a file or an address.")
    ] = None
    output_dir: Annotated[str | None, Option(help="Directory that checkpoints are written to.")] = (
        None
    )
    cache_dir: Annotated[str | None, Option(help="Directory of the Hugging Face cache.")] = None
    keep: Annotated[int | None, _number("Checkpoints kept on disk (default 2).")] = None
    params: Annotated[
        int | None,
        Option(
            parser=_parser(parse_count), metavar="COUNT", help="Parameters of the model, e.g. 8B."
        ),
    ] = None
    trainable: Annotated[
        int | None,
        Option(
            parser=_parser(parse_count),
            metavar="COUNT",
            help="Trainable parameters, e.g. 40M for LoRA.",
        ),
    ] = None
    shards: Annotated[
        int | None,
        _number("GPUs that share weights and optimizer state (FSDP, ZeRO-3)."),
    ] = None
    gpus: Annotated[int | None, _number("GPUs that the job needs.")] = None
    model: Annotated[
        str | None,
        Option(help="Your model as FILE.py:factory. Its code runs in a child process."),
    ] = None
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- ARGUMENTS...]", help="Command-line arguments for the code of --model."
        ),
    ] = None
    layers: Annotated[int | None, _number("Layers of --hf to keep (default 2).")] = None
    weights: Annotated[
        bool | None,
        Option("--weights/--no-weights", help="Load the weights of --hf (default: random ones)."),
    ] = None
    expect_no_grad: Annotated[
        list[str] | None,
        Option(help="Parameters without a gradient by design, as a pattern (repeatable)."),
    ] = None
    optimizer: Annotated[
        Literal["adamw", "adamw-8bit", "adafactor", "sgd", "sgd-momentum", "lion", "lion-8bit"]
        | None,
        Option(help="Optimizer, to estimate its memory (default adamw)."),
    ] = None
    checkpointing: Annotated[
        bool | None,
        Option("--checkpointing/--no-checkpointing", help="The job uses gradient checkpointing."),
    ] = None
    batch_size: Annotated[int | None, _number("Samples per GPU and step.")] = None
    seq_len: Annotated[int | None, _number("Tokens per sample.")] = None
    attention: Annotated[
        Any,  # a tuple of four, which typer would take as four words
        Option(
            parser=_parser(parse_attention),
            metavar="SHAPE",
            help="Shape of your attention: batch,heads,tokens,head_dim.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlags:
    """Fields of RunOptions. None: not given."""

    smoke: Annotated[
        bool | None, Option("--smoke/--no-smoke", help="Run the training step, or omit it.")
    ] = None
    quick: Annotated[
        bool | None,
        Option(
            "--quick/--no-quick", help="Omit the tests under load, shorten the attention trial."
        ),
    ] = None
    budget: Annotated[
        float | None,
        Option(
            parser=_parser(parse_seconds),
            metavar="SECONDS",
            help="Time limit of the run; parts that do not fit are omitted.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionFlags:
    """Fields of RunOptions. None: not given."""

    only: Annotated[
        list[str] | None,
        Option(help="Run this check or family only (repeatable).", autocompletion=complete_code),
    ] = None
    skip: Annotated[
        list[str] | None,
        Option(help="Exclude this check or family (repeatable).", autocompletion=complete_code),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFlags:
    """Where the job file is, and what overrides it."""

    config: Annotated[
        Path | None, Option(help="Job file (default: the nearest doctor.toml upward).")
    ] = None
    no_config: Annotated[bool, Option("--no-config", help="Do not read a job file.")] = False
    no_ignores: Annotated[
        bool, Option("--no-ignores", help="Disregard the [[ignore]] tables of the job file.")
    ] = False
    inject: Annotated[
        list[str] | None,
        Option(
            help="Force this check to fail, to test a gate (repeatable).",
            autocompletion=complete_code,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFlags:
    """What is reported, in which format, and where."""

    fail_on: Annotated[
        Literal["fail", "warn", "never"], Option(help="Lowest status that makes the exit code 1.")
    ] = "fail"
    format: Annotated[
        Literal[
            "console", "plain", "json", "junit", "github", "markdown", "sarif", "nagios", "html"
        ],
        Option(help="Report format on stdout."),
    ] = "console"
    output: Annotated[
        list[str] | None,
        Option(metavar="FORMAT=FILE", help="Also write a report to a file; - for stdout."),
    ] = None
    annotate: Annotated[bool, Option("--annotate", help="Print the limitations of a pass.")] = False
    no_redact: Annotated[
        bool,
        Option(
            "--no-redact",
            help="Show values of variables, the host's name and home directories.",
        ),
    ] = False
    color: Annotated[
        Literal["auto", "always", "never"], Option(help="Color in the console report.")
    ] = "auto"
    verbose: Annotated[bool, Option("-v", "--verbose", help="Show every check.")] = False
    quiet: Annotated[bool, Option("-q", "--quiet", help="Show warnings and failures only.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFlags:
    """What `doctor lint` does beside reading."""

    fix: Annotated[bool, Option("--fix", help="Apply safe fixes.")] = False
    diff: Annotated[bool, Option("--diff", help="Print the fixes, change nothing.")] = False
    unsafe_fixes: Annotated[
        bool, Option("--unsafe-fixes", help="Also fixes that may change what the script does.")
    ] = False
    stdin_filename: Annotated[
        str, Option(help="Name of the file that - reads, for its kind and its report.")
    ] = ""
    fail_on: Annotated[
        Literal["fail", "warn", "never"], Option(help="Lowest status that makes the exit code 1.")
    ] = "fail"
    format: Annotated[
        Literal["console", "concise", "plain", "json", "junit", "github", "markdown", "sarif"],
        Option(help="Report format on stdout."),
    ] = "console"
    output: Annotated[
        list[str] | None,
        Option(metavar="FORMAT=FILE", help="Also write a report to a file; - for stdout."),
    ] = None
    color: Annotated[
        Literal["auto", "always", "never"], Option(help="Color in the console report.")
    ] = "auto"
    verbose: Annotated[
        bool, Option("-v", "--verbose", help="Show what is undecided and suppressed, too.")
    ] = False
    quiet: Annotated[bool, Option("-q", "--quiet", help="Show warnings and failures only.")] = False
    config: Annotated[
        Path | None, Option(help="Job file (default: the nearest doctor.toml upward).")
    ] = None
    no_config: Annotated[bool, Option("--no-config", help="Do not read a job file.")] = False


FactsFile = Annotated[
    Path | None, Option("--facts", help="Judge saved facts instead of this machine; - for stdin.")
]
SaveFacts = Annotated[
    Path | None, Option(help="Write the facts of this run to a file; - for stdout.")
]
Scripts = Annotated[
    list[str] | None,
    Option("--script", help="Training script of the job, to judge for this machine (repeatable)."),
]
Context = Annotated[
    Literal["job", "prolog"],
    Option(help="prolog: print one line, and exit 1 only if the machine is at fault."),
]
