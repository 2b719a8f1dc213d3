"""The fixes of rules: a place to edits, None where this place has no fix."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import NamedTuple

from doctor.facts.script import Span
from doctor.script.fixes.edits import Edit, Module, add_keyword, calls


class Fix(NamedTuple):
    """The fix of a rule: `make` returns the edits of a place, None where it has no fix.

    `safe`: the script does the same. `moves`: it only moves statements out of their block.
    """

    make: Callable[[Module, Span], list[Edit] | None]
    safe: bool = True
    moves: bool = False


def _call(module: Module, span: Span) -> ast.Call | None:
    return next((node for node in module.at(span) if isinstance(node, ast.Call)), None)


def _one(edit: Edit | None) -> list[Edit] | None:
    return [edit] if edit is not None else None


def unscale(module: Module, span: Span) -> list[Edit] | None:
    """scaler.unscale_(optimizer) above the clip, where one scaler steps one optimizer."""
    clip = _call(module, span)
    statement = module.statement(clip) if clip is not None else None
    if clip is None or statement is None:
        return None
    steps = [call for call in calls(module.function(clip)) if _is_scaler_step(module, call)]
    after = [call for call in steps if call.lineno > statement.lineno]
    if len({module.text(call) for call in after}) != 1:
        return None
    step = module.statement(after[0])
    if step is None or not _same_block(module, statement, step):
        return None
    scaler = module.text(after[0].func).rpartition(".")[0]
    optimizer = module.text(after[0].args[0])
    return _one(module.line_before(statement, f"{scaler}.unscale_({optimizer})"))


def _is_scaler_step(module: Module, call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "step"
        and len(call.args) == 1
        and isinstance(call.args[0], ast.Name | ast.Attribute)
        and "scaler" in module.text(call.func.value).casefold()
    )


def _same_block(module: Module, clip: ast.stmt, step: ast.stmt) -> bool:
    """The step runs whenever the clip does: its block is one of those around the clip.

    Where the step waits for a condition (accumulation), a second unscale_ would raise.
    """
    home = module.parents.get(step)
    current: ast.AST | None = clip
    while current is not None:
        if module.parents.get(current) is home and current is not None:
            return _in_one_list(home, current, step)
        current = module.parents.get(current)
    return False


def _in_one_list(home: ast.AST | None, one: ast.AST, other: ast.AST) -> bool:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(home, name, ())
        if isinstance(block, list) and one in block and other in block:
            return True
    return False


def including_emulation(module: Module, span: Span) -> list[Edit] | None:
    call = _call(module, span)
    return _one(add_keyword(module, call, "including_emulation=False")) if call else None


def not_reentrant(module: Module, span: Span) -> list[Edit] | None:
    """gradient_checkpointing_kwargs of the call that enables checkpointing."""
    call = _call(module, span)
    if call is None or any(k.arg == "gradient_checkpointing_kwargs" for k in call.keywords):
        return None
    enable = isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_enable")
    if enable and (call.args or call.keywords):
        return None
    return _one(add_keyword(module, call, 'gradient_checkpointing_kwargs={"use_reentrant": False}'))


def log_softmax(module: Module, span: Span) -> list[Edit] | None:
    """log(softmax(x)) written in one expression."""
    return _fused(module, span, "softmax", _log_softmax_text)


def _log_softmax_text(module: Module, inner: ast.Call) -> str | None:
    assert isinstance(inner.func, ast.Attribute)
    owner = module.text(inner.func.value)
    rest = module.data[module.end(inner.func) : module.end(inner)].decode("utf-8", "replace")
    return f"{owner}.log_softmax{rest}"


def log_sigmoid(module: Module, span: Span) -> list[Edit] | None:
    """log(sigmoid(x)) written in one expression."""
    return _fused(module, span, "sigmoid", _log_sigmoid_text)


def _log_sigmoid_text(module: Module, inner: ast.Call) -> str | None:
    torch = module.imports("torch")
    assert isinstance(inner.func, ast.Attribute)
    owner = module.text(inner.func.value)
    functional = owner in ("F", torch, f"{torch}.nn.functional", "nn.functional")
    if not torch or (functional and len(inner.args) != 1) or (not functional and inner.args):
        return None
    argument = module.text(inner.args[0]) if functional else owner
    return f"{torch}.nn.functional.logsigmoid({argument})"


def _fused(
    module: Module, span: Span, name: str, text: Callable[[Module, ast.Call], str | None]
) -> list[Edit] | None:
    outer = _call(module, span)
    if outer is None or not isinstance(outer.func, ast.Attribute) or outer.func.attr != "log":
        return None
    inner = outer.args[0] if len(outer.args) == 1 else outer.func.value
    if not isinstance(inner, ast.Call) or not isinstance(inner.func, ast.Attribute):
        return None
    if (
        inner.func.attr != name
        or outer.keywords
        or (isinstance(inner.func.value, ast.Name) and (inner.func.value.id == "self"))
    ):
        return None
    new = text(module, inner)
    return [module.replace(outer, new)] if new is not None else None


def versions(module: Module, span: Span) -> list[Edit] | None:
    """Both sides through packaging.version.parse, which is imported if need be."""
    compare = next((n for n in module.at(span) if isinstance(n, ast.Compare)), None)
    if compare is None or len(compare.ops) != 1 or _holds_number(module, compare):
        return None
    edits = []
    for side in (compare.left, compare.comparators[0]):
        text = _version_text(module, side)
        if text is None:
            return None
        edits.append(module.replace(side, f"packaging.version.parse({text})"))
    return [*edits, *_import(module, "packaging.version")]


def _holds_number(module: Module, compare: ast.Compare) -> bool:
    """A name on one side is assigned a number somewhere: parse() would raise for it."""
    names = {side.id for side in (compare.left, *compare.comparators) if isinstance(side, ast.Name)}
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Assign):
            continue
        if not any(isinstance(each, ast.Name) and each.id in names for each in node.targets):
            continue
        value = node.value
        called = isinstance(value, ast.Call) and module.text(value.func) in (
            "float",
            "int",
            "tuple",
        )
        if called or not isinstance(value, ast.Attribute | ast.Subscript | ast.Call | ast.Constant):
            return True
    return False


def _version_text(module: Module, side: ast.expr) -> str | None:
    """What is parsed: the whole version in place of str(), float() and slices of it."""
    if isinstance(side, ast.Constant):
        if isinstance(side.value, str):
            return module.text(side)
        return f'"{module.text(side)}"' if isinstance(side.value, int | float) else None
    while True:
        if isinstance(side, ast.Call) and module.text(side.func) in ("str", "float"):
            side = side.args[0]
        elif isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Slice):
            side = side.value
        else:
            break
    text = module.text(side)
    if isinstance(side, ast.Name | ast.Attribute) and "version" in text.casefold():
        return f"str({text})" if text.endswith("torch.__version__") else text
    return None


def _import(module: Module, name: str) -> list[Edit]:
    if module.imports(name) or any(
        isinstance(node, ast.Import) and any(a.name == name and not a.asname for a in node.names)
        for node in module.tree.body
    ):
        return []
    first = next(
        (
            node
            for node in module.tree.body
            if not _is_docstring(node)
            and not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
        ),
        None,
    )
    edit = module.line_before(first, f"import {name}") if first is not None else None
    return [edit] if edit is not None else []


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def platform_dtype(module: Module, span: Span) -> list[Edit] | None:
    """bf16 where the GPU computes in it, else fp16: TrainingArguments, and autocast with a scaler.

    The dtype of weights is never chosen so: that would train in half precision.
    """
    call = _call(module, span)
    torch = module.imports("torch")
    if call is None or not torch:
        return None
    test = f"{torch}.cuda.is_bf16_supported(including_emulation=False)"
    keywords = {keyword.arg: keyword for keyword in call.keywords}
    if "bf16" in keywords and "fp16" not in keywords:
        value = keywords["bf16"].value
        return [module.replace(value, f"{test}, fp16=not {test}")]
    autocast = module.text(call.func).endswith("autocast")
    if autocast and "dtype" in keywords and b"GradScaler" in module.data:
        value = keywords["dtype"].value
        half = f"{torch}.float16"
        return [module.replace(value, f"{module.text(value)} if {test} else {half}")]
    return None


def nan_filter(module: Module, span: Span) -> list[Edit] | None:
    function = next((n for n in module.at(span) if isinstance(n, ast.Name | ast.Attribute)), None)
    call = module.parents.get(function) if function is not None else None
    if not isinstance(call, ast.Call):
        return None
    return _one(add_keyword(module, call, "logging_nan_inf_filter=False"))


def explicit_dtype(module: Module, span: Span) -> list[Edit] | None:
    call = _call(module, span)
    torch = module.imports("torch")
    return _one(add_keyword(module, call, f"dtype={torch}.float32")) if call and torch else None
