"""The flags of the commands: their types and one line of help each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Option = typer.Option
When = Literal["auto", "always", "never"]


def complete_code(incomplete: str) -> list[tuple[str, str]]:
    """Codes and slugs that begin so, for the shell."""
    from doctor.judge import catalog

    names = [(name, check.title) for check in catalog.CHECKS for name in (check.code, check.slug)]
    return [pair for pair in names if pair[0].startswith(incomplete)]


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
    bool | None,
    Option("--weights/--no-weights", help="Load the weights of --hf (default: random ones)."),
]
Lora = Annotated[int | None, Option(min=1, help="Train LoRA adapters of this rank on --hf.")]
ExpectNoGrad = Annotated[
    list[str] | None, Option(help="Parameters that get no gradient on purpose (repeatable).")
]
Compile = Annotated[
    bool | None,
    Option("--compile/--no-compile", help="Compare the step under torch.compile."),
]
Optimizer = Annotated[
    Literal["adamw", "adamw-8bit", "adafactor", "sgd", "sgd-momentum", "lion", "lion-8bit"] | None,
    Option(help="Optimizer, for its memory (default adamw)."),
]
Checkpointing = Annotated[
    bool | None,
    Option("--checkpointing/--no-checkpointing", help="The job uses gradient checkpointing."),
]
CacheDir = Annotated[str | None, Option(help="Folder of the Hugging Face cache.")]
BatchSize = Annotated[int | None, Option(min=1, help="Samples of one GPU's step.")]
SeqLen = Annotated[int | None, Option(min=1, help="Tokens of a sample.")]
Attention = Annotated[str | None, Option(help="Your attention: batch,heads,tokens,head_dim.")]
Smoke = Annotated[
    bool | None, Option("--smoke/--no-smoke", help="Run the training step, or leave it out.")
]
Quick = Annotated[
    bool | None,
    Option(
        "--quick/--no-quick", help="Leave out the tests under load, shorten the attention trial."
    ),
]
Config = Annotated[Path | None, Option(help="Job file (default: doctor.toml, found upward).")]
NoConfig = Annotated[bool, Option("--no-config", help="Read no job file.")]
NoIgnores = Annotated[bool, Option("--no-ignores", help="Leave out the job file's ignores.")]
Inject = Annotated[
    list[str] | None,
    Option(
        help="Make this check fail, to see a gate close (repeatable).",
        autocompletion=complete_code,
    ),
]
Budget = Annotated[str | None, Option(help="Seconds the run may take: what fits is examined.")]
FactsFile = Annotated[
    Path | None, Option("--facts", help="Judge saved facts instead of this machine.")
]
SaveFacts = Annotated[Path | None, Option(help="Write the facts of this run to a file.")]
Only = Annotated[
    list[str] | None,
    Option(help="Only this code or family (repeatable).", autocompletion=complete_code),
]
Skip = Annotated[
    list[str] | None,
    Option(help="Not this code or family (repeatable).", autocompletion=complete_code),
]
FailOn = Annotated[Literal["fail", "warn", "never"], Option(help="What makes the exit code 1.")]
Format = Annotated[
    Literal["console", "plain", "json", "junit", "github", "markdown", "sarif", "nagios", "html"],
    Option(help="Form of the report on stdout."),
]
Output = Annotated[
    list[str] | None, Option(metavar="FORMAT=FILE", help="A report to a file too (repeatable).")
]
Annotate = Annotated[bool, Option("--annotate", help="Say what a pass does not prove.")]
NoRedact = Annotated[
    bool, Option("--no-redact", help="Show variables' values, the host's name and home folders.")
]
ReportFile = Annotated[Path, typer.Argument(help="A file of --save-facts.")]
ScanFormat = Annotated[
    Literal["console", "plain", "json"], Option(help="Form of the report on stdout.")
]
Color = Annotated[When, Option(help="Colour in the console report.")]
Verbose = Annotated[bool, Option("-v", "--verbose", help="Show every check.")]
Quiet = Annotated[bool, Option("-q", "--quiet", help="Show complaints only.")]
Mode = Annotated[
    Literal["stable", "fast", "diagnostic"],
    Option(help="stable: to begin with. fast: what was proven here. diagnostic: to find a fault."),
]
Form = Annotated[
    Literal["text", "python", "env", "trainer", "accelerate"], Option(help="Form to paste.")
]
Deterministic = Annotated[bool, Option("--deterministic", help="Seeds and repeatable kernels too.")]
Context = Annotated[
    Literal["job", "prolog"],
    Option(help="prolog: one line, and exit 1 only for a machine seen to be at fault."),
]
