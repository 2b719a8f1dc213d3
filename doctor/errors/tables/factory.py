"""The doctor's own messages about what `--model` names."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

MISSPELLED = (
    "Rename that method to __init__, with two underscores on each side, and call "
    "super().__init__() in its first line: Python calls no other name, so the layers are never "
    "made."
)
IN_CONTAINERS = (
    "Wrap it where it is assigned: nn.ModuleList([...]) in place of a list, nn.ModuleDict({...}) "
    "with texts as keys in place of a dict, one for each list in another; single parameters in "
    "nn.ParameterList or nn.ParameterDict."
)
PLAIN_TENSORS = (
    "Wrap each where it is assigned, self.NAME = nn.Parameter(torch.randn(...)): a tensor with "
    "requires_grad=True is in no optimizer that gets model.parameters(), and in no checkpoint."
)
NOT_MADE = (
    "Make the layers in __init__ as attributes, self.linear = nn.Linear(...), and use them in "
    "forward: one that forward makes starts from new random numbers in each step."
)

ROWS = (
    Cause(id="factory-gives-no-training",
        errors=("RuntimeError", "ImportError"), refines=("interrupted", "lightning-module"),
        unless=r"returned no loss but|the loss has the shape",
        wordings=(
            Wording(r"; return \(module, batch\)|the factory returned|the factory's batch is",
                "the factory returned str; return (module, batch), where module(**batch) or "
                "module(*batch) gives the loss",
                "The factory returned something else than a module with a batch.",
                "Return the module with a batch of tensors (torch.from_numpy of an array), or "
                "with a batch and a loss.\nreturn model, batch, lambda model, batch: "
                "criterion(model(batch['x']), batch['y'])\ndoctor explain model",
                more=("the factory's batch is a Dataset; return a DataLoader of it, or "
                    "next(iter(loader))",)),
            Wording(r"\.py has no \w+; it has",
                "train.py has no maek; it has make, main",
                "The file has no function of the name behind the colon.",
                "Name a function that the file has, FILE.py:FUNCTION: the message lists them."),
            Wording(r"the factory's \w+ has no batch",
                "the factory's DataLoader has no batch",
                "The loader gives no batch: it has no data, or fewer samples than batch_size "
                "with drop_last=True.",
                "Check the path and the filter of the data, and whether the iterator was used "
                "before. Choose a batch_size of at most the number of samples, or omit "
                "drop_last=True, which leaves out a batch that is not full."),
            Wording("its collate_fn returned nothing",
                "the first batch of the DataLoader is None; its collate_fn returned nothing",
                "The collate function has no return.",
                "Return the batch at the end of the loader's collate_fn: without a return it is "
                "None."),
            Wording("the LightningModule gives no batch",
                "the LightningModule gives no batch (train_dataloader: "
                "MisconfigurationException: `train_dataloader` must be implemented)",
                "The LightningModule has no loader of its own.",
                "Return the module with a loader: its own after module.setup('fit'), or that of "
                "its data module.\ndata.setup('fit')\nreturn module, data.train_dataloader()"),
            Wording("the factory's optimizer is",
                "the factory's optimizer is a StepLR",
                "What the factory returned as its optimizer is none.",
                "Give a schedule under its own key, {'model': ..., 'optimizer': optimizer, "
                "'scheduler': schedule}. Return an instance: "
                "torch.optim.AdamW(model.parameters(), lr=1e-3), with parentheses."),
            Wording(r"called sys\.exit\(",
                "the factory called sys.exit(2)",
                "The file runs and ends while it is imported.",
                "Put what runs the training under if __name__ == '__main__', so that the file "
                "can be imported; the lines that it printed are below."),
            Wording(r"exit status \d+ and no message|the factory raised KeyboardInterrupt",
                "exit status 3 and no message inside call the factory",
                "The code or a library called os._exit(), or closed files that it did not open.",
                "Let the factory return instead of ending the process: it, or a library, called "
                "os._exit(), or closed all file descriptors (os.closerange), the doctor's too.",
                more=("the factory raised KeyboardInterrupt",)),
            Wording(r"hydra\.main|argparse did not accept",
                "the factory is decorated with hydra.main",
                "The factory reads the command line.",
                "Name a function that needs no command line, or pass the arguments after --.\n"
                "doctor explain model",
                more=("argparse did not accept the arguments []",)),
            Wording("trains while it is imported",
                "train.py trains while it is imported: line 40, `loss.backward()`; it was not "
                "imported",
                "The statements of the training stand outside of any function, so that naming "
                "one of the file would run the whole training, with its downloads, trackers and "
                "saves.",
                "Write the factory into a file of its own; this reads the script and runs "
                "nothing:\ndoctor init --factory-for FILE.py\nOr put the training under if "
                "__name__ == '__main__', and name a function that returns model and batch."),
            Wording("--seq-len",
                "positions beyond the model's length: --seq-len 4096",
                "--seq-len is more than the model takes.",
                "Pass a smaller --seq-len."),
            Wording("is not installed in this interpreter",
                "transformers is not installed in this interpreter",
                "The interpreter that was examined lacks a package that the code imports.",
                "Install it into the training environment, or select another one with --python.",
                owner=Owner.ENVIRONMENT)),
        why="The factory ended, or returned something else than a model with a batch.",
        sources=("python-exceptions",)),
    Cause(id="parameters-are-frozen", sources=("peft-model",),
        errors=("RuntimeError",),
        wordings=(
            Wording(r"it has none: [\w.]{1,99} is not called by Python",
                "no parameter of the model requires a gradient: nothing would train; it has none: "
                    "Net.__int__ is not called by Python",
                "The method that makes the layers has another name than __init__.",
                MISSPELLED),
            Wording(r"it has none: layers are in ",
                "no parameter of the model requires a gradient: nothing would train; it has none: "
                    "layers are in layers, a list",
                "torch does not look for layers in lists and dicts of Python.",
                IN_CONTAINERS),
            Wording(r"it has none: tensors are in ",
                "no parameter of the model requires a gradient: nothing would train; it has none: "
                    "tensors are in weight, bias",
                "A tensor is no parameter, even with requires_grad=True.",
                PLAIN_TENSORS),
            Wording(r"nothing would train; it has none",
                "no parameter of the model requires a gradient: nothing would train; it has none",
                "The model has no layers of its own.",
                NOT_MADE),
            Wording(r"no parameter of the model requires a gradient(?!: nothing would train; "
                r"(?:the adapters|\d{1,9} parameters of adapters|it has (?:a peft|none)))",
                "no parameter of the model requires a gradient: nothing would train",
                "Everything is frozen; requires_grad = True of a module sets an attribute that "
                    "nothing reads.",
                "Call requires_grad_(True) on what is to train, after everything else was frozen: "
                    "a loop over model.parameters() that runs after the head was replaced freezes "
                    "the head too. The method of a module sets its parameters; an assignment to "
                    "the module, or to a name that is spelled otherwise, is kept and changes "
                    "nothing."),
            Wording(r"the adapters of \d{1,9} layers are disabled",
                "no parameter of the model requires a gradient: nothing would train; the adapters "
                    "of 12 layers are disabled",
                "disable_adapter_layers() switches adapters off and freezes them.",
                "Switch them on again before training, and use `with model.disable_adapter():` "
                    "where the base model alone is wanted:\nmodel.enable_adapter_layers()"),
            Wording(r"\d{1,9} parameters of adapters are frozen",
                "no parameter of the model requires a gradient: nothing would train; 16 parameters "
                    "of adapters are frozen, as of an adapter that was loaded",
                "PeftModel.from_pretrained loads an adapter for inference unless it is told "
                    "otherwise.",
                "Load the adapter so that it trains, or omit inference_mode=True in the LoraConfig "
                    "of a new one; requires_grad_(True) on the model would train the base model, "
                    "too:\nPeftModel.from_pretrained(base, DIRECTORY, "
                    "is_trainable=True)"),
            Wording(r"it has a peft_config and no adapter",
                "no parameter of the model requires a gradient: nothing would train; it has a "
                    "peft_config and no adapter: it was merged or unloaded",
                "merge_and_unload() and unload() return the base model, whose parameters are "
                    "frozen.",
                "Train before the adapter is merged, or add a new one to the merged model: "
                    "get_peft_model(model, LoraConfig(...)).")),
        why="No parameter of the model requires a gradient.",
    ),
    Cause(id="precision-not-in-torch",
        errors=("RuntimeError",),
        messages=(r"does not support bfloat16", r"has no GradScaler",
            r"unsupported autocast device_type"),
        examples=("RuntimeError: this device does not support bfloat16",
            "RuntimeError: torch.amp has no GradScaler for the CPU",
            "RuntimeError: User specified an unsupported autocast device_type 'mps'"),
        why="This torch does not have the precision on this device.",
        fix="Choose another precision with --precision, or install a newer torch: this one does "
            "not support this precision on this device.",
        owner=Owner.ENVIRONMENT, sources=("torch-autocast",),
    ),
)  # fmt: skip
