"""What a Python prompt or `python -c` printed of torch: expressions, then their values."""

from __future__ import annotations

import re
from itertools import pairwise

from doctor.pasted.reading import Reading, cuda_of, gpu_named, hip_of
from doctor.pasted.torch_messages import JETSON, WSL, mentioned

EXPRESSION = re.compile(
    r"torch\.(__version__|version\.(?:cuda|hip)|cuda\.(?:is_available|get_device_name|device_count|"
    r"get_device_capability|get_arch_list))"
)
VALUES = {
    "__version__": r"(?<![\w.])'?(\d\.\d{1,2}\.\d{1,2}(?:\.dev\d{8})?[\w.+]{0,40})'?",
    "version.cuda": r"(?<![\w.])'?(\d{1,2}\.\d|None)'?(?![\w.])",
    "version.hip": r"(?<![\w.])'?(\d\.\d{1,2}[\w.-]{0,20}|None)'?(?![\w.])",
    "cuda.is_available": r"\b(True|False)\b",
    "cuda.get_device_name": r"((?:NVIDIA|GeForce|Tesla|Quadro|TITAN|AMD|Orin)\b[\w .-]{0,60})",
    "cuda.get_device_capability": r"\((\d{1,2}, \d)\)",
    "cuda.device_count": r"(?<![\w.])(\d{1,3})(?![\w.])",
    "cuda.get_arch_list": r"(\[[^\]]{0,300}\])",
}
ALONE = ("cuda.get_device_name", "cuda.get_device_capability", "cuda.get_arch_list")
"""Values of a form of their own, which count without torch's version."""
AVAILABLE = {"True": True, "False": False}
VISIBLE = re.compile(
    r"(?:^|[\s'\"(:])(?:os\.environ\[.)?((?:CUDA|HIP|ROCR)_VISIBLE_DEVICES|HSA_OVERRIDE_GFX_VERSION)"
    r"(?:.\])?(?:\s?=\s?['\"]?|: ['\"]?(?=all\b))([-\w,/.]{0,600})"
)
VALUE = re.compile(r"-1|all|[\d,]{0,60}|(?:GPU|MIG)-[\w,/-]{1,600}|\d{1,2}\.\d\.\d")
BRACKETS = re.compile(r"\s*-?\s*gpu_ids: ['\"]?(\[[\d, ]{1,60}\])")
"""accelerate's configuration; in brackets it goes into the variable as it is."""
ASKED = re.compile(
    r"(?:echo \"?(?:\$\{?|%)|printenv |\$env:|"
    r"(?:^|print\(|\]: )os\.(?:environ(?:\.get\(|\[)|getenv\()['\"])"
    r"(CUDA_VISIBLE_DEVICES|HSA_OVERRIDE_GFX_VERSION)\b(?!['\"]?\]?\s*=)"
)
"""A command or an expression that prints the variable in the next line."""
PRINTED = re.compile(r"(?:Out\[\d{1,4}\]: )?(['\"]?)(.{0,600}?)\1\s*")
WINDOWS = re.compile(r"\bWindows (?:10|11|Server)\b")
ASKS_TORCH = re.compile(r"(?:In \[\d{1,4}\]: )?\s*(?:print\()?torch\.[\w.]{2,60}(?:\(\d?\))?\)?$")
"""At a prompt, whose `>>>` was taken for quotation marks."""
ANSWER = re.compile(r"(?:Out\[\d{1,4}\]: )?(?:True|False|'?\d{1,2}(?:\.\d[\w.+]{0,40})?'?)$")
FOLLOWING = 6
"""Lines in which the values of a line's expressions are looked for."""
AARCH64 = re.compile(r"\baarch64\b")


def read(lines: list[str]) -> Reading:
    """The first value of each expression; nothing of torch where two of them are compared, of which
    one starts CUDA."""
    values: dict[str, str] = {}
    states: dict[str, str] = {}
    for number, line in enumerate(lines):
        names = EXPRESSION.findall(line)
        own = _values(names, lines[number + 1 : number + 1 + FOLLOWING]) if names else {}
        values = own | values
        states.setdefault(own.get("cuda.is_available", ""), own.get("__version__", ""))
    if states.keys() >= AVAILABLE.keys() and len({states["True"], states["False"]}) > 1:
        values = {name: value for name, value in values.items() if name in ALONE}
    torch = values.get("__version__", "")
    devices = _visible_devices(lines)
    if not torch and values.keys().isdisjoint(ALONE):
        return Reading(kinds=tuple(name for name, _ in devices), visible_devices=devices)
    cuda = values.get("version.cuda")
    cuda = ("" if cuda == "None" else cuda) if cuda else cuda_of(torch)
    name = values.get("cuda.get_device_name", "").strip()
    major, _, minor = values.get("cuda.get_device_capability", "").partition(", ")
    capability = (int(major), int(minor)) if major else None
    available = AVAILABLE.get(values.get("cuda.is_available", ""))
    arm = any(map(AARCH64.search, lines))
    jetson = any(map(JETSON.search, lines))
    windows = any(map(WINDOWS.search, lines)) and not any(map(WSL.search, lines))
    return Reading(
        kinds=("a Python prompt",),
        torch=torch or None,
        cuda=cuda,
        hip=hip_of(torch),
        cuda_available=available if torch or (available and name) else None,
        archs=tuple(
            re.findall(r"(?:sm|compute)_\w{2,5}|gfx\w{3,6}", values.get("cuda.get_arch_list", ""))
        ),
        gpus=(gpu_named(0, name, capability=capability),)
        if name or capability
        else mentioned(lines)
        if cuda == ""
        else (),
        visible_devices=devices,
        system="Linux" if arm or jetson else "Windows" if windows else None,
        arch="aarch64" if arm or jetson else None,
        release="-tegra" if jetson else None,
    )


def answers(lines: list[str]) -> bool:
    """Whether torch answered at a prompt, so that it imports there."""
    return any(
        ASKS_TORCH.match(line) and ANSWER.match(following.strip())
        for line, following in pairwise(lines)
    )


def _visible_devices(lines: list[str]) -> tuple[tuple[str, str], ...]:
    """Each variable that selects GPUs, if the text has one value of it."""
    if bracketed := next((m[1] for line in lines if (m := BRACKETS.match(line))), None):
        return (("CUDA_VISIBLE_DEVICES", bracketed),)
    values: dict[str, set[str]] = {}
    for line in lines:
        for name, value in VISIBLE.findall(line):
            values.setdefault(name, set()).add(value)
    for line, following in pairwise(lines):
        asked = ASKED.search(line)
        printed = PRINTED.fullmatch(following.strip()) if asked else None
        # An empty line without quotes may also be an unset variable.
        if asked and printed and (printed[1] or printed[2]):
            values.setdefault(asked[1], set()).add(printed[2])
    return tuple(
        (name, value)
        for name, stated in sorted(values.items())
        for value in stated
        if len(stated) == 1 and VALUE.fullmatch(value)
    )


def _values(names: list[str], following: list[str]) -> dict[str, str]:
    """One value for each expression, in their order, from the lines up to the next expression."""
    own = []
    for line in following:
        if EXPRESSION.search(line):
            break
        own.append(line)
    text, position = "\n".join(own), 0
    values: dict[str, str] = {}
    for name in names:
        match = re.compile(VALUES[name]).search(text, position)
        if match:
            values.setdefault(name, match[1])
            position = match.end()
    return values
