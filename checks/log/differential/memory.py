"""Evidence in the settings of a run whose GPU memory ended: what needed it."""

from __future__ import annotations

import re

from doctor._util.units import gib
from doctor.checks.log.differential.row import Evidence, cited, number
from doctor.checks.log.differential.run import Run
from doctor.checks.log.differential.symptoms import MEMORY
from doctor.errors.memory_numbers import FULL, Numbers, describe_oom, read_numbers
from doctor.errors.memory_stage import stage_of
from doctor.facts.log import LogEvent

BYTES, BYTES_8BIT = 16, 10
"""Of a parameter that is trained with Adam: weight, gradient, two moments and, in mixed precision,
the fp32 weight; with moments of 8 bits."""


def _event(run: Run) -> LogEvent | None:
    """The line that says that the GPU's memory ended."""
    return next((each for each in run.log.events if each.name == MEMORY[0]), None)


def _failed(run: Run) -> Numbers | None:
    """The numbers of the message, where the step needs more than the GPU has."""
    event = _event(run)
    described = describe_oom(event.text) if event else None
    return read_numbers(event.text) if event and described and described.kind == FULL else None


def state_too_large(run: Run) -> Evidence | None:
    """Weights, gradients and the optimizer's states of one GPU are more than it has."""
    numbers, trained = _failed(run), run.positive("trainable_params") or run.positive("all_params")
    size = run.parameters
    if numbers is None or numbers.capacity is None or size is None or run.is_lora:
        return None
    each = BYTES_8BIT if run.of_kind("optimizer", "8bit", "bnb", "adafactor") else BYTES
    is_split = run.of_kind("method", "sharded", "pretrain")
    if is_split and run.world_size is None:
        return None
    need = each * size / (run.world_size or 1.0 if is_split else 1.0)
    if need < numbers.capacity:
        return None
    named = cited(trained) if trained else f"a model of {number(size / 1e9)}B parameters"
    return Evidence(
        f"{named}: at {each} bytes each, weights, gradients and Adam's states take {gib(need)} of "
        f"a GPU with {gib(numbers.capacity)}",
        tuple(filter(None, (trained,))),
        {"shards": f"at least {int(need / numbers.capacity) + 2:,}"},
    )


def evaluates(run: Run) -> Evidence | None:
    """The memory ended in the evaluation, and not as its results are put together."""
    event = _event(run)
    functions = event.groups.get("functions", "") if event else ""
    stage = stage_of(functions)
    if stage is None or "evaluation" not in stage.summary or COLLECTS.search(functions):
        return None
    return Evidence("")


COLLECTS = re.compile(
    r"nested_concat|pad_and_concatenate|nested_gather|gather_for_metrics|pad_across_processes"
)
"""Functions that keep or join what every batch gave, which grows with the number of batches."""


def logits_too_large(run: Run) -> Evidence | None:
    """The request has the size of the logits: batch x length x vocabulary."""
    numbers = _failed(run)
    batch, length = run.positive("batch_size"), run.positive("seq_length")
    vocabulary = run.positive("vocab_size") or run.positive("tokenizer_size")
    words = (vocabulary.number if vocabulary else 0) or _vocabulary_of(run)
    if numbers is None or not numbers.request or batch is None or length is None or not words:
        return None
    values = (batch.number or 0) * (length.number or 0) * words
    for size in (4, 2):
        if abs(numbers.request / (size * values) - 1) < ALIKE:
            return Evidence(
                f"the {gib(numbers.request)} are the logits: {cited(batch)} x {cited(length)} x "
                f"{words:,.0f} tokens x {size} bytes",
                (batch, length),
            )
    return None


ALIKE = 0.06
"""By how much a request may differ from the size of a tensor. Our own number."""
VOCABULARIES = {
    "llama-2": 32_000, "llama-3": 128_256, "qwen": 151_936, "mistral": 32_000, "gemma": 256_000,
    "gpt2": 50_257,
}  # fmt: skip


def _vocabulary_of(run: Run) -> float:
    names = " ".join(each.text.lower() for each in (*run.all("model"), *run.all("family")))
    return next((float(size) for name, size in VOCABULARIES.items() if name in names), 0.0)


def _in_first_step(run: Run) -> bool:
    """The forward or backward pass needs too much from the start: no step was logged before, and
    the traceback names no other part of the program."""
    event = _event(run)
    if event is None or _failed(run) is None:
        return False
    stage = stage_of(event.groups.get("functions", ""))
    loss = run.curve("loss")
    steps = sum(line < event.line for line in loss.lines) if loss else 0
    return steps < FITTED and (stage is None or stage.summary in OF_A_STEP)


FITTED = 10
"""Logged steps after which the size of a usual step did fit. Our own number."""
OF_A_STEP = ("for the logits and their loss", "in the attention")


def not_checkpointed(run: Run) -> Evidence | None:
    found = run.is_off("checkpointing")
    if found is None or not _in_first_step(run):
        return None
    also = [run.positive("batch_size"), run.positive("seq_length")]
    named = [each for each in also if each]
    return Evidence(
        ", ".join(map(cited, (found, *named))), (found, *named),
        {"then": f"; then {smaller}" if (smaller := _halved(run)) else ""},
    )  # fmt: skip


def large_batch(run: Run) -> Evidence | None:
    batch = run.positive("batch_size")
    if batch is None or (batch.number or 0) < 2 or not _in_first_step(run):
        return None
    return Evidence(cited(batch), (batch,), {"smaller": _halved(run)})


def _halved(run: Run) -> str:
    """A batch of half the size, with the accumulation that keeps a step as it is."""
    batch, times = run.value("batch_size"), run.value("accumulation") or 1
    if not batch or batch < 2:
        return ""
    return (
        f"a batch of {batch // 2:.0f} with gradient_accumulation_steps={2 * times:.0f} in place of "
        f"{batch:.0f} and {times:.0f} keeps the step as it is"
    )


def one_row_too_long(run: Run) -> Evidence | None:
    """Nothing bounds the length of a sample."""
    named = [found for name in ("truncation", "seq_length") if (found := run.is_off(name))]
    if not named or _failed(run) is None:
        return None
    return Evidence(", ".join(map(cited, named)), tuple(named))


def shared_with_sampler(run: Run) -> Evidence | None:
    share = run.positive("gpu_memory_share")
    if share is None or (share.number or 0) < SHARED or _failed(run) is None:
        return None
    return Evidence(cited(share), (share,), {"value": share.text})


SHARED = 0.4
"""Share of a GPU that a sampler on it may take beside the training. Our own number."""
