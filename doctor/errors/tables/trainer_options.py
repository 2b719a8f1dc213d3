"""Options of trainers, columns of data sets, chats: Trainer, TRL, Lightning."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(
        id="trainer-settings",
        errors=("ValueError",),
        wordings=(
            Wording(
                r"load_best_model_at_end`? requires the sav(?:e|ing) (?:and eval|steps to be)",
                "ValueError: --load_best_model_at_end requires the save and eval strategy to "
                "match, but found",
                "The best checkpoint can be chosen only if each checkpoint is evaluated.",
                "Set eval_strategy and save_strategy to the same value, and save_steps to a "
                "multiple of eval_steps; or load_best_model_at_end=False.",
            ),
            Wording(
                r"max_steps`? must be set to a positive value if dataloader does not have a "
                r"length|does not implement __len__, max_steps",
                "ValueError: args.max_steps must be set to a positive value if dataloader does "
                "not have a length, was -1",
                "A streamed data set has no length, so that epochs cannot be counted in steps.",
                "Set max_steps (samples x epochs / samples per step over all ranks), or load "
                "the data set without streaming=True.",
            ),
            Wording(
                r"evaluation requires an eval_dataset|you didn't pass an `?eval_dataset",
                "ValueError: Trainer: evaluation requires an eval_dataset.",
                "The Trainer is to evaluate and has no data for it.",
                "Pass eval_dataset= to the Trainer (dataset.train_test_split(0.05)), or "
                'eval_strategy="no" and load_best_model_at_end=False.',
            ),
            Wording(
                r"training requires a train_dataset",
                "ValueError: Trainer: training requires a train_dataset.",
                "The Trainer got no train_dataset.",
                "Pass the data to the Trainer: Trainer(train_dataset=...).",
            ),
        ),
        why="Settings of the Trainer contradict each other, or need data that it was not given.",
        sources=("transformers-training-args",),
    ),
    Cause(
        id="columns-dropped",
        errors=("ValueError", "IndexError", "TypeError", "KeyError"),
        messages=(
            r"No columns in the dataset match the model's forward",
            r"Invalid key: \d{1,12} is out of bounds for size 0",
            r"You should supply an encoding or a list of encodings",
            r"forward\(\) missing \d{1,2} required positional arg",
        ),
        examples=(
            "ValueError: No columns in the dataset match the model's forward method signature. "
            "The following columns have been ignored: [text].",
            "IndexError: Invalid key: 5 is out of bounds for size 0",
            "ValueError: You should supply an encoding or a list of encodings to this method that "
            "includes input_ids, but you provided ['label']",
            "TypeError: Ranker.forward() missing 1 required positional argument: 'tokens'",
        ),
        told_by="a Trainer makes the batch",
        why="The Trainer drops every column that the model's forward does not name, and none or "
        "too few are left: the data are not tokenized yet, or their names differ.",
        fix="Tokenize first, with columns called input_ids, attention_mask and labels "
        "(dataset.map(tokenize, batched=True, remove_columns=dataset.column_names)); or set "
        "remove_unused_columns=False where a collator makes the batch. With PEFT name them in "
        "label_names.",
        commands=(
            'python -c "import datasets, sys; print(datasets.load_from_disk(sys.argv[1]))" DATASET',
        ),
        sources=("transformers-trainer",),
    ),
    Cause(
        id="sequence-beyond-positions",
        messages=(
            r"sequence length is longer than the specified maximum sequence length for this model "
            r"\(\d{1,9} > \d{1,9}\)",
        ),
        examples=(
            "Token indices sequence length is longer than the specified maximum sequence length "
            "for this model (1045 > 512). Running this sequence through the model will result in "
            "indexing errors",
        ),
        why="A text has more tokens than the model has positions; models with a table of "
        "positions fail at the next step (index out of range, size of tensor a must match).",
        fix="Truncate: tokenizer(text, truncation=True, max_length=512), or split texts into "
        "pieces. It is no trouble where the ids are only counted or cut into blocks afterwards.",
        role="condition",
        explains=("embedding-index-beyond", "differing-sizes"),
        sources=("transformers-tokenization",),
    ),
    Cause(
        id="generations-do-not-divide-batch",
        errors=("ValueError",),
        messages=(
            r"evenly divisible by the number of generations per prompt|generation_batch_size "
            r".{0,80}divisible by num_generations|batch.{0,80}divisible by `?num_generations",
        ),
        examples=(
            "ValueError: The global train batch size (8 x 1) must be evenly divisible by the "
            "number of generations per prompt (3). Given the current train batch size, the valid "
            "values for the number of generations are: [2, 4, 8].",
        ),
        why="GRPO spreads the answers to one prompt over the batch of all ranks.",
        fix="Choose num_generations as a divisor of per_device_train_batch_size x number of ranks "
        "x gradient_accumulation_steps; the message lists the valid values. num_generations is at "
        "least 2.",
        sources=("trl-grpo-config",),
    ),
    Cause(
        id="monitored-in-the-wrong-direction",
        messages=(
            r"monitor['\"]?[=:] ?['\"]?[\w/-]{0,40}(?:loss|perplexity|ppl|wer|cer|mae|mse|error)\b"
            r"[^\n]{0,160}mode['\"]?[=:] ?['\"]?max\b",
            r"monitor['\"]?[=:] ?['\"]?[\w/-]{0,40}(?:acc|accuracy|f1|auc|auroc|bleu|rouge\w?|map|"
            r"dice|iou|miou|psnr|ssim|recall|precision)\b[^\n]{0,160}mode['\"]?[=:] ?['\"]?min\b",
            r"metric_for_best_model['\"]?[=:] ?['\"]?[\w/-]{0,40}loss\b[^\n]{0,400}"
            r"greater_is_better['\"]?[=:] ?True",
        ),
        examples=(
            "ModelCheckpoint(monitor='val_loss', mode='max', save_top_k=1)",
            'EarlyStopping: monitor="val/acc", patience=3, mode="min"',
            "metric_for_best_model='eval_loss', greater_is_better=True",
        ),
        why="The best checkpoint is chosen, or the training stopped, in the wrong direction: the "
        "first and worst epoch counts as the best, and later ones are not kept.",
        fix="mode='min' for a loss or an error rate (greater_is_better=False), 'max' for an "
        "accuracy or a score; and save_last=True. Checkpoints that were not kept are lost: train "
        "again.",
    ),
    Cause(
        id="monitored-metric-missing",
        errors=("MisconfigurationException", "RuntimeError", "KeyError"),
        messages=(
            r"(?:not found|could not find the monitored key) in the returned metrics",
            r"which is not found in the evaluation metrics",
            r"Early stopping conditioned on metric `?\S{1,60}`? which is not available",
            r"KeyError: .{0,2}(?:The `metric_for_best_model|eval_\w{1,40})",
        ),
        examples=(
            "pytorch_lightning.utilities.exceptions.MisconfigurationException: "
            "ModelCheckpoint(monitor='val_loss') not found in the returned metrics: ['loss']. "
            "HINT: Did you call self.log('val_loss', value) in the LightningModule?",
            "RuntimeError: Early stopping conditioned on metric `val_loss` which is not available.",
            "KeyError: \"The `metric_for_best_model` training argument is set to 'eval_f1', which "
            "is not found in the evaluation metrics.",
            "KeyError: 'eval_loss'",
        ),
        why="A checkpoint, an early stop or a schedule watches a metric that the evaluation did "
        "not report: another name, no validation data, or an evaluation that had not run yet "
        "(also after an earlier exception).",
        fix='Lightning: call self.log("val_loss", loss) in validation_step, and write the same '
        "name in monitor=. Trainer: metric_for_best_model must be a key that compute_metrics "
        "returns (eval_loss needs labels: label_names for PEFT models), with eval_dataset and "
        "eval_strategy set.",
        sources=("transformers-trainer",),
    ),
    Cause(
        id="layer-class-to-wrap-unknown",
        errors=("ValueError", "Exception"),
        messages=(r"Could not find the transformer layer class",),
        examples=("ValueError: Could not find the transformer layer class to wrap in the model.",),
        why="FSDP was told to wrap a class that the model has not: another model's name in the "
        "configuration, or one inside of an adapter or a vision tower.",
        fix="Write the class of the repeated block of this model, as print(model) shows it, into "
        "fsdp_transformer_layer_cls_to_wrap (LlamaDecoderLayer, Qwen2DecoderLayer ...), or leave "
        "it out: the model's _no_split_modules are taken.",
        commands=("accelerate env",),
        sources=("accelerate-plugins",),
    ),
)
