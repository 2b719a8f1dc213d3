"""The flags of the commands: their types and one line of help each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Option = typer.Option
When = Literal["auto", "always", "never"]

Device = Annotated[
    Literal["auto", "cuda", "cpu", "mps"] | None,
    Option(help="Device to train on. auto: a GPU (on a Mac, MPS)."),
]
Precision = Annotated[
    Literal["auto", "bf16", "fp16", "fp32"] | None,
    Option(help="Precision to train in. auto: what the device is good at."),
]
Recipe = Annotated[
    Literal["amp", "pure-bf16"] | None,
    Option(help="amp: fp32 weights under autocast. pure-bf16: all in bf16."),
]
Checkpoint = Annotated[
    str | None, Option(help="Checkpoint to examine: a folder, a file or an address.")
]
OutputDir = Annotated[str | None, Option(help="Folder that will hold the checkpoints.")]
Keep = Annotated[int | None, Option(min=1, help="Checkpoints kept on disk (default 2).")]
Params = Annotated[str | None, Option(help="Parameters of the model, e.g. 8B.")]
Trainable = Annotated[str | None, Option(help="Parameters that train, e.g. 40M for LoRA.")]
Shards = Annotated[int | None, Option(min=1, help="GPUs that share the state (FSDP, ZeRO-3).")]
Gpus = Annotated[int | None, Option(min=1, help="GPUs the job needs.")]
Python = Annotated[str | None, Option(help="Training interpreter, or its environment's folder.")]
Model = Annotated[
    str | None, Option(help="Your model: FILE.py:factory. Its code runs, in a child.")
]
Hf = Annotated[str | None, Option(help="Folder of a transformers model to train a step of.")]
Layers = Annotated[int | None, Option(min=1, help="Layers to keep of --hf (default 2).")]
Weights = Annotated[
    bool, Option("--weights", help="Load the weights of --hf (default: random ones).")
]
Lora = Annotated[int | None, Option(min=1, help="Train LoRA adapters of this rank on --hf.")]
ExpectNoGrad = Annotated[
    list[str] | None, Option(help="Parameters that get no gradient on purpose (repeatable).")
]
Compile = Annotated[bool, Option("--compile", help="Compare the step under torch.compile.")]
BatchSize = Annotated[int | None, Option(min=1, help="Samples of one GPU's step.")]
SeqLen = Annotated[int | None, Option(min=1, help="Tokens of a sample.")]
Attention = Annotated[str | None, Option(help="Your attention: batch,heads,tokens,head_dim.")]
NoSmoke = Annotated[bool, Option("--no-smoke", help="Leave out the training step.")]
Quick = Annotated[bool, Option("--quick", help="Leave out the tests under load.")]
FactsFile = Annotated[
    Path | None, Option("--facts", help="Judge saved facts instead of this machine.")
]
SaveFacts = Annotated[Path | None, Option(help="Write the facts of this run to a file.")]
Only = Annotated[list[str] | None, Option(help="Only this code or family (repeatable).")]
Skip = Annotated[list[str] | None, Option(help="Not this code or family (repeatable).")]
FailOn = Annotated[Literal["fail", "warn", "never"], Option(help="What makes the exit code 1.")]
Format = Annotated[
    Literal["console", "plain", "json"], Option(help="Form of the report on stdout.")
]
ScanFormat = Annotated[
    Literal["console", "plain", "json"], Option(help="Form of the report on stdout.")
]
Color = Annotated[When, Option(help="Colour in the console report.")]
Verbose = Annotated[bool, Option("-v", "--verbose", help="Show every check.")]
Quiet = Annotated[bool, Option("-q", "--quiet", help="Show complaints only.")]
