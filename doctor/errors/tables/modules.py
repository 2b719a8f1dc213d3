"""Modules and the calls of their forward pass."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="super-init-missing",
        errors=("AttributeError",),
        messages=(r"before Module\.__init__\(\) call",),
        examples=("AttributeError: cannot assign module before Module.__init__() call",),
        why="Layers are assigned before nn.Module is initialized.",
        fix="Call super().__init__() first in __init__ of the module.",
    ),
    Cause(
        id="not-a-parameter",
        errors=("TypeError",),
        messages=(r"\(torch\.nn\.Parameter or None expected\)",),
        examples=(
            "TypeError: cannot assign 'torch.FloatTensor' as parameter 'weight' "
            "(torch.nn.Parameter or None expected)",
        ),
        why="The attribute is a registered parameter; a plain tensor cannot take its place.",
        fix="Wrap the tensor: layer.weight = nn.Parameter(tensor). To change the values only, "
        "layer.weight.data.copy_(tensor).",
    ),
    Cause(
        id="not-a-module",
        errors=("TypeError",),
        messages=(r"is not a Module subclass",),
        examples=("TypeError: torch.nn.modules.activation.ReLU is not a Module subclass",),
        why="A list of layers holds a class or a function instead of a module.",
        fix="Pass instances of modules: nn.ReLU() with parentheses for a class, and a module such "
        "as nn.ReLU() for a function such as torch.relu.",
    ),
    Cause(
        id="lazy-module",
        errors=("ValueError", "RuntimeError"),
        messages=(r"uninitialized parameter", r"UninitializedParameter"),
        examples=(
            "ValueError: The module has a parameter of type UninitializedParameter",
            "ValueError: Attempted to use an uninitialized parameter in <method 'numel' of "
            "'torch._C.TensorBase' objects>. This error happens when you are using a",
        ),
        why="A lazy module has no sizes before its first forward pass.",
        fix="Run one forward pass in the factory before you return the model: lazy modules get "
        "their shapes there, and an optimizer needs them.",
    ),
    Cause(
        id="weight-to-parametrize",
        errors=("ValueError", "AttributeError"),
        messages=(r"has no parameter or buffer with name",),
        examples=("ValueError: Module 'MLP()' has no parameter or buffer with name 'weight'",),
        why="The module that holds the layers has no weight itself.",
        fix="Apply it to each layer that has that weight (for m in model.modules(): if "
        "isinstance(m, nn.Linear): ...), not to the module that holds the layers.",
    ),
    Cause(
        id="wrapped-model",
        errors=("AttributeError",),
        messages=(
            r"'(?:DataParallel|DistributedDataParallel|OptimizedModule)' object has no attribute",
        ),
        examples=("AttributeError: 'DistributedDataParallel' object has no attribute 'head'",),
        why="The attribute belongs to the model inside the wrapper.",
        fix="Ask the model inside the wrapper: model.module for DataParallel and DDP, "
        "model._orig_mod for torch.compile.",
    ),
    Cause(
        id="recursion-depth",
        errors=("RecursionError",),
        messages=(r"maximum recursion depth exceeded",),
        examples=("RecursionError: maximum recursion depth exceeded",),
        why="A function calls itself without an end.",
        fix="Look for a function that calls itself: a forward that calls self(x), or a "
        "__getattr__ that reads an attribute which is not there yet (nn.Module needs "
        "super().__getattr__(name)).",
    ),
)
