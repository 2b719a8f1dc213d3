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
        fix="No batch size fits: train an adapter (LoRA, QLoRA), use an 8-bit or paged optimizer, "
        "or shard over at least {shards} such GPUs (FSDP, ZeRO-3) or offload to the host.",
        sources=("peft-lora",),
    ),
    Differential(
        id="evaluation-batch-too-large",
        symptoms=MEMORY,
        evidence=both(memory.evaluates, beyond("eval_batch_size", "batch_size")),
        fix="Set per_device_eval_batch_size to {limit}, the batch that fits in the training.",
        sources=("transformers-17089",),
    ),
    Differential(
        id="logits-too-large",
        symptoms=MEMORY,
        evidence=memory.logits_too_large,
        fix="Do not hold all logits: use_liger_kernel=True or another fused or chunked "
        "cross-entropy, and gradient checkpointing; else a smaller batch with gradient "
        "accumulation, or shorter sequences.",
        sources=("transformers-causal-loss",),
    ),
    Differential(
        id="sampler-takes-the-gpu",
        symptoms=MEMORY,
        evidence=memory.shared_with_sampler,
        fix="Lower the sampler's share of the GPU (gpu_memory_utilization {value}) to 0.2 to 0.3 "
        "where it shares the GPU with the training, let it sleep during the step "
        "(vllm_enable_sleep_mode), or give it its own GPU.",
        sources=("trl-grpo",),
    ),
    Differential(
        id="rows-of-any-length",
        symptoms=MEMORY,
        evidence=memory.one_row_too_long,
        fix="Bound the length of a sample: truncation=True with max_length at what fits (the 95th "
        "percentile), or batches of so many tokens; one long sample sets the memory of its batch.",
        sources=("transformers-tokenization",),
    ),
    Differential(
        id="activations-kept",
        symptoms=MEMORY,
        evidence=memory.not_checkpointed,
        fix="Switch gradient checkpointing on first: it keeps one activation per layer. Then "
        "{smaller}.",
        sources=("transformers-training-args",),
    ),
    Differential(
        id="batch-too-large",
        symptoms=MEMORY,
        evidence=memory.large_batch,
        fix="Halve the batch and accumulate: {smaller}.",
        sources=("transformers-training-args",),
    ),
    Differential(
        id="positions-exceeded",
        symptoms=INDEX,
        evidence=beyond("seq_length", "position_limit"),
        fix="Cut the samples off at {limit} tokens, the positions that the model has "
        "(max_length={limit}, truncation=True), or take a model for longer texts.",
        sources=("transformers-tokenization",),
    ),
    Differential(
        id="vocabulary-exceeded",
        symptoms=INDEX,
        evidence=beyond("tokenizer_size", "vocab_size"),
        fix="The tokenizer has {value} tokens and the embedding {limit} rows: call "
        "model.resize_token_embeddings(len(tokenizer)) after tokens were added, before the "
        "optimizer is built.",
        sources=("ms-swift-3267",),
    ),
    Differential(
        id="labels-exceeded",
        symptoms=INDEX,
        evidence=beyond("highest_label", "classes", least=True),
        fix="The highest label is {value} and the last layer has {limit} classes: set num_labels "
        "to one more than the highest label, or renumber the labels from 0.",
        sources=("transformers-token-classification",),
    ),
    Differential(
        id="offloaded-state-too-large",
        symptoms=KILLED,
        evidence=offloaded_state,
        fix="The host needs at least {need} for all ranks of the node: give the job more host "
        "memory, offload to NVMe (offload_optimizer.device: nvme), shard over more GPUs without "
        "offload, or train an adapter.",
        sources=("deepspeed-config",),
    ),
    Differential(
        id="workers-exceed-host",
        symptoms=KILLED,
        evidence=more_workers_than_cores,
        fix="Use {few} workers with prefetch_factor=2: every worker holds its own copy of what the "
        "dataset keeps in Python, and its prefetched batches.",
        sources=("torch-data-loading",),
    ),
    Differential(
        id="timeout-too-short",
        symptoms=TIMEOUT,
        evidence=short_limit,
        fix="Raise the limit to 30 minutes (ddp_timeout=1800, "
        "init_process_group(timeout=timedelta(minutes=30))), and look what the slow rank did.",
        sources=("torch-distributed-debug",),
    ),
    Differential(
        id="one-process-loads",
        symptoms=DATA,
        evidence=at_most("workers", 1, zero=True),
        fix="Raise num_workers from {value} to 8 to 16 per GPU (within the job's cores), with "
        "persistent_workers=True and prefetch_factor=4: now one process prepares all data (with 0 "
        "that of the training itself, between its steps).",
        sources=("speech-1204", "torch-tuning-loading"),
    ),
    Differential(
        id="workers-compete",
        symptoms=DATA,
        evidence=beyond("workers", "cores"),
        fix="Lower num_workers to the cores that each rank has ({limit} over the ranks of the "
        "node): more workers take turns on them.",
        sources=("deit-81",),
    ),
)
