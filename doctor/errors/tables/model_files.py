"""The files of a model directory, as the probe of `--hf` and transformers report them."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

SCAN = ("doctor scan DIRECTORY",)

ROWS = (
    Cause(
        id="weights-not-in-the-files",
        sources=("transformers-loading-report",),
        errors=("RuntimeError",),
        messages=(r"parameters were not loaded, because the files do not have them",),
        examples=(
            "12 of 38 parameters were not loaded, because the files do not have them: model.a.b",
        ),
        why="The files hold another model, or a part of this one: transformers initializes what "
        "it does not find and only warns.",
        fix="Compare the names in the files with those in the summary: take the files that belong "
        "to config.json, or save the whole model again with save_pretrained.",
        commands=SCAN,
    ),
    Cause(id="model-directory-damaged",
        errors=("RuntimeError", "OSError", "ValueError"),
        wordings=(
            Wording("parameters have another shape in the files|You set "
                "`ignore_mismatched_sizes`",
                "parameters have another shape in the files: embed.weight [100, 32] in the "
                "files, [96, 32] by config.json",
                "config.json and the weights are of two models, or the vocabulary was resized "
                "after config.json was written.",
                "Take the config.json that was saved with these weights, or correct the size in "
                "which both shapes differ (vocab_size, hidden_size, intermediate_size). After "
                "resize_token_embeddings, save model and tokenizer together with "
                "save_pretrained.",
                ("doctor scan DIRECTORY",),
                more=("RuntimeError: You set `ignore_mismatched_sizes` to `False`, thus raising "
                    "an error. For details look at the above report!",)),
            Wording("and none of the .{1,12} tensors of the files is quantized",
                "config.json has a quantization_config of bitsandbytes, and none of the 291 "
                "tensors of the files is quantized: they are BF16",
                "The weights were merged or dequantized and saved, and the setting of the "
                "quantized model was saved with them.",
                "Remove quantization_config from config.json: the weights are whole ones, and no "
                "package for quantized ones is needed."),
            Wording(r"names \d+ files? that the directory does not have",
                "model.safetensors.index.json names 1 file that the directory does not have: "
                "model-00002-of-00004.safetensors",
                "The copy of the directory ended before the last file, or a file was left out.",
                "Copy the files in the summary into the directory from where it came from (hf "
                "download REPOSITORY --local-dir DIRECTORY continues where it stopped), or save "
                "the model again.",
                ("doctor scan DIRECTORY",)),
            Wording(r"safetensors is cut off: it has \d+ of \d+ bytes",
                "model.safetensors is cut off: it has 4096 of 8192 bytes",
                "The file was not written or copied to its end: the disk was full, the quota "
                "reached, or the process ended before.",
                "Copy this file again from where it came from, or save the model again, with "
                "room for the whole file; then compare the sizes.",
                ("doctor scan DIRECTORY",)),
            Wording(r"config\.json is not valid JSON|It looks like the config file at .{1,300} "
                r"is not a valid JSON file",
                "config.json is not valid JSON: Expecting ',' delimiter: line 3 column 5 (char "
                "40)",
                "The file was edited by hand, or its end is missing.",
                "Correct the line that the message names, or take config.json again from where "
                "the model came from.",
                ("python -m json.tool config.json",),
                more=("OSError: It looks like the config file at '/a/config.json' is not a "
                    "valid JSON file.",)),
            Wording("parameters were not loaded: in the files their names",
                "38 of 38 parameters were not loaded: in the files their names begin with "
                "'module.'",
                "The state was saved from a wrapper (DDP adds module., torch.compile "
                "_orig_mod.), or from a part of the model: transformers then initializes the "
                "parameters and only warns.",
                "Rename the tensors once, and save the directory again from the model that has "
                "them:\nstate = {name.removeprefix('module.'): value for name, value in "
                "state.items()}\nmodel.load_state_dict(state, strict=True); "
                "model.save_pretrained(DIRECTORY)\nSave the unwrapped model from then on: "
                "model.module, or accelerator.unwrap_model(model).",
                ("doctor scan DIRECTORY",))),
        why="The files of the directory are incomplete, cut off, or of two models.",
        sources=("transformers-loading-report", "transformers-configuration")),
    Cause(id="token-beyond-embedding",
        errors=("IndexError", "RuntimeError"),
        messages=(r"the tokenizer gives token \d+, and the model has \d+",),
        examples=("the tokenizer gives token 187, and the model has 160",),
        why="A token outside of the embedding is an IndexError on a CPU and a device-side "
            "assert on a GPU.",
        fix="Take the tokenizer that belongs to the model. If tokens were added, resize the "
            "model and save both:\nmodel.resize_token_embeddings(len(tokenizer))"),
    Cause(id="weights-not-loaded",
        messages=(r"were not initialized from the model checkpoint .{1,200}newly initialized: "
            r".{0,200}(?:\b(?:layers?|blocks?|h)\.\d{1,4}\.(?!self_attn\.rotary)\w|embed_tokens|"
            r"word_embeddings|\bwte)",
            r"missing_keys=\['[^\n]{0,3000}?(?:layers?|blocks?|stages?|layer\d|"
            r"h)\.\d[^\n]{0,3000}?unexpected_keys=\['[^\n]{0,3000}?(?:layers?|blocks?|stages?|"
            r"layer\d|h)\.\d",
            r"\b(?:[Tt]ransferred|[Ll]oaded|[Mm]atched) 0(?: ?/ ?| (?:of|out of) )[1-9]\d{0,6} "
            r"(?:items|keys|parameters|params|tensors|layers|weights)",
            "copying from a non-meta parameter in the checkpoint to a meta parameter in the "
            "current model, which is a no-op",
            "Found missing adapter keys while loading the checkpoint"),
        examples=("UserWarning: for lm_head.weight: copying from a non-meta parameter in the "
            "checkpoint to a meta parameter in the current model, which is a no-op. (Did you "
            "mean to pass `assign=True`",
            "UserWarning: Found missing adapter keys while loading the checkpoint: "
            "['base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight']",
            "Some weights of LlamaForCausalLM were not initialized from the model checkpoint at "
            "runs/ckpt-4000 and are newly initialized: ['model.layers.0.mlp.up_proj.weight', "
            "'model.embed_tokens.weight']",
            "missing_keys=['patch_embed.proj.weight', 'blocks.0.norm1.weight'], "
            "unexpected_keys=['module.patch_embed.proj.weight', 'module.blocks.0.norm1.weight']",
            "Transferred 0/499 items from pretrained weights"),
        why="Layers and embeddings, not only a new head, start from random numbers: the names "
            "in the file are not those of the model (a prefix such as module., _orig_mod. or "
            "base_model.model., an adapter or a shard alone, another architecture).",
        fix="Compare the names: doctor scan FILE prints those of the file. Load an adapter with "
            "PeftModel.from_pretrained on its base, join shards first (zero_to_fp32.py, "
            "merge_fsdp_weights), save the unwrapped model, and name the class that the file is "
            "of.",
        commands=("doctor scan FILE",),
        title="The checkpoint has the weights of the model's body",
        sources=("transformers-30381",), role="warning", next_check="CKP012", code="LOG078"),
    Cause(id="engine-refuses-weights",
        messages=(r"There is no module or parameter named '[\w.]{1,120}' in \w+",
            r"Following weights were not initialized from checkpoint: ",),
        examples=("There is no module or parameter named 'lm_head' in Qwen3ForCausalLM",
            "Following weights were not initialized from checkpoint: {'lm_head.weight'}"),
        why="The engine (vLLM, SGLang) builds the model that config.json names, and the files "
            "have tensors of other names: an adapter or a wrapper's prefix in them, tied "
            "embeddings that one side has and the other has not, or an architecture that the "
            "release knows otherwise.",
        fix="doctor scan DIRECTORY prints the names. Prefixes (base_model.model., module., "
            "_orig_mod., model.language_model.): merge the adapter and save the unwrapped model. "
            "lm_head alone: tie_word_embeddings in config.json must be as in the training. Else "
            "config.json of the base, or a newer engine.",
        commands=("doctor scan DIRECTORY",)),
)  # fmt: skip
