"""Rules on deprecated names and comparisons of versions."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Arms, Comparison, Value
from doctor.script.fixes import makers
from doctor.script.fixes.deprecated_amp import MOVED
from doctor.script.fixes.deprecated_amp import fix as renamed_amp
from doctor.script.fixes.makers import Fix

DEPRECATED = ("torch.cuda.amp", "torch.cpu.amp")
MODULES = (
    "torch.cuda.amp.autocast_mode", "torch.cuda.amp.grad_scaler", "torch.cpu.amp.autocast_mode",
    "torch.cpu.amp.grad_scaler",
)  # fmt: skip


def deprecated_amp(reading: Training) -> Iterator[Match]:
    for each in reading.script.imports:
        name = _deprecated(each.name)
        if not name or _is_fallback(reading, each.arms):
            continue
        yield Match(each.span, f"{name} is deprecated; torch.amp has it")
    for call in reading.named(*MOVED):
        if _is_dotted(reading, call.name) and not _is_fallback(reading, call.arms):
            yield Match(call.name_span, f"{call.name} is deprecated; torch.amp has it")
    decorators = {d.name for each in reading.script.functions for d in each.decorators}
    for use in reading.script.references:
        if not (reading.trains or use.name in decorators):
            continue  # a compiler names the old class to recognize it
        if _is_dotted(reading, use.name) and not _is_fallback(reading, use.arms):
            yield Match(use.span, f"{use.name} is deprecated; torch.amp has it")


def _deprecated(name: str) -> str:
    module, _, last = name.rpartition(".")
    return name if module in (*DEPRECATED, *MODULES) and last in MOVED else ""


def _is_dotted(reading: Training, name: str) -> bool:
    return bool(_deprecated(name)) and name not in {each.name for each in reading.script.imports}


def _is_fallback(reading: Training, arms: Arms) -> bool:
    """Another arm of the same condition or try statement uses torch.amp."""
    branches = {branch for branch, _ in arms}
    if not branches:
        return False
    return any(exclusive(arms, other) for other in reading.uses("torch.amp."))


ORDER = ("<", "<=", ">", ">=")
SAFE = ("parse", "Version", "LooseVersion", "StrictVersion", "parse_version", "digit_version")


SOURCES = {"__version__", "version", "get_version"}
"""Names without one of which a file holds no version of a package."""


def version_compare(reading: Training) -> Iterator[Match]:
    if SOURCES.isdisjoint(reading.script.identifiers):
        return
    for each in reading.comparisons:
        if each.operator not in ORDER:
            continue
        kinds = [_version_kind(reading, side, each, 4) for side in (each.left, each.right)]
        for kind, other in zip(kinds, (each.right, each.left), strict=True):
            if kind == "text" and _is_version_text(reading, other, each):
                yield Match(each.span, 'versions are compared as text: "2.10" < "2.9"')
                break
            if kind == "float" and _is_number(reading, other, each):
                yield Match(each.span, "a version is compared as a number: 2.10 becomes 2.1")
                break


def _resolved(reading: Training, value: Value, at: Comparison) -> list[Value]:
    if value.kind == "name":
        results = evaluate.options_at(reading, value, at.scope, at.position, ())
        return results or [value]
    return [value]


def _is_version_text(reading: Training, value: Value, at: Comparison) -> bool:
    """A literal such as "1.10", or another version."""
    for option in _resolved(reading, value, at):
        if option.kind == "literal" and isinstance(option.literal, str):
            return option.literal[:1].isdigit()
        if option.kind == "list" and option.items:
            return all(isinstance(item.literal, str) for item in option.items)
        if _version_kind(reading, option, at, 2) in ("text", "torch"):
            return True
    return False


def _is_number(reading: Training, value: Value, at: Comparison) -> bool:
    return any(
        isinstance(option.literal, float | int)
        and not isinstance(option.literal, bool)
        and option.literal != 0
        for option in _resolved(reading, value, at)
    )


def _version_kind(reading: Training, value: Value, at: Comparison, depth: int) -> str:
    """text: a version as str. float: as a number. torch: compares itself. "": something else."""
    if not depth:
        return ""
    if value.kind == "name":
        if value.name in ("torch.__version__", "torch.torch_version.TorchVersion"):
            return "torch"
        if value.name.endswith("__version__") or value.name == "torch.version.cuda":
            return "text"
        results = _resolved(reading, value, at)
        kinds = {_version_kind(reading, each, at, depth - 1) for each in results if each != value}
        return kinds.pop() if len(kinds) == 1 else ""
    if value.kind == "item" and value.items:
        return _sliced(reading, value, at, depth)
    if value.kind == "call":
        return _of_call(reading, value, at, depth)
    return ""


def _sliced(reading: Training, value: Value, at: Comparison, depth: int) -> str:
    """A slice or an element of split(): text; v[0] of a plain version: its first character."""
    inner = _version_kind(reading, value.items[0], at, depth - 1)
    if inner == "list":
        return "text" if len(value.items) > 1 else ""
    return "text" if inner in ("text", "torch") else ""


def _is_part(reading: Training, value: Value) -> bool:
    """One part of a split: float("2") of "2.10" is right."""
    return (
        value.kind == "item"
        and value.items[0].kind == "call"
        and ("split" in reading.calls[value.items[0].call].method)
    )


def _of_call(reading: Training, value: Value, at: Comparison, depth: int) -> str:
    call = reading.calls[value.call]
    if call.method in ("version", "get_version") and call.name.startswith(
        ("importlib.metadata.", "importlib_metadata.")
    ):
        return "text"
    if call.name in ("str", "float") and len(call.args) == 1:
        inner = _version_kind(reading, call.args[0], at, depth - 1)
        if inner not in ("text", "torch"):
            return ""
        if call.name == "float":
            return "" if _is_part(reading, call.args[0]) else "float"
        return "text"
    if call.method in ("split", "partition", "rsplit", "strip", "replace", "rstrip"):
        base = (
            Value("call", call=call.receiver_call)
            if call.receiver_call >= 0
            else Value("name", name=call.receiver)
        )
        inner = _version_kind(reading, base, at, depth - 1)
        if call.receiver.endswith("[]"):
            inner = ""
        if inner in ("text", "torch"):
            return "list" if "split" in call.method or call.method == "partition" else "text"
    return ""


RULES = (
    Rule(
        code="SCR161",
        slug="deprecated-amp",
        title="Mixed precision is imported from torch.amp",
        severity="note",
        find=deprecated_amp,
        why="torch.cuda.amp and torch.cpu.amp are deprecated since torch 2.4 and print a "
        "FutureWarning.",
        fires=("torch.cuda.amp or torch.cpu.amp, outside of a fallback for older torch",),
        fix='Use torch.amp.autocast("cuda"), torch.amp.GradScaler("cuda") and '
        'torch.amp.custom_fwd(device_type="cuda"). GradScaler requires torch 2.3, custom_fwd 2.4.',
        needs=("amp",),
        sources=("ps-P4", "torch-amp"),
        words=(r"(?<![a-z])amp\b",),
        fixes=Fix(renamed_amp),
    ),
    Rule(
        code="SCR162",
        slug="version-string-compare",
        title="Versions are compared as versions",
        severity="warn",
        find=version_compare,
        why='Text compares character by character: "0.10.0" < "0.6.0". float() drops digits: '
        "2.10 becomes 2.1. torch.__version__ itself compares rightly; its slices, splits and "
        "str() do not.",
        fires=(
            "a version of a package as text beside < <= > or >=",
            "float() of a version beside a number",
        ),
        fix="Compare packaging.version.Version objects.",
        sources=("bts-fix6",),
        words=(r"version[^\n]*[<>]", r"[<>][^\n]*version", r"float\([^\n]*version"),
        fixes=Fix(makers.versions),
    ),
)
