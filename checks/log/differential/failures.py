"""Rows about failures that end a run: memory, communication, indices, processes."""

from __future__ import annotations

from doctor._util.units import gib
from doctor.checks.log.differential.relations import at_most, beyond, both, off
from doctor.checks.log.differential.row import Differential, Evidence, cited, number
from doctor.checks.log.differential.run import Run
from doctor.errors.memory_stage import stage_of
from doctor.errors.memory_numbers import FULL, Numbers, describe_oom, read_numbers

MEMORY = ("cuda-oom",)
INDEX = ("device-side-assert", "index-out-of-range")
KILLED = ("dataloader-worker-killed", "killed-sigkill", "host-out-of-memory")
TIMEOUT = ("nccl-timeout", "rendezvous-timeout")
DATA = ("waits-for-data", "throughput-falling")
BYTES, BYTES_8BIT = 16, 10
"""Of a parameter that is trained with Adam: weight, gradient, two moments and, in mixed precision,
the fp32 weight; with moments of 8 bits."""


def _failed(run: Run) -> Numbers | None:
    """The numbers of the message, where the step needs more than the GPU has."""
    event = next((each for each in run.log.events if each.name == MEMORY[0]), None)
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
        {"shards": number(int(need / numbers.capacity) + 2)},
    )


def evaluates(run: Run) -> Evidence | None:
    """The memory ended in the evaluation."""
    event = next((each for each in run.log.events if each.name == MEMORY[0]), None)
    stage = stage_of(event.groups.get("functions", "")) if event else None
    return Evidence("") if stage is not None and "evaluation" in stage.summary else None


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
    event = next((each for each in run.log.events if each.name == MEMORY[0]), None)
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
        {"smaller": _halved(run)},
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
        f"the optimizer is offloaded to the host (line {offloaded.line}): {BYTES} bytes for each of "
        f"{number(size / 1e9)}B parameters take {gib(need)}{has}",
        tuple(each for each in (offloaded, memory) if each),
        {"need": gib(need)},
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
        evidence=state_too_large,
        fix="No batch size fits: train an adapter (LoRA, QLoRA), use an 8-bit or paged optimizer, "
        "or shard over at least {shards} such GPUs (FSDP, ZeRO-3) or offload to the host.",
        sources=("peft-lora",),
    ),
    Differential(
        id="evaluation-batch-too-large",
        symptoms=MEMORY,
        evidence=both(evaluates, beyond("eval_batch_size", "batch_size")),
        fix="Set per_device_eval_batch_size to {limit}, the batch that fits in the training.",
        sources=("transformers-17089",),
    ),
    Differential(
        id="logits-too-large",
        symptoms=MEMORY,
        evidence=logits_too_large,
        fix="Do not hold all logits: use_liger_kernel=True or another fused or chunked "
        "cross-entropy, and gradient checkpointing; else a smaller batch with gradient "
        "accumulation, or shorter sequences.",
        sources=("transformers-causal-loss",),
    ),
    Differential(
        id="sampler-takes-the-gpu",
        symptoms=MEMORY,
        evidence=shared_with_sampler,
        fix="Lower the sampler's share of the GPU (gpu_memory_utilization {value}) to 0.2 to 0.3 "
        "where it shares the GPU with the training, let it sleep during the step "
        "(vllm_enable_sleep_mode), or give it its own GPU.",
        sources=("trl-grpo",),
    ),
    Differential(
        id="rows-of-any-length",
        symptoms=MEMORY,
        evidence=one_row_too_long,
        fix="Bound the length of a sample: truncation=True with max_length at what fits (the 95th "
        "percentile), or batches of so many tokens; one long sample sets the memory of its batch.",
        sources=("transformers-tokenization",),
    ),
    Differential(
        id="activations-kept",
        symptoms=MEMORY,
        evidence=not_checkpointed,
        fix="Switch gradient checkpointing on first: it keeps one activation per layer. Then "
        "{smaller}.",
        sources=("transformers-training-args",),
    ),
    Differential(
        id="batch-too-large",
        symptoms=MEMORY,
        evidence=large_batch,
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
        fix="The highest label is {value} and the last layer has {limit} classes: set num_labels to "
        "one more than the highest label, or renumber the labels from 0.",
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
