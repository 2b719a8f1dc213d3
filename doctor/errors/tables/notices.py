"""What libraries print once at the start and go on: a setting that makes the run slow or wrong."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="recompiled-too-often",
        refines=("compiled-model-refused",),
        messages=(r"torch\._dynamo hit config\.(?:accumulated_)?(?:recompile_limit|"
            r"cache_size_limit|recompile_limit_\w{1,20})",),
        examples=("W0716 01:09:47.676000 567101 torch/_dynamo/convert_frame.py:984] [0/8] "
            "torch._dynamo hit config.recompile_limit (8)",),
        why="A function was compiled anew for each form of its arguments (a length, a number, "
            "an object that changes), until the limit: from then on it runs uncompiled, so that "
            "the minutes of compilation brought nothing.",
        fix="Read the last reason below the line. A size: compile with dynamic=True, or "
            "torch._dynamo.mark_dynamic on that dimension, or pad to a few lengths (buckets). A "
            "number or an attribute that changes, such as a step: keep it in a tensor or out of "
            "the compiled function. Raise torch._dynamo.config.recompile_limit only where the "
            "forms are few.",
        commands=("TORCH_LOGS=recompiles python train.py",),
        title="torch.compile does not give up on a function", sources=("torch-dynamo",),
        role="warning", code="LOG109"),
    Cause(id="shards-fewer-than-workers",
        messages=(r"Too many dataloader workers: \d{1,4} \(max is dataset\.(?:num|"
            r"n)_shards=\d{1,6}\)",
            "[Ww]orkers? (?:without|with no) (?:a |any )?(?:shards?|files?)|(?:not enough|fewer|"
            "less) shards (?:than|for)(?: the)?(?: number of)? (?:dataloader |data )?workers"),
        examples=("Too many dataloader workers: 16 (max is dataset.num_shards=1). Stopping 15 "
            "dataloader workers.",
            "rank 2: 1 shard; workers without a shard: 3/4"),
        why="A streamed data set is divided by its shards (files): a worker without one stops, "
            "and the others prepare all data. A rank with fewer shards than the others ends its "
            "epoch earlier, and the others wait for it.",
        fix="Store the data in at least as many shards as ranks x workers, best a multiple of "
            "it with equal sizes (to_iterable_dataset(num_shards=...), more files, smaller tar "
            "files), or lower num_workers to the number of shards; with WebDataset resample "
            "(resampled=True, with_epoch).",
        title="A stream has a shard for each loader worker", explains=("nccl-timeout",),
        sources=("datasets-6623",), role="warning", code="LOG110"),
    Cause(id="samples-come-twice",
        messages=(r"Length of IterableDataset .{1,300} was reported to be \d{1,12}",),
        examples=("UserWarning: Length of IterableDataset <data.Stream object at 0x7f> was "
            "reported to be 3125 (when accessing len(dataloader)), but 3126 samples have been "
            "fetched. For multiprocessing data-loading, this could be caused by not properly "
            "configuring the IterableDataset replica at each worker.",),
        why="More batches come than the data set says it has: with several workers each of them "
            "runs the whole __iter__, so that every sample comes once per worker.",
        fix="Divide the work in __iter__: info = torch.utils.data.get_worker_info(), then every "
            "info.num_workers-th sample from info.id on (and every world_size-th for the rank). "
            "If there is one worker, correct __len__: samples, not batches, or rounded down.",
        title="Each worker of a stream gives its own samples", sources=("torch-dataloader",),
        role="warning", code="LOG111"),
    Cause(id="no-batches-to-train",
        messages=(r"`?[Tt]rainer\.fit`? stopped: No training batches|Total length of "
            r"[`'\"]?\w{1,40}[`'\"]? across ranks is zero",),
        examples=("`Trainer.fit` stopped: No training batches.",),
        wordings=(
            Wording(r"No data found\. Please verify arguments|(?<![\d.])0 train images with "
                "repeating",
                "0 train images with repeating.",
                "sd-scripts found no image: it reads directories whose names begin with a number "
                "of repeats, below train_data_dir.",
                "Put the images into a directory named N_NAME, such as 10_cat for ten repeats, "
                "and give the directory above it as train_data_dir.",
                more=("No data found. Please verify arguments (train_data_dir must be the parent "
                    "of folders with images)",)),),
        why="The loader has no batch: the run ends at once and looks as if it had succeeded.",
        fix="Print len(dataset) and len(loader). Look for a path or a split that is empty, a "
            "filter that drops all, drop_last with fewer samples than a batch on each rank, and "
            "limit_train_batches that rounds to 0.",
        title="There are batches to train on", sources=("torch-dataloader",),
        role="warning", code="LOG112"),
    Cause(id="prompt-tokens-differ",
        messages=(r"Mismatch between tokenized prompt and the start of tokenized prompt\+",),
        examples=("Mismatch between tokenized prompt and the start of tokenized "
            "prompt+completion. This may be due to unexpected tokenizer behavior, whitespace "
            "issues, or special token handling.",),
        why="The length of the prompt's tokens says where the answer begins. Where the prompt "
            "is tokenized in another way alone, the boundary is off by some tokens: a part of "
            "the prompt is trained, or the beginning of the answer is not.",
        fix="Let the prompt end where a token ends: no space or newline at its end (put it at "
            "the beginning of the answer), the special tokens once, and for chats "
            "apply_chat_template(..., add_generation_prompt=True) for the prompt; templates "
            "that insert a thinking block need prompt and answer as messages. Then decode the "
            "trained labels of one sample.",
        title="The prompt has the same tokens alone and before its answer",
        sources=("transformers-tokenization",), role="warning", code="LOG113"),
    Cause(id="adapter-added-twice",
        messages=("Already found a `?peft_config`? attribute in the model",),
        examples=("UserWarning: Already found a `peft_config` attribute in the model. This will "
            "lead to having multiple adapters in the model. Make sure to know what you are "
            "doing!",),
        why="get_peft_model was applied to a model that has an adapter: the first one stays in "
            "the model, frozen or untrained, and is saved and merged with the other name.",
        fix="Load the adapter with PeftModel.from_pretrained(base, path, is_trainable=True) to "
            "go on with it, or merge it first (merge_and_unload); for a new one begin with the "
            "base model, and restart a notebook's kernel.",
        title="An adapter is added once", sources=("peft-lora",), role="warning", code="LOG114"),
    Cause(id="packed-samples-mix",
        messages=(r"(?:Padding-free training is enabled|You are using packing), but the attention "
            r"implementation is not set to",),
        examples=("UserWarning: Padding-free training is enabled, but the attention "
            "implementation is not set to 'flash_attention_2'.",
            "You are using packing, but the attention implementation is not set to a supported "
            "flash attention variant."),
        why="Several samples stand in one row without padding. Kernels of flash attention are told "
            "where each ends; with another attention it depends on the release: transformers 5.23 "
            "divides them by their position_ids with sdpa and eager as well (tried on a CPU); in "
            "older releases a sample may read those before it.",
        fix="Test it: compare the logits of a sample that is packed behind another one with those "
            "of the sample alone. If they are equal, nothing is wrong. Else load the model with "
            "attn_implementation='flash_attention_2' (or a flash kernel of the hub, "
            "kernels-community/flash-attn2), or switch packing and padding_free off.",
        sources=("trl-padding-free",)),
    Cause(id="merged-into-quantized",
        messages=(r"Merge lora module to \d-bit linear may get different",),
        examples=("UserWarning: Merge lora module to 4-bit linear may get different generations "
            "due to rounding errors.",),
        why="The adapter is added to weights of 4 or 8 bits and the sum is rounded to them again, "
            "by which much of what was learned can get lost.",
        fix="Merge in 16 bits: load the base without a quantization (dtype=torch.bfloat16), "
            "PeftModel.from_pretrained(base, ADAPTER).merge_and_unload(), save, and quantize the "
            "result if it is to be small; or serve base and adapter unmerged. Compare logits of "
            "one prompt before and after.",
        commands=("doctor scan MERGED --merged-from BASE --adapter ADAPTER",),
        title="An adapter is merged into weights of 16 bits", sources=("peft-2321",),
        role="warning", code="LOG116"),
)  # fmt: skip
