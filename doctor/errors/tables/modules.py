"""Modules and the calls of their forward pass."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(
        id="module-built-wrongly",
        errors=(
            "AttributeError",
            "TypeError",
            "ValueError",
            "RuntimeError",
            "RecursionError",
            "NotImplementedError",
        ),
        wordings=(
            Wording(
                r"before Module\.__init__\(\) call",
                "AttributeError: cannot assign module before Module.__init__() call",
                "Layers are assigned before nn.Module is initialized.",
                "Call super().__init__() first in __init__ of the module.",
            ),
            Wording(
                r"\(torch\.nn\.Parameter or None expected\)",
                "TypeError: cannot assign 'torch.FloatTensor' as parameter 'weight' "
                "(torch.nn.Parameter or None expected)",
                "The attribute is a registered parameter; a plain tensor cannot take its place.",
                "Wrap the tensor: layer.weight = nn.Parameter(tensor). To change the values "
                "only, layer.weight.data.copy_(tensor).",
            ),
            Wording(
                "is not a Module subclass",
                "TypeError: torch.nn.modules.activation.ReLU is not a Module subclass",
                "A list of layers holds a class or a function instead of a module.",
                "Pass instances of modules: nn.ReLU() with parentheses for a class, and a "
                "module such as nn.ReLU() for a function such as torch.relu.",
            ),
            Wording(
                "uninitialized parameter|UninitializedParameter",
                "ValueError: The module has a parameter of type UninitializedParameter",
                "A lazy module has no sizes before its first forward pass.",
                "Run one forward pass in the factory before you return the model: lazy modules "
                "get their shapes there, and an optimizer needs them.",
            ),
            Wording(
                "has no parameter or buffer with name",
                "ValueError: Module 'MLP()' has no parameter or buffer with name 'weight'",
                "The module that holds the layers has no weight itself.",
                "Apply it to each layer that has that weight (for m in model.modules(): if "
                "isinstance(m, nn.Linear): ...), not to the module that holds the layers.",
            ),
            Wording(
                r"is missing the required \"forward\" function|_forward_unimplemented",
                'NotImplementedError: Module [ModuleList] is missing the required "forward" '
                "function",
                "The module has no forward: its name is misspelt, its indentation wrong, or the "
                "module only holds others.",
                "Define forward in the module, at the indentation of its __init__. Call the "
                "layers of an nn.ModuleList one by one (for layer in self.layers: x = "
                "layer(x)), or hold them in nn.Sequential; leave out super().forward(). "
                "nn.Sequential(*model.children()) runs the parts one after the other, which fails "
                "with an nn.ModuleList among them: replace the head in the model instead.",
                more=('module.py", line 201, in _forward_unimplemented',),
            ),
        ),
        why="A module registers its parts when they are assigned: instances of modules and of "
        "nn.Parameter, after super().__init__().",
        sources=("torch-module",),
    ),
    Cause(
        id="recursion-depth",
        errors=("RecursionError",),
        messages=(r"maximum recursion depth exceeded",),
        examples=("RecursionError: maximum recursion depth exceeded",),
        sources=("python-exceptions",),
        why="A function calls itself without an end.",
        fix="Look for a function that calls itself: a forward that calls self(x), or a "
        "__getattr__ that reads an attribute which is not there yet (nn.Module needs "
        "super().__getattr__(name)).",
    ),
)
