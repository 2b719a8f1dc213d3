"""State dicts and optimizers that do not fit the model."""

from __future__ import annotations

from doctor.errors.cause import Cause

KEYS = (r"Missing key\(s\) in state_dict", r"Unexpected key\(s\) in state_dict")
KEY_EXAMPLES = (
    "RuntimeError: Error(s) in loading state_dict for MLP: Missing key(s) in state_dict: "
    '"first.weight".',
    "RuntimeError: Error(s) in loading state_dict for MLP: Unexpected key(s) in state_dict: "
    '"module.first.weight".',
)

ROWS = (
    Cause(id="prefixed-keys",
        errors=("RuntimeError",),
        messages=KEYS,
        examples=KEY_EXAMPLES,
        why="A wrapper adds a prefix to the keys: module. of DistributedDataParallel, _orig_mod. "
            "of torch.compile, or a part of another model.",
        fix="Remove the prefix: {key.removeprefix('module.'): value for key, value in "
            "state.items()}.",
        told_by="the keys are equal behind a prefix", sources=("torch-load-module",),
    ),
    Cause(id="shared-parameters",
        errors=("ValueError",),
        messages=(r"some parameters appear in more than one parameter group",),
        examples=("ValueError: some parameters appear in more than one parameter group",),
        why="A parameter is in two groups: one that two modules share, or a group of a part beside "
            "one of the whole model.",
        fix="Put each parameter into one group: leave those of the second group out of the "
            "first.\nids = {id(p) for p in model.head.parameters()}\nrest = [p for p in "
            "model.parameters() if id(p) not in ids]",
        sources=("torch-optimizer",),
    ),
    Cause(id="empty-parameter-list",
        errors=("ValueError",),
        messages=(r"optimizer got an empty parameter list",),
        examples=("ValueError: optimizer got an empty parameter list",),
        why="The optimizer got no parameter: a generator is empty after a loop or a sum over it, "
            "all parameters are frozen, or modules in a plain list are not registered.",
        fix="Call model.parameters() again for the optimizer, or keep list(model.parameters()). "
            "Look at the filter that makes the list, and call requires_grad_(True) on what is to "
            "train before. Hold modules in nn.ModuleList or nn.ModuleDict.",
        sources=("torch-optimizer",),
    ),
    Cause(id="no-parameters",
        errors=("TypeError",),
        messages=(r"params argument given to the optimizer should be an iterable of",
            r"object is not iterable"),
        examples=("TypeError: params argument given to the optimizer should be an iterable of "
              "Tensors or dicts, but got torch.FloatTensor",
            "TypeError: 'MLP' object is not iterable"),
        why="An optimizer takes the parameters themselves, in an iterable.",
        fix="Pass model.parameters(), called with parentheses, instead of the model; a single "
            "tensor in a list, [parameter].",
        sources=("torch-optimizer",),
    ),
    Cause(id="state-of-another-optimizer",
        errors=("KeyError", "RuntimeError", "ValueError"),
        messages=(r"KeyError: '(?:momentum|betas|exp_avg|dampening|nesterov)'",
            r"loaded state dict has a different number of parameter groups",
            r"doesn't match the size of optimizer's group"),
        examples=("KeyError: 'momentum'",
            "ValueError: loaded state dict has a different number of parameter groups",
            "ValueError: loaded state dict contains a parameter group that doesn't match the size "
              "of optimizer's group"),
        why="load_state_dict of an optimizer compares only how many parameters a group has, not "
            "their shapes and options.",
        fix="Load a state that this very optimizer saved for this very model, with the same groups "
            "of as many parameters: this one is of another optimizer or another model, or from "
            "before parameters were added or frozen. To go on without it, load the weights only "
            "and start a new optimizer.",
        sources=("torch-load-optimizer",),
    ),
)  # fmt: skip
