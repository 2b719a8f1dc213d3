"""Options of trainers, columns of data sets, chats: Trainer, TRL, Lightning."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="best-model-strategies-differ",
        errors=("ValueError",),
        messages=(r"load_best_model_at_end`? requires the sav(?:e|ing) (?:and eval|steps to be)",),
        examples=(
            "ValueError: --load_best_model_at_end requires the save and eval strategy to match, "
            "but found",
        ),
        why="The best checkpoint can be chosen only if each checkpoint is evaluated.",
        fix="Set eval_strategy and save_strategy to the same value, and save_steps to a multiple "
        "of eval_steps; or load_best_model_at_end=False.",
    ),
    Cause(
        id="number-of-steps-needed",
        errors=("ValueError",),
        messages=(
            r"max_steps`? must be set to a positive value if dataloader does not have a length|"
            r"does not implement __len__, max_steps",
        ),
        examples=(
            "ValueError: args.max_steps must be set to a positive value if dataloader does not "
            "have a length, was -1",
        ),
        why="A streamed data set has no length, so that epochs cannot be counted in steps.",
        fix="Set max_steps (samples x epochs / samples per step over all ranks), or load the data "
        "set without streaming=True.",
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
    ),
    Cause(
        id="generation-arguments-unused",
        errors=("ValueError",),
        messages=(r"following `model_kwargs` are not used by the model",),
        examples=(
            "ValueError: The following `model_kwargs` are not used by the model: "
            "['token_type_ids'] (note: typos in the generate arguments will also show up in this "
            "list)",
        ),
        why="generate() got an input or option that the model does not take: token_type_ids of "
        "another tokenizer, a misspelt option, or an image for a text model.",
        fix="Leave it out: tokenizer(text, return_token_type_ids=False), or "
        'inputs.pop("token_type_ids"); compare the names in the message with the model\'s '
        "forward.",
    ),
    Cause(
        id="texts-are-no-texts",
        errors=("TypeError", "ValueError"),
        messages=(r"TextEncodeInput must be Union", r"text input must be of type `?str"),
        examples=(
            "TypeError: TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, "
            "InputSequence]]",
            "ValueError: text input must be of type `str` (single example), `List[str]` (batch or "
            "single pretokenized example)",
        ),
        why="The tokenizer got something other than texts: an empty field (None or NaN), a "
        "number, a list of messages, or a whole column object.",
        fix='Drop or fill empty fields (dataset.filter(lambda row: isinstance(row["text"], '
        "str))), convert with str(), turn messages into text with "
        "tokenizer.apply_chat_template(..., tokenize=False), and columns into lists.",
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
    ),
    Cause(
        id="loss-signature-older",
        refines=("api-changed", "call-arguments", "factory-with-parameters"),
        errors=("TypeError",),
        messages=(
            r"compute_loss\(\) got an unexpected keyword argument 'num_items_in_batch'",
            r"training_step\(\) takes .{0,40}positional arguments but 4 were given",
        ),
        examples=(
            "TypeError: OwnTrainer.compute_loss() got an unexpected keyword argument "
            "'num_items_in_batch'",
            "TypeError: CustomTrainer.training_step() takes 3 positional arguments but 4 were "
            "given",
        ),
        why="Since transformers 4.46 the Trainer passes num_items_in_batch to compute_loss and "
        "training_step, and an overridden one does not take it.",
        fix="Add it to the override: def compute_loss(self, model, inputs, return_outputs=False, "
        "num_items_in_batch=None), likewise in training_step; or install transformers<4.46 for "
        "code that you cannot change.",
        commands=("python -m pip show transformers trl unsloth",),
    ),
    Cause(
        id="generations-do-not-divide-batch",
        errors=("ValueError",),
        messages=(
            r"evenly divisible by the number of generations per prompt|generation_batch_size "
            r".{0,80}divisible by num_generations",
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
    ),
    Cause(
        id="lightning-older-than-torch",
        errors=("MisconfigurationException",),
        messages=(r"doesn't follow PyTorch's LRScheduler API",),
        examples=(
            "lightning_lite.utilities.exceptions.MisconfigurationException: The provided lr "
            "scheduler `LambdaLR` doesn't follow PyTorch's LRScheduler API.",
        ),
        why="Lightning 1.8 and older do not know the schedulers of torch 2, whose base class was "
        "renamed.",
        fix="Upgrade lightning (pytorch-lightning 1.9 or newer for code of 1.x, 2.0 or newer "
        "otherwise), or install torch<2 for a program that pins the old one. A scheduler class of "
        "your own inherits torch.optim.lr_scheduler.LRScheduler, or override lr_scheduler_step.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip show torch pytorch-lightning lightning",),
    ),
    Cause(
        id="chat-message-fields",
        errors=("UndefinedError", "KeyError"),
        messages=(r"UndefinedError: .{1,60} has no (?:attribute|element)",),
        examples=("jinja2.exceptions.UndefinedError: 'dict object' has no attribute 'content'",),
        why="The chat template reads a field that the messages do not have: it expects a list of "
        '{"role": ..., "content": ...}, and the data use other names (from, value) or another '
        "nesting.",
        fix='Rename the fields before the template is applied: {"role": m["from"], "content": '
        'm["value"]}, with the roles system, user and assistant (axolotl: '
        "message_property_mappings; LLaMA-Factory: tags). tokenizer.apply_chat_template takes one "
        "list of messages or a list of such lists.",
    ),
    Cause(
        id="chat-roles-order",
        errors=("TemplateError",),
        messages=(
            r"(?:Conversation roles must alternate|After the optional system message, "
            r"conversation roles must alternate|System role not supported|Only user(?:, "
            r"assistant)?,? and (?:assistant|tool) roles are supported)",
        ),
        examples=(
            "jinja2.exceptions.TemplateError: Conversation roles must alternate "
            "user/assistant/user/assistant/...",
        ),
        why="The model's chat template accepts only certain roles in a certain order: two "
        "messages of one role follow each other, the conversation begins with the assistant, or "
        "there is a system message.",
        fix="Join neighbouring messages of one role, put a system message into the first user "
        "message where the model has none (Gemma, Mistral), drop conversations that begin with "
        "the assistant; or give the tokenizer another chat_template before training.",
    ),
    Cause(
        id="checkpoint-to-resume-missing",
        errors=("ValueError",),
        messages=(
            r"No valid checkpoint found in output directory|Can't find a valid checkpoint at",
        ),
        examples=("ValueError: No valid checkpoint found in output directory (out)",),
        why="resume_from_checkpoint asks for a checkpoint, and the directory has none that is "
        "complete.",
        fix='Give the path of one (resume_from_checkpoint="out/checkpoint-500"), or pass '
        "get_last_checkpoint(output_dir), which is None in the first run. A checkpoint needs "
        "trainer_state.json and the weights or the adapter.",
        commands=("ls -d out/checkpoint-*",),
    ),
    Cause(
        id="checkpoint-renamed-twice",
        refines=("file-missing",),
        errors=("FileNotFoundError",),
        messages=(r"tmp-checkpoint-\d{1,12}",),
        examples=(
            "FileNotFoundError: [Errno 2] No such file or directory: 'out/tmp-checkpoint-500' -> "
            "'out/checkpoint-500'",
        ),
        why="In transformers 4.36 and 4.37 every node renames the same checkpoint on a shared "
        "file system, and the second finds it gone.",
        fix="Upgrade transformers (newer ones write in place), or set save_on_each_node=False "
        "with one shared directory. The checkpoint of the first node is whole.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip show transformers",),
    ),
    Cause(
        id="attention-heads-not-divisible",
        refines=("group-sizes",),
        errors=("ValueError", "AssertionError"),
        messages=(
            r"[Tt]otal number of attention heads \(\d{1,6}\) must be divisible by",
            r"num_attention_heads .{0,60}must be divisible by .{0,20}(?:tensor|sequence)",
        ),
        examples=(
            "ValueError: Total number of attention heads (28) must be divisible by tensor "
            "parallel size (8).",
            "AssertionError: num_attention_heads (14) must be divisible by "
            "tensor_model_parallel_size (4)",
        ),
        why="Tensor and sequence parallelism give each GPU the same number of heads.",
        fix="Choose a parallel size that divides the number of heads (28 heads: 1, 2, 4, 7; also "
        "the key and value heads for some engines), and use the other GPUs for data or pipeline "
        "parallelism.",
    ),
    Cause(
        id="evaluation-without-data",
        errors=("ValueError",),
        messages=(r"evaluation requires an eval_dataset|you didn't pass an `?eval_dataset",),
        examples=(
            "ValueError: Trainer: evaluation requires an eval_dataset.",
            "ValueError: You have set `args.eval_strategy` to STEPS but you didn't pass an "
            "`eval_dataset`",
        ),
        why="The Trainer is to evaluate and has no data for it.",
        fix="Pass eval_dataset= to the Trainer (dataset.train_test_split(0.05)), or "
        'eval_strategy="no" and load_best_model_at_end=False.',
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
    ),
)
