"""Rows about failures that end a run: memory, communication, indices, processes."""

from __future__ import annotations

from doctor._util.units import gib
from doctor.checks.log.differential import memory
from doctor.checks.log.differential.memory import BYTES
from doctor.checks.log.differential.relations import at_most, beyond, both
from doctor.checks.log.differential.row import Differential, Evidence, cited, number
from doctor.checks.log.differential.run import Run
from doctor.checks.log.differential.symptoms import DATA, INDEX, KILLED, MEMORY, TIMEOUT


def more_workers_than_cores(run: Run) -> Evidence | None:
    workers, cores = run.positive("workers"), run.positive("cores")
    limit = max(MANY_WORKERS, cores.number or 0) if cores else FAR_TOO_MANY
    if workers is None or (workers.number or 0) <= limit:
        return None
    memory, ahead = run.positive("host_memory"), run.positive("prefetch")
    named = [each for each in (workers, ahead, cores, memory) if each]
    few = min(8.0, (cores.number or 8) if cores else 8)
    return Evidence(", ".join(map(cited, named)), tuple(named), {"few": number(few)})


MANY_WORKERS, FAR_TOO_MANY = 12, 31
"""Loader workers for each process, above which their memory counts, where the cores are known and
where they are not. Our own numbers."""


def offloaded_state(run: Run) -> Evidence | None:
    """The optimizer's states and fp32 weights lie in the memory of the host, which is too small."""
    offloaded, memory = run.of_kind("method", "offloaded"), run.positive("host_memory")
    size = run.parameters
    if offloaded is None or size is None or run.is_lora:
        return None
    need = BYTES * size
    if memory is not None and need < (memory.number or 0):
        return None
    has = f", and {cited(memory)}" if memory else ""
    return Evidence(
        f"the optimizer is offloaded to the host (line {offloaded.line}): {BYTES} bytes for each "
        f"of {number(size / 1e9)}B parameters take {gib(need)}{has}",
        tuple(each for each in (offloaded, memory) if each),
        {"need": gib(need)},
    )


def short_limit(run: Run) -> Evidence | None:
    limit = run.positive("timeout") or run.positive("timeout_ms")
    if limit is None:
        return None
    seconds = (limit.number or 0) / (1000 if limit.name == "timeout_ms" else 1)
    if not 0 < seconds <= SHORT:
        return None
    return Evidence(f"{cited(limit)} is shorter than a slow step", (limit,))


SHORT = 120.0
"""Seconds within which ranks of a healthy training may wait for each other. Our own number."""

ROWS = (
    Differential(
        id="state-too-large",
        symptoms=MEMORY,
        evidence=memory.state_too_large,
    ),
    Differential(
        id="evaluation-batch-too-large",
        symptoms=MEMORY,
        evidence=both(memory.evaluates, beyond("eval_batch_size", "batch_size")),
    ),
    Differential(
        id="logits-too-large",
        symptoms=MEMORY,
        evidence=memory.logits_too_large,
    ),
    Differential(
        id="sampler-takes-the-gpu",
        symptoms=MEMORY,
        evidence=memory.shared_with_sampler,
    ),
    Differential(
        id="rows-of-any-length",
        symptoms=MEMORY,
        evidence=memory.one_row_too_long,
    ),
    Differential(
        id="activations-kept",
        symptoms=MEMORY,
        evidence=memory.not_checkpointed,
    ),
    Differential(
        id="batch-too-large",
        symptoms=MEMORY,
        evidence=memory.large_batch,
    ),
    Differential(
        id="positions-exceeded",
        symptoms=INDEX,
        evidence=beyond("seq_length", "position_limit"),
    ),
    Differential(
        id="vocabulary-exceeded",
        symptoms=INDEX,
        evidence=beyond("tokenizer_size", "vocab_size"),
    ),
    Differential(
        id="labels-exceeded",
        symptoms=INDEX,
        evidence=beyond("highest_label", "classes", least=True),
    ),
    Differential(
        id="offloaded-state-too-large",
        symptoms=KILLED,
        evidence=offloaded_state,
    ),
    Differential(
        id="workers-exceed-host",
        symptoms=KILLED,
        evidence=more_workers_than_cores,
    ),
    Differential(
        id="timeout-too-short",
        symptoms=TIMEOUT,
        evidence=short_limit,
    ),
    Differential(
        id="one-process-loads",
        symptoms=DATA,
        evidence=at_most("workers", 1, zero=True),
    ),
    Differential(
        id="workers-compete",
        symptoms=DATA,
        evidence=beyond("workers", "cores"),
    ),
)
