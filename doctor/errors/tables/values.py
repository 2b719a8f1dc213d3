"""Python's own errors: values that are absent, of another kind, or called in another way."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="function-without-return",
        errors=("AttributeError", "TypeError"),
        messages=(
            r"'NoneType' object (?:has no attribute|is not (?:callable|iterable|subscriptable))",
            r"and 'NoneType'|'NoneType' and",
            r"object of type 'NoneType'|<class 'NoneType'>",
            r"must be Tensor, not NoneType",
            r"but (?:got|found element of type) NoneType",
        ),
        examples=(
            "TypeError: 'NoneType' object is not subscriptable",
            "TypeError: unsupported operand type(s) for +: 'Tensor' and 'NoneType'",
            "TypeError: object of type 'NoneType' has no len()",
            "TypeError: default_collate: batch must contain tensors, numpy arrays, numbers, "
            "dicts or lists; found <class 'NoneType'>",
            "TypeError: layer_norm(): argument 'input' (position 1) must be Tensor, not NoneType",
            "TypeError: expected Tensor as element 1 in argument 0, but got NoneType",
        ),
        told_by="the value is what a function of yours returned",
        why="A function without return gives None: a forward, a __getitem__, a collate_fn, or a "
        "method that works in place (list.append, nn.Module.apply of a list).",
        fix="Look for what returns None there: a function without return, dict.get of an absent "
        "key, or a Dataset whose __getitem__ returns None for a sample, which collate_fn must "
        "leave out.",
    ),
    Cause(
        id="value-is-none",
        errors=("AttributeError", "TypeError"),
        messages=(
            r"'NoneType' object (?:has no attribute|is not (?:callable|iterable|subscriptable))",
            r"and 'NoneType'|'NoneType' and",
            r"object of type 'NoneType'|<class 'NoneType'>",
            r"must be Tensor, not NoneType",
            r"but (?:got|found element of type) NoneType",
        ),
        examples=(
            "TypeError: 'NoneType' object is not subscriptable",
            "TypeError: unsupported operand type(s) for +: 'Tensor' and 'NoneType'",
            "TypeError: object of type 'NoneType' has no len()",
            "TypeError: default_collate: batch must contain tensors, numpy arrays, numbers, "
            "dicts or lists; found <class 'NoneType'>",
            "TypeError: layer_norm(): argument 'input' (position 1) must be Tensor, not NoneType",
            "TypeError: expected Tensor as element 1 in argument 0, but got NoneType",
        ),
        told_by="the value is a parameter, an attribute or a field",
        why="A value was never set: a parameter with the default None that was not passed, an "
        "attribute for a feature that is switched off, dict.get of an absent key.",
        fix="Pass the value, or handle None before that line: if mask is not None. p.grad is "
        "None for a parameter that the loss does not depend on, and after zero_grad().",
    ),
    Cause(
        id="attribute-missing",
        errors=("AttributeError",),
        messages=(
            r"'(?!AttributeDict'|NoneType'|tuple'|list'|DataParallel'|DistributedDataParallel'|O"
            r"ptimizedModule')[\w.]{1,80}' object has no attribute '\w+'",
        ),
        examples=("AttributeError: 'Net' object has no attribute 'fc2'",),
        told_by="__init__ of the class assigns no such name",
        why="The object has no such attribute: another spelling, another class than expected, "
        "or a dict instead of an object.",
        fix="Compare the name with what __init__ assigns (the class in the message is what the "
        "object is), and read a dict with value['name'].",
    ),
    Cause(
        id="property-raised",
        errors=("AttributeError",),
        messages=(
            r"'(?!AttributeDict'|NoneType'|tuple'|list'|DataParallel'|DistributedDataParallel'|O"
            r"ptimizedModule')[\w.]{1,80}' object has no attribute '\w+'",
        ),
        examples=("AttributeError: 'Net' object has no attribute 'scale'",),
        told_by="the class defines the name with @property",
        why="A @property of a module raised AttributeError inside; nn.Module then reports the "
        "property itself as missing.",
        fix="Call the property's function directly to see its own error: "
        "type(module).name.fget(module).",
    ),
    Cause(
        id="name-undefined",
        errors=("NameError",),
        messages=(r"name '\w+' is not defined",),
        examples=("NameError: name 'hiden' is not defined",),
        why="The name is not defined there: a missing import or a misspelled name.",
        fix="Define or import it before that line; Python names a similar one where there is one.",
    ),
    Cause(
        id="variable-of-branch",
        errors=("UnboundLocalError", "NameError"),
        messages=(r"cannot access (?:local|free) variable", r"referenced before assignment"),
        examples=(
            "UnboundLocalError: local variable 'loss' referenced before assignment",
            "NameError: cannot access free variable 'scale' where it is not associated with a "
            "value in enclosing scope",
        ),
        why="The variable is assigned in a branch or a loop that did not run, or further below "
        "in the same function.",
        fix="Assign the variable on every path to that line: it is assigned in a branch or a "
        "loop that did not run, or further below in the same function.",
    ),
    Cause(
        id="parts-of-value",
        errors=("ValueError", "TypeError"),
        messages=(
            r"too many values to unpack",
            r"not enough values to unpack",
            r"(?:list|tuple) indices must be integers or slices, not str",
            r"cannot unpack non-iterable",
        ),
        examples=(
            "ValueError: not enough values to unpack (expected 2, got 1)",
            "TypeError: tuple indices must be integers or slices, not str",
            "TypeError: cannot unpack non-iterable Tensor object",
            "ValueError: too many values to unpack (expected 2)",
        ),
        why="The value has other parts than the line takes: the batch is a dict or has more "
        "fields, the model returns more than one value.",
        fix="Print type(value) and its length or keys before that line. A dict of a batch is "
        "read by its keys; a model that returns (output, state) needs two names.",
    ),
    Cause(
        id="not-callable",
        errors=("TypeError",),
        messages=(r"'(?!NoneType|torch\.Size)[\w.]+' object is not callable",),
        examples=("TypeError: 'bool' object is not callable",),
        why="The name is a value there: it was assigned over a function or module of the same "
        "name, or parentheses are too many.",
        fix="Give the value another name than the function or layer; write x.shape and "
        "model.training without parentheses, x[0] for an index.",
    ),
    Cause(
        id="call-arguments",
        errors=("TypeError",),
        messages=(
            r"got an unexpected keyword argument '",
            r"missing \d+ required (?:positional|keyword-only) arguments?",
            r"takes \d+ positional arguments? but \d+ (?:was|were) given",
            r"got multiple values for argument '",
        ),
        examples=(
            "TypeError: Linear.__init__() got multiple values for argument 'bias'",
            "TypeError: make() takes 0 positional arguments but 1 was given",
            "TypeError: forward() got an unexpected keyword argument 'labels'",
            "TypeError: Linear.__init__() missing 1 required positional argument: 'out_features'",
        ),
        why="The function takes other arguments: another name, a missing one, or one too many.",
        fix="Compare the call with the signature, help(function); a library renames arguments "
        "between releases (pip show names the version).",
    ),
    Cause(
        id="division-by-zero",
        errors=("ZeroDivisionError",),
        messages=(
            r"ZeroDivisionError",
            r"(?:division|modulo) by zero",
            r"cannot be raised to a negative power",
        ),
        examples=(
            "ZeroDivisionError: division by zero",
            "ZeroDivisionError: 0.0 cannot be raised to a negative power",
        ),
        why="A count is 0: no samples, no steps, or a number of batches below the division.",
        fix="Print the divisor before that line: len(loader) // accumulation and n // "
        "batch_size are 0 if there are fewer than one of them; max(1, n) keeps it above 0.",
    ),
    Cause(
        id="not-a-number-to-integer",
        errors=("ValueError", "OverflowError"),
        messages=(r"cannot convert float (?:NaN|infinity) to integer",),
        examples=("ValueError: cannot convert float NaN to integer",),
        why="A NaN or inf is converted to a whole number.",
        fix="Look for the first value that is not finite before that line: a mean of no values, "
        "a division by 0, or missing entries of a table.",
    ),
)
