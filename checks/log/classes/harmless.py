"""Texts that look like trouble and are none where nothing else is wrong: counted, named once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Harmless:
    """A text, an example of it, and why it may be disregarded."""

    name: str
    pattern: str
    example: str
    why: str


HARMLESS = (
    Harmless(
        "use-cache-with-checkpointing",
        r"use_cache=True` is incompatible with gradient checkpointing",
        "`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.",
        "the model switches its cache off by itself",
    ),
    Harmless(
        "checkpoint-use-reentrant",
        r"torch\.utils\.checkpoint: (?:please pass in use_reentrant|the use_reentrant parameter)",
        "UserWarning: torch.utils.checkpoint: please pass in use_reentrant=True or "
        "use_reentrant=False explicitly.",
        "a default that will change; the result is the same",
    ),
    Harmless(
        "amp-renamed",
        r"FutureWarning: `?torch\.(?:cuda|cpu)\.amp\.",
        "FutureWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated.",
        "the old name still works",
    ),
    Harmless(
        "scheduler-before-optimizer",
        r"Detected call of `?(?:lr_)?scheduler\.step\(\)`? before `?optimizer\.step\(\)",
        "UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`.",
        "once at the first step of an fp16 run, whose scaler skipped that step",
    ),
    Harmless(
        "tokenizers-forked",
        r"huggingface/tokenizers: The current process just got forked",
        "huggingface/tokenizers: The current process just got forked, after parallelism has "
        "already "
        "been used.",
        "the tokenizer goes on with one thread",
    ),
    Harmless(
        "pad-token-set",
        r"Setting `pad_token_id` to `eos_token_id`",
        "Setting `pad_token_id` to `eos_token_id`:2 for open-end generation.",
        "generation only",
    ),
    Harmless(
        "new-head",
        r"Some weights of .{1,120} were not initialized from the model checkpoint",
        "Some weights of BertForSequenceClassification were not initialized from the model "
        "checkpoint at bert-base and are newly initialized: ['classifier.weight']",
        "expected where the task has a new head",
    ),
    Harmless(
        "no-flash-attention",
        r"You are not running the flash-attention implementation",
        "You are not running the flash-attention implementation, expect numerical differences.",
        "another attention kernel is used",
    ),
    Harmless(
        "meshgrid-indexing",
        r"torch\.meshgrid: in an upcoming release",
        "UserWarning: torch.meshgrid: in an upcoming release, it will be required to pass the "
        "indexing argument.",
        "a default that will change",
    ),
    Harmless(
        "first-overflows",
        r"Gradient overflow\. {1,4}Skipping step|(?:OVERFLOW|overflow)! {0,4}(?:Rank \d+ )?"
        r"Skipping step|overflow detected, (?:ignoring gradient, )?setting loss scale to",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
        "the loss scale is being calibrated; a collapse is reported by its own check",
    ),
    Harmless(
        "tf32-available",
        r"TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled",
        "UserWarning: TensorFloat32 tensor cores for float32 matrix multiplication available "
        "but not "
        "enabled.",
        "a setting for speed, see NUM002",
    ),
    Harmless(
        "pynvml-renamed",
        r"The pynvml package is deprecated",
        "FutureWarning: The pynvml package is deprecated. Please install nvidia-ml-py instead.",
        "the renamed package does the same",
    ),
    Harmless(
        "destroy-process-group",
        r"destroy_process_group\(\) was not called before program exit",
        "[rank0]:[W1] Warning: WARNING: destroy_process_group() was not called before program "
        "exit, "
        "which can leak resources.",
        "a warning at the end of the process",
    ),
    Harmless(
        "barrier-device",
        r"(?:using GPU \d+ to perform barrier|No device id is provided via `init_process_group`)",
        "[rank0]:[W1] using GPU 0 to perform barrier as devices used by this process are currently "
        "unknown.",
        "the device is inferred from the rank",
    ),
    Harmless(
        "omp-threads",
        r"Setting OMP_NUM_THREADS environment variable for each process to be 1",
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to "
        "avoid "
        "your system being overloaded",
        "torchrun's default",
    ),
    Harmless(
        "cuda-asynchronous-advice",
        r"CUDA kernel errors might be asynchronously reported",
        "CUDA kernel errors might be asynchronously reported at some other API call, so the "
        "stacktrace below might be incorrect.",
        "advice that belongs to an error",
    ),
    Harmless(
        "grad-strides",
        r"Grad strides do not match bucket view strides",
        "UserWarning: Grad strides do not match bucket view strides. This may indicate grad was "
        "not created according to the gradient layout contract",
        "DDP copies such gradients; it costs a little time",
    ),
    Harmless(
        "optimizer-step-wrapped",
        r"Seems like `optimizer\.step\(\)` has been overridden after learning rate scheduler",
        "UserWarning: Seems like `optimizer.step()` has been overridden after learning rate "
        "scheduler initialization.",
        "a library wrapped the optimizer; the order of the calls is right",
    ),
    Harmless(
        "nccl-plugin-missing",
        r"(?:Failed to open libibverbs|No plugin found \(libnccl-net\.so\)"
        r"|Plugin load .{0,80}libnccl-net\.so: cannot open)",
        "NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
        "NCCL uses its own transports",
    ),
    Harmless(
        "store-barrier-waiting",
        r"Waiting in store based barrier to initialize process group",
        "INFO:root:Waiting in store based barrier to initialize process group for rank: 0, key: "
        "store_based_barrier_key:1 (world_size=8, worker_count=7, timeout=0:30:00)",
        "ranks wait for the slowest one; only a timeout is a failure",
    ),
    Harmless(
        "find-unused-none",
        r"find_unused_parameters=True was specified in DDP constructor, but did not find any "
        r"unused",
        "Warning: find_unused_parameters=True was specified in DDP constructor, but did not "
        "find any "
        "unused parameters in the forward pass.",
        "costs a little time",
    ),
)
