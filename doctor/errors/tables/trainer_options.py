"""Options of trainers, columns of data sets, chats: Trainer, TRL, Lightning."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="trainer-settings",
        errors=("ValueError", "AttributeError", "ConfigError"),
        refines=("pip-refuses", "settings-refused", "api-changed", "attribute-missing"),
        wordings=(
            Wording("load_best_model_at_end`? requires the sav(?:e|ing) (?:and eval|steps to be)",
                "ValueError: --load_best_model_at_end requires the save and eval strategy to "
                "match, but found",
                "The best checkpoint can be chosen only if each checkpoint is evaluated.",
                "Set eval_strategy and save_strategy to the same value, and save_steps to a "
                "multiple of eval_steps; or load_best_model_at_end=False."),
            Wording("max_steps`? must be set to a positive value if dataloader does not have a "
                "length|does not implement __len__, max_steps",
                "ValueError: args.max_steps must be set to a positive value if dataloader does "
                "not have a length, was -1",
                "A streamed data set has no length, so that epochs cannot be counted in steps.",
                "Set max_steps (samples x epochs / samples per step over all ranks), or load "
                "the data set without streaming=True."),
            Wording("evaluation requires an eval_dataset|you didn't pass an `?eval_dataset",
                "ValueError: Trainer: evaluation requires an eval_dataset.",
                "The Trainer is to evaluate and has no data for it.",
                "Pass eval_dataset= to the Trainer (dataset.train_test_split(0.05)), or "
                'eval_strategy="no" and load_best_model_at_end=False.'),
            Wording("formatting function was provided while `completion_only_loss|"
                "formatting_func.{0,80}completion_only_loss",
                "ValueError: A formatting function was provided while "
                "`completion_only_loss=True`, which is incompatible.",
                "A formatting function makes one text of prompt and answer, so that nothing "
                "tells where the answer begins.",
                "Give columns prompt and completion (or messages) and no formatting_func, or "
                "completion_only_loss=False, which trains on the prompt as well."),
            Wording(r"no assistant tokens|assistant_only_loss=True[^\n]{0,300}(?:generation|"
                r"template)",
                "RuntimeError: You're using `assistant_only_loss=True`, but at least one "
                "example has no assistant tokens.",
                "The mask of the answers comes from {% generation %} in the chat template, "
                "which this one lacks, or max_length cut the answer off.",
                "Take a template with {% generation %} ... {% endgeneration %} around the "
                "answer (newer TRL patches those of known models), a longer max_length, or "
                "completion_only_loss with columns prompt and completion."),
            Wording(r"(?:dataset|data) is not conversational|only supported for conversational "
                r"data",
                "ValueError: You set `assistant_only_loss=True`, but the dataset is not "
                "conversational. This option is only supported for conversational datasets.",
                "Which tokens are an answer is read from the roles of messages, and this data set "
                "has plain text, or columns of other names.",
                "Give a column messages with role and content (or prompt and completion as lists "
                "of messages) and no dataset_text_field; for plain text set "
                "assistant_only_loss=False, or give columns prompt and completion with "
                "completion_only_loss=True."),
            Wording(r"DataCollatorForCompletionOnlyLM[^\n]{0,120}pack|"
                r"packing[^\n]{0,80}(?:DataCollatorForCompletionOnlyLM|not compatible|requires? "
                r"(?:flash|padding))",
                "ValueError: You passed a DataCollatorForCompletionOnlyLM to the SFTTrainer. "
                "This is not compatible with the `packing` argument.",
                "Packed sequences hold several samples, in which this collator finds only one "
                "answer, or which the attention must keep apart.",
                "packing=False with that collator, or completion_only_loss=True (columns prompt "
                "and completion) in newer TRL, which packs with masks and a flash attention."),
            Wording(r"'TrainingArguments' object has no attribute '(?:model_init_kwargs|"
                r"ref_model_init_kwargs|dataset_num_proc|dataset_text_field|dataset_kwargs|"
                r"max_seq_length|max_length|max_prompt_length|max_completion_length|padding_value|"
                r"padding_free|packing|beta|loss_type|disable_dropout|precompute_ref_log_probs|"
                r"num_generations|predict_with_generate|generation_\w{1,20}|"
                r"sortish_sampler)'",
                "AttributeError: 'TrainingArguments' object has no attribute 'model_init_kwargs'",
                "A trainer of TRL, or Seq2SeqTrainer, got TrainingArguments, which lack its own "
                "settings.",
                "Pass the configuration of that trainer in place of TrainingArguments, with the "
                "same arguments: DPOConfig for DPOTrainer, SFTConfig for SFTTrainer, "
                "RewardConfig for RewardTrainer, Seq2SeqTrainingArguments for Seq2SeqTrainer.",
                ("python -m pip show trl transformers",)),
            Wording(r"padding_free=True` without packing",
                "ValueError: When `padding_free=True` without packing, `max_length` is not "
                "enforced.",
                "Without padding the samples of a batch are one long sequence, which nothing cuts "
                "to max_length (Unsloth and newer TRL refuse this).",
                "Set packing=True with packing_strategy='bfd', or max_length=None for samples "
                "that are cut already, or padding_free=False."),
            Wording(r"ModelFor\w{2,20}WithValueHead' object has no attribute",
                "AttributeError: 'AutoModelForCausalLMWithValueHead' object has no attribute "
                "'warnings_issued'",
                "The model has a value head: a wrapper of older TRL for PPO, which lacks the "
                "attributes of a transformers model.",
                "Pass AutoModelForCausalLM (or its name) to GRPO, DPO and SFT. PPO since TRL 0.12 "
                "takes a model and a separate value_model. The wrapped model is "
                "model.pretrained_model."),
            Wording("training requires a train_dataset",
                "ValueError: Trainer: training requires a train_dataset.",
                "The Trainer got no train_dataset.",
                "Pass the data to the Trainer: Trainer(train_dataset=...)."),
            Wording("does not support gradient checkpointing",
                "ValueError: LlamaForSequenceEmbedding does not support gradient checkpointing.",
                "This model class (often one with remote code or a wrapper of your own) does "
                "not declare that it can be checkpointed.",
                "Set gradient_checkpointing=False and save memory otherwise (smaller micro "
                "batch, accumulation), or call model.gradient_checkpointing_enable() on the "
                "inner transformers model; upgrade transformers if the class is its own."),
            Wording("Attempted to change value of key|Changing param values is not allowed",
                'wandb.sdk.lib.config_util.ConfigError: Attempted to change value of key "lr" '
                "from 1 to 2",
                "A run of the tracker (wandb, mlflow) is resumed, or logs a setting twice, with "
                "another value than it has.",
                "Start a new run: another id, no resume; mlflow: mlflow.end_run() before, or "
                "start_run(nested=True) for each trial. Initialize once only: the Trainer makes "
                "its own. wandb also takes wandb.config.update(values, allow_val_change=True).",
                more=("mlflow.exceptions.MlflowException: INVALID_PARAMETER_VALUE: Changing param "
                    "values is not allowed. Param with key='lr' was already logged",)),
            Wording("evenly divisible by the number of generations per prompt|"
                "generation_batch_size .{0,80}divisible by num_generations|"
                "batch.{0,80}divisible by `?num_generations",
                "ValueError: The global train batch size (8 x 1) must be evenly divisible by "
                "the number of generations per prompt (3). Given the current train batch size, "
                "the valid values for the number of generations are: [2, 4, 8].",
                "GRPO spreads the answers to one prompt over the batch of all ranks.",
                "Choose num_generations as a divisor of per_device_train_batch_size x number of "
                "ranks x gradient_accumulation_steps; the message lists the valid values. "
                "num_generations is at least 2.")),
        why="Settings of the Trainer contradict each other, or need data that it was not given.",
        sources=("transformers-training-args", "trl-grpo-config")),
    Cause(id="rewards-of-other-number",
        errors=("RuntimeError", "ValueError", "TypeError"),
        refines=("missing-dimension", "differing-sizes", "other-than-expected"),
        messages=(r"(?:rewards_per_func|_calculate_rewards|"
            r"output_reward_func)[\s\S]{0,1500}?(?:expanded size|must match|Expected|must be "
            r"real number|not NoneType)",
            r"[Ee]xpected \d{1,6} rewards?,? (?:but )?got \d{1,6}|reward "
            r"function[^\n]{0,80}(?:return|length)[^\n]{0,60}(?:\d{1,6}|None)"),
        examples=("    rewards_per_func[:, i] = torch.tensor(output_reward_func, "
            "device=device)\nRuntimeError: The expanded size of the tensor (16) must match the "
            "existing size (4)",
            "ValueError: Expected 8 rewards, got 4"),
        why="A reward function returned another number of rewards than there are completions: "
            "one for each prompt, one for all, or None for some.",
        fix="Return a list with one number (None only where TRL skips that function) for each "
            "completion, in their order: prompts and columns of the data come repeated once per "
            "generation, so zip(completions, answers) has the right length. A conversational "
            "set gives completions as lists of messages: completion[0]['content'].",
        sources=("trl-grpo-config",)),
    Cause(id="reward-takes-too-little",
        errors=("TypeError",),
        refines=("call-arguments",),
        messages=(r"_calculate_rewards[\s\S]{0,1500}?got an unexpected keyword argument|"
            r"\w*rewards?\w*\(\) got an unexpected keyword argument",),
        examples=("TypeError: style_reward() got an unexpected keyword argument 'prompts'",),
        why="The trainer passes every column of the data, and what it knows of the completions, to "
            "each reward function by name.",
        fix="Let the reward function take what it does not use: def reward(completions, **kwargs).",
        sources=("trl-grpo-config",)),
    Cause(id="columns-dropped",
        errors=("ValueError", "IndexError", "TypeError", "KeyError"),
        messages=("No columns in the dataset match the model's forward",
            r"Invalid key: \d{1,12} is out of bounds for size 0",
            "You should supply an encoding or a list of encodings",
            r"forward\(\) missing \d{1,2} required positional arg"),
        examples=("ValueError: No columns in the dataset match the model's forward method "
            "signature. The following columns have been ignored: [text].",
            "IndexError: Invalid key: 5 is out of bounds for size 0",
            "ValueError: You should supply an encoding or a list of encodings to this method "
            "that includes input_ids, but you provided ['label']",
            "TypeError: Ranker.forward() missing 1 required positional argument: 'tokens'"),
        told_by="a Trainer makes the batch",
        why="The Trainer drops every column that the model's forward does not name, and none or "
            "too few are left: the data are not tokenized yet, or their names differ.",
        fix="Tokenize first, with columns called input_ids, attention_mask and labels "
            "(dataset.map(tokenize, batched=True, remove_columns=dataset.column_names)); or set "
            "remove_unused_columns=False where a collator makes the batch. With PEFT name them "
            "in label_names.",
        commands=('python -c "import datasets, sys; '
            'print(datasets.load_from_disk(sys.argv[1]))" DATASET',),
        sources=("transformers-trainer",)),
    Cause(id="sequence-beyond-positions",
        messages=(r"sequence length is longer than the specified maximum sequence length for "
            r"this model \(\d{1,9} > \d{1,9}\)",),
        examples=("Token indices sequence length is longer than the specified maximum sequence "
            "length for this model (1045 > 512). Running this sequence through the model will "
            "result in indexing errors",),
        why="A text has more tokens than the model has positions; models with a table of "
            "positions fail at the next step (index out of range, size of tensor a must match).",
        fix="Truncate: tokenizer(text, truncation=True, max_length=512), or split texts into "
            "pieces. It is no trouble where the ids are only counted or cut into blocks "
            "afterwards.",
        explains=("index-out-of-range", "differing-sizes"),
        sources=("transformers-tokenization",), role="condition"),
    Cause(id="monitored-in-the-wrong-direction",
        messages=(r"monitor['\"]?[=:] ?['\"]?(?!neg)[\w/-]{0,40}(?:loss|perplexity|ppl|wer|cer|"
            r"mae|mse|error)\b(?:(?!mode|monitor)[^\n]){0,160}mode['\"]?[=:] ?['\"]?max\b",
            r"monitor['\"]?[=:] ?['\"]?[\w/-]{0,40}(?:acc|accuracy|f1|auc|auroc|bleu|rouge\w?|"
            r"map|dice|iou|miou|psnr|ssim|recall|precision)\b(?:(?!mode|"
            r"monitor)[^\n]){0,160}mode['\"]?[=:] ?['\"]?min\b",
            r"metric_for_best_model['\"]?[=:] ?['\"]?[\w/-]{0,40}(?:loss|perplexity|ppl|wer|cer|"
            r"mae|r?mse)\b(?:(?!metric_for)[^\n]){0,400}greater_is_better['\"]?[=:] ?True"),
        examples=("ModelCheckpoint(monitor='val_loss', mode='max', save_top_k=1)",
            'EarlyStopping: monitor="val/acc", patience=3, mode="min"',
            "metric_for_best_model='eval_loss', greater_is_better=True"),
        why="The best checkpoint is chosen, or the training stopped, in the wrong direction: "
            "the first and worst epoch counts as the best, and later ones are not kept.",
        fix="mode='min' for a loss or an error rate (greater_is_better=False), 'max' for an "
            "accuracy or a score; and save_last=True. Checkpoints that were not kept are lost: "
            "train again.",
        title="The monitored metric is taken in its direction",
        sources=("transformers-trainer",), role="warning", code="LOG069"),
    Cause(id="monitored-metric-missing",
        errors=("MisconfigurationException", "RuntimeError", "KeyError"),
        refines=("missing-key",),
        messages=("(?:not found|could not find the monitored key) in the returned metrics",
            "which is not found in the evaluation metrics",
            r"conditioned on metric `?\S{1,60}`? which is not available",
            r"KeyError: .{0,2}(?:The `metric_for_best_model|eval_\w{1,40})"),
        examples=("pytorch_lightning.utilities.exceptions.MisconfigurationException: "
            "ModelCheckpoint(monitor='val_loss') not found in the returned metrics: ['loss']. "
            "HINT: Did you call self.log('val_loss', value) in the LightningModule?",
            "RuntimeError: Early stopping conditioned on metric `val_loss` which is not "
            "available.",
            "MisconfigurationException: ReduceLROnPlateau conditioned on metric val_loss which is "
            "not available. Available metrics are: ['train_loss']. Condition can be set using "
            "`monitor` key in lr scheduler dict",
            "KeyError: \"The `metric_for_best_model` training argument is set to 'eval_f1', "
            "which is not found in the evaluation metrics.",
            "KeyError: 'eval_loss'"),
        why="A checkpoint, an early stop or a schedule watches a metric that the evaluation did "
            "not report: another name, no validation data, or an evaluation that had not run "
            "yet (also after an earlier exception).",
        fix='Lightning: call self.log("val_loss", loss) in validation_step, and write the same '
            "name in monitor=. Trainer: metric_for_best_model must be a key that "
            "compute_metrics returns (eval_loss needs labels: label_names for PEFT models), "
            "with eval_dataset and eval_strategy set.",
        sources=("transformers-trainer",)),
)  # fmt: skip
