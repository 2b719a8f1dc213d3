"""Libraries of models, and weights that are loaded."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="prompts-padded-right", code="LOG082",
        title="Prompts are padded on the left for generation",
        messages=(r"decoder-only architecture is being used, but right-padding was detected",),
        examples=("A decoder-only architecture is being used, but right-padding was detected! For "
              "correct generation results, please set `padding_side='left'` when initializing the "
              "tokenizer.",),
        why="A decoder continues at the end of each row. Where the padding stands there, the "
            "shorter prompts of a batch are continued after it, and what is generated is wrong "
            "although the model is good: metrics over it (BLEU, exact match, rewards) are too low.",
        fix='Set tokenizer.padding_side = "left" where prompts are batched for generation, pass '
            "attention_mask, and evaluate again; the training need not be repeated, unless its "
            "rewards came from these completions. If every prompt ends with the padding token "
            "itself (pad_token is eos_token) and nothing is padded, it is a false alarm of the "
            "library.",
        role="warning", sources=("kserve-3534",),
    ),
    Cause(id="texts-unpadded",
        refines=("shape-mismatch",),
        errors=("ValueError",),
        wordings=(
            Wording("tokenizer does not have a padding token|Asking to pad but the tokenizer",
                "ValueError: Asking to pad but the tokenizer does not have a padding token.",
                "The tokenizer has no padding token, which batches of texts of different lengths "
                "need.",
                "Give the tokenizer one before it pads: tokenizer.pad_token = "
                "tokenizer.eos_token, or a token of its own, tokenizer.add_special_tokens("
                "{'pad_token': '<pad>'}) and model.resize_token_embeddings(len(tokenizer)). Set "
                "model.config.pad_token_id to it. Where it is the end token, mask the padding in "
                "the labels by attention_mask, not by its id: the end must be trained."),
            Wording("if no padding token is defined",
                "ValueError: Cannot handle batch sizes > 1 if no padding token is defined.",
                "The model's configuration has no padding token, by which a classifier finds the "
                "end of each text.",
                "Set model.config.pad_token_id to the id that pads the batch, "
                "tokenizer.pad_token_id, or the one that the collate function fills in. A "
                "tokenizer without one gets it first, tokenizer.pad_token = tokenizer.eos_token, "
                "or a token of its own with resize_token_embeddings."),
            Wording(r"you should probably activate truncation[\s\S]{1,120}Perhaps your features "
                r"\(`",
                "ValueError: Unable to create tensor, you should probably activate truncation "
                "and/or padding with 'padding=True' 'truncation=True' to have batched tensors with "
                "the same length. Perhaps your features (`label` in this case) have excessive "
                "nesting (inputs type `list` where type `int` is expected).",
                "A column of the batch, which the message names, holds texts, or lists of "
                "different lengths, and no numbers of one length.",
                "Look at the column that the message names: remove one that is text "
                "(remove_columns=), make numbers of names (label2id, ClassLabel) before the "
                "collator, and pad labels of different lengths with DataCollatorForSeq2Seq or "
                "DataCollatorForTokenClassification. Texts themselves: padding=True and "
                "truncation=True."),
            Wording("Unable to create tensor, you should probably",
                "ValueError: Unable to create tensor, you should probably activate truncation "
                "and/or padding with 'padding=True' 'truncation=True'",
                "Texts of different lengths do not make a tensor.",
                "Pass padding=True and truncation=True to the tokenizer, or use a data collator "
                "that pads; labels need padding of their own (DataCollatorForSeq2Seq, "
                "DataCollatorForTokenClassification).")),
        why="The texts of a batch are to be padded to one length.",
        sources=("transformers-tokenization",)),
    Cause(id="labels-missing",
        errors=("ValueError", "TypeError"),
        messages=(r"did not return a loss from the inputs", r"returned no loss but \w{0,60}Output"),
        examples=("ValueError: The model did not return a loss from the inputs",
            "TypeError: the forward pass returned no loss but CausalLMOutputWithPast with logits, "
              "past_key_values"),
        why="A model of transformers computes a loss only if it gets labels.",
        fix="Add labels to the batch, under that name: for a causal language model they are a copy "
            "of input_ids, with -100 where nothing is to be learned, as "
            "DataCollatorForLanguageModeling(tokenizer, mlm=False) makes them. Columns that "
            "forward does not name are removed unless remove_unused_columns=False. Or return "
            "(module, batch, loss) from the factory, with a loss(module, batch).",
        wordings=(
            Wording(r"(?:returned no loss but \w{0,60} with|only the following keys: )\s?"
                "last_hidden_state",
                "TypeError: the forward pass returned no loss but BaseModelOutput with "
                "last_hidden_state",
                "The model has no head, and so computes no loss, with labels or without.",
                "Load the class with the head of the task, AutoModelForCausalLM, "
                "AutoModelForSequenceClassification, ...: AutoModel ends at the hidden states. Or "
                "return (module, batch, loss) from the factory, with a loss of these.",
                more=("ValueError: The model did not return a loss from the inputs, only the "
                      "following keys: last_hidden_state. For reference, the inputs it received "
                      "are input_ids,attention_mask,labels.",)),
        ),
        sources=("transformers-trainer",),
    ),
    Cause(id="adapter-modules",
        errors=("ValueError",),
        messages=(r"(?<!Target modules \[\] )(?<!Target modules set\(\) )not found in the base "
            r"model",),
        examples=("NoMatchingPeftModuleError: Target modules {'value', 'query'} not found in the "
              "base model. Please check the target modules and try again.",),
        wordings=(
            Wording(r"Please specify `?target_modules`? (?:or `?target_parameters`? )?in "
                r"`?peft_config|Target module [\s\S]{1,300}? is not supported\. Currently, "
                "only",
                "ValueError: Please specify `target_modules` in `peft_config`",
                "PEFT knows no default layers for this architecture, or a name in target_modules "
                    "is of a whole block and not of a linear layer.",
                'Name the linear layers: LoraConfig(target_modules="all-linear"), or the last '
                    'parts of their names (["q_proj", "k_proj", "v_proj", "o_proj"]), which the '
                    "command lists.",
                ('python -c "import sys, transformers as t; '
                      'print(t.AutoModelForCausalLM.from_pretrained(sys.argv[1]))" MODEL',)),
            Wording(r"Target modules (?:\[\]|set\(\)) not found",
                "ValueError: Target modules [] not found in the base model. Please check the "
                    "target modules and try again.",
                "The list of names is empty: the function that collects them looks for another "
                    "class than the model's layers have (bnb.nn.Linear4bit in a model that is not "
                    "quantized, nn.Linear in GPT-2, whose layers are Conv1D), or the model has an "
                    "adapter already.",
                'Let PEFT find them, LoraConfig(target_modules="all-linear"), or look for the '
                    "class that print(model) shows. Call get_peft_model once only."),),
        why="target_modules names no module of this model.",
        fix="Choose target_modules among the linear modules of this model (model.named_modules()), "
            "or pass target_modules='all-linear'.",
        sources=("peft-tuners",),
    ),
    Cause(id="flash-attention-missing",
        errors=("ImportError", "ValueError"),
        refines=("import-failed",),
        wordings=(
            Wording(r"does not support (?:Flash Attention|an attention implementation)",
                "ValueError: Qwen2ForCausalLM does not support Flash Attention 2.0 yet.",
                "This release has not that kernel for this model.",
                "attn_implementation='sdpa', or 'eager' where the message names sdpa; or upgrade "
                "transformers, whose newer releases have it for most models.",
                more=("ValueError: MptForCausalLM does not support an attention implementation "
                    "through torch.nn.functional.scaled_dot_product_attention yet.",)),
        ),
        messages=(r"has been toggled on, but it cannot be used",
            r"No module named 'flash_attn'|requires? the following packages .{0,80}flash_attn|"
              r"packages that were not found in your environment: flash_attn"),
        examples=("ModuleNotFoundError: No module named 'flash_attn'",
            "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the "
              "following error: the package flash_attn seems to be not installed."),
        why="The package flash-attn is not installed, or not for this torch.",
        fix="Load the model with attn_implementation='sdpa', torch's own kernel, or install "
            "flash-attn into this environment: its prebuilt wheel for this torch, CUDA and Python, "
            "or pip install flash-attn --no-build-isolation where nvcc is.",
        commands=("python -m pip show flash-attn torch",), sources=("transformers-modeling",),
    ),
    Cause(id="lightning-module",
        refines=("settings-refused", "api-changed", "attribute-missing"),
        errors=("AttributeError", "KeyError", "RuntimeError", "ValueError",
            "NotImplementedError", "MisconfigurationException"),
        wordings=(
            Wording(r"Support for `\w{1,40}_epoch_end` has been removed|"
                r"`LightningModule\.\w{1,60}` hook was removed",
                "NotImplementedError: Support for `validation_epoch_end` has been removed in "
                "v2.0.0.",
                "The module has a hook of Lightning 1, which the installed release refuses.",
                "python -m pip install \"pytorch-lightning<2\" for code that you do not maintain. "
                "Else rename it to the hook of the message, which gets no outputs: append those "
                "of each step to a list of the module, and clear it there.",
                ("python -m pip show pytorch-lightning lightning",), owner=Owner.ENVIRONMENT,
                more=("The `LightningModule.on_epoch_end` hook was removed in v1.8.",)),
            Wording(r"'AttributeDict' object has no attribute|Missing attribute \"",
                'AttributeError: Missing attribute "lr"',
                "The value is not among the saved hyperparameters of the LightningModule.",
                "Call self.save_hyperparameters() in __init__ of the LightningModule, and let "
                "__init__ take that name as an argument."),
            Wording("`model` must be a `LightningModule`|selected an invalid strategy name: "
                r"`strategy=<|ValueError\b.{0,4}Expected a parent\s*$",
                "TypeError: `model` must be a `LightningModule` or "
                "`torch._dynamo.OptimizedModule`, got `Net`",
                "Modules of lightning (lightning.pytorch) and of pytorch_lightning are different "
                "classes, and the program imports from both; or the model is a plain nn.Module.",
                "Import everything from one: import lightning as L, L.LightningModule and "
                "L.Trainer; look also where callbacks and libraries import from. A logger belongs "
                "in logger=, not in callbacks.",
                more=("ValueError: Expected a parent",)),
            Wording("can't create new processes if CUDA is already initialized",
                "RuntimeError: Lightning can't create new processes if CUDA is already "
                "initialized.",
                "CUDA was started in the notebook or the main process before Lightning forks one "
                "process for each GPU.",
                "Restart the kernel, and before fit call nothing of torch.cuda and no .to('cuda'); "
                "or run the training as a script."),
            Wording("not attached to a `Trainer`",
                "RuntimeError: Lit is not attached to a `Trainer`.",
                "The LightningModule runs without a Trainer.",
                "Do not use self.trainer in training_step, or return (module, batch, loss) from "
                "the factory with a loss of your own."),
            Wording("doesn't follow PyTorch's LRScheduler API",
                "lightning_lite.utilities.exceptions.MisconfigurationException: The provided lr "
                "scheduler `LambdaLR` doesn't follow PyTorch's LRScheduler API.",
                "Lightning 1.8 and older do not know the schedulers of torch 2, whose base "
                "class was renamed.",
                "Upgrade lightning (pytorch-lightning 1.9 or newer for code of 1.x, 2.0 or "
                "newer otherwise), or install torch<2 for a program that pins the old one. A "
                "scheduler class of your own inherits torch.optim.lr_scheduler.LRScheduler, or "
                "override lr_scheduler_step.",
                ("python -m pip show torch pytorch-lightning lightning",),
                owner=Owner.ENVIRONMENT),
            Wording(r"No `?(?:test|val|predict|train)\w{0,8}_dataloader|"
                r"`?(?:train|val|test|predict)_dataloader`? must be implemented",
                "MisconfigurationException: No `test_dataloader()` method defined to run "
                "`Trainer.test`.",
                "The Trainer is to run a stage for which it got no data: trainer.test after a "
                "training that itself ended well, or a loader that this release takes from another "
                "place.",
                "Pass the loader or the datamodule to that call (trainer.fit(model, "
                "datamodule=dm), trainer.test(model, dataloaders=loader)), define the method, or "
                "leave the call out. A program for Lightning 1.x: install the release that its "
                "requirements name.",
                more=("MisconfigurationException: `train_dataloader` must be implemented to be "
                "used with the Lightning Trainer",)),
            Wording("not compatible with an interactive environment",
                "MisconfigurationException: `Trainer(strategy='ddp')` is not compatible with an "
                "interactive environment. Run your code as a script, or choose one of the "
                "compatible strategies",
                "In a notebook Lightning cannot start the notebook's code again, once for each "
                "GPU, as this strategy does.",
                "Run the training as a script, or set strategy='ddp_notebook' (devices=1 on one "
                "GPU), with nothing on the GPU before fit."),
            Wording(r"type object 'Trainer' has no attribute '(?:add_argparse_args|"
                r"from_argparse_args)'",
                "AttributeError: type object 'Trainer' has no attribute 'add_argparse_args'",
                "Lightning 2.0 removed add_argparse_args and from_argparse_args of the Trainer.",
                "Install the version that the program was written for: python -m pip install "
                "'pytorch-lightning<2'; or define the arguments in the program and pass them: "
                "Trainer(max_epochs=args.max_epochs).",
                ("python -m pip install 'pytorch-lightning<2'",),
                owner=Owner.ENVIRONMENT),
            Wording("multiple optimizers is only supported with manual optimization",
                "RuntimeError: Training with multiple optimizers is only supported with manual "
                "optimization. Set `self.automatic_optimization = False`, then access your "
                "optimizers in `training_step` with `opt1, opt2, ... = self.optimizers()`.",
                "Since Lightning 2 the Trainer steps one optimizer; several are stepped by "
                "training_step itself.",
                "Set self.automatic_optimization = False in __init__, and step in "
                "training_step, without optimizer_idx: opt_g, opt_d = self.optimizers(); for "
                "each of them zero_grad(), self.manual_backward(loss), step(). Where one loss "
                "trains all parameters, return one optimizer with a group for each part.")),
        why="The LightningModule lacks what Lightning expects of it, or Lightning is older than "
            "torch.",
        sources=("lightning-module-file", "lightning-optimizers")),
    Cause(id="state-dict-keys",
        errors=("RuntimeError", "KeyError"),
        messages=(r"loading state_dict for", r"Missing key\(s\) in state_dict",
            r"Unexpected key\(s\) in state_dict",
            r"KeyError: '\w{1,60}(?:\.\w{1,60}){1,12}\.(?:weight|bias|\w{1,40}_table|running_mean|"
            r"running_var|gamma|beta|lora_[AB]\w{0,10})'"),
        refines=("missing-key",),
        unless=r"\A(?![\s\S]*key\(s\) in state_dict)[\s\S]*size mismatch for ",
        examples=("RuntimeError: Error(s) in loading state_dict for Net:\n"
              '\tUnexpected key(s) in state_dict: "module.fc.weight".',
            "RuntimeError: Error(s) in loading state_dict for Deeper: Missing key(s) in "
              'state_dict: "norm.weight", "norm.bias". ',
            "KeyError: 'backbone.stages.0.blocks.0.attn.w_msa.relative_position_bias_table'"),
        wordings=(
            Wording(r"Missing key\(s\) in state_dict:(?:(?!Unexpected key)[\s\S]){0,600}?\."
                r"(?:base_layer|lora_[AB])\.",
                'RuntimeError: Missing key(s) in state_dict: "model.query.base_layer.weight"',
                "The model has adapters (LoRA) around its layers, and the file has no such names: "
                "it is of the model before they were added, or it holds the adapter alone.",
                "Weights of the whole model: load them before get_peft_model. A directory with "
                "adapter_config.json: load the base model, then "
                "PeftModel.from_pretrained(base, DIRECTORY, is_trainable=True). Where a trainer's "
                "resume fails so, upgrade it (sentence-transformers did not resume adapters).",
                sources=("sentence-transformers-3402", "torchtune-1188")),),
        why="The file's names or shapes are not those of the model: a prefix of a wrapper, a whole "
            "checkpoint around the weights, another model, or a head of another size.",
        fix="Compare the keys. Where each unexpected key is a missing one with a prefix (module. "
            "of DataParallel and DDP, _orig_mod. of torch.compile), remove it: "
            "{key.removeprefix('module.'): value for key, value in state.items()}. Keys such as "
            "epoch and optimizer are those of a whole checkpoint: load the weights in it, "
            "checkpoint['model']. Otherwise load the file into the model that wrote it; "
            "strict=False skips layers that are new or were removed. `doctor scan FILE` lists its "
            "tensors.",
        sources=("pytorch-3805", "pytorch-yolo-v1-4"),
    ),
)  # fmt: skip
