"""The options of what is examined: fields of `Job` and `RunOptions`, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from doctor._util.units import parse_count
from doctor.cli import panels
from doctor.cli.options import Python, parser
from doctor.job.quantities import MOST, parse_attention, parse_seconds


def _whole(text: str) -> int:
    """A number of things, from 1 to `MOST`. Raises ValueError."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
    if not 1 <= number <= MOST:
        raise ValueError(f"{text!r} is not a whole number from 1 to {MOST}; write one such as 8")
    return number


NUMBER = {"parser": parser(_whole), "metavar": "N"}
COUNT = {"parser": parser(parse_count), "metavar": "COUNT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFlags:
    """Fields of Job that settings are prescribed for. None: not given."""

    device: Annotated[
        Literal["auto", "cuda", "cpu", "mps"] | None,
        panels.job("Device to train on; auto is a GPU, on a Mac MPS (default: auto)."),
    ] = None
    precision: Annotated[
        Literal["auto", "bf16", "fp16", "fp32"] | None,
        panels.job("Precision to train in; auto is the best one of the device (default: auto)."),
    ] = None
    recipe: Annotated[
        Literal["amp", "pure-bf16"] | None,
        panels.job(
            "amp: fp32 weights under autocast. pure-bf16: everything in bf16 (default: amp)."
        ),
    ] = None
    python: Python = None
    hf: Annotated[
        str | None,
        panels.model("A transformers model to train for a few steps.", metavar="DIRECTORY"),
    ] = None
    lora: Annotated[
        int | None, panels.model("Train LoRA adapters of this rank on --hf.", **NUMBER)
    ] = None
    compile: Annotated[
        bool | None, panels.model("Compare the step under torch.compile.", "--compile/--no-compile")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFlags:
    """The other fields of Job. None: not given."""

    gpus: Annotated[
        int | None, panels.job("GPUs that the job needs (default: all visible).", **NUMBER)
    ] = None
    params: Annotated[int | None, panels.job("Parameters of the model, such as 8B.", **COUNT)] = (
        None
    )
    trainable: Annotated[
        int | None,
        panels.job("Trainable parameters, such as 40M for LoRA (default: all).", **COUNT),
    ] = None
    shards: Annotated[
        int | None,
        panels.job(
            "GPUs that share weights and optimizer state: FSDP, ZeRO-3 (default: 1).", **NUMBER
        ),
    ] = None
    optimizer: Annotated[
        Literal["adamw", "adamw-8bit", "adafactor", "sgd", "sgd-momentum", "lion", "lion-8bit"]
        | None,
        panels.job("Optimizer, to estimate its memory (default: adamw)."),
    ] = None
    checkpointing: Annotated[
        bool | None,
        panels.job("The job uses gradient checkpointing.", "--checkpointing/--no-checkpointing"),
    ] = None
    batch_size: Annotated[int | None, panels.job("Samples per GPU and step.", **NUMBER)] = None
    seq_len: Annotated[int | None, panels.job("Tokens per sample.", **NUMBER)] = None
    attention: Annotated[
        Any,  # a tuple of four, which typer would take as four words
        panels.job(
            "Shape of your attention: batch,heads,tokens,head_dim.",
            parser=parser(parse_attention),
            metavar="SHAPE",
        ),
    ] = None
    model: Annotated[
        str | None,
        panels.model("Your model; its code runs in a child process.", metavar="FILE.py:factory"),
    ] = None
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- ARGUMENTS...]", help="Command-line arguments for the code of --model."
        ),
    ] = None
    data: Annotated[
        str | None,
        panels.model("What --hf is trained on, as for doctor data.", metavar="TARGET"),
    ] = None
    layers: Annotated[
        int | None, panels.model("Layers of --hf to keep (default: 2).", **NUMBER)
    ] = None
    probes: Annotated[
        bool | None,
        panels.model(
            "After the steps, try changed batches in a copy of the process (default: do).",
            "--probes/--no-probes",
        ),
    ] = None
    weights: Annotated[
        bool | None,
        panels.model("Load the weights of --hf (default: random ones).", "--weights/--no-weights"),
    ] = None
    expect_no_grad: Annotated[
        list[str] | None,
        panels.model("Parameters without a gradient by design (repeatable).", metavar="PATTERN"),
    ] = None
    checkpoint: Annotated[
        str | None,
        panels.paths("Checkpoint to examine: a directory, a file or an address.", metavar="PATH"),
    ] = None
    output_dir: Annotated[
        str | None,
        panels.paths("Where the job writes checkpoints (default: .).", metavar="DIRECTORY"),
    ] = None
    cache_dir: Annotated[
        str | None, panels.paths("The Hugging Face cache of the job.", metavar="DIRECTORY")
    ] = None
    keep: Annotated[
        int | None, panels.paths("Checkpoints kept on disk (default: 2).", **NUMBER)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlags:
    """Fields of RunOptions. None: not given."""

    smoke: Annotated[
        bool | None,
        panels.scope("Run the training step, or omit it (default: run it).", "--smoke/--no-smoke"),
    ] = None
    quick: Annotated[
        bool | None,
        panels.scope(
            "Omit the tests under load, shorten the attention trial.", "--quick/--no-quick"
        ),
    ] = None
    memory_test: Annotated[
        bool | None,
        panels.scope(
            "Also write and read back 90 % of the free GPU memory.",
            "--memory-test/--no-memory-test",
        ),
    ] = None
    rehearse: Annotated[
        bool | None,
        panels.scope(
            "Also save, stop and continue --model or --hf, in small.", "--rehearse/--no-rehearse"
        ),
    ] = None
    ranks: Annotated[
        int | None,
        panels.scope(
            "Processes of --rehearse, as DDP; FSDP with --shards.", "--ranks", min=1, metavar="N"
        ),
    ] = None
    budget: Annotated[
        float | None,
        panels.scope(
            "Time limit of the run; parts that do not fit are omitted.",
            parser=parser(parse_seconds),
            metavar="SECONDS",
        ),
    ] = None
