"""`doctor explain model`: what a factory of `doctor run --model` accepts and returns.

docs/own-model.md holds `markdown()` word for word; the forms are those that
doctor/probes/training_side/subject/contract.py reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from doctor.report.explain import wrapped

NAMES = ("model", "own-model", "own model", "factory", "--model")
"""What `doctor explain` answers with this text."""


MARKDOWN_WIDTH = 100


class Form(NamedTuple):
    """One kind of value that a factory may return."""

    returns: str
    loss: str
    """The loss that the doctor trains with."""


class Part(NamedTuple):
    """A section: paragraphs, then a table of forms, then an example."""

    heading: str
    paragraphs: tuple[str, ...]
    forms: tuple[Form, ...] = ()
    example: str = ""
    """A Python file that works as it stands with `--model FILE.py:make`, or a command."""


FORMS = (
    Form(
        "`(module, batch)`",
        "`module(**batch)` for a dict, `module(*batch)` for a list or tuple, `module(batch)` for "
        "a tensor",
    ),
    Form(
        "`(module, batch, loss)`",
        "`loss(module, batch)`; where the first parameter of the function is called `output`, "
        "`logits`, `pred` or the like, or is only computed with and never called: "
        "`loss(module(inputs), target)`, or `loss(module(inputs), batch)` where the second is "
        "called `batch` or taken apart",
    ),
    Form(
        "`(module, batch, criterion)`",
        "`criterion(module(inputs), target)`, for `nn.CrossEntropyLoss()`, `F.mse_loss` and the "
        "like; the target is the last part of the batch, or its `labels`, `targets` or `y`",
    ),
    Form("`(module, loss)`", "`loss(module)`, which supplies its own data"),
    Form(
        "`(module, batch, loss or None, optimizer, scheduler)`",
        "as above; an optimizer and a schedule may stand anywhere after the module",
    ),
    Form(
        "`module`",
        "as `(module, batch)`; the batch is random tokens if `module.config.vocab_size` exists, "
        "else `module.example_input_array`",
    ),
    Form(
        '`{"model": ..., "batch": ..., "loss": ..., "optimizer": ..., "scheduler": ..., '
        '"max_grad_norm": ..., "save": ..., "load": ...}`',
        "as above; all keys but `model` are optional. `save` and `load`, which take a directory, "
        "are for `--rehearse`",
    ),
    Form(
        "a `LightningModule`",
        "its `training_step` on the first batch of its `train_dataloader`, with the optimizer of "
        "`configure_optimizers`",
    ),
    Form(
        "a `Trainer` of transformers",
        "its `compute_loss` on the first batch of its loader, with its optimizer, schedule and "
        "`max_grad_norm`",
    ),
)

EXAMPLE = """\
# train.py
import torch
from torch import nn


def make():
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 4))
    batch = torch.randn(32, 8), torch.randint(0, 4, (32,))
    loss = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return {"model": model, "batch": batch, "loss": loss, "optimizer": optimizer}
"""

HYDRA = """\
from hydra import compose, initialize


def make():
    with initialize(version_base=None, config_path="conf"):
        config = compose(config_name="train")
    return build_model(config), build_loader(config)
"""

PARTS = (
    Part(
        "`--model FILE.py:factory`",
        (
            "The file is imported in the training interpreter (`--python`); the block `if __name__ "
            '== "__main__"` does not run. The function, called without arguments, returns what is '
            "trained:",
        ),
        FORMS,
    ),
    Part(
        "Batch and loss",
        (
            "A tokenizer and the loader of an evaluation may stand in the tuple or the dict, as "
            "`doctor data` takes them from the same factory; they take no part in the step.",
            "A list is read like a tuple. A `DataLoader`, an iterator or a list of batches (dicts "
            "with equal keys, or three and more tuples of tensors) in the place of the batch gives "
            'its first batch. The loss of a forward pass is its `.loss`, its `["loss"]`, '
            "the result itself if that is a scalar tensor, the only scalar of a tuple such as "
            "`(logits, loss)`, the first element of a tuple, or the sum of a dict of scalars.",
            "Return the loss before `backward()`: the doctor calls `backward()` and steps the "
            "optimizer. The module may be on any device: the doctor moves it and the batch to the "
            "job's device, unless its parameters are distributed over several devices, and calls "
            "`train()`.",
        ),
        example=EXAMPLE,
    ),
    Part(
        "Packages and imports",
        (
            "The working directory and the file's directory are importable. A file in a package "
            "(a directory with `__init__.py`) is imported as a part of it, so relative imports "
            "work; `pkg.train:make` names a module in the working directory or its `src`.",
        ),
    ),
    Part(
        "Arguments, argparse and Hydra",
        (
            "Words after `--` are the file's command-line arguments, in `sys.argv`: `doctor run "
            "--model train.py:make -- --data corpus`. A file that calls `parse_args()` while it "
            "is imported needs its required arguments there. A factory with parameters of its "
            "own needs a function around it: `def make(): return build(args)`.",
            "A function that is decorated with `hydra.main` parses the command line and returns "
            "nothing. Name a plain function that composes the configuration:",
        ),
        example=HYDRA,
    ),
    Part(
        "Lightning",
        (
            "A `LightningModule` is trained without its Lightning `Trainer`: `training_step` is "
            "called with the first batch and `self.log` does nothing. A schedule with `interval: "
            "step` is stepped; one of epochs is not. With `automatic_optimization = False`, "
            "`training_step` calls `backward()` and its optimizers itself, up to 16 times in each "
            "of the three steps until all of them have stepped. Several optimizers without that "
            "are a failure, as in Lightning 2.",
        ),
    ),
    Part(
        "Trainer of transformers",
        (
            "Return the `Trainer` before `train()`. Its `compute_loss` is called as `train()` "
            "does, with `num_items_in_batch`. Its callbacks and gradient accumulation are not "
            "used, and the precision is the job's (`--precision`), not that of its arguments.",
        ),
    ),
)


def plain() -> str:
    """The contract for a terminal."""
    return "\n\n".join("\n".join(_plain(part)) for part in PARTS)


def _plain(part: Part) -> Iterator[str]:
    yield _without_quotes(part.heading)
    for paragraph in part.paragraphs:
        yield ""
        yield from wrapped(_without_quotes(paragraph), "")
    for form in part.forms:
        yield from ("", *wrapped(_without_quotes(form.returns), "  "))
        yield from wrapped(_without_quotes(form.loss), "      ")
    if part.example:
        yield ""
        yield from (f"    {line}".rstrip() for line in part.example.splitlines())


def _without_quotes(text: str) -> str:
    return text.replace("`", "")


def markdown() -> str:
    """The contract as docs/own-model.md has it."""
    return "\n\n".join("\n".join(_markdown(part)) for part in PARTS) + "\n"


def _markdown(part: Part) -> Iterator[str]:
    level = "##" if part is PARTS[0] else "###"
    yield f"{level} {part.heading}"
    for paragraph in part.paragraphs:
        yield from ("", *wrapped(paragraph, "", width=MARKDOWN_WIDTH))
    if part.forms:
        yield from ("", "| the factory returns | the loss is |", "|---|---|")
        yield from (f"| {form.returns} | {form.loss} |" for form in part.forms)
    if part.example:
        yield from ("", "```python", *part.example.splitlines(), "```")


def json_text() -> str:
    """{"topics": [{"name", "parts": [{"heading", "paragraphs", "forms", "example"}]}]}."""
    parts = [
        {
            "heading": part.heading,
            "paragraphs": list(part.paragraphs),
            "forms": [form._asdict() for form in part.forms],
            "example": part.example,
        }
        for part in PARTS
    ]
    from doctor.report.formats.json_forms import EXPLANATION

    topics = [{"name": NAMES[0], "parts": parts}]
    return json.dumps({"topics": topics, "schema": EXPLANATION}, indent=2)


def text(format: str) -> str:
    """The contract as `doctor explain --format` prints it: "plain", "markdown" or "json"."""
    return {"plain": plain, "markdown": markdown, "json": json_text}[format]()
