"""Settings of one tool that another one refuses, and errors whose class names another cause."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="deepspeed-and-trainer-differ",
        refines=("deepspeed-configuration",),
        errors=("ValueError",),
        messages=(r"DeepSpeed config values that mismatch TrainingArguments",),
        examples=(
            "ValueError: Please correct the following DeepSpeed config values that mismatch "
            "TrainingArguments values: - ds train_micro_batch_size_per_gpu=4 vs hf "
            "per_device_train_batch_size=8",
        ),
        why="The DeepSpeed file and the arguments of the Trainer set the same thing to two values; "
        "the message lists each pair.",
        fix='Write "auto" for these values in the DeepSpeed file (train_batch_size, '
        "train_micro_batch_size_per_gpu, gradient_accumulation_steps, gradient_clipping, lr, "
        "warmup, fp16 and bf16), and set them in the arguments alone.",
        sources=("deepspeed-batch",),
    ),
    Cause(
        id="inotify-limit-reached",
        refines=("disk-full",),
        errors=("OSError",),
        messages=(r"inotify (?:watch|instance)\w{0,3} limit reached",),
        examples=("OSError: [Errno 28] inotify watch limit reached",),
        why="Errno 28 is no full disk here: a program watches more files for changes than the "
        "system lets a user watch (TensorBoard, a reloading server, Streamlit, an editor).",
        fix="Raise the limit (sudo sysctl fs.inotify.max_user_watches=524288 "
        "fs.inotify.max_user_instances=1024), end what watches the directory of the outputs or of "
        "the data, or point it at a smaller one.",
        owner=Owner.ENVIRONMENT,
        commands=("sysctl fs.inotify",),
    ),
    Cause(
        id="cache-without-layers",
        refines=("missing-key",),
        errors=("KeyError",),
        messages=(r"Cache only has \d{1,4} layers, attempted to access layer",),
        examples=("KeyError: 'Cache only has 0 layers, attempted to access layer with index 0'",),
        why="A layer reads the cache of keys and values, and it is empty: gradient checkpointing "
        "runs the layer again without it, or an older model file or adapter (prefix tuning) meets "
        "a newer transformers.",
        fix="Train without the cache: model.config.use_cache = False. For a model file of its own "
        "(trust_remote_code) or a PEFT method that passes past_key_values install the transformers "
        "that it was written for, or upgrade peft.",
        commands=("python -m pip show transformers peft",),
    ),
    Cause(
        id="mask-not-aligned",
        errors=("RuntimeError",),
        messages=(r"attn_bias_ptr is not correctly aligned|attn_bias is not correctly aligned",),
        examples=("RuntimeError: p.attn_bias_ptr is not correctly aligned",),
        why="The memory-efficient attention reads the mask in blocks: its last dimension, or the "
        "place where a slice of it begins, is no multiple of 8 elements.",
        fix="Pad the length of the keys to a multiple of 8 (pad_to_multiple_of=8) and pass "
        "mask.contiguous() in place of an expanded or sliced one; or use a causal or no mask "
        "(is_causal=True), or SDPA's math or cuDNN kernel for this call.",
    ),
)
