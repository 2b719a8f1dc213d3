"""Settings, as a log states them, that end a run or slow it: memory, indices, processes, data."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="state-too-large",
        why="Weights, gradients and the states of Adam take 16 bytes for each parameter that is "
        "trained (10 with states of 8 bits), which is more than the GPU has.",
        template="No batch size fits: train an adapter (LoRA, QLoRA), use an 8-bit or paged "
        "optimizer, or shard over {shards:enough} such GPUs (FSDP, ZeRO-3) or offload to the host.",
        role="setting",
        sources=("peft-lora",),
    ),
    Cause(
        id="evaluation-batch-too-large",
        why="The memory ended in the evaluation, whose batch is larger than that of the training.",
        template="Set per_device_eval_batch_size to {limit:per_device_train_batch_size}, the batch "
        "that fits in the training.",
        role="setting",
        sources=("transformers-17089",),
    ),
    Cause(
        id="logits-too-large",
        why="The logits have a number for each token of the vocabulary at each position: with a "
        "large vocabulary they and their gradient are the largest tensors of a step.",
        fix="Do not hold all logits: use_liger_kernel=True or another fused or chunked "
        "cross-entropy, and gradient checkpointing; else a smaller batch with gradient "
        "accumulation, or shorter sequences.",
        role="setting",
        sources=("transformers-causal-loss",),
    ),
    Cause(
        id="sampler-takes-the-gpu",
        why="A sampler (vLLM) on the same GPU reserves its share when it starts, and the step of "
        "the training gets what is left.",
        template="Lower the sampler's share of the GPU (gpu_memory_utilization {value:of 0.4 or "
        "more}) to 0.2 to 0.3 where it shares the GPU with the training, let it sleep during the "
        "step (vllm_enable_sleep_mode), or give it its own GPU.",
        role="setting",
        sources=("trl-grpo",),
    ),
    Cause(
        id="rows-of-any-length",
        why="Nothing bounds the length of a sample: a batch is padded to its longest, which "
        "sets the memory of all of them.",
        fix="Bound the length of a sample: truncation=True with max_length at what fits (the 95th "
        "percentile), or batches of so many tokens; one long sample sets the memory of its batch.",
        role="setting",
        sources=("transformers-tokenization",),
    ),
    Cause(
        id="activations-kept",
        why="Gradient checkpointing is off: the activations of every layer are kept for the "
        "backward pass, and the first steps need more than the GPU has.",
        template="Switch gradient checkpointing on first: it keeps one activation per "
        "layer{then:; then a smaller batch with more accumulation keeps the step as it is}.",
        role="setting",
        sources=("transformers-training-args",),
    ),
    Cause(
        id="batch-too-large",
        why="The forward or backward pass of the first steps needs more than the GPU has, and its "
        "activations grow with the samples of a batch.",
        template="Halve the batch and accumulate: {smaller:half of per_device_train_batch_size "
        "with twice gradient_accumulation_steps keeps the step as it is}.",
        role="setting",
        sources=("transformers-training-args",),
    ),
    Cause(
        id="positions-exceeded",
        why="Samples have more tokens than the model has positions: the first position beyond them "
        "is an index outside of the table.",
        template="Cut the samples off at {limit:max_position_embeddings} tokens, the positions "
        "that the model has (max_length={limit:max_position_embeddings}, truncation=True), or take "
        "a model for longer texts.",
        role="setting",
        sources=("transformers-tokenization",),
    ),
    Cause(
        id="vocabulary-exceeded",
        why="The tokenizer has more tokens than the embedding has rows: the first of those that "
        "were added is an index outside of it.",
        template="The tokenizer has {value:more} tokens and the embedding {limit:fewer} rows: call "
        "model.resize_token_embeddings(len(tokenizer)) after tokens were added, before the "
        "optimizer is built.",
        role="setting",
        sources=("ms-swift-3267",),
    ),
    Cause(
        id="labels-exceeded",
        why="A label is as high as the number of classes, or higher: classes are counted from 0.",
        template="The highest label is {value:num_labels or more} and the last layer has "
        "{limit:num_labels} classes: set num_labels to one more than the highest label, or "
        "renumber the labels from 0.",
        role="setting",
        sources=("transformers-token-classification",),
    ),
    Cause(
        id="offloaded-state-too-large",
        why="The fp32 weights, the gradients and the states of the optimizer are offloaded to the "
        "memory of the host, which is too small for them: the kernel kills a process.",
        template="The host needs at least {need:16 bytes for each parameter} for all ranks of the "
        "node: give the job more host memory, offload to NVMe (offload_optimizer.device: nvme), "
        "shard over more GPUs without offload, or train an adapter.",
        role="setting",
        sources=("deepspeed-config",),
    ),
    Cause(
        id="workers-exceed-host",
        why="There are more loader workers than the host has memory or cores for, in each process "
        "of the training: the kernel kills one of them.",
        template="Use {few:at most 8} workers with prefetch_factor=2: every worker holds its own "
        "copy of what the dataset keeps in Python, and its prefetched batches.",
        role="setting",
        sources=("torch-data-loading",),
    ),
    Cause(
        id="timeout-too-short",
        why="The limit within which ranks may wait for each other is shorter than a slow step, a "
        "checkpoint or the start of a loader.",
        fix="Raise the limit to 30 minutes (ddp_timeout=1800, "
        "init_process_group(timeout=timedelta(minutes=30))), and look what the slow rank did.",
        role="setting",
        sources=("torch-distributed-debug",),
    ),
    Cause(
        id="one-process-loads",
        why="One process prepares all data of a rank, and the GPU waits for it.",
        template="Raise num_workers from {value:0 or 1} to 8 to 16 per GPU (within the job's "
        "cores), with persistent_workers=True and prefetch_factor=4: now one process prepares all "
        "data (with 0 that of the training itself, between its steps).",
        role="setting",
        sources=("speech-1204", "torch-tuning-loading"),
    ),
    Cause(
        id="workers-compete",
        why="There are more loader workers than cores: they take turns, and none is quick enough.",
        template="Lower num_workers to the cores that each rank has ({limit:those of the job} over "
        "the ranks of the node): more workers take turns on them.",
        role="setting",
        sources=("deit-81",),
    ),
)
