"""The files of a model directory, as the probe of `--hf` and transformers report them."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

SCAN = ("doctor scan DIRECTORY",)

ROWS = (
    Cause(
        id="checkpoint-arguments-differ",
        errors=("AssertionError",),
        messages=(
            r"value from checkpoint \([^\n)]{1,60}\) is not equal to the (?:input )?argument value",
        ),
        examples=(
            "AssertionError: padded_vocab_size value from checkpoint (32000) is not equal to the "
            "input argument value (32256).",
            "AssertionError: num_layers value from checkpoint (32) is not equal to the input "
            "argument value (40).",
        ),
        why="Megatron compares the arguments of the run with those that the checkpoint was saved "
        "or converted with, and this one differs. padded_vocab_size is the tokenizer's size with "
        "its added tokens, rounded up to a multiple of make-vocab-size-divisible-by times the "
        "tensor parallel size.",
        fix="Give the value of the checkpoint, or --use-checkpoint-args. padded_vocab_size: use "
        "the checkpoint's tokenizer without further tokens (vocab-extra-ids, --no-new-tokens), "
        "choose --make-vocab-size-divisible-by so that both give one number, or convert the "
        "checkpoint again with the tokenizer, the extra tokens and the tensor parallel size of "
        "this run.",
    ),
    Cause(
        id="weights-under-other-names",
        errors=("RuntimeError",),
        messages=(r"parameters were not loaded: in the files their names",),
        examples=(
            "38 of 38 parameters were not loaded: in the files their names begin with 'module.'",
        ),
        why="The state was saved from a wrapper (DDP adds module., torch.compile _orig_mod.), or "
        "from a part of the model: transformers then initializes the parameters and only warns.",
        fix="Rename the tensors once, and save the directory again from the model that has them:\n"
        "state = {name.removeprefix('module.'): value for name, value in state.items()}\n"
        "model.load_state_dict(state, strict=True); model.save_pretrained(DIRECTORY)\n"
        "Save the unwrapped model from then on: model.module, or accelerator.unwrap_model(model).",
        commands=SCAN,
    ),
    Cause(
        id="weights-not-in-the-files",
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
    Cause(
        id="model-directory-damaged",
        errors=(
            "RuntimeError",
            "OSError",
            "ValueError",
        ),
        wordings=(
            Wording(
                r"parameters have another shape in the files|You set `ignore_mismatched_sizes`",
                "parameters have another shape in the files: embed.weight [100, 32] in the files, "
                "[96, 32] by config.json",
                "config.json and the weights are of two models, or the vocabulary was resized "
                "after config.json was written.",
                "Take the config.json that was saved with these weights, or correct the size in "
                "which both shapes differ (vocab_size, hidden_size, intermediate_size). After "
                "resize_token_embeddings, save model and tokenizer together with save_pretrained.",
                commands=SCAN,
                more=(
                    "RuntimeError: You set `ignore_mismatched_sizes` to `False`, thus raising an "
                    "error. For details look at the above report!",
                ),
            ),
            Wording(
                r"names \d+ files? that the directory does not have",
                "model.safetensors.index.json names 1 file that the directory does not have: "
                "model-00002-of-00004.safetensors",
                "The copy of the directory ended before the last file, or a file was left out.",
                "Copy the files in the summary into the directory from where it came from (hf "
                "download REPOSITORY --local-dir DIRECTORY continues where it stopped), or save "
                "the model again.",
                commands=SCAN,
            ),
            Wording(
                r"safetensors is cut off: it has \d+ of \d+ bytes",
                "model.safetensors is cut off: it has 4096 of 8192 bytes",
                "The file was not written or copied to its end: the disk was full, the quota "
                "reached, or the process ended before.",
                "Copy this file again from where it came from, or save the model again, with room "
                "for the whole file; then compare the sizes.",
                commands=SCAN,
            ),
            Wording(
                r"config\.json is not valid JSON|It looks like the config file at .{1,300} is not "
                r"a valid JSON file",
                "config.json is not valid JSON: Expecting ',' delimiter: line 3 column 5 (char 40)",
                "The file was edited by hand, or its end is missing.",
                "Correct the line that the message names, or take config.json again from where the "
                "model came from.",
                commands=("python -m json.tool config.json",),
                more=(
                    "OSError: It looks like the config file at '/a/config.json' is not a valid "
                    "JSON file.",
                ),
            ),
        ),
        why="The files of the directory are incomplete, cut off, or of two models.",
        sources=(
            "transformers-loading-report",
            "transformers-configuration",
        ),
    ),
    Cause(
        id="model-type-unknown",
        errors=("ValueError", "RuntimeError"),
        messages=(
            r"does not know model_type",
            r"has model type `[^`]{1,80}` but Transformers does not recognize",
        ),
        examples=(
            "transformers 4.40.0 does not know model_type 'qwen3' of config.json, which "
            "transformers 4.51.0 wrote",
            "ValueError: The checkpoint you are trying to load has model type `qwen3` but "
            "Transformers does not recognize this architecture.",
        ),
        why="The model is newer than the installed transformers, or its type is written wrong.",
        fix="Upgrade transformers, at least to the version that wrote config.json:\npython -m pip "
        "install --upgrade transformers\nIf the newest does not know the type either, the model "
        "needs code of its own: name a factory with --model.",
        commands=("python -m pip show transformers",),
        sources=("transformers-auto-config",),
    ),
    Cause(
        id="quantizer-absent",
        errors=("ImportError",),
        messages=(r"quantization requires .{1,60}`pip install",),
        examples=(
            "ImportError: Using `bitsandbytes` 4-bit quantization requires bitsandbytes: `pip "
            "install -U bitsandbytes>=0.46.1`",
        ),
        why="config.json quantizes the weights with a package that the interpreter lacks.",
        fix="Install the package that the message names into the training environment, or omit "
        "--weights: the layers are then built without quantization.",
        owner=Owner.ENVIRONMENT,
        sources=("transformers-bnb",),
    ),
    Cause(
        id="token-beyond-embedding",
        errors=("IndexError", "RuntimeError"),
        messages=(r"the tokenizer gives token \d+, and the model has \d+",),
        examples=("the tokenizer gives token 187, and the model has 160",),
        why="A token outside of the embedding is an IndexError on a CPU and a device-side assert "
        "on a GPU.",
        fix="Take the tokenizer that belongs to the model. If tokens were added, resize the model "
        "and save both:\nmodel.resize_token_embeddings(len(tokenizer))",
    ),
    Cause(
        id="pickled-weights-refused",
        errors=("ValueError",),
        messages=(r"serious vulnerability issue in `?torch\.load",),
        examples=("ValueError: Due to a serious vulnerability issue in `torch.load`, even with",),
        why="transformers loads no .bin files with a torch below 2.6 (CVE-2025-32434).",
        fix="Upgrade torch to 2.6 or newer, or load a repository or revision with safetensors "
        "(use_safetensors=True; another branch, such as refs/pr/N, often has them).",
        owner=Owner.ENVIRONMENT,
        sources=("transformers-imports",),
    ),
    Cause(
        id="weights-not-loaded",
        code="LOG078",
        title="The checkpoint has the weights of the model's body",
        messages=(
            r"were not initialized from the model checkpoint .{1,200}newly initialized: .{0,200}"
            r"(?:\b(?:layers?|blocks?|h)\.\d{1,4}\.(?!self_attn\.rotary)\w|embed_tokens|"
            r"word_embeddings|\bwte)",
            r"missing_keys=\['[^\n]{0,3000}?(?:layers?|blocks?|stages?|layer\d|h)\.\d"
            r"[^\n]{0,3000}?unexpected_keys=\['[^\n]{0,3000}?(?:layers?|blocks?|stages?|layer\d|h)"
            r"\.\d",
            r"\b(?:[Tt]ransferred|[Ll]oaded|[Mm]atched) 0(?: ?/ ?| (?:of|out of) )[1-9]\d{0,6} "
            r"(?:items|keys|parameters|params|tensors|layers|weights)",
            r"copying from a non-meta parameter in the checkpoint to a meta parameter in the "
            r"current model, which is a no-op",
            r"Found missing adapter keys while loading the checkpoint",
        ),
        examples=(
            "UserWarning: for lm_head.weight: copying from a non-meta parameter in the checkpoint "
            "to a meta parameter in the current model, which is a no-op. (Did you mean to pass "
            "`assign=True`",
            "UserWarning: Found missing adapter keys while loading the checkpoint: "
            "['base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight']",
            "Some weights of LlamaForCausalLM were not initialized from the model checkpoint at "
            "runs/ckpt-4000 and are newly initialized: ['model.layers.0.mlp.up_proj.weight', "
            "'model.embed_tokens.weight']",
            "missing_keys=['patch_embed.proj.weight', 'blocks.0.norm1.weight'], unexpected_keys=["
            "'module.patch_embed.proj.weight', 'module.blocks.0.norm1.weight']",
            "Transferred 0/499 items from pretrained weights",
        ),
        why="Layers and embeddings, not only a new head, start from random numbers: the names in "
        "the file are not those of the model (a prefix such as module., _orig_mod. or "
        "base_model.model., an adapter or a shard alone, another architecture).",
        fix="Compare the names: doctor scan FILE prints those of the file. Load an adapter with "
        "PeftModel.from_pretrained on its base, join shards first (zero_to_fp32.py, "
        "merge_fsdp_weights), save the unwrapped model, and name the class that the file is of.",
        role="warning",
        commands=("doctor scan FILE",),
        sources=("transformers-30381",),
        next_check="CKP012",
    ),
)
