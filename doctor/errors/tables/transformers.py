"""Libraries of models, and weights that are loaded."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="padding-token-missing",
        errors=("ValueError",),
        messages=(
            r"tokenizer does not have a padding token",
            r"Asking to pad but the tokenizer",
            r"if no padding token is defined",
        ),
        examples=(
            "ValueError: Asking to pad but the tokenizer does not have a padding token.",
            "ValueError: Cannot handle batch sizes > 1 if no padding token is defined.",
        ),
        why="The tokenizer, or the model's configuration, has no padding token: batches of texts "
        "of different lengths need it, and the model finds the end of each text by it.",
        fix="Set tokenizer.pad_token = tokenizer.eos_token, or add a token of its own and call "
        "resize_token_embeddings; then set it in the model's configuration, "
        "model.config.pad_token_id = tokenizer.pad_token_id.",
    ),
    Cause(
        id="texts-unpadded",
        errors=("ValueError",),
        messages=(r"Unable to create tensor, you should probably",),
        examples=(
            "ValueError: Unable to create tensor, you should probably activate truncation and/or "
            "padding with 'padding=True' 'truncation=True'",
        ),
        why="Texts of different lengths do not make a tensor.",
        fix="Pass padding=True and truncation=True to the tokenizer, or use a data collator that "
        "pads; labels need padding of their own (DataCollatorForSeq2Seq, "
        "DataCollatorForTokenClassification).",
    ),
    Cause(
        id="labels-missing",
        errors=("ValueError", "TypeError"),
        messages=(r"did not return a loss from the inputs", r"returned no loss but \w{0,60}Output"),
        examples=(
            "ValueError: The model did not return a loss from the inputs",
            "TypeError: the forward pass returned no loss but CausalLMOutputWithPast with logits, "
            "past_key_values",
        ),
        why="A model of transformers computes a loss only if it gets labels.",
        fix="Add labels to the batch, under that name: for a causal language model they are a "
        "copy of input_ids, with -100 where nothing is to be learned, as "
        "DataCollatorForLanguageModeling(tokenizer, mlm=False) makes them. Columns that forward "
        "does not name are removed unless remove_unused_columns=False. Or return (module, batch, "
        "loss) from the factory, with a loss(module, batch).",
    ),
    Cause(
        id="decoder-start-token",
        errors=("ValueError",),
        messages=(r"decoder_start_token_id has to be defined", r"set the decoder_start_token_id"),
        examples=(
            "ValueError: Make sure to set the decoder_start_token_id attribute of the model's "
            "configuration.",
            "ValueError: self.model.config.decoder_start_token_id has to be defined.",
        ),
        why="The inputs of a decoder are made of the labels, beginning with a token that the "
        "configuration lacks.",
        fix="Set decoder_start_token_id in the model's configuration, from which the inputs of "
        "the decoder are made of the labels: the pad token for T5, the token that begins a text "
        "(decoder.config.bos_token_id, cls_token_id of the tokenizer) for others.",
    ),
    Cause(
        id="adapter-modules",
        errors=("ValueError",),
        messages=(r"not found in the base model",),
        examples=(
            "NoMatchingPeftModuleError: Target modules {'value', 'query'} not found in the base "
            "model. Please check the target modules and try again.",
        ),
        why="target_modules names no module of this model.",
        fix="Choose target_modules among the linear modules of this model "
        "(model.named_modules()), or pass target_modules='all-linear'.",
    ),
    Cause(
        id="flash-attention-missing",
        errors=("ImportError",),
        refines=("import-failed",),
        messages=(
            r"has been toggled on, but it cannot be used",
            r"No module named 'flash_attn'|requires? the following packages .{0,80}flash_attn|"
            r"packages that were not found in your environment: flash_attn",
        ),
        examples=(
            "ModuleNotFoundError: No module named 'flash_attn'",
            "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the "
            "following error: the package flash_attn seems to be not installed.",
        ),
        why="The package flash-attn is not installed, or not for this torch.",
        fix="Load the model with attn_implementation='sdpa', torch's own kernel, or install "
        "flash-attn into this environment: its prebuilt wheel for this torch, CUDA and Python, or "
        "pip install flash-attn --no-build-isolation where nvcc is.",
        commands=("python -m pip show flash-attn torch",),
    ),
    Cause(
        id="precision-without-gpu",
        errors=("ValueError",),
        messages=(
            r"mixed precision requires a GPU",
            r"doesn't support bf16/gpu",
            r"requires Ampere or a newer GPU",
            r"can only be used on CUDA devices",
        ),
        examples=(
            "ValueError: fp16 mixed precision requires a GPU (not 'cpu').",
            "ValueError: Your setup doesn't support bf16/gpu.",
            "ValueError: --tf32 requires Ampere or a newer GPU arch, cuda>=11 and torch>=1.7",
            "ValueError: FP16 Mixed precision training with AMP or APEX (`--fp16`) and FP16 half "
            "precision evaluation (`--fp16_full_eval`) can only be used on CUDA devices.",
        ),
        why="The precision of the arguments needs a GPU that supports it.",
        fix="Choose the precision by the device: fp16 and bf16 arguments of the Trainer need a "
        "GPU that supports them (bf16=torch.cuda.is_bf16_supported()).",
    ),
    Cause(
        id="training-data-missing",
        errors=("ValueError",),
        messages=(r"training requires a train_dataset",),
        examples=("ValueError: Trainer: training requires a train_dataset.",),
        why="The Trainer got no train_dataset.",
        fix="Pass the data to the Trainer: Trainer(train_dataset=...).",
    ),
    Cause(
        id="hyperparameters-missing",
        errors=("AttributeError", "KeyError"),
        messages=(r"'AttributeDict' object has no attribute", r"Missing attribute \""),
        examples=(
            'AttributeError: Missing attribute "lr"',
            "AttributeError: 'AttributeDict' object has no attribute 'lr'",
        ),
        why="The value is not among the saved hyperparameters of the LightningModule.",
        fix="Call self.save_hyperparameters() in __init__ of the LightningModule, and let "
        "__init__ take that name as an argument.",
    ),
    Cause(
        id="trainer-not-attached",
        errors=("RuntimeError",),
        messages=(r"not attached to a `Trainer`",),
        examples=("RuntimeError: Lit is not attached to a `Trainer`.",),
        why="The LightningModule runs without a Trainer.",
        fix="Do not use self.trainer in training_step, or return (module, batch, loss) from the "
        "factory with a loss of your own.",
    ),
    Cause(
        id="state-dict-keys",
        errors=("RuntimeError",),
        messages=(
            r"loading state_dict for",
            r"Missing key\(s\) in state_dict",
            r"Unexpected key\(s\) in state_dict",
        ),
        examples=(
            "RuntimeError: Error(s) in loading state_dict for Net:\n"
            '\tUnexpected key(s) in state_dict: "module.fc.weight".',
            "RuntimeError: Error(s) in loading state_dict for Deeper: Missing key(s) in "
            'state_dict: "norm.weight", "norm.bias". ',
        ),
        why="The file's names or shapes are not those of the model: a prefix of a wrapper, a "
        "whole checkpoint around the weights, another model, or a head of another size.",
        fix="Compare the keys. Where each unexpected key is a missing one with a prefix (module. "
        "of DataParallel and DDP, _orig_mod. of torch.compile), remove it: "
        "{key.removeprefix('module.'): value for key, value in state.items()}. Keys such as epoch "
        "and optimizer are those of a whole checkpoint: load the weights in it, "
        "checkpoint['model']. Otherwise load the file into the model that wrote it; strict=False "
        "skips layers that are new or were removed. `doctor scan FILE` lists its tensors.",
    ),
    Cause(
        id="model-as-weights",
        errors=("TypeError",),
        messages=(r"Expected state_dict to be dict-like",),
        examples=("TypeError: Expected state_dict to be dict-like, got <class 'blocks.MLP'>.",),
        why="The file holds a whole model.",
        fix="Pass a state dict: model.load_state_dict(loaded.state_dict()), since the file holds "
        "a whole model.",
    ),
)
